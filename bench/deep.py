"""A million messages that wait: what draining a part of them costs, what memory the node takes, and who gets through.

1,000 mailboxes hold 1,000 messages each, written by COPY; for comparison as many mailboxes hold few. A node handles a
part of them while a client sends single messages in the lane of replies into full mailboxes, where they go first. What
is measured is how long one takes from the send to the handler.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing import get_context
from typing import TypeVar

import anyio
import anyio.to_thread
import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.client import Client
from callboard.actors.context import Context
from callboard.actors.node import Node
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.bench.machine import Machine, facts
from callboard.bench.meter import Latency, Meter, cost
from callboard.bench.server import fresh_database, server
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message, encode
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.postgres.database import Database

PAGE = 50_000
_MESSAGE = (
    "shard", "id", "recipient", "sender", "lane", "type", "version", "body", "sender_seq", "deliveries", "failures",
    "due_at", "last_error", "reply_to", "correlation", "causation", "started", "sent_by_node", "held", "sent_at",
)  # fmt: skip


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    waiting: tuple[int, ...] = (50_000, 1_000_000)
    mailboxes: int = 1_000
    drained: int = 40_000
    urgent: int = 40
    urgent_every_seconds: float = 0.05
    urgent_seconds: float = 30.0
    """How long the last ones are waited for."""


class Deep(msgspec.Struct, frozen=True):
    """So many messages wait."""

    waiting: int
    drained: int
    """So many were handled."""
    per_second: float
    client_cpu_us: float
    """Of one message."""
    server_cpu_us: float | None
    wal_bytes: float
    foreign_cores: float | None
    node_memory_mib: float
    """Resident memory that the node added to this process: the most that was seen."""
    urgent: Latency
    """Of a message in the lane of replies while all that goes on; who did not come counts with the time waited."""
    urgent_missed: int
    """How many had not come when nobody waited any longer."""


class DeepReport(msgspec.Struct, frozen=True):
    """What `python -m bench deep --json` prints."""

    bench: str
    machine: Machine
    deep: list[Deep]


class Waiting(Message, tag="bench.waiting"):
    """One of the million."""

    text: str = "t" * 40


class Urgent(Message, tag="bench.urgent"):
    """One that goes first."""

    number: int


class Counted(msgspec.Struct):
    """State: about 200 bytes."""

    count: int = 0
    padding: str = "s" * 180


@dataclass
class Tally:
    """What was handled."""

    wanted: int
    done: anyio.Event = field(default_factory=anyio.Event)
    handled: int = 0
    came: dict[int, float] = field(default_factory=dict)
    """When each urgent message did."""

    def count(self) -> None:
        """One more."""
        self.handled += 1
        if self.handled == self.wanted:
            self.done.set()


class Box(Actor[Counted], kind="bench-box"):
    """An actor with a full mailbox."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @on(creates=True)
    def waiting(self, message: Waiting, ctx: Context) -> None:
        self.state.count += 1
        self.tally.count()

    @on(creates=True)
    def urgent(self, message: Urgent, ctx: Context) -> None:
        self.tally.came[message.number] = time.perf_counter()


def _box(number: int) -> str:
    return f"/bench/box:{number}"


def _lay_down(dsn: str, count: int, mailboxes: int) -> None:
    anyio.run(_laid_down, dsn, count, mailboxes)


async def _laid_down(dsn: str, count: int, mailboxes: int) -> None:
    body = encode(Waiting())
    places = [(shard_of(_box(number)), _box(number)) for number in range(mailboxes)]
    async with await Database.open(dsn, size=1) as database:
        row = await database.row("select callboard.clock() as now")
        assert row is not None
        for start in range(0, count, PAGE):
            numbers = range(start, min(count, start + PAGE))
            async with database.transaction() as session:
                rows = [_row(number, *places[number % mailboxes], body=body, now=row["now"]) for number in numbers]
                await session.copy_rows("callboard.message", _MESSAGE, rows)
        await database.execute("analyze callboard.message")


def _row(number: int, shard: int, address: str, *, body: str, now: datetime) -> tuple[object, ...]:
    """One waiting message: from outside, never delivered, due."""
    return (
        shard, number + 1, address, "", int(Lane.NORMAL), "bench.waiting", 1, body, 0, 0, 0,
        now, "", "", 0, 0, False, 0, False, now,
    )  # fmt: skip


@dataclass
class Watch:
    """Sends urgent messages and looks at this process's memory, while a node drains."""

    client: Client
    tally: Tally
    sizes: Sizes
    sent: dict[int, float] = field(default_factory=dict)
    most_mib: float = 0.0

    async def run(self) -> None:
        """Until all urgent ones are sent."""
        for number in range(self.sizes.urgent):
            self.sent[number] = time.perf_counter()
            box = _box(number * 7 % self.sizes.mailboxes)
            await self.client.send(box, Urgent(number), lane=Lane.REPLY)
            await anyio.sleep(self.sizes.urgent_every_seconds)
            self.most_mib = max(self.most_mib, resident_mib())

    async def arrived(self) -> tuple[Latency, int]:
        """How long each took; the number of those that are given up."""
        with anyio.move_on_after(self.sizes.urgent_seconds):
            while len(self.tally.came) < self.sizes.urgent:  # noqa: ASYNC110 - handlers raise no event for it
                await anyio.sleep(0.01)
        now, came = time.perf_counter(), self.tally.came
        times = [came.get(number, now) - sent for number, sent in self.sent.items()]
        return Latency.of(times), self.sizes.urgent - len(came)


def resident_mib() -> float:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


Given = TypeVar("Given")


async def _apart(do: Callable[..., Given], *arguments: object) -> Given:
    """Have it done in a new process: what one has used before, its memory would be measured with."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return await anyio.to_thread.run_sync(lambda: pool.submit(do, *arguments).result())


def _drained(server_dsn: str, dsn: str, count: int, sizes: Sizes) -> Deep:
    return anyio.run(_drain, server_dsn, dsn, count, sizes)


async def _drain(server_dsn: str, dsn: str, count: int, sizes: Sizes) -> Deep:
    tally = Tally(min(count, sizes.drained))
    async with (
        Meter.of(dsn, server_dsn) as meter,
        PostgresStore(dsn) as store,
        PostgresStore(dsn) as outside,
        anyio.create_task_group() as group,
    ):
        watch = Watch(Client(outside), tally, sizes)
        node = Node(store, Tree(Supervisor("bench", (Child(Box, "box", pool=True, args=(tally,)),))))
        memory, before = resident_mib(), await meter.read()
        group.start_soon(node.run)
        await node.ready.wait()
        group.start_soon(watch.run)  # ends when the last urgent one is sent
        await tally.done.wait()
        assert node.life is not None
        await node.life.committer.flushed()
        after, handled = await meter.read(), tally.handled
        watch.most_mib = max(watch.most_mib, resident_mib())
        urgent, missed = await watch.arrived()
        group.cancel_scope.cancel()  # it need not leave in order: the database is dropped
    spent = cost(before, after, handled)
    return Deep(
        count,
        handled,
        spent.per_second,
        spent.client_cpu_us,
        spent.server_cpu_us,
        spent.wal_bytes,
        spent.foreign_cores,
        round(watch.most_mib - memory, 1),
        urgent,
        missed,
    )


async def _deep(server_dsn: str, count: int, sizes: Sizes) -> Deep:
    async with fresh_database(server_dsn) as dsn:
        await _apart(_lay_down, dsn, count, sizes.mailboxes)
        return await _apart(_drained, server_dsn, dsn, count, sizes)


async def measure(server_dsn: str, sizes: Sizes) -> DeepReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    return DeepReport("deep", machine, [await _deep(server_dsn, count, sizes) for count in sizes.waiting])


def run(dsn: str, sizes: Sizes) -> DeepReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
