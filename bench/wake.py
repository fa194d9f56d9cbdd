"""What actors cost that only wait: for a person, for a day, for a message that may never come.

For each number of them the database holds that many actors, each with its row, a held call and a timer a week away. A
node serves them for a while; then single ones are sent a message and wake. Measured: the node's memory and its CPU and
the server's while nothing happens, and how long it takes from the send until the handler runs. What is measured is
that the first figures do not grow with the number.
"""

import os
import time
from dataclasses import dataclass, field

import anyio
import msgspec

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.client import Client
from callboard.actors.context import Context, WorkerContext
from callboard.actors.node import Node
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.bench.machine import Machine, facts
from callboard.bench.meter import Latency, Meter
from callboard.bench.server import fresh_database, server
from callboard.mailbox.address import shard_of
from callboard.mailbox.message import Message, encode
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.postgres.database import Database

PADDING = "s" * 180
PAGE = 50_000
_ACTOR = (
    "shard", "address", "kind", "version", "incarnation", "status", "reason", "state", "state_version", "last_id",
    "sent", "events", "summary",
)  # fmt: skip
_MESSAGE = (
    "shard", "id", "recipient", "sender", "lane", "type", "version", "body", "sender_seq", "deliveries", "failures",
    "due_at", "last_error", "reply_to", "correlation", "causation", "started", "sent_by_node", "held", "sent_at",
)  # fmt: skip
_TIMER = ("shard", "address", "key", "generation", "due_at", "type", "version", "body", "lane", "period_seconds")


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    parked: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    idle_seconds: float = 5.0
    wakes: int = 300


class Parked(msgspec.Struct, frozen=True):
    """A node with so many actors that wait."""

    actors: int
    node_memory_mib: float
    """Resident memory of this process while it serves them, above what it had before it did."""
    in_memory: int
    """How many of them the node holds."""
    idle_cpu_ms_a_second: float
    """The node's CPU while nothing happens."""
    idle_server_cpu_ms_a_second: float | None
    wake: Latency
    """From the send outside until the handler runs, each of an actor that was not in memory."""


class WakeReport(msgspec.Struct, frozen=True):
    """What `python -m bench wake --json` prints."""

    bench: str
    machine: Machine
    parked: list[Parked]


class Knock(Message, tag="bench.knock"):
    """Wakes one; `number` says which knock it was."""

    number: int


class Ask(Message, tag="bench.ask"):
    """The call that waits for a person."""

    text: str = "a" * 40


class Waiting(msgspec.Struct):
    """State of an actor that waits: about 200 bytes."""

    knocks: int = 0
    padding: str = PADDING


@dataclass
class Heard:
    """When each knock was heard."""

    at: dict[int, float] = field(default_factory=dict)
    event: anyio.Event = field(default_factory=anyio.Event)


class Sleeper(Actor[Waiting], kind="bench-sleeper"):
    """Waits."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    @on(creates=True)
    def knock(self, message: Knock, ctx: Context) -> None:
        self.state.knocks += 1
        self.heard.at[message.number] = time.perf_counter()
        self.heard.event.set()


class Desk(Worker, kind="bench-desk"):
    """Would make the call."""

    @on
    async def ask(self, message: Ask, ctx: WorkerContext) -> None:
        return None


def _address(number: int) -> str:
    return f"/bench/sleeper:{number}"


async def _lay_down(dsn: str, count: int) -> None:
    """Write the rows of `count` actors that wait."""
    state = msgspec.msgpack.encode(Waiting())
    ask, knock = encode(Ask()), encode(Knock(-1))
    async with await Database.open(dsn, size=1) as database:
        row = await database.row("select callboard.clock() as now, callboard.clock() + interval '7 days' as week")
        assert row is not None
        now, week = row["now"], row["week"]
        for start in range(0, count, PAGE):
            places = [(shard_of(_address(n)), _address(n), n) for n in range(start, min(count, start + PAGE))]
            async with database.transaction() as session:
                await session.copy_rows(
                    "callboard.actor",
                    _ACTOR,
                    [(s, a, Sleeper.kind, 1, 1, "active", "", state, 1, n + 1, 1, 0, "") for s, a, n in places],
                )
                await session.copy_rows(
                    "callboard.message",
                    _MESSAGE,
                    [
                        (
                            s,
                            n + 1,
                            "/bench/desk",
                            a,
                            2,
                            "bench.ask",
                            1,
                            ask,
                            1,
                            0,
                            0,
                            now,
                            "",
                            a,
                            0,
                            0,
                            False,
                            0,
                            True,
                            now,
                        )
                        for s, a, n in places
                    ],
                )
                await session.copy_rows(
                    "callboard.timer",
                    _TIMER,
                    [(s, a, "give up", n + 1, week, "bench.knock", 1, knock, 2, 0.0) for s, a, n in places],
                )
        for table in ("actor", "message", "timer"):
            await database.execute(f"analyze callboard.{table}")


async def _parked(server_dsn: str, count: int, sizes: Sizes) -> Parked:
    heard = Heard()
    tree = Tree(Supervisor("bench", (Child(Sleeper, "sleeper", pool=True, args=(heard,)), Child(Desk, "desk"))))
    async with fresh_database(server_dsn) as dsn, Meter.of(dsn, server_dsn) as meter:
        await _lay_down(dsn, count)
        async with PostgresStore(dsn) as store, PostgresStore(dsn) as outside:
            node, client = Node(store, tree), Client(outside)
            before = _resident_mib()
            async with anyio.create_task_group() as group:
                group.start_soon(node.run)
                await node.ready.wait()
                assert node.life is not None
                await anyio.sleep(1.0)
                began = await meter.read()
                await anyio.sleep(sizes.idle_seconds)
                ended = await meter.read()
                memory, held = _resident_mib() - before, len(node.life.cells.cells)
                woke = await _wake(client, heard, count, sizes.wakes)
                node.stop()
    seconds = ended.wall_seconds - began.wall_seconds
    server = None
    if began.server_cpu_seconds is not None and ended.server_cpu_seconds is not None:
        server = round(1e3 * (ended.server_cpu_seconds - began.server_cpu_seconds) / seconds, 2)
    client_cpu = 1e3 * (ended.client_cpu_seconds - began.client_cpu_seconds) / seconds
    return Parked(count, round(memory, 1), held, round(client_cpu, 2), server, woke)


async def _wake(client: Client, heard: Heard, count: int, wakes: int) -> Latency:
    """Knock at actors that are far apart, one after the other."""
    times = []
    for number in range(-5, wakes):  # the first ones find connections and plans made
        heard.event = anyio.Event()
        began = time.perf_counter()
        await client.send(_address((number + 5) * max(1, count // (wakes + 5)) % count), Knock(number))
        while number not in heard.at:
            await heard.event.wait()
            heard.event = anyio.Event()
        if number >= 0:
            times.append(heard.at[number] - began)
    return Latency.of(times)


def _resident_mib() -> float:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


async def measure(server_dsn: str, sizes: Sizes) -> WakeReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    return WakeReport("wake", machine, [await _parked(server_dsn, count, sizes) for count in sizes.parked])


def run(dsn: str, sizes: Sizes) -> WakeReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
