"""Many to one and one to many: what a message costs one node where they all meet, and where they all part.

fan-in   1,000 actors send 20 messages each, in one turn, to one actor, whose mailbox holds senders back when it is full
fan-out  one actor sends 1,000 messages to 1,000 actors in one turn, 20 times
"""

from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.client import Client
from callboard.actors.context import Context
from callboard.actors.node import Node
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.bench.machine import Machine, facts
from callboard.bench.meter import Cost, Meter, cost
from callboard.bench.server import fresh_database, server
from callboard.mailbox.message import Message
from callboard.persistence.postgres import PostgresStore

PADDING = "s" * 180
_WARM = 200
_ONE = "/bench/one"


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    actors: int = 1_000
    each: int = 20
    """Messages from each sender, and to each receiver."""


class FanReport(msgspec.Struct, frozen=True):
    """What `python -m bench fan --json` prints."""

    bench: str
    machine: Machine
    fan_in: Cost
    """Of one message that arrives; the turns of the senders are in it."""
    fan_out: Cost


class Pour(Message, tag="bench.pour"):
    """Send so many to the one."""

    count: int


class Spread(Message, tag="bench.spread"):
    """Send one to each of so many."""

    actors: int


class Drop(Message, tag="bench.drop"):
    """What is sent."""

    text: str = "t" * 40


class Counted(msgspec.Struct):
    """State: about 200 bytes."""

    count: int = 0
    padding: str = PADDING


@dataclass
class Tally:
    """How many have arrived, and when that was all."""

    wanted: int = 0
    arrived: int = 0
    all: anyio.Event | None = None

    def expect(self, wanted: int) -> anyio.Event:
        """From now on; set when so many more have arrived."""
        self.wanted, self.arrived, self.all = wanted, 0, anyio.Event()
        return self.all

    def count(self) -> None:
        """One more."""
        self.arrived += 1
        if self.all is not None and self.arrived == self.wanted:
            self.all.set()


class One(Actor[Counted], kind="bench-one"):
    """Where they meet, or part."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @on(creates=True)
    def drop(self, message: Drop, ctx: Context) -> None:
        self.state.count += 1
        self.tally.count()

    @on(creates=True)
    def spread(self, message: Spread, ctx: Context) -> None:
        for number in range(message.actors):
            ctx.send(_many(number), Drop())


class Many(Actor[Counted], kind="bench-many"):
    """One of a thousand."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @on(creates=True)
    def pour(self, message: Pour, ctx: Context) -> None:
        for _ in range(message.count):
            ctx.send(_ONE, Drop())

    @on(creates=True)
    def drop(self, message: Drop, ctx: Context) -> None:
        self.state.count += 1
        self.tally.count()


def _many(number: int) -> str:
    return f"/bench/many:{number}"


def _tree(tally: Tally) -> Tree:
    one, many = Child(One, "one", args=(tally,)), Child(Many, "many", pool=True, args=(tally,))
    return Tree(Supervisor("bench", (one, many)))


class _Site:
    """A node that is up, and a client."""

    def __init__(self, node: Node, client: Client, tally: Tally) -> None:
        self._node = node
        self._client = client
        self._tally = tally

    async def send(self, messages: Sequence[tuple[str, Message]], arrivals: int) -> None:
        """Send all at once, and wait until what follows from them has arrived and is on disk."""
        done = self._tally.expect(arrivals)
        await self._client.store.send([await self._client.envelope(to, message) for to, message in messages])
        await done.wait()
        assert self._node.life is not None
        await self._node.life.committer.flushed()


async def _measured(server_dsn: str, sizes: Sizes, *, into: bool) -> Cost:
    tally, actors, each = Tally(), sizes.actors, sizes.each
    async with fresh_database(server_dsn) as dsn, Meter.of(dsn, server_dsn) as meter, PostgresStore(dsn) as store:
        node = Node(store, _tree(tally))
        site = _Site(node, Client(store), tally)
        async with anyio.create_task_group() as group:
            group.start_soon(node.run)
            await node.ready.wait()
            few = min(actors, _WARM)
            if into:
                await site.send([(_many(number), Pour(1)) for number in range(few)], few)
                before = await meter.begin()
                await site.send([(_many(number), Pour(each)) for number in range(actors)], actors * each)
            else:
                await site.send([(_ONE, Spread(few))], few)
                before = await meter.begin()
                await site.send([(_ONE, Spread(actors))] * each, actors * each)
            after = await meter.end()
            node.stop()
    return cost(before, after, actors * each)


async def measure(server_dsn: str, sizes: Sizes) -> FanReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    fan_in = await _measured(server_dsn, sizes, into=True)
    return FanReport("fan", machine, fan_in, await _measured(server_dsn, sizes, into=False))


def run(dsn: str, sizes: Sizes) -> FanReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
