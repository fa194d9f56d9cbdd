"""Daemons as an operator has them: processes that are started, listened to, signalled, and started again when they end.

One `Post` is a place where a daemon is to be; it has one life after the other. What was done to each life and what it
said of itself is kept with its time, which is what `readiness.py` holds the answers of /readyz against.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
from anyio.streams.text import TextReceiveStream

END_SECONDS = 60.0
"""How long a daemon may take to end after SIGTERM."""
READY_SECONDS = 90.0
AGAIN_SECONDS = 0.5
"""After which a service manager starts one again that ended by itself."""
LOOK_SECONDS = 0.02


class StormFailed(Exception):
    """The storm cannot go on, or did not come to rest; the message has the end of what the daemons logged."""


@dataclass
class Life:
    """One daemon process, from its start to its end."""

    process: anyio.abc.Process
    began: float
    """By the monotonic clock, as all times here."""
    health: str = ""
    """`host:port` of its health endpoints, once it has said so."""
    pids: dict[int, int] = field(default_factory=dict)
    """Its node processes by place, those that are ready."""
    first_ready: float | None = None
    asked_to_end: float | None = None
    killed: float | None = None
    ended: float | None = None
    code: int | None = None
    node_codes: list[tuple[int, int]] = field(default_factory=list)
    """Place and exit code of each node process that ended."""
    troubles: list[tuple[float, str]] = field(default_factory=list)
    """What happened to its nodes, with the time: `down N`, `up N`."""


@dataclass
class Post:
    """Where a daemon is to be."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    lives: list[Life] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    """Of every node process there ever was."""

    fallen: list[int] = field(default_factory=list)
    """Exit codes of daemons that ended by themselves, and were started again as by a service manager."""

    @property
    def life(self) -> Life:
        """The latest."""
        return self.lives[-1]

    async def begin(self, group: anyio.abc.TaskGroup) -> Life:
        """Start the next daemon."""
        with self.log.open("ab") as errors:
            process = await anyio.open_process(
                self.command, stdin=None, stderr=errors, env={**os.environ, **self.environment}
            )
        life = Life(process, time.monotonic())
        self.lives.append(life)
        group.start_soon(self._listen, life, group)
        return life

    async def _listen(self, life: Life, group: anyio.abc.TaskGroup) -> None:
        assert life.process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(life.process.stdout, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                with suppress(msgspec.DecodeError):
                    self._said(life, msgspec.json.decode(line, type=dict[str, Any]))
        life.code = await life.process.wait()
        life.ended = time.monotonic()
        life.pids.clear()
        if life.asked_to_end is None and life.killed is None:
            self.fallen.append(life.code)
            await anyio.sleep(AGAIN_SECONDS)
            await self.begin(group)

    def _said(self, life: Life, event: Mapping[str, Any]) -> None:
        now = time.monotonic()
        place = int(event.get("place", 0))
        match event.get("event"):
            case "health":
                life.health = str(event["url"]).removeprefix("http://")
            case "ready":
                life.pids[place] = int(event["pid"])
                self.pids.add(int(event["pid"]))
                life.first_ready = life.first_ready or now
                life.troubles.append((now, f"up {place}"))
            case "ended":
                life.pids.pop(place, None)
                life.node_codes.append((place, int(event["code"])))
                life.troubles.append((now, f"down {place}"))

    async def ready(self, nodes: int) -> None:
        """Wait until all nodes of the daemon are."""
        await self._until(lambda: len(self.life.pids) >= nodes, READY_SECONDS, f"{nodes} nodes are ready")

    async def node(self, place: int) -> int:
        """The process id of a node, once it is ready."""
        await self._until(lambda: place in self.life.pids, READY_SECONDS, f"node {place} is ready")
        return self.life.pids[place]

    async def hit_node(self, place: int, sign: signal.Signals) -> int:
        """Send a node a signal and wait for its end; its exit code."""
        pid, life = await self.node(place), self.life
        seen = len(life.node_codes)
        life.troubles.append((time.monotonic(), f"down {place}"))
        os.kill(pid, sign)
        await self._until(
            lambda: any(where == place for where, _ in life.node_codes[seen:]) or life.ended is not None,
            END_SECONDS,
            f"node {place} ends after {sign.name}",
        )
        return next((code for where, code in life.node_codes[seen:] if where == place), -999)

    async def freeze_node(self, place: int, seconds: float) -> None:
        """Stop a node where it is, and let it go on after a while, if it is still there then."""
        pid = await self.node(place)
        os.kill(pid, signal.SIGSTOP)
        try:
            await anyio.sleep(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    async def hit(self, sign: signal.Signals) -> int:
        """Send the daemon a signal and wait for its end; its exit code."""
        life = self.life
        if sign is signal.SIGKILL:
            life.killed = time.monotonic()
        else:
            life.asked_to_end = time.monotonic()
        life.process.send_signal(sign)
        await self._until(lambda: life.ended is not None, END_SECONDS, f"it ends after {sign.name}")
        assert life.code is not None
        return life.code

    async def _until(self, condition: Any, seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise StormFailed(f"{self.name}: not within {seconds:g} s: {what}\n{self.tail()}")
            await anyio.sleep(LOOK_SECONDS)

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3_000:] if self.log.exists() else ""

    async def end(self) -> None:
        """Kill what is left of it: called when all is over, or lost."""
        with anyio.CancelScope(shield=True):
            for life in self.lives:
                if life.process.returncode is None:
                    with suppress(ProcessLookupError):
                        life.process.kill()
                await life.process.wait()
        for pid in filter(is_ours, self.pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_ours(pid: int) -> bool:
    """Whether a node process that a daemon announced is still there (and the number is not somebody else's by now)."""
    try:
        return b"callboard" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def daemon_command(application: str, nodes: int, options: Mapping[str, str], *more: str) -> list[str]:
    """The command line of a daemon that tells what happens as JSON lines."""
    command = [sys.executable, "-m", "callboard", "daemon", application, "--nodes", str(nodes), "--json", *more]
    for name, value in options.items():
        command += ["--option", f"{name}={value}"]
    return command
