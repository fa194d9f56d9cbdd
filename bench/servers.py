"""The embedded PostgreSQL beside another one, given by its DSN: the same steps on both, in turn.

Rounds alternate, so that what else the machine does falls on both; figures are medians of the rounds.
"""

from statistics import median

import anyio
import msgspec

from callboard.bench import steps
from callboard.bench.machine import Machine, facts
from callboard.bench.meter import Cost
from callboard.bench.server import server


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    rounds: int = 3
    runs: int = 200
    at_once: int = 50
    steps: int = 10


class Measured(msgspec.Struct, frozen=True):
    """One server."""

    name: str
    machine: Machine
    rounds: int
    per_second: float
    client_cpu_us: float
    server_cpu_us: float | None
    wal_bytes: float


class ServersReport(msgspec.Struct, frozen=True):
    """What `python -m bench servers --json` prints."""

    bench: str
    servers: list[Measured]
    not_measured: str
    """Why there is no other server; "" where there is one."""


async def _one(server_dsn: str, sizes: Sizes) -> Cost:
    phase = await steps.phase(server_dsn, steps=sizes.steps, runs=sizes.runs, at_once=sizes.at_once)
    return phase.step


def _measured(name: str, machine: Machine, costs: list[Cost]) -> Measured:
    server = [one.server_cpu_us for one in costs if one.server_cpu_us is not None]
    return Measured(
        name,
        machine,
        len(costs),
        median(one.per_second for one in costs),
        median(one.client_cpu_us for one in costs),
        median(server) if server else None,
        median(one.wal_bytes for one in costs),
    )


async def measure(dsns: dict[str, str], sizes: Sizes) -> list[Measured]:
    """Run the steps on each server in turn, round after round."""
    machines = {name: await facts(dsn) for name, dsn in dsns.items()}
    costs: dict[str, list[Cost]] = {name: [] for name in dsns}
    for _ in range(sizes.rounds):
        for name, dsn in dsns.items():
            costs[name].append(await _one(dsn, sizes))
    return [_measured(name, machines[name], costs[name]) for name in dsns]


def run(dsn: str, sizes: Sizes) -> ServersReport:
    """Measure an embedded server of its own, and the one of `dsn` where there is one."""
    with server() as embedded:
        dsns = {"embedded": embedded} | ({"by its DSN": dsn} if dsn else {})
        measured = anyio.run(measure, dsns, sizes)
    return ServersReport("servers", measured, "" if dsn else "no other server was named: --dsn")
