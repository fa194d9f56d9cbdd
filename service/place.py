"""A place of the daemon: where one node process after the other lives.

A child that ends is started again, after a delay that doubles from FIRST_SECONDS to CAP_SECONDS and begins anew once a
child was healthy for HEALTHY_SECONDS. That bounds what a node that cannot live costs: one start in CAP_SECONDS for each
place, for ever, since what is wrong may be mended any time (a database that comes back, a right that is granted).

What a child that ends unasked was doing is not lost with it: it has written down which handlers ran (`actors.blame`),
in a file that this process made and reads now, and their messages are told (`loss_report`). A child whose event loop
does not turn any more (a handler that never returns) has lost its shards to others, but would stand there for ever:
that file shows it too, and it is killed and charged like one that died.

Children are started in sessions of their own, so that a ctrl-C reaches the daemon alone, which then drains them. Only
processes that were started here are ever signalled, by pid.
"""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc
from anyio.streams.text import TextReceiveStream

from ..actors import blame
from ..actors.node import STUCK_SECONDS
from ..persistence.port import Port
from .applications import CLOSE_SECONDS
from .loss_report import LossReporter
from .quarantine import how_it_ended
from .readiness import ChildStatus

log = logging.getLogger(__name__)

FIRST_SECONDS = 0.1
CAP_SECONDS = 10.0
HEALTHY_SECONDS = 60.0
GRACE_SECONDS = 5.0 + CLOSE_SECONDS
"""How much longer than `drain_seconds` a child gets before it is killed: it closes its application after draining."""
AT_ONCE_SECONDS = 1.0
"""How long a child that was told to leave at once may take."""
LOOP_LOOK_SECONDS = 5.0
MAX_LINE_CHARS = 131_072

Announce = Callable[[Mapping[str, Any]], None]


@dataclass
class Household:
    """What all places of a daemon share."""

    app: str
    options: Mapping[str, str]
    drain_seconds: float
    announce: Announce
    port: Port
    environment: Callable[[], Mapping[str, str]]
    """Of a child that is started now."""
    dsn: Callable[[], str]
    told: Callable[[int, object], None]
    """What the child at a place has measured."""
    serves: Callable[[int, bool], None]
    ended: Callable[[int], None]
    """The child at a place has ended unasked."""
    root_seen: Callable[[str], None]
    """The address of the application's root supervisor."""
    stuck_seconds: float = STUCK_SECONDS + 15.0
    """For how long a child's event loop may stand still; a little longer than it takes its heart to stop."""

    def __post_init__(self) -> None:
        self.stopping = anyio.Event()
        self.at_once = anyio.Event()
        """Raised after `stopping`: do not wait for anything any more."""
        self.reporter = LossReporter(self.port)


class Place:
    """Where one node process after the other lives."""

    def __init__(self, number: int, house: Household) -> None:
        self.number = number
        self.house = house
        self.port = house.port
        self.process: anyio.abc.Process | None = None
        self.status: ChildStatus | None = None
        """What the child has said last; None before it has said anything."""
        self.restarts = 0
        self.returned_work = False
        """Whether its last child did not finish what it had in hand when it was told to stop."""
        self._delay_seconds = FIRST_SECONDS
        self._mark = f"{self.port.token()} "
        """Begins each line that a child of ours says to us. What its application prints goes the same way, and may be
        what a customer wrote: that must not be able to say how the child is."""

    async def keep(self) -> None:
        """Have a child live here until told to stop."""
        stopping = self.house.stopping
        while not stopping.is_set():
            began = self.port.monotonic()
            code = await self._live()
            if stopping.is_set():
                self.returned_work = code not in (0, -signal.SIGTERM)  # that: it had not even begun
                return
            if self.port.monotonic() - began >= HEALTHY_SECONDS:
                self._delay_seconds = FIRST_SECONDS
            log.warning("node process %d ended with %s; again in %g s", self.number, code, self._delay_seconds)
            self.house.announce({"event": "ended", "place": self.number, "code": code})
            self.house.ended(self.number)
            self.restarts += 1
            with anyio.move_on_after(self._delay_seconds):
                await stopping.wait()
            self._delay_seconds = min(2 * self._delay_seconds, CAP_SECONDS)

    async def _live(self) -> int:
        """From the start of one child to its end; its exit code."""
        file = blame.create()
        try:
            process = await anyio.open_process(
                self._command(file),
                stdin=subprocess.DEVNULL,
                stderr=None,
                env=self.house.environment(),
                start_new_session=True,
                pass_fds=(file,),
            )
        except OSError as error:
            os.close(file)
            log.warning("node process %d cannot be started: %s", self.number, error)
            return 1
        self.process = process
        try:
            async with anyio.create_task_group() as group:
                self.port.spawn(group, self._listen, process, name="listen")
                self.port.spawn(group, self._end_in_time, process, name="end")
                self.port.spawn(group, self._watch_loop, process, file, name="loop")
                code = await process.wait()
                group.cancel_scope.cancel()
            found = blame.look(file, process.pid)
            if found is not None and not self.house.stopping.is_set():
                await self.house.reporter.report(self.house.dsn(), found, how_it_ended(code))
            return code
        finally:
            self.process = self.status = None
            os.close(file)
            await self._reap(process)

    def _command(self, file: int) -> list[str]:
        command = [sys.executable, "-m", "callboard", "node", self.house.app, "--parent", str(os.getpid())]
        command += ["--label", f"{os.uname().nodename}/{self.number}", "--blame", str(file)]
        command += ["--mark", self._mark.strip()]
        for key, value in self.house.options.items():
            command += ["--option", f"{key}={value}"]
        return command

    async def _watch_loop(self, process: anyio.abc.Process, file: int) -> None:
        """Kill a child whose event loop does not turn; what it was doing is charged as after any death."""
        turned, ticks = self.port.monotonic(), 0
        while True:
            await self.port.sleep(min(LOOP_LOOK_SECONDS, self.house.stuck_seconds / 4))
            found = blame.look(file, process.pid)
            now = self.port.monotonic()
            if found is None or found.ticks != ticks:
                turned, ticks = now, 0 if found is None else found.ticks
            elif now - turned >= self.house.stuck_seconds:
                log.warning("process %d: its loop stands still for %g s; it is killed", process.pid, now - turned)
                with suppress(ProcessLookupError):  # it ended in this moment
                    process.kill()
                return

    # --- what a child says -------------------------------------------------------------------------------------

    async def _listen(self, process: anyio.abc.Process) -> None:
        """Take what the child announces; anything else it prints is its own affair and goes to the log."""
        assert process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(process.stdout, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            rest = rest[-MAX_LINE_CHARS:]
            for line in lines:
                self._take_line(line)

    def _take_line(self, line: str) -> None:
        # Somewhere in it, where the application has printed what does not end a line.
        printed, mark, text = line.partition(self._mark)
        if printed.strip():
            log.info("node process %d prints: %s", self.number, printed[:1_000])
        try:
            said = json.loads(text) if mark else {}
        except (ValueError, RecursionError):
            log.warning("node process %d says what cannot be read: %s", self.number, text[:1_000])
            return
        event = said.get("event") if isinstance(said, dict) else ""
        if event == "status":
            self._take_status(said)
        elif event == "ready":
            if isinstance(root := said.pop("root", ""), str):
                self.house.root_seen(root)
            self.house.announce({**said, "place": self.number})

    def _take_status(self, said: Mapping[str, Any]) -> None:
        lag, shards = said.get("listener_lag"), said.get("shards")
        self.status = ChildStatus(
            heard_at=self.port.monotonic(),
            ready=said.get("ready") is True,
            listener_lag_seconds=float(lag) if isinstance(lag, int | float) else 0.0,
            shards=shards if isinstance(shards, int) else 0,
        )
        self.house.told(self.number, said.get("metrics"))
        self.house.serves(self.number, self.status.ready)

    # --- ending ------------------------------------------------------------------------------------------------

    async def _end_in_time(self, process: anyio.abc.Process) -> None:
        """Once told to stop: ask the child to drain, and kill it when it does not within its time."""
        await self.house.stopping.wait()
        with suppress(ProcessLookupError):  # it ended in this moment
            process.terminate()
        with anyio.move_on_after(self.house.drain_seconds + GRACE_SECONDS):
            await self.house.at_once.wait()
            with suppress(ProcessLookupError):
                process.terminate()
            await self.port.sleep(AT_ONCE_SECONDS)
        if not self.house.at_once.is_set():
            log.warning("process %d did not drain in time and is killed", process.pid)
        with suppress(ProcessLookupError):
            process.kill()

    async def _reap(self, process: anyio.abc.Process) -> None:
        """However this ends, no child of ours is left behind."""
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
            await process.aclose()
