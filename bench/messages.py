"""What a message costs one node: handled, with its state and what it sends, all of it durable.

ring    tokens go round among actors; each turn acknowledges one message, replaces a snapshot of 200 bytes, sends
        one message, and leaves its row of what was done
drain   mailboxes that clients filled while no node ran are emptied, as after a night
ask     a client outside sends at a low rate: how long until the handler runs, how long until it has the reply
"""

import time
from dataclasses import dataclass

import anyio
import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.client import Client
from callboard.actors.context import Context
from callboard.actors.node import Node
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.bench.machine import Machine, facts
from callboard.bench.meter import Cost, Latency, Meter, Reading, cost
from callboard.bench.server import fresh_database, server
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request
from callboard.persistence.postgres import PostgresStore

PADDING = "s" * 180
SEND_AT_ONCE = 1_000
PEER_ACTORS = 1_000
"""Where other systems do the same work beside."""


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    ring_actors: int = 1_000
    ring_tokens: int = 1_000
    ring_messages: int = 150_000
    drain_actors: int = 100
    drain_messages: int = 20_000
    asks: int = 150
    ask_every_seconds: float = 0.03


class Throughput(msgspec.Struct, frozen=True):
    """Messages that one node handled."""

    actors: int
    message: Cost
    messages_per_commit: float
    """How many turns shared one transaction."""


class MessagesReport(msgspec.Struct, frozen=True):
    """What `python -m bench messages --json` prints."""

    bench: str
    machine: Machine
    ring: Throughput
    drain: Throughput
    sent_until_handled: Latency
    sent_until_reply: Latency


class Token(Message, tag="bench.token"):
    """Goes to the next actor until it has no hops left."""

    hops: int
    text: str = "t" * 40


class Pinged(Request["Ponged"], tag="bench.pinged"):
    """A question; `number` says which."""

    number: int


class Ponged(Message, tag="bench.ponged"):
    """Its answer."""

    number: int


class Seen(msgspec.Struct):
    """State of an actor: about 200 bytes."""

    count: int = 0
    padding: str = PADDING


@dataclass
class Tally:
    """What the actors of this process tell the bench: how many they handled, and when each question came."""

    ring: int
    wanted: int
    done: anyio.Event
    handled: int = 0
    came: dict[int, float] | None = None

    def count(self) -> None:
        """One more."""
        self.handled += 1
        if self.handled == self.wanted:
            self.done.set()


class Hop(Actor[Seen], kind="bench-hop"):
    """One of a ring."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @on(creates=True)
    def token(self, message: Token, ctx: Context) -> None:
        self.state.count += 1
        if message.hops:
            here = int(ctx.address.rpartition(":")[2])
            ctx.send(hop(here + 1, self.tally.ring), Token(message.hops - 1))
        self.tally.count()

    @on(creates=True)
    def pinged(self, message: Pinged, ctx: Context) -> None:
        if self.tally.came is not None:
            self.tally.came[message.number] = time.perf_counter()
        self.state.count += 1
        ctx.reply(Ponged(message.number))


def hop(number: int, of: int) -> str:
    """The address of one of a ring of so many."""
    return f"/bench/hop:{number % of}"


def ring_tree(tally: Tally) -> Tree:
    """A pool of `Hop`."""
    return Tree(Supervisor("bench", (Child(Hop, "hop", pool=True, args=(tally,)),)))


async def _fill(store: PostgresStore, actors: int, messages: int, hops: int) -> None:
    client = Client(store)
    for start in range(0, messages, SEND_AT_ONCE):
        numbers = range(start, min(messages, start + SEND_AT_ONCE))
        await store.send([await client.envelope(hop(number, actors), Token(hops)) for number in numbers])


async def lay_down(dsn: str, actors: int, messages: int, hops: int) -> None:
    """Put `messages` tokens into the mailboxes of `actors` in a database, each with so many hops to make."""
    async with PostgresStore(dsn) as store:
        await _fill(store, actors, messages, hops)


async def handle(dsn: str, actors: int, wanted: int) -> None:
    """Start a node on that database, and stop it once so many messages are handled and all of it is on disk."""
    tally = Tally(actors, wanted, anyio.Event())
    async with PostgresStore(dsn) as store:
        node = Node(store, ring_tree(tally))
        async with anyio.create_task_group() as group:
            group.start_soon(node.run)
            await tally.done.wait()
            assert node.life is not None
            await node.life.committer.flushed()
            node.stop()


async def _throughput(server_dsn: str, *, actors: int, messages: int, hops: int) -> Throughput:
    """Put `messages` tokens into the mailboxes of `actors`, start a node, and wait until all have made their hops."""
    async with fresh_database(server_dsn) as dsn, Meter.of(dsn, server_dsn) as meter:
        wanted = messages * (hops + 1)
        tally = Tally(actors, wanted, anyio.Event())
        async with PostgresStore(dsn) as store:
            await _fill(store, actors, messages, hops)
            idle = await meter.settled()
            node = Node(store, ring_tree(tally))
            async with anyio.create_task_group() as group:
                before = await meter.read()
                group.start_soon(node.run)
                await tally.done.wait()
                assert node.life is not None
                await node.life.committer.flushed()
                after = await meter.read()
                commits = node.life.committer.commits
                node.stop()
        after = msgspec.structs.replace(after, transactions=(await meter.settled()).transactions)
    return Throughput(actors, _cost(before, idle, after, wanted), round(wanted / commits, 1))


def _cost(before: Reading, idle: Reading, after: Reading, count: int) -> Cost:
    return cost(msgspec.structs.replace(before, transactions=idle.transactions), after, count)


async def _asks(server_dsn: str, sizes: Sizes) -> tuple[Latency, Latency]:
    """Ask at a low rate from outside: (until handled, until answered)."""
    async with fresh_database(server_dsn) as dsn, PostgresStore(dsn) as store, PostgresStore(dsn) as outside:
        tally = Tally(10, 0, anyio.Event(), came={})
        assert tally.came is not None
        node, client = Node(store, ring_tree(tally)), Client(outside)
        asked: list[float] = []
        answered: list[float] = []
        async with anyio.create_task_group() as group:
            group.start_soon(node.run)
            await node.ready.wait()
            for number in range(-10, sizes.asks):  # the first ten make the actors
                began = time.perf_counter()
                await client.ask(hop(number, 10), Pinged(number), seconds=60)
                if number >= 0:
                    asked.append(began)
                    answered.append(time.perf_counter() - began)
                await anyio.sleep(sizes.ask_every_seconds)
            node.stop()
        handled = [tally.came[number] - began for number, began in enumerate(asked)]
    return Latency.of(handled), Latency.of(answered)


async def measure(server_dsn: str, sizes: Sizes) -> MessagesReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    hops = max(0, sizes.ring_messages // sizes.ring_tokens - 1)
    ring = await _throughput(server_dsn, actors=sizes.ring_actors, messages=sizes.ring_tokens, hops=hops)
    drain = await _throughput(server_dsn, actors=sizes.drain_actors, messages=sizes.drain_messages, hops=0)
    handled, answered = await _asks(server_dsn, sizes)
    return MessagesReport("messages", machine, ring, drain, handled, answered)


def run(dsn: str, sizes: Sizes) -> MessagesReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
