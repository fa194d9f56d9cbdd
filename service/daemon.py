"""The daemon: a parent that keeps N node processes alive. It holds no state and takes part in no run.

A child that ends is started again, after a delay that doubles from FIRST_SECONDS to CAP_SECONDS and begins anew once a
child was healthy for HEALTHY_SECONDS. That bounds what a node that cannot live costs: one start in CAP_SECONDS for each
place, for ever, since what is wrong may be mended any time (a database that comes back, a right that is granted).

What a child that ends unasked was doing is not lost with it: it has written down which handlers ran (`actors.blame`),
in a file that this process made and reads now, and their messages are told (`loss_report`). A child whose event loop
does not turn any more (a handler that never returns) has lost its shards to others, but would stand there for ever:
that file shows it too, and it is killed and charged like one that died.

Children are started in sessions of their own, so that a ctrl-C reaches the daemon alone, which then drains them. Only
processes that this daemon started are ever signalled, by pid. Without a DSN the daemon is also who looks after the
embedded server: it is started again when it has died.
"""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
from anyio.streams.text import TextReceiveStream

from ..actors import blame
from ..actors.node import STUCK_SECONDS
from ..mailbox.errors import CallboardError
from ..persistence.port import Port, RealPort
from .applications import CLOSE_SECONDS
from .loss_report import LossReporter
from .quarantine import how_it_ended
from .settings import Settings, child_environment
from .wiring import find_database, open_store_at

log = logging.getLogger(__name__)

FIRST_SECONDS = 0.1
CAP_SECONDS = 10.0
HEALTHY_SECONDS = 60.0
GRACE_SECONDS = 5.0 + CLOSE_SECONDS
"""How much longer than `drain_seconds` a child gets before it is killed: it closes its application after draining."""
SERVER_LOOK_SECONDS = 2.0
LOOP_LOOK_SECONDS = 5.0
MAX_LINE_CHARS = 65_536

Announce = Callable[[Mapping[str, Any]], None]


@dataclass
class Place:
    """Where one node process after the other lives."""

    number: int
    process: anyio.abc.Process | None = None
    restarts: int = 0
    delay_seconds: float = FIRST_SECONDS


@dataclass
class Daemon:
    """The nodes of one application on this machine. `run` returns the exit code: 0, or 1 if a node had to be killed."""

    app: str
    settings: Settings
    options: Mapping[str, str]
    announce: Announce
    port: Port = field(default_factory=RealPort)
    create_schema: bool = False
    stuck_seconds: float = STUCK_SECONDS + 15.0
    """For how long a child's event loop may stand still; a little longer than it takes its heart to stop."""
    places: list[Place] = field(init=False)

    def __post_init__(self) -> None:
        self.places = [Place(number) for number in range(1, self.settings.nodes + 1)]
        self._stopping = anyio.Event()
        self._killed = 0
        self._reporter = LossReporter(self.port)
        self._dsn = ""

    async def run(self) -> int:
        """Keep the nodes alive until SIGTERM or SIGINT, then drain them.

        Raises:
            StoreUnavailable, SchemaMismatch: at the start, before any node was started.
        """
        self._dsn = await find_database(self.settings)
        async with open_store_at(self._dsn, create=self.create_schema or not self.settings.dsn):
            log.info("the database answers; starting %d node(s) of %s", len(self.places), self.app)
        async with anyio.create_task_group() as helpers:
            self.port.spawn(helpers, self._obey_signals, name="signals")
            if not self.settings.dsn:
                self.port.spawn(helpers, self._keep_server, name="server")
            async with anyio.create_task_group() as group:
                for place in self.places:
                    self.port.spawn(group, self._keep, place, name=f"place {place.number}")
            helpers.cancel_scope.cancel()
        return 1 if self._killed else 0

    # --- one place ---------------------------------------------------------------------------------------------

    async def _keep(self, place: Place) -> None:
        while not self._stopping.is_set():
            began = self.port.monotonic()
            code = await self._live(place)
            if self._stopping.is_set():
                return
            if self.port.monotonic() - began >= HEALTHY_SECONDS:
                place.delay_seconds = FIRST_SECONDS
            log.warning("node process %d ended with %s; again in %g s", place.number, code, place.delay_seconds)
            self.announce({"event": "ended", "place": place.number, "code": code})
            place.restarts += 1
            with anyio.move_on_after(place.delay_seconds):
                await self._stopping.wait()
            place.delay_seconds = min(2 * place.delay_seconds, CAP_SECONDS)

    async def _live(self, place: Place) -> int:
        """From the start of one child to its end; its exit code."""
        file = blame.create()
        try:
            process = await anyio.open_process(
                self._command(place, file),
                stdin=subprocess.DEVNULL,
                stderr=None,
                env=child_environment(self.settings, self._dsn),
                start_new_session=True,
                pass_fds=(file,),
            )
        except OSError as error:
            os.close(file)
            log.warning("node process %d cannot be started: %s", place.number, error)
            return 1
        place.process = process
        try:
            async with anyio.create_task_group() as group:
                self.port.spawn(group, self._forward, place, process, name="forward")
                self.port.spawn(group, self._end_in_time, process, name="end")
                self.port.spawn(group, self._watch_loop, process, file, name="loop")
                code = await process.wait()
                group.cancel_scope.cancel()
            found = blame.look(file, process.pid)
            if found is not None and not self._stopping.is_set():
                await self._reporter.report(self._dsn, found, how_it_ended(code))
            return code
        finally:
            place.process = None
            os.close(file)
            await self._reap(process)

    async def _watch_loop(self, process: anyio.abc.Process, file: int) -> None:
        """Kill a child whose event loop does not turn; what it was doing is charged as after any death."""
        turned, ticks = self.port.monotonic(), 0
        while True:
            await self.port.sleep(min(LOOP_LOOK_SECONDS, self.stuck_seconds / 4))
            found = blame.look(file, process.pid)
            now = self.port.monotonic()
            if found is None or found.ticks != ticks:
                turned, ticks = now, 0 if found is None else found.ticks
            elif now - turned >= self.stuck_seconds:
                log.warning("process %d: its loop stands still for %g s; it is killed", process.pid, now - turned)
                with suppress(ProcessLookupError):  # it ended in this moment
                    process.kill()
                return

    def _command(self, place: Place, file: int) -> list[str]:
        command = [sys.executable, "-m", "callboard", "node", self.app, "--parent", str(os.getpid())]
        command += ["--label", f"{os.uname().nodename}/{place.number}", "--blame", str(file)]
        for key, value in self.options.items():
            command += ["--option", f"{key}={value}"]
        return command

    async def _forward(self, place: Place, process: anyio.abc.Process) -> None:
        """Pass on what the child announces; anything else it prints is its own affair and goes to the log."""
        assert process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(process.stdout, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            rest = rest[-MAX_LINE_CHARS:]
            for line in lines:
                self._take_line(place, line)

    def _take_line(self, place: Place, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict) and event.get("event") == "ready":
            self.announce({**event, "place": place.number})
        elif line.strip():
            log.info("node process %d prints: %s", place.number, line[:1_000])

    # --- ending ------------------------------------------------------------------------------------------------

    async def _end_in_time(self, process: anyio.abc.Process) -> None:
        """Once told to stop: ask the child to drain, and kill it when it does not within its time."""
        await self._stopping.wait()
        with suppress(ProcessLookupError):  # it ended in this moment
            process.terminate()
        await self.port.sleep(self.settings.drain_seconds + GRACE_SECONDS)
        log.warning("process %d did not drain in time and is killed", process.pid)
        self._killed += 1
        with suppress(ProcessLookupError):
            process.kill()

    async def _reap(self, process: anyio.abc.Process) -> None:
        """However this ends, no child of ours is left behind."""
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
            await process.aclose()

    async def _obey_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for received in signals:
                if not self._stopping.is_set():
                    log.info("%s: draining for at most %g s", received.name, self.settings.drain_seconds)
                    self._stopping.set()
                    continue
                log.warning("%s again: the nodes leave at once", received.name)
                for place in self.places:
                    if place.process is not None and place.process.returncode is None:
                        with suppress(ProcessLookupError):
                            place.process.terminate()

    async def _keep_server(self) -> None:
        while True:
            await self.port.sleep(SERVER_LOOK_SECONDS)
            try:
                self._dsn = await find_database(self.settings)
            except CallboardError as error:
                log.warning("the embedded server: %s", error)
