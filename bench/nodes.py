"""Several nodes on one database: what a message costs, and how many go through, with 1, 2 and 4 node processes.

Tokens go round among actors as in the messages bench, and most hops lead to an actor of another node. What is measured
is a stretch of time in the middle, so that nobody's start is in it. On a machine with fewer cores than processes the
rate cannot grow; the CPU for a message then says what more nodes cost.
"""

import anyio
import msgspec

from callboard.bench.machine import Machine, facts
from callboard.bench.messages import lay_down
from callboard.bench.meter import Meter, Reading, cost
from callboard.bench.ring_nodes import RingNode, ring_nodes
from callboard.bench.server import fresh_database, server

ENDLESS = 1_000_000_000
"""Hops that no token ever finishes."""


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    nodes: tuple[int, ...] = (1, 2, 4)
    actors: int = 1_000
    tokens: int = 1_000
    warm_seconds: float = 1.0
    seconds: float = 6.0


class Shared(msgspec.Struct, frozen=True):
    """So many nodes at work."""

    nodes: int
    messages: int
    per_second: float
    client_cpu_us: float
    """Of all nodes together, for a message."""
    server_cpu_us: float | None
    wal_bytes: float
    messages_per_commit: float
    foreign_cores: float | None


class NodesReport(msgspec.Struct, frozen=True):
    """What `python -m bench nodes --json` prints."""

    bench: str
    machine: Machine
    shared: list[Shared]


async def _state(nodes: list[RingNode], meter: Meter) -> tuple[Reading, int, int]:
    """Counters, messages handled and commits made so far."""
    reading = await meter.read()
    done = [await node.done() for node in nodes]
    cpu = sum(node.cpu_seconds for node in nodes)
    handled, commits = sum(one.handled for one in done), sum(one.commits for one in done)
    return msgspec.structs.replace(reading, client_cpu_seconds=cpu), handled, commits


async def _shared(server_dsn: str, count: int, sizes: Sizes) -> Shared:
    async with fresh_database(server_dsn) as dsn, Meter.of(dsn, server_dsn) as meter:
        await lay_down(dsn, sizes.actors, sizes.tokens, ENDLESS)
        async with ring_nodes(dsn, count, sizes.actors) as nodes:
            await anyio.sleep(sizes.warm_seconds)
            before, handled_before, commits_before = await _state(nodes, meter)
            await anyio.sleep(sizes.seconds)
            after, handled, commits = await _state(nodes, meter)
    messages = max(1, handled - handled_before)
    spent = cost(before, after, messages)
    return Shared(
        count,
        messages,
        spent.per_second,
        spent.client_cpu_us,
        spent.server_cpu_us,
        spent.wal_bytes,
        round(messages / max(1, commits - commits_before), 1),
        spent.foreign_cores,
    )


async def measure(server_dsn: str, sizes: Sizes) -> NodesReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    return NodesReport("nodes", machine, [await _shared(server_dsn, count, sizes) for count in sizes.nodes])


def run(dsn: str, sizes: Sizes) -> NodesReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
