"""A demonstration desk that is open: agents at work, calls that wait for people, things that went wrong.

    with open_desk() as desk:
        ...  # desk.dsn is a database in which all of `desk_play.Seen` is true

The desk is a process of its own (`desk_house`) that holds the daemon; it ends with the block, or with this process
however that ends. Nothing else is started here, and only that process is ever signalled.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from callboard.mailbox.errors import CallboardError

from ..setting_sources import PREFIX
from .desk_house import HouseOptions

STOP_SECONDS = 20.0
LOG_CHARS = 2_000


class DeskFailed(CallboardError):
    """The desk could not be opened; the message says why."""


class OpenDesk(msgspec.Struct, frozen=True):
    """A desk at work."""

    dsn: str
    """For a driver."""
    name: str
    """For --dsn, as people type it: `embedded:callboard_demo_…` on the embedded server."""
    pid: int
    """Of the process that holds the daemon."""
    log: Path
    """What the daemon and its nodes say, for as long as the desk is open."""


@contextmanager
def open_desk(
    dsn: str = "", options: HouseOptions | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[OpenDesk]:
    """A desk on a fresh database of the server of `dsn` (default: the embedded one), for as long as the block lasts.

    Raises:
        DeskFailed: with the reason.
    """
    with tempfile.TemporaryDirectory(prefix="callboard-desk-") as folder:
        log = Path(folder) / "desk.log"
        process = _start(dsn, options or HouseOptions(), dict(environment or {}), log)
        try:
            yield _opened(process, log)
        finally:
            _end(process)


def _start(dsn: str, options: HouseOptions, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    # The DSN goes by the environment: it may hold a password, and arguments are visible to everybody here.
    kept = {key: value for key, value in os.environ.items() if key not in (f"{PREFIX}DSN", f"{PREFIX}DSN_FILE")}
    said = {**kept, **environment, **({f"{PREFIX}DSN": dsn} if dsn else {})}
    command = [sys.executable, "-m", "callboard.service.demo.desk_house", msgspec.json.encode(options).decode()]
    with log.open("wb") as errors:
        # In a session of its own: ctrl-C and a hang-up are for whoever sits in front.
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=said,
            start_new_session=True,
        )


def _opened(process: subprocess.Popen[bytes], log: Path) -> OpenDesk:
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        event = msgspec.json.decode(line, type=dict[str, str])
    except msgspec.DecodeError:
        event = {"error": f"it ended with {process.wait()}: {log.read_text(errors='replace')[-LOG_CHARS:]}"}
    if event.get("event") != "open":
        raise DeskFailed(f"the demonstration desk cannot be opened: {event.get('error', 'it did not say why')}")
    return OpenDesk(event["dsn"], event["name"], process.pid, log)


def _end(process: subprocess.Popen[bytes]) -> None:
    pipes: list[IO[bytes] | None] = [process.stdin, process.stdout]
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in pipes:
        if pipe is not None:
            pipe.close()
