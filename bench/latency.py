"""How long a message takes at low load, counted in commits: from the send outside until the handler runs.

The yardstick is one row that the same client commits on the same server, in turn with the messages and at the same
pace: so a slow disk, or a machine with other work, makes both slower. A message from outside has to be committed once
before anybody may see it, and its owner has to be told and to read it; so one commit is the floor.
"""

import time

import anyio
import msgspec

from callboard.actors.client import Client
from callboard.actors.node import Node
from callboard.bench.machine import Machine, facts
from callboard.bench.messages import Pinged, Tally, hop, ring_tree
from callboard.bench.meter import Latency, quantile
from callboard.bench.server import fresh_database, server
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.postgres.database import Database

_ACTORS = 10
_TABLE = "create table yardstick (id bigint generated always as identity primary key, body text not null)"
_ROW = "insert into yardstick (body) values (%s)"
_BODY = "t" * 40


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    asks: int = 300
    every_seconds: float = 0.03


class LatencyReport(msgspec.Struct, frozen=True):
    """What `python -m bench latency --json` prints."""

    bench: str
    machine: Machine
    commit: Latency
    """Of one row."""
    sent_until_handled: Latency
    sent_until_reply: Latency
    handled_commits: float
    """The median until handled in medians of a commit."""
    reply_commits: float


async def measure(server_dsn: str, sizes: Sizes) -> LatencyReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    tally = Tally(_ACTORS, -1, anyio.Event(), came={})
    assert tally.came is not None
    commits: list[float] = []
    asked: list[float] = []
    answered: list[float] = []
    async with (
        fresh_database(server_dsn) as dsn,
        PostgresStore(dsn) as store,
        PostgresStore(dsn) as outside,
        await Database.open(dsn, size=1) as yardstick,
        anyio.create_task_group() as group,
    ):
        await yardstick.execute(_TABLE)
        node, client = Node(store, ring_tree(tally)), Client(outside)
        group.start_soon(node.run)
        await node.ready.wait()
        for number in range(-_ACTORS, sizes.asks):  # the first ones make the actors
            began = time.perf_counter()
            await yardstick.execute(_ROW, (_BODY,))
            commits.append(time.perf_counter() - began)
            await anyio.sleep(sizes.every_seconds)
            asked.append(time.perf_counter())
            await client.ask(hop(number, _ACTORS), Pinged(number), seconds=60)
            answered.append(time.perf_counter() - asked[-1])
            await anyio.sleep(sizes.every_seconds)
        node.stop()
    handled = [tally.came[number - _ACTORS] - at for number, at in enumerate(asked)][_ACTORS:]
    return _report(machine, commits[_ACTORS:], handled, answered[_ACTORS:])


def _report(machine: Machine, commits: list[float], handled: list[float], answered: list[float]) -> LatencyReport:
    one = quantile(commits, 0.5)
    return LatencyReport(
        "latency",
        machine,
        Latency.of(commits),
        Latency.of(handled),
        Latency.of(answered),
        round(quantile(handled, 0.5) / one, 2),
        round(quantile(answered, 0.5) / one, 2),
    )


def run(dsn: str, sizes: Sizes) -> LatencyReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
