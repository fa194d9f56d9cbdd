"""The soak: daemons at work that are told to end, killed and robbed of their database, for minutes; then all counts.

    two daemons with two nodes each, over one real PostgreSQL; agents that pay at a provider outside (`soak_app.py`)
    a storm of SIGTERM, kill -9 and restarts of the database from a seed (`storm.py`)
    a watch that holds every answer of /readyz against what was done (`readiness.py`)

What must be true at the end is in `_checks`: every run came to its end, the provider paid each item exactly once, no
failure was charged to anybody, no invariant is broken, every daemon and node that was asked to end did so with 0.
"""

import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM

import anyio
import msgspec

from callboard.actors.agent.runs import Runs
from callboard.actors.client import Client
from callboard.bench.daemons import Post, StormFailed, daemon_command, is_ours
from callboard.bench.load import Load
from callboard.bench.payments import Books, Payments
from callboard.bench.readiness import Outage, Readiness, Watch
from callboard.bench.restartable import RestartableServer
from callboard.bench.server import fresh_database
from callboard.bench.soak_app import RUNS
from callboard.bench.storm import Blow, Kind, schedule
from callboard.bench.unfenced import unfence
from callboard.persistence.postgres.database import Database, DatabaseUnavailable
from callboard.persistence.postgres.invariants import breaches
from callboard.service.wiring import make_store

APPLICATION = "callboard.bench.soak_app:app"
REST_SECONDS = 180.0
"""How long the last runs may take when the storm is over."""
LOOK_SECONDS = 0.2
NO_DATABASE = 75
"""How a daemon ends that finds no database when it starts."""
GONE_SECONDS = 30.0
_CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
_FAILED = "SELECT count(*) AS n FROM callboard.journal WHERE type IN ('tool.failed', 'llm.failed', 'tool.in_doubt')"


class Sizes(msgspec.Struct, frozen=True):
    """How long and how hard."""

    kind: Kind = "soak"
    minutes: float = 5.0
    scale: float = 1.0
    """Of the load: 1 is twelve runs at once, at most four begun a second."""
    seed: int = 1
    daemons: int = 2
    nodes: int = 2
    fenced: bool = True
    """False: the negative control, in which superseded nodes may commit."""


class Check(msgspec.Struct, frozen=True):
    """One thing that must be true."""

    name: str
    ok: bool
    detail: str


class SoakReport(msgspec.Struct, frozen=True):
    """What was done, and what was found."""

    kind: str
    seed: int
    minutes: float
    scale: float
    seconds: float
    """From the first daemon to the last check."""
    runs: int
    approvals: int
    phases: dict[str, float]
    """How many seconds each part took."""
    deeds: dict[str, int]
    exit_codes: dict[str, int]
    """How often what was done had which exit code."""
    failures_charged: int
    ledger: Books
    readyz: Readiness
    checks: list[Check]
    ok: bool
    schema: str = "callboard.soak/1"


def told(report: SoakReport) -> Iterator[str]:
    """The report as a table for people."""
    books, readyz = report.ledger, report.readyz
    yield f"{report.kind}: storm of {report.minutes:g} min, seed {report.seed}, load {report.scale:g}"
    for deed, count in sorted(report.deeds.items()):
        yield f"  {deed:<28} {count:>7,}"
    for name, value in (
        ("runs", report.runs),
        ("approved by a person", report.approvals),
        ("to be paid", books.expected),
        ("paid", books.paid),
        ("attempts", books.attempts),
        ("interrupted and made again", books.repeated),
        ("failures charged", report.failures_charged),
        ("answers of /readyz", readyz.answers),
        ("changes of it", readyz.transitions),
        ("503 while ending", readyz.seen_ending),
        ("503 without a database", readyz.seen_outages),
    ):
        yield f"  {name:<28} {value:>7,}"
    for check in report.checks:
        yield f"  {'✓' if check.ok else '✗'} {check.name}" + ("" if check.ok else f": {check.detail}")
    parts = ", ".join(f"{name} {seconds:g} s" for name, seconds in report.phases.items())
    yield f"{'all of it holds' if report.ok else 'NOT all of it holds'} ({report.seconds:g} s: {parts})"


def run(sizes: Sizes, *, quiet: bool = False) -> SoakReport:
    """Weather a storm and count."""
    return anyio.run(Soak(sizes, quiet=quiet).run)


@dataclass(frozen=True)
class Field:
    """What the storm goes over."""

    posts: list[Post]
    server: RestartableServer
    watch: Watch


class Soak:
    """One storm."""

    def __init__(self, sizes: Sizes, *, quiet: bool = False) -> None:
        self.sizes = sizes
        self.quiet = quiet
        self.deeds: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.phases: dict[str, float] = {}
        self._began = time.monotonic()

    async def run(self) -> SoakReport:
        """From the first daemon to the last check."""
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # that connections break is what this is about
        sizes = self.sizes
        blows = schedule(sizes.seed, sizes.minutes, daemons=sizes.daemons, nodes=sizes.nodes, kind=sizes.kind)
        self._tell(f"seed {sizes.seed}: {len(blows)} blows in {60 * sizes.minutes:g} s")
        for blow in blows:
            self._tell(str(blow))
        with tempfile.TemporaryDirectory(prefix="callboard-soak-") as name:
            async with RestartableServer.open() as server, fresh_database(server.dsn) as dsn:
                payments = Payments(Path(name) / "payments.db")
                payments.create()
                async with self._daemons(Path(name), dsn, payments) as posts:
                    return await self._weather(blows, Field(posts, server, Watch(posts)), dsn, payments)

    @asynccontextmanager
    async def _daemons(self, folder: Path, dsn: str, payments: Payments) -> AsyncIterator[list[Post]]:
        options = {"payments": str(payments.file)}
        command = daemon_command(APPLICATION, self.sizes.nodes, options, "--health", "127.0.0.1:0")
        posts = [
            Post(f"daemon {number + 1}", command, {"CALLBOARD_DSN": dsn}, folder / f"daemon-{number + 1}.log")
            for number in range(self.sizes.daemons)
        ]
        try:
            yield posts
        finally:
            for post in posts:
                await post.end()

    async def _weather(self, blows: list[Blow], field: Field, dsn: str, payments: Payments) -> SoakReport:
        posts = field.posts
        async with make_store(dsn) as store, await Database.open(dsn, size=2) as database:
            if not self.sizes.fenced:
                await unfence(database)
            load = Load(store, database, round(12 * self.sizes.scale), 4 * self.sizes.scale, self.sizes.seed)
            async with anyio.create_task_group() as group:
                for post in posts:
                    await post.begin(group)
                for post in posts:
                    await post.ready(self.sizes.nodes)
                self._phase("start")
                for task in (field.watch.run, load.submit, load.watch):
                    group.start_soon(task)
                await self._storm(blows, field, load, group)
                self._phase("storm")
                load.stop()
                resting = await self._rest(load)
                self._phase("rest")
                for post in posts:
                    await post.ready(self.sizes.nodes)
                for post in posts:
                    self._note("sigterm daemon", await post.hit(SIGTERM))
                group.cancel_scope.cancel()
            left = await self._leave(posts)
            self._phase("drain")
            books = payments.books(load.expected())
            found = [Check("every run came to its end", not resting, resting)]
            found += [Check("no process is left", not left, left)]
            failed = [row["n"] for row in await database.rows(_FAILED)]
            charged = load.charged + sum(failed)
            fallen = [str(code) for post in posts for code in post.fallen if code != NO_DATABASE]
            found += [Check("no daemon ended by itself but for want of a database", not fallen, _names(fallen))]
            found += await _proofs(database, Runs(Client(store), RUNS), load)
            self._phase("proofs")
        return self._report(load, books, charged, field.watch.verdict(), found)

    # --- the storm ---------------------------------------------------------------------------------------------

    async def _storm(self, blows: list[Blow], field: Field, load: Load, group: anyio.abc.TaskGroup) -> None:
        began = time.monotonic()
        for number, blow in enumerate(blows, 1):
            await anyio.sleep(max(0.0, began + blow.at_seconds - time.monotonic()))
            self._progress(f"{number}/{len(blows)} {blow.deed}; {load.ended} of {load.orders} runs ended")
            if blow.deed == "restart database":
                await self._restart(blow, field)
            elif blow.deed == "cut connections":
                await self._cut(field, load.database)
            else:
                await self._hit(blow, field.posts, group)
            self.deeds[blow.deed] += 1
        await anyio.sleep(max(0.0, began + 60.0 * self.sizes.minutes - time.monotonic()))

    async def _hit(self, blow: Blow, posts: list[Post], group: anyio.abc.TaskGroup) -> None:
        post, place = _victim(blow, posts)
        if blow.deed == "sigterm node":
            self._note(blow.deed, await post.hit_node(place, SIGTERM))
        elif blow.deed == "freeze node":
            await post.freeze_node(place, blow.seconds)
        elif blow.deed == "kill node":
            self._note(blow.deed, await post.hit_node(place, SIGKILL))
        else:
            await post.node(place)  # one that has nodes, or it would be no loss
            self._note(blow.deed, await post.hit(SIGTERM if blow.deed == "sigterm daemon" else SIGKILL))
            await post.begin(group)

    async def _restart(self, blow: Blow, field: Field) -> None:
        field.watch.outages.append(Outage(time.monotonic()))
        await field.server.stop(crash=blow.crash)
        await anyio.sleep(blow.seconds)
        await field.server.start()
        field.watch.outages[-1].until = time.monotonic()

    async def _cut(self, field: Field, database: Database) -> None:
        """End every session of the database but our own; whoever had one looks as after an outage that is over."""
        now = time.monotonic()
        field.watch.outages.append(Outage(now, now))
        with suppress(DatabaseUnavailable):  # the pool of our own load was cut with the others
            await database.rows(_CUT)

    async def _rest(self, load: Load) -> str:
        """Wait until nothing moves any more; "" or what does not come to its end."""
        with anyio.move_on_after(REST_SECONDS):
            while load.ended < load.orders:
                self._progress(f"waiting for the last of {load.orders} runs: {load.ended} ended")
                await anyio.sleep(LOOK_SECONDS)
            return ""
        return f"{load.orders - load.ended} of {load.orders} runs did not end within {REST_SECONDS:g} s"

    async def _leave(self, posts: list[Post]) -> str:
        """Wait until no node process is left; "" or which are."""
        with anyio.move_on_after(GONE_SECONDS):
            while any(is_ours(pid) for post in posts for pid in post.pids):  # noqa: ASYNC110 - processes of others
                await anyio.sleep(LOOK_SECONDS)
            return ""
        return f"processes {sorted(pid for post in posts for pid in post.pids if is_ours(pid))} have not ended"

    # --- counting ----------------------------------------------------------------------------------------------

    def _report(self, load: Load, books: Books, charged: int, readyz: Readiness, found: list[Check]) -> SoakReport:
        wrong = [f"{deed}: {count}" for deed, count in self.codes.items() if not _is_right(deed)]
        checks = [
            Check("the ledger is exact", books.exact, _names(books.twice + books.missing + books.foreign)),
            Check("failures charged: 0", charged == 0, f"{charged} were" if charged else ""),
            Check("drained daemons and nodes end with 0", not wrong, _names(wrong)),
            Check("every answer of /readyz was right", not readyz.wrong and readyz.answers > 0, _names(readyz.wrong)),
            *found,
        ]
        return SoakReport(
            kind=self.sizes.kind,
            seed=self.sizes.seed,
            minutes=self.sizes.minutes,
            scale=self.sizes.scale,
            seconds=round(time.monotonic() - self._began, 1),
            runs=load.orders,
            approvals=load.approved,
            phases=self.phases,
            deeds=dict(self.deeds),
            exit_codes=dict(self.codes),
            failures_charged=charged,
            ledger=books,
            readyz=readyz,
            checks=checks,
            ok=all(check.ok for check in checks),
        )

    def _phase(self, name: str) -> None:
        self.phases[name] = round(time.monotonic() - self._began - sum(self.phases.values()), 1)

    def _note(self, deed: str, code: int) -> None:
        self.codes[f"{deed}: {code}"] += 1

    def _tell(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr)

    def _progress(self, text: str) -> None:
        if not self.quiet and sys.stderr.isatty():
            print(f"\r\x1b[K{time.monotonic() - self._began:6.1f} s  {text}", end="", file=sys.stderr, flush=True)


def _victim(blow: Blow, posts: list[Post]) -> tuple[Post, int]:
    """Whom a blow means, or the next that is there: a storm does not wait for who is being started."""
    drawn = posts[blow.daemon], blow.place
    places = [(post, place) for post in posts for place in sorted(post.life.pids)]
    there = [one for one in places if one == drawn] or places
    return there[0] if there else drawn


async def _proofs(database: Database, runs: Runs, load: Load) -> list[Check]:
    broken = [f"{b.number} {b.invariant}: {b.subject}: {b.detail}" for b in await breaches(database)]
    dead = [f"{letter.envelope.recipient}: {letter.reason}" for letter in await runs.store.dead_letters()]
    others = {status: count for status, count in load.statuses.items() if status != "completed"}
    ids = [load.run_id(order) for order in range(1, load.orders + 1)]
    unproved = [run_id for run_id in ids if not (await runs.verify(run_id)).ok]
    unfinished = [
        f"{row['address']} is {row['status']}"
        for row in await database.rows(
            "SELECT address, summary::json ->> 'status' AS status FROM callboard.actor WHERE kind = 'run'"
            " AND summary::json ->> 'status' <> 'completed' LIMIT 20"
        )
    ]
    return [
        Check("every run is completed", not others and not unfinished, _names([*map(str, others), *unfinished])),
        Check("no dead letter", not dead, _names(dead)),
        Check("no invariant is broken", not broken, _names(broken)),
        Check("every run is the fold of its journal", not unproved, _names(unproved)),
    ]


def _is_right(noted: str) -> bool:
    deed, _, code = noted.rpartition(": ")
    return int(code) == (0 if deed.startswith("sigterm") else -SIGKILL)


def _names(texts: list[str]) -> str:
    return "; ".join(texts[:5]) + (f"; and {len(texts) - 5} more" if len(texts) > 5 else "")


__all__ = ["Check", "Sizes", "Soak", "SoakReport", "StormFailed", "run"]
