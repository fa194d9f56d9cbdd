"""Large states: what a turn costs whose snapshot is 50 kB, and a step of a run whose transcript is, against small ones.

A state that a turn has changed is written anew as a whole, so its bytes are in the log each time. A run's transcript is
a journal: what was said once is not written again, however long it is.
"""

from dataclasses import dataclass

import anyio
import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.client import Client
from callboard.actors.context import Context
from callboard.actors.node import Node
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.bench import steps
from callboard.bench.machine import Machine, facts
from callboard.bench.meter import Cost, Meter, cost
from callboard.bench.server import fresh_database, server
from callboard.mailbox.message import Message
from callboard.persistence.postgres import PostgresStore

ACTORS = 20


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    snapshot_bytes: tuple[int, ...] = (200, 50_000)
    turns: int = 2_000
    """With each size, of 20 actors together."""
    transcript_bytes: tuple[int, ...] = (200, 50_000)
    runs: int = 40
    steps: int = 10
    at_once: int = 10


class Sized(msgspec.Struct, frozen=True):
    """What one of these cost with so many bytes."""

    bytes: int
    cost: Cost


class StateReport(msgspec.Struct, frozen=True):
    """What `python -m bench state --json` prints."""

    bench: str
    machine: Machine
    turns: list[Sized]
    """A turn that writes a snapshot."""
    steps: list[Sized]
    """A step of a run whose goal is so long."""


class Again(Message, tag="bench.again"):
    """Change the state, and go on for so many turns."""

    left: int
    size: int


class Large(msgspec.Struct):
    """State of a size."""

    count: int = 0
    text: str = ""


@dataclass
class Tally:
    """Who has come to an end."""

    left: int
    done: anyio.Event


class Holder(Actor[Large], kind="bench-holder"):
    """Holds a state, and sends to itself."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @on(creates=True)
    def again(self, message: Again, ctx: Context) -> None:
        self.state.count += 1
        if not self.state.text:
            self.state.text = _text(message.size)
        if message.left:
            ctx.send(ctx.address, Again(message.left - 1, message.size))
            return
        self.tally.left -= 1
        if not self.tally.left:
            self.tally.done.set()


def _text(size: int) -> str:
    """Words that are not all the same; the same ones each time."""
    words, number = [], 1
    for _ in range(size // 16 + 1):
        number = number * 48_271 % 2_147_483_647
        words.append(f"{number:08x} tells ")
    return "".join(words)[:size].ljust(size, "x")


async def _turns(server_dsn: str, size: int, count: int) -> Sized:
    async with fresh_database(server_dsn) as dsn, Meter.of(dsn, server_dsn) as meter, PostgresStore(dsn) as store:
        tally, client = Tally(ACTORS, anyio.Event()), Client(store)
        node = Node(store, Tree(Supervisor("bench", (Child(Holder, "holder", pool=True, args=(tally,)),))))
        async with anyio.create_task_group() as group:
            group.start_soon(node.run)
            await node.ready.wait()
            for left in (4, max(1, count // ACTORS - 1)):  # the first ones make the actors and their states
                tally.left, tally.done = ACTORS, anyio.Event()
                before = await meter.begin()
                places = [f"/bench/holder:{number}" for number in range(ACTORS)]
                await store.send([await client.envelope(place, Again(left, size)) for place in places])
                await tally.done.wait()
                assert node.life is not None
                await node.life.committer.flushed()
                spent = cost(before, await meter.end(), ACTORS * (left + 1))
            node.stop()
    return Sized(size, spent)


async def _steps(server_dsn: str, size: int, sizes: Sizes) -> Sized:
    async with fresh_database(server_dsn) as dsn, Meter.of(dsn, server_dsn) as meter:
        text = _text(size)
        async with steps.runtime(dsn, steps.Model(sizes.steps)) as here:
            await steps.many(here, sizes.at_once, sizes.at_once, text)
            before = await meter.begin()
            await steps.many(here, sizes.runs, sizes.at_once, text)
            after = await meter.end()
    return Sized(size, cost(before, after, sizes.runs * sizes.steps))


async def measure(server_dsn: str, sizes: Sizes) -> StateReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    turns = [await _turns(server_dsn, size, sizes.turns) for size in sizes.snapshot_bytes]
    runs = [await _steps(server_dsn, size, sizes) for size in sizes.transcript_bytes]
    return StateReport("state", machine, turns, runs)


def run(dsn: str, sizes: Sizes) -> StateReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
