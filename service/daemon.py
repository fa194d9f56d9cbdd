"""The daemon: a parent that keeps N node processes alive (`place`). It holds no state and takes part in no run.

Beside them it watches the database (`database_watch`), tells who asks how it is (`readiness`, `health_pages`), tells
systemd (`notify`), holds its name where it has one, so that no second daemon of that name runs on the same database,
and, where no DSN is given, looks after the embedded server: it is started again when it has died.

The order at the end is what a load balancer wants: not ready at once, then the nodes drain, while health can still be
asked for; the last thing to go is the name.
"""

import logging
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import anyio
import anyio.abc

from ..actors.node import STUCK_SECONDS
from ..mailbox.errors import CallboardError, Conflict
from ..persistence.port import Port, RealPort
from ..persistence.store import Store
from .banner import banner
from .database_watch import DatabaseWatch
from .health_pages import health_pages
from .health_server import health_address, health_server
from .metrics import Exposition
from .notify import Notifier
from .place import Announce, Household, Place
from .readiness import Readiness, is_well
from .retaining import Retaining
from .settings import Settings, child_environment
from .wiring import find_database, make_store, open_store_at

log = logging.getLogger(__name__)

SERVER_LOOK_SECONDS = 2.0
TELL_SECONDS = 0.5

DRAINED = 0
RETURNED = 3
"""Drained, and not all that was in hand was finished in time: it was given back."""
ESCALATED = 4
SUPERSEDED = 5
"""Another daemon of its name runs."""
CRASHED = 70
AT_ONCE: Mapping[signal.Signals, int] = {signal.SIGTERM: 143, signal.SIGINT: 130}
"""Told twice."""


@dataclass
class Daemon:
    """The nodes of one application on this machine."""

    app: str
    settings: Settings
    options: Mapping[str, str]
    announce: Announce
    port: Port = field(default_factory=RealPort)
    create_schema: bool = False
    stuck_seconds: float = STUCK_SECONDS + 15.0
    notifier: Notifier = field(default_factory=lambda: Notifier(os.environ, os.getpid()))

    def __post_init__(self) -> None:
        self._dsn = ""
        self._code = DRAINED
        self._over = anyio.Event()
        self._name_free = anyio.Event()
        """Raised while it holds no name."""
        self._name_free.set()
        self._exposition = Exposition(port=self.port)
        self._database = DatabaseWatch(lambda: self._dsn, self.port, opened=self._use)
        self._exposition.answers = lambda: not self._database.problem()
        self._house = Household(
            app=self.app,
            options=self.options,
            drain_seconds=self.settings.drain_seconds,
            announce=self.announce,
            port=self.port,
            environment=lambda: child_environment(self.settings, self._dsn),
            dsn=lambda: self._dsn,
            told=self._exposition.add,
            serves=lambda place, ready: self._exposition.serves(place, ready=ready),
            ended=self._exposition.ended,
            root_seen=self._see_root,
            stuck_seconds=self.stuck_seconds,
        )
        self.places = [Place(number, self._house) for number in range(1, self.settings.nodes + 1)]
        self._readiness = Readiness(self._database, self.port, children=lambda: [place.status for place in self.places])

    def _use(self, store: Store | None) -> None:
        self._exposition.store = store

    def _see_root(self, address: str) -> None:
        self._database.root = address

    async def run(self) -> int:
        """Keep the nodes alive until SIGTERM or SIGINT, then drain them; the exit code.

        Raises:
            StoreUnavailable, SchemaMismatch, SettingError; Conflict (another one has its name): at the start, before
                any node was started; perhaps in a group.
        """
        address = health_address(self.settings)
        self._starting = anyio.CancelScope()  # which there can be in an event loop only
        async with anyio.create_task_group() as helpers, AsyncExitStack() as stack:
            self.port.spawn(helpers, self._obey_signals, name="signals")
            self.port.spawn(helpers, self._tell, name="tell")
            self.port.spawn(helpers, self._beat, name="watchdog")
            if address is not None:
                pages = health_pages(self._readiness, self._exposition.text)
                url = await stack.enter_async_context(health_server(address, pages))
                log.info("health is told at %s/readyz", url)
                self.announce({"event": "health", "url": url})
            with self._starting:
                await self._prepare()
                self.port.spawn(helpers, self._database.run, name="database")
                if self.settings.name:
                    await self._take_name(helpers)
                if self.settings.retain_days:
                    self.port.spawn(helpers, self._retaining().run, name="retention")
                banner(self.app, self.settings)
            if not self._house.stopping.is_set():
                await self._serve()
            self._over.set()
            await self._name_free.wait()
            helpers.cancel_scope.cancel()
        self.notifier.close()
        return self._code

    async def _prepare(self) -> None:
        self._dsn = await find_database(self.settings)
        async with open_store_at(self._dsn, create=self.create_schema or not self.settings.dsn):
            log.debug("the database answers, and its schema fits")

    async def _serve(self) -> None:
        async with anyio.create_task_group() as keepers:
            if not self.settings.dsn:
                self.port.spawn(keepers, self._keep_server, name="server")
            async with anyio.create_task_group() as group:
                for place in self.places:
                    self.port.spawn(group, place.keep, name=f"place {place.number}")
            keepers.cancel_scope.cancel()
        if self._code == DRAINED and any(place.returned_work for place in self.places):
            self._code = RETURNED
            log.warning("drained by time: what was not finished is done by whoever serves next")
        elif self._code == DRAINED:
            log.info("drained")

    def _retaining(self) -> Retaining:
        holder = f"{self.app} on {socket.gethostname()}, pid {os.getpid()}"
        return Retaining(lambda: self._dsn, self.settings.retain_days, self.port, holder=holder)

    # --- its name ----------------------------------------------------------------------------------------------

    async def _take_name(self, helpers: anyio.abc.TaskGroup) -> None:
        taken = anyio.Event()
        self.port.spawn(helpers, self._hold_name, taken, name="name")
        await taken.wait()  # where it is not to be had, the group ends with the reason

    async def _hold_name(self, taken: anyio.Event) -> None:
        self._name_free = anyio.Event()
        holder = f"{self.app} on {socket.gethostname()}, pid {os.getpid()}"
        try:
            # The store is not opened: a name is held by a session of its own, and by nothing else.
            async with make_store(self._dsn).instance(self.settings.name, holder, self.port):
                taken.set()
                await self._over.wait()
        except Conflict as error:
            if not taken.is_set():
                raise
            log.warning("another daemon took the name while the database was away, so this one leaves: %s", error)
            self._stop(SUPERSEDED)
        finally:
            self._name_free.set()

    # --- looking after -----------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        """Tell systemd and the log how it is, as it changes; and end where it is of no use any more."""
        was_ready = told = False
        while True:
            ready = is_well(self._readiness.checks())
            self.notifier.status(self._readiness.summary())
            if ready and not told:
                told = True
                self.notifier.ready()
            if ready != was_ready:
                log.info("ready: %s" if ready else "not ready: %s", self._readiness.summary())
                was_ready = ready
            if self.settings.exit_on_escalation and self._readiness.escalated:
                log.error("%s has given up: %s", self._database.root, self._database.root_reason)
                self._stop(ESCALATED)
            await self.port.sleep(TELL_SECONDS)

    async def _beat(self) -> None:
        """Tell systemd that the loop turns."""
        while self.notifier.watchdog_seconds:
            self.notifier.watchdog()
            await self.port.sleep(self.notifier.watchdog_seconds)

    async def _keep_server(self) -> None:
        while True:
            await self.port.sleep(SERVER_LOOK_SECONDS)
            try:
                self._dsn = await find_database(self.settings)
            except CallboardError as error:
                log.warning("the embedded server: %s", error)

    # --- ending ------------------------------------------------------------------------------------------------

    def _stop(self, code: int = DRAINED) -> None:
        """Leave in good order. The first reason counts."""
        if self._house.stopping.is_set():
            return
        self._code = code
        self._readiness.draining = True
        self.notifier.stopping()
        self._house.stopping.set()
        self._starting.cancel()

    async def _obey_signals(self) -> None:
        with anyio.open_signal_receiver(*AT_ONCE) as signals:
            async for received in signals:
                if not self._house.stopping.is_set():
                    log.info("%s: draining for at most %g s", received.name, self.settings.drain_seconds)
                    self._stop()
                elif not self._house.at_once.is_set():
                    log.warning("%s again: the nodes leave at once", received.name)
                    self._code = AT_ONCE[received]
                    self._house.at_once.set()
