"""The node processes of the chaos run, and the process that they are forked from.

    python -m callboard.bench.chaos_node        (started by `chaos_nodes.Nest`, which talks to it in JSON lines)

A node is killed every second, and needs most of a second of CPU to load its modules: so one process loads them once and
forks a node whenever it is told to. What is forked is a node as `callboard node` runs it, with the same settings. Two
things are the bench's own: its wall clock runs ahead by what stands in a file (so that it can jump), and the kernel
ends it when the process that it came from is gone, so that nothing of a run outlives it.
"""

import ctypes
import json
import logging
import mmap
import os
import selectors
import signal
import struct
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec

import callboard.bench.chaos_app  # noqa: F401 - loaded here, before anything is forked
from callboard.persistence.port import RealPort
from callboard.service.applications import load_app
from callboard.service.logs import configure_logging
from callboard.service.node_process import announce, run_node
from callboard.service.settings import read_settings

APPLICATION = "callboard.bench.chaos_app:app"
_PR_SET_PDEATHSIG = 1
_AHEAD = struct.Struct("d")


class NodeOrder(msgspec.Struct, frozen=True):
    """A node that is to be."""

    label: str
    log: str
    """The file that it logs to."""
    clock: str
    """The file that holds how far its wall clock runs ahead."""
    environment: dict[str, str]
    options: dict[str, str] = {}


class ClockFile:
    """How far a node's wall clock runs ahead, in seconds: written by the bench, read by the node."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(_AHEAD.pack(0.0))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), _AHEAD.size)

    @property
    def ahead_seconds(self) -> float:
        """Below zero: it runs behind."""
        return float(_AHEAD.unpack_from(self._memory)[0])

    @ahead_seconds.setter
    def ahead_seconds(self, seconds: float) -> None:
        _AHEAD.pack_into(self._memory, 0, seconds)


class JumpingPort(RealPort):
    """The machine itself, with a wall clock that somebody else sets."""

    def __init__(self, clock: ClockFile) -> None:
        self._clock = clock

    def wall(self) -> float:
        return super().wall() + self._clock.ahead_seconds


def _be_node(order: NodeOrder, parent: int) -> int:
    """In the forked process: the node's exit code."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return 1  # it was gone before the kernel knew whom to watch
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    errors = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(errors, 2)
    os.environ.update(order.environment)
    settings = read_settings()
    configure_logging(settings)
    port = JumpingPort(ClockFile(Path(order.clock)))
    app = load_app(APPLICATION)
    try:
        return anyio.run(lambda: run_node(app, settings, order.options, label=order.label, port=port))
    except BaseException:
        logging.getLogger(__name__).exception("the node ended by an error")
        return 70


def _fork(order: NodeOrder, parent: int) -> int:
    pid = os.fork()
    if pid == 0:
        code = _be_node(order, parent)
        sys.stdout.flush()
        os._exit(code)
    announce({"event": "begun", "pid": pid, "label": order.label})
    return pid


def main() -> int:
    """Fork a node for each line on standard input, and tell of each that ended; until that input does.

    By one thread: what is forked must not find a lock that another thread held.
    """
    me, rest = os.getpid(), b""
    announce({"event": "loaded", "pid": me})
    with selectors.DefaultSelector() as ready:
        ready.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.data is None:
                    given = os.read(0, 1 << 16)
                    if not given:
                        return 0
                    *lines, rest = (rest + given).split(b"\n")
                    for line in lines:
                        pid = _fork(msgspec.json.decode(line, type=NodeOrder), me)
                        ready.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
                else:
                    _, status = os.waitpid(key.data, 0)
                    ready.unregister(key.fd)
                    os.close(key.fd)
                    announce({"event": "ended", "pid": key.data, "code": os.waitstatus_to_exitcode(status)})


def dumps(order: NodeOrder) -> bytes:
    """An order as the line that it is given by."""
    return msgspec.json.encode(order) + b"\n"


def read_event(line: str) -> dict[str, Any]:
    """A line that was announced; empty where it is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


if __name__ == "__main__":
    sys.exit(main())
