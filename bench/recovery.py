"""How long a node's actors stand still when its process dies: from the kill to their new owner's first commit.

Two node processes share the load of a client outside. One that has been ready for a second is killed with SIGKILL, and
what counts is the first turn row that the other one commits for a shard of the victim, by the database's own clock;
another process then takes the victim's place, and so on. A few are frozen with SIGSTOP instead: nobody sees that but
by the lease.
"""

import signal
import time
from dataclasses import dataclass
from datetime import datetime

import anyio
import msgspec

from callboard.actors.client import Client
from callboard.actors.node import NodeSettings
from callboard.bench.machine import Machine, facts
from callboard.bench.messages import Token, hop
from callboard.bench.meter import Latency, quantile
from callboard.bench.ring_nodes import RingNode, ring_nodes
from callboard.bench.server import fresh_database, server
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.postgres.database import Database

BY_SECONDS = 60.0
"""How long a take-over may take before the bench gives up."""
_LOOK_SECONDS = 0.02
_FIRST = (
    "select min(at) as at from callboard.turn"
    " where at > %s and node <> %s and shard = any (%s)"
)  # fmt: skip


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    kills: int = 40
    freezes: int = 5
    ready_seconds: float = 1.0
    """How long a victim has been ready."""
    actors: int = 512
    a_second: float = 400.0
    """Messages from outside; each makes two turns, most on two nodes."""


class TakeOver(msgspec.Struct, frozen=True):
    """From the deed until the new owner's first commit."""

    latency: Latency
    most_ms: float


class RecoveryReport(msgspec.Struct, frozen=True):
    """What `python -m bench recovery --json` prints."""

    bench: str
    machine: Machine
    messages_a_second: float
    """What the client really sent."""
    lease_seconds: float
    killed: TakeOver
    frozen: TakeOver


@dataclass
class Load:
    """A client outside that sends, on and on."""

    client: Client
    sizes: Sizes
    sent: int = 0

    async def run(self) -> None:
        """Send at the pace that is wanted, or what the machine allows."""
        began = time.monotonic()
        while True:
            due = int((time.monotonic() - began) * self.sizes.a_second) - self.sent
            some = range(self.sent, self.sent + min(due, 100))
            if some:
                actors = self.sizes.actors
                # 37 is no divisor: one after the other, they lie on other shards
                places = [hop(37 * number, actors) for number in some]
                await self.client.store.send([await self.client.envelope(place, Token(1)) for place in places])
                self.sent += len(some)
            await anyio.sleep(0.01)


async def _hit(database: Database, victim: RingNode, sign: signal.Signals) -> float:
    """Kill or freeze a node in the middle of its work; the seconds until another one goes on with it."""
    rows = await database.rows("select id from callboard.shard where node = %s", (victim.number,))
    row = await database.row("select callboard.clock() as now")
    victim.hit(sign)
    assert rows and row is not None
    now: datetime = row["now"]
    with anyio.fail_after(BY_SECONDS):
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            first = await database.row(_FIRST, (now, victim.number, [one["id"] for one in rows]))
            if first is not None and first["at"] is not None:
                at: datetime = first["at"]
                return (at - now).total_seconds()


async def _again(dsn: str, nodes: list[RingNode], sizes: Sizes) -> None:
    """Another node in the place of the first, which is buried."""
    await nodes.pop(0).end()
    nodes.append(await RingNode.start(dsn, sizes.actors))
    await nodes[-1].ready()
    for node in nodes:
        await node.owns(64)
        await anyio.sleep(max(0.0, node.ready_at + sizes.ready_seconds - time.monotonic()))


async def measure(server_dsn: str, sizes: Sizes) -> RecoveryReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    times: dict[signal.Signals, list[float]] = {signal.SIGKILL: [], signal.SIGSTOP: []}
    async with fresh_database(server_dsn) as dsn, PostgresStore(dsn) as store, await Database.open(dsn, size=1) as look:
        load, began = Load(Client(store), sizes), time.monotonic()
        async with ring_nodes(dsn, 2, sizes.actors) as nodes, anyio.create_task_group() as group:
            group.start_soon(load.run)
            await anyio.sleep(sizes.ready_seconds)
            for sign in [signal.SIGKILL] * sizes.kills + [signal.SIGSTOP] * sizes.freezes:
                times[sign].append(await _hit(look, nodes[0], sign))
                await _again(dsn, nodes, sizes)
            group.cancel_scope.cancel()
        rate = load.sent / (time.monotonic() - began)
    killed, frozen = (_take_over(times[sign]) for sign in (signal.SIGKILL, signal.SIGSTOP))
    return RecoveryReport("recovery", machine, round(rate, 1), NodeSettings().lease_seconds, killed, frozen)


def _take_over(seconds: list[float]) -> TakeOver:
    return TakeOver(Latency.of(seconds), round(1e3 * quantile(seconds, 1.0), 3))


def run(dsn: str, sizes: Sizes) -> RecoveryReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
