"""A day of work, compressed: many short runs on two node processes while retention removes all but the newest.

The question is not how fast, but whether anything grows that should not: tables, indexes, dead rows, the memory of the
daemon and of its nodes. A sample is taken every few seconds; what is told is how each figure moved in the second half,
by the straight line that fits it best. What has to be kept for longer than the run lasts (client ids: seven days) grows
by design, and is told apart.
"""

import os
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import anyio
import msgspec

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.messages import StartRun
from callboard.bench.daemons import Post, daemon_command
from callboard.bench.days_app import RUNS
from callboard.bench.machine import Machine, facts
from callboard.bench.server import fresh_database, server
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.postgres.database import Database
from callboard.persistence.retention import OLD_KINDS
from callboard.service.operations.pruning import Pruning
from callboard.service.operations.runs import Operations

APPLICATION = "callboard.bench.days_app:app"
AT_ONCE = 400
"""Runs under way."""
TOGETHER = 50
"""Runs submitted in one transaction."""
LOOK_SECONDS = 0.1
PRUNE_SECONDS = 2.0
"""Between the end of one round of retention and the next."""
FLAT = 0.10
"""A figure is flat that the second half changed by no more than this part of its mean."""
FLAT_BYTES = 2 << 20
"""Or by no more than this: a table of a few pages doubles with the next one."""
BY_DESIGN = frozenset({"client_send"})
"""Client ids are known for seven days, however short the retention."""
PAGE = 8192


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    runs: int = 200_000
    nodes: int = 2
    kept: float = 0.05
    """Part of all runs that is kept: the newest."""
    sample_seconds: float = 5.0
    limit_seconds: float = 0.0
    """Submit no more after that; 0: until all are."""


class TableSample(msgspec.Struct, frozen=True):
    """A table at one moment, in bytes and rows."""

    heap: int
    indexes: int
    live: int
    dead: int
    """As the server's statistics have it."""
    vacuums: int
    """Autovacuums so far."""


class Sample(msgspec.Struct, frozen=True):
    """All figures at one moment."""

    seconds: float
    ended: int
    """Runs that have ended so far."""
    removed: int
    """Runs that retention has removed so far."""
    tables: dict[str, TableSample]
    indexes: dict[str, int]
    daemon_bytes: int
    """Memory of the daemon, as resident."""
    node_bytes: list[int]


class Trend(msgspec.Struct, frozen=True):
    """How a figure moved in the second half."""

    middle: float
    """By the line that fits best, at its beginning."""
    last: float
    """And at its end."""
    change: float
    """Of the mean: 0.1 is a tenth."""
    flat: bool


class Moment(msgspec.Struct, frozen=True):
    """The whole at one moment."""

    seconds: float
    ended: int
    removed: int
    tables_mb: float
    """All tables but those that grow by design, with their indexes."""
    dead_rows: int
    daemon_mb: float
    nodes_mb: list[float]


class DaysReport(msgspec.Struct, frozen=True):
    """What `python -m bench days --json` prints."""

    name: str
    machine: Machine
    runs: int
    """That have ended."""
    seconds: float
    runs_per_second: float
    kept: int
    nodes: int
    removed: int
    rounds: int
    """Of retention."""
    flat: bool
    """Everything is that should be."""
    grows: list[str]
    by_design: dict[str, Trend]
    memory: dict[str, Trend]
    """In bytes."""
    tables: dict[str, Trend]
    """Heap and indexes together, in bytes."""
    dead_rows: dict[str, Trend]
    dead_share: dict[str, float]
    """Dead rows to all rows, the mean of the second half."""
    bytes_per_row: dict[str, list[float]]
    """Of the heap, for each live row, in the middle and at the end: what bloats shows here."""
    indexes: dict[str, Trend]
    autovacuums: dict[str, int]
    speed: list[float]
    """Runs a second, in tenths of the time."""
    history: list[Moment]


_TABLES = """
SELECT s.relname AS name, pg_relation_size(s.relid) AS heap, pg_indexes_size(s.relid) AS indexes,
    s.n_live_tup AS live, s.n_dead_tup AS dead, s.autovacuum_count AS vacuums
FROM pg_stat_user_tables s WHERE s.schemaname = 'callboard' ORDER BY s.relname
"""
_INDEXES = """
SELECT s.indexrelname AS name, pg_relation_size(s.indexrelid) AS bytes
FROM pg_stat_user_indexes s WHERE s.schemaname = 'callboard' ORDER BY s.indexrelname
"""
_UNDER_WAY = """
SELECT (SELECT count(*) FROM callboard.actor WHERE kind = 'run' AND status IN ('active', 'failed', 'parked')) AS active,
    (SELECT count(*) FROM callboard.message WHERE type = %(start)s) AS waiting
"""


@dataclass
class _Day:
    """What happens at the same time: submitting, looking, pruning."""

    sizes: Sizes
    dsn: str
    store: PostgresStore
    database: Database
    post: Post
    submitted: int = 0
    ended: int = 0
    removed: int = 0
    rounds: int = 0
    over: bool = False
    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.operations = Operations(self.store, "days")
        self.began = time.monotonic()
        self._marks: deque[tuple[int, float]] = deque()
        self.kept = round(self.sizes.runs * self.sizes.kept)

    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self.began

    async def submit(self) -> None:
        """Keep AT_ONCE runs under way until all have ended."""
        limit = self.sizes.limit_seconds
        while self.submitted < self.sizes.runs and not (limit and self.seconds() > limit):
            await self._look()
            if self.submitted - self.ended > AT_ONCE - TOGETHER:
                await anyio.sleep(LOOK_SECONDS)
                continue
            self._marks.append((self.submitted, await self.store.now()))
            await self._start(min(TOGETHER, self.sizes.runs - self.submitted))
        while self.ended < self.submitted:
            await self._look()
            await anyio.sleep(LOOK_SECONDS)
        self.over = True

    async def _start(self, count: int) -> None:
        """As `Operations.submit`, but many in one transaction: the client shall not be what is measured."""
        client = self.operations.client
        names = [f"{self.submitted + index:08d}" for index in range(count)]
        addresses = [f"{RUNS}:{client.port.token()}" for _ in names]
        starts = [StartRun(f"goal {name}", Budget(), requested_by="days") for name in names]
        envelopes = [await client.envelope(at, one) for at, one in zip(addresses, starts, strict=True)]
        entries = [self.operations.entry("submit", address, note="goal") for address in addresses]
        await self.store.send(envelopes, [f"start {name}" for name in names], entries)
        self.submitted += count

    async def _look(self) -> None:
        row = await self.database.row(_UNDER_WAY, {"start": StartRun.__struct_config__.tag})
        assert row is not None
        self.ended = self.submitted - row["active"] - row["waiting"]

    async def prune(self) -> None:
        """Remove all but the newest runs, again and again."""
        pruning = Pruning(self.operations)
        while not self.over:
            await anyio.sleep(PRUNE_SECONDS)
            since = 0.0
            while self._marks and self._marks[0][0] < self.submitted - self.kept:
                since = self._marks.popleft()[1]
            if since:
                age = await self.store.now() - since
                report = await pruning.prune(max(0.0, age), OLD_KINDS)
                self.removed += next(one.items for one in report.kinds if one.kind == "runs")
                self.rounds += 1

    async def watch(self) -> None:
        """Take samples."""
        while not self.over:
            self.samples.append(await self._sample())
            await anyio.sleep(self.sizes.sample_seconds)

    async def _sample(self) -> Sample:
        tables = {row.pop("name"): TableSample(**row) for row in await self.database.rows(_TABLES)}
        indexes = {row["name"]: row["bytes"] for row in await self.database.rows(_INDEXES)}
        life = self.post.life
        return Sample(
            round(self.seconds(), 1), self.ended, self.removed, tables, indexes, resident_bytes(life.process.pid),
            [resident_bytes(pid) for _, pid in sorted(life.pids.items())],
        )  # fmt: skip


def resident_bytes(pid: int) -> int:
    """Memory of a process, as resident; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def trend(points: Sequence[tuple[float, float]], slack: float = 0.0) -> Trend:
    """How values (time, value) moved, by the straight line that fits best; flat within FLAT of the mean, or `slack`."""
    count = len(points)
    if not count:
        return Trend(0.0, 0.0, 0.0, flat=True)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    first, last = (mean_y + slope * (points[at][0] - mean_x) for at in (0, -1))
    change = (last - first) / mean_y if mean_y else 0.0
    return Trend(round(first, 1), round(last, 1), round(change, 3), flat=change <= FLAT or last - first <= slack)


def _report(day: _Day, machine: Machine, seconds: float) -> DaysReport:
    half = [one for one in day.samples if one.seconds >= seconds / 2] or day.samples[-1:]
    names = sorted(half[-1].tables)

    def moved(value: Mapping[str, Mapping[float, float]], slack: float) -> dict[str, Trend]:
        return {name: trend(sorted(points.items()), slack) for name, points in value.items()}

    tables = moved(
        {n: {s.seconds: float(s.tables[n].heap + s.tables[n].indexes) for s in half} for n in names}, FLAT_BYTES
    )
    indexes = moved({n: {s.seconds: float(s.indexes[n]) for s in half} for n in sorted(half[-1].indexes)}, FLAT_BYTES)
    dead = moved({n: {s.seconds: float(s.tables[n].dead) for s in half} for n in names}, 5_000.0)
    memory = {"daemon": {s.seconds: float(s.daemon_bytes) for s in half}}
    for place in range(len(half[-1].node_bytes)):
        memory[f"node {place + 1}"] = {s.seconds: float(s.node_bytes[place]) for s in half if len(s.node_bytes) > place}
    remembered = moved(memory, FLAT_BYTES)
    judged = {**tables, **{f"dead rows of {n}": t for n, t in dead.items()}, **remembered, **indexes}
    grows = [n for n, t in judged.items() if not t.flat and not any(n.startswith(one) for one in BY_DESIGN)]
    middle, last = half[0].tables, half[-1].tables
    return DaysReport(
        name="days",
        machine=machine,
        runs=day.ended,
        seconds=round(seconds, 1),
        runs_per_second=round(day.ended / seconds, 1),
        kept=day.kept,
        nodes=day.sizes.nodes,
        removed=day.removed,
        rounds=day.rounds,
        flat=not grows,
        grows=grows,
        by_design={n: t for n, t in tables.items() if n in BY_DESIGN},
        memory=remembered,
        tables={n: t for n, t in tables.items() if n not in BY_DESIGN and t.last > PAGE},
        dead_rows={n: t for n, t in dead.items() if t.last > 0},
        dead_share={n: _dead_share(half, n) for n in names if middle[n].live > 100},
        bytes_per_row={n: [_per_row(middle[n]), _per_row(last[n])] for n in names if last[n].live > 100},
        indexes={n: t for n, t in indexes.items() if t.last > 2 * PAGE},
        autovacuums={n: last[n].vacuums for n in names if last[n].vacuums},
        speed=_speed(day.samples),
        history=_history(day.samples),
    )


def _history(samples: Sequence[Sample], places: int = 30) -> list[Moment]:
    """Some of the samples, evenly."""
    step = max(1, len(samples) // places)
    return [
        Moment(
            one.seconds,
            one.ended,
            one.removed,
            _mb(sum(t.heap + t.indexes for name, t in one.tables.items() if name not in BY_DESIGN)),
            sum(t.dead for t in one.tables.values()),
            _mb(one.daemon_bytes),
            [_mb(size) for size in one.node_bytes],
        )
        for one in samples[::step]
    ]


def _mb(size: int) -> float:
    return round(size / 2**20, 1)


def _dead_share(samples: Sequence[Sample], name: str) -> float:
    shares = [t.dead / max(1, t.dead + t.live) for t in (one.tables[name] for one in samples)]
    return round(sum(shares) / len(shares), 3)


def _per_row(table: TableSample) -> float:
    return round(table.heap / max(1, table.live), 1)


def _speed(samples: Sequence[Sample]) -> list[float]:
    step = max(1, len(samples) // 10)
    marks = samples[::step]
    return [round((b.ended - a.ended) / max(0.001, b.seconds - a.seconds), 1) for a, b in pairwise(marks)]


async def measure(server_dsn: str, sizes: Sizes) -> DaysReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    with tempfile.TemporaryDirectory(prefix="callboard-days-") as folder:
        async with fresh_database(server_dsn) as dsn:
            post = Post(
                "days",
                daemon_command(APPLICATION, sizes.nodes, {}),
                {"CALLBOARD_DSN": dsn, "CALLBOARD_LOG_LEVEL": "warning"},
                Path(folder) / "daemon.log",
            )
            try:
                return await _day(dsn, sizes, post, machine)
            finally:
                await post.end()


async def _day(dsn: str, sizes: Sizes, post: Post, machine: Machine) -> DaysReport:
    async with (
        PostgresStore(dsn) as store,
        await Database.open(dsn, size=3) as database,
        anyio.create_task_group() as listening,
    ):
        await post.begin(listening)
        await post.ready(sizes.nodes)
        day = _Day(sizes, dsn, store, database, post)
        async with anyio.create_task_group() as group:
            for work in (day.submit, day.prune, day.watch):
                group.start_soon(work)
        seconds = day.seconds()
        await post.end()
        listening.cancel_scope.cancel()
    return _report(day, machine, seconds)


def run(dsn: str, sizes: Sizes) -> DaysReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
