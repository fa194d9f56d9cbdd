"""The chaos run: node processes at work are killed, frozen, cut off, starved and misled; then everything is counted.

    a desk under load over one real PostgreSQL: `chaos_load.py`, `chaos_app.py`
    node processes, each with a network and a wall clock of its own: `chaos_nodes.py`, `proxy.py`
    a storm drawn from a seed, and how it is carried out: `chaos_storm.py`, `chaos_deeds.py`
    what must be true afterwards: `chaos_proofs.py`; how long take-overs took: `failover.py`

`fenced=False` is the negative control: superseded nodes may commit, and the run must find that.
"""

import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio
import msgspec

from callboard.bench.chaos_deeds import Deeds
from callboard.bench.chaos_load import PEOPLE, DeskLoad
from callboard.bench.chaos_node import ClockFile
from callboard.bench.chaos_nodes import Nest, Slot
from callboard.bench.chaos_proofs import Check, Findings, Refunds, ended_actors, invariants, judge, look
from callboard.bench.chaos_storm import Deed, schedule
from callboard.bench.chaos_table import LiveTable
from callboard.bench.failover import Failovers, failovers
from callboard.bench.proxy import Proxy
from callboard.bench.restartable import RestartableServer
from callboard.bench.server import fresh_database
from callboard.bench.small_disk import small_disk
from callboard.bench.unfenced import let_sessions_live, unfence
from callboard.persistence.postgres.database import Database, DatabaseUnavailable
from callboard.service.wiring import make_store

REST_SECONDS = 180.0
"""How long the last tickets may take when the storm is over."""
UNFENCED_REST_SECONDS = 15.0
"""Without a fence some never end."""
LOOK_SECONDS = 0.2
LEASE_SECONDS = 1.5
UNFENCED_DEEDS: frozenset[Deed] = frozenset({"freeze node"})
"""What shows that there is no fence: who is frozen past the lease, and goes on where it was."""
UNFENCED_OFTEN = 3.0
UNFENCED_LONGER = 2.0
"""Frozen so much more often, and for so much longer, as the control must not depend on how busy the machine is."""


class Sizes(msgspec.Struct, frozen=True):
    """How long and how hard."""

    seconds: float = 60.0
    nodes: int = 3
    seed: int = 1
    kill_every: float = 2.0
    """Seconds between two kills; 0: no kills."""
    at_once: int = 10
    """Tickets that are worked at the same time."""
    per_second: float = 2.5
    """Tickets begun at most."""
    fenced: bool = True
    lease_seconds: float = LEASE_SECONDS
    deeds: list[Deed] | None = None
    """Only these besides kills; None: all."""


class ChaosReport(msgspec.Struct, frozen=True):
    """What was done, and what was found."""

    seed: int
    seconds: float
    nodes: int
    kill_every: float
    fenced: bool
    took_seconds: float
    """From the first node to the last check."""
    cores: int
    load_average: float
    """Of the machine over the last minutes of the run: how far the times are to be trusted."""
    injected: dict[str, int]
    missed: dict[str, int]
    """What was to be done and found nobody, or no time left."""
    skipped: dict[str, str]
    """What cannot be done here, with the reason."""
    starved: int
    """Nodes that ended by themselves for want of memory; the others that were robbed of it were killed for it."""
    lives: int
    """Node processes in all."""
    tickets: int
    statuses: dict[str, int]
    races: dict[str, int]
    refunds: Refunds
    failover: Failovers
    charged: int
    """The most failures that were charged at any look, those of tools whose tables were away included."""
    invariants: dict[str, str]
    checks: list[Check]
    ok: bool
    schema: str = "callboard.chaos/1"


def run(sizes: Sizes, *, quiet: bool = False) -> ChaosReport:
    """Weather a storm and count. Told to end, it tidies up first: there is a server, and a file system."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return anyio.run(Chaos(sizes, quiet=quiet).run)
    finally:
        signal.signal(signal.SIGTERM, before)


class Chaos:
    """One run."""

    def __init__(self, sizes: Sizes, *, quiet: bool = False) -> None:
        self.sizes = sizes
        self.table = LiveTable(sys.stderr, quiet=quiet)
        self._began = time.monotonic()

    async def run(self) -> ChaosReport:
        """From the first node to the last check."""
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # that connections break is what this is about
        with tempfile.TemporaryDirectory(prefix="callboard-chaos-") as name, small_disk() as disk:
            async with AsyncExitStack() as stack:
                server = await stack.enter_async_context(RestartableServer.open(disk.folder))
                dsn = await stack.enter_async_context(fresh_database(server.dsn))
                database = await stack.enter_async_context(await Database.open(dsn, size=2))
                records = await stack.enter_async_context(await Database.open(dsn, size=2))
                stores = [await stack.enter_async_context(make_store(dsn)) for _ in range(1 + len(PEOPLE))]
                sizes = self.sizes
                load = DeskLoad(records, stores[0], stores[1:], sizes.at_once, sizes.per_second, sizes.seed)
                await load.prepare(round(sizes.per_second * sizes.seconds) + sizes.at_once)
                if not sizes.fenced:
                    await unfence(database)
                    await let_sessions_live(database)
                made = [_slot(n, dsn, server, Path(name), sizes) for n in range(1, sizes.nodes + 1)]
                slots = [await stack.enter_async_context(slot) for slot in made]
                async with Nest.open(slots, Path(name)) as nest:
                    await nest.begin()
                    deeds = Deeds(nest, server, disk, database)
                    return await self._weather(deeds, load)

    async def _weather(self, deeds: Deeds, load: DeskLoad) -> ChaosReport:
        nest = deeds.nest
        async with anyio.create_task_group() as group:
            group.start_soon(load.colleagues)
            group.start_soon(self._show, deeds, load)
            async with anyio.create_task_group() as working:
                working.start_soon(load.customers)
                await self._storm(deeds)
                load.stop()
            before = await _patiently(deeds.database)
            unfinished = await self._rest(load)
            undrained = await nest.drain() if self.sizes.fenced or not unfinished else []
            group.cancel_scope.cancel()
        self.table.say("counting")
        found = await look(
            deeds.database,
            load,
            unfinished=unfinished,
            before=before,
            ended_nodes=nest.fallen,
            undrained=undrained,
            left=[] if unfinished else nest.living(),
        )
        return self._report(deeds, load, found, await failovers(deeds.database, deeds.kills))

    async def _storm(self, deeds: Deeds) -> None:
        sizes = self.sizes
        only = frozenset(sizes.deeds) if sizes.deeds is not None else None if sizes.fenced else UNFENCED_DEEDS
        often = 1.0 if sizes.fenced else UNFENCED_OFTEN
        kills, blows = schedule(sizes.seed, sizes.seconds, kill_every=sizes.kill_every, deeds=only, often=often)
        if not sizes.fenced:
            blows = [msgspec.structs.replace(blow, seconds=UNFENCED_LONGER * blow.seconds) for blow in blows]
        chance, began = random.Random(f"victims {sizes.seed}"), time.monotonic()
        async with anyio.create_task_group() as group:
            group.start_soon(deeds.kill_on, began, kills, sizes.kill_every, sizes.seconds, chance.random)
            group.start_soon(deeds.do_all, began, blows, sizes.seconds)
            await anyio.sleep(sizes.seconds)

    async def _rest(self, load: DeskLoad) -> list[str]:
        """Wait until every ticket has ended; which have not."""
        with anyio.move_on_after(REST_SECONDS if self.sizes.fenced else UNFENCED_REST_SECONDS):
            while load.ended < len(load.submitted):  # noqa: ASYNC110 - a count in a database raises no event
                await anyio.sleep(LOOK_SECONDS)
            return []
        return [f"{len(load.submitted) - load.ended} of {len(load.submitted)} tickets did not end"]

    async def _show(self, deeds: Deeds, load: DeskLoad) -> None:
        while True:
            self.table.show(time.monotonic() - self._began, self.sizes, deeds, load)
            await anyio.sleep(self.table.every_seconds)

    def _report(self, deeds: Deeds, load: DeskLoad, found: Findings, times: Failovers) -> ChaosReport:
        sizes, checks = self.sizes, judge(found)
        return ChaosReport(
            seed=sizes.seed,
            seconds=sizes.seconds,
            nodes=sizes.nodes,
            kill_every=sizes.kill_every,
            fenced=sizes.fenced,
            took_seconds=round(time.monotonic() - self._began, 1),
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            load_average=round(os.getloadavg()[1], 1),
            injected=dict(deeds.done),
            missed=dict(deeds.missed),
            skipped=dict(deeds.skipped),
            starved=deeds.starved,
            lives=sum(len(slot.lives) for slot in deeds.nest.slots),
            tickets=found.tickets,
            statuses=load.statuses,
            races={
                "held": load.races.held,
                "won": sum(len(names) for names in load.races.won.values()),
                "late": load.races.late,
                "unheard": load.races.unheard,
            },
            refunds=found.refunds,
            failover=times,
            charged=load.charged,
            invariants=invariants(found),
            checks=checks,
            ok=all(check.ok for check in checks),
        )


@asynccontextmanager
async def _slot(number: int, dsn: str, server: RestartableServer, folder: Path, sizes: Sizes) -> AsyncIterator[Slot]:
    parts = urlsplit(dsn)
    async with Proxy.open(server.socket_path) as proxy:
        environment: Mapping[str, str] = {
            "CALLBOARD_DSN": proxy.dsn(unquote(parts.username or ""), parts.path.removeprefix("/")),
            "CALLBOARD_LEASE_SECONDS": f"{sizes.lease_seconds:g}",
            "CALLBOARD_LOG_LEVEL": "warning",
        }
        clock = ClockFile(folder / f"clock-{number}")
        yield Slot(number, proxy, clock, folder / f"node-{number}.log", dict(environment))


async def _patiently(database: Database) -> dict[str, tuple[int, int]]:
    """Who has ended by now; asked again where the last outage is not quite over."""
    while True:
        try:
            return await ended_actors(database)
        except DatabaseUnavailable:
            await anyio.sleep(LOOK_SECONDS)
