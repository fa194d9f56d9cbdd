"""Whether a step costs the same at any length of its run: CPU, rows and WAL at the steps 10, 100 and 1,000.

One run goes on for 1,000 steps, some times over; in it the counters are read at both ends of a stretch around each of
these places. Figures are medians over the runs. The client's clock of CPU is exact; the server's ticks in hundredths
of a second, so its figures are of all runs together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import anyio
import msgspec

from callboard.actors.agent.runtime import Runtime
from callboard.actors.llm.client import ChatMessage, LLMResponse, ToolCall, ToolSpec
from callboard.actors.llm.scripted import FunctionLLM
from callboard.bench.machine import Machine, facts
from callboard.bench.meter import Meter, Reading
from callboard.bench.server import fresh_database, server
from callboard.bench.steps import UNLIMITED, WORDS, noop
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.postgres.database import Database

_ROWS = (
    "select (select count(*) from callboard.journal) + (select count(*) from callboard.turn)"
    " + (select count(*) from callboard.message) + (select count(*) from callboard.actor) as n"
)


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    places: tuple[int, ...] = (10, 100, 1_000)
    around: int = 20
    """Steps on both sides of a place; less where there are not so many."""
    runs: int = 3


class Place(msgspec.Struct, frozen=True):
    """One step around a place."""

    step: int
    ms: float
    client_cpu_us: float
    server_cpu_us: float | None
    rows: float
    """That stay in the tables."""
    wal_bytes: float


class GrowthReport(msgspec.Struct, frozen=True):
    """What `python -m bench growth --json` prints."""

    bench: str
    machine: Machine
    places: list[Place]
    cpu_ratio: float | None
    """The last place's CPU, client and server, in multiples of the first's: 1 where nothing grows."""
    wal_ratio: float


@dataclass
class Model:
    """Asks for a tool for ever, and reads the counters when it comes by a border of a stretch."""

    meter: Meter
    database: Database
    borders: frozenset[int]
    last: int
    calls: int = 0
    found: dict[int, tuple[Reading, int]] = field(default_factory=dict)

    async def answer(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str
    ) -> LLMResponse:
        """The model."""
        step, self.calls = self.calls, self.calls + 1
        if step in self.borders:
            row = await self.database.row(_ROWS)
            assert row is not None
            self.found[step] = await self.meter.read(), row["n"]
        if step >= self.last:
            return LLMResponse(content="done")
        return LLMResponse(content=WORDS, tool_calls=(ToolCall(f"c{step}", "noop", {"q": "abc"}),))


def stretches(sizes: Sizes) -> list[tuple[int, int, int]]:
    """(place, first, last) of each stretch; a run's first step pays for all that is new and is in none."""
    end = max(sizes.places)
    return [(at, max(1, at - sizes.around), min(end, at + sizes.around)) for at in sizes.places]


async def _run(server_dsn: str, sizes: Sizes) -> dict[int, tuple[Reading, int]]:
    borders = frozenset(border for _, first, last in stretches(sizes) for border in (first, last))
    async with (
        fresh_database(server_dsn) as dsn,
        Meter.of(dsn, server_dsn) as meter,
        await Database.open(dsn, size=1) as database,
    ):
        model = Model(meter, database, borders, max(sizes.places))
        async with Runtime(PostgresStore(dsn), FunctionLLM(model.answer), [noop], budget=UNLIMITED) as runtime:
            run = await runtime.start("a long one")
            assert run.state.status == "completed" and run.state.tool_calls == max(sizes.places), run.state
    return model.found


def _place(at: int, first: int, last: int, runs: list[dict[int, tuple[Reading, int]]]) -> Place:
    pairs = [(found[first], found[last]) for found in runs]
    steps = last - first
    servers = [
        after.server_cpu_seconds - before.server_cpu_seconds
        for (before, _), (after, _) in pairs
        if before.server_cpu_seconds is not None and after.server_cpu_seconds is not None
    ]
    return Place(
        at,
        round(1e3 * median(after.wall_seconds - before.wall_seconds for (before, _), (after, _) in pairs) / steps, 3),
        round(
            1e6 * median(b.client_cpu_seconds - a.client_cpu_seconds for (a, _), (b, _) in pairs) / steps,
            1,
        ),
        round(1e6 * sum(servers) / len(servers) / steps, 1) if servers else None,
        round(median(rows - before for (_, before), (_, rows) in pairs) / steps, 2),
        round(median(b.wal_bytes - a.wal_bytes for (a, _), (b, _) in pairs) / steps, 1),
    )


async def measure(server_dsn: str, sizes: Sizes) -> GrowthReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    runs = [await _run(server_dsn, sizes) for _ in range(sizes.runs)]
    places = [_place(at, first, last, runs) for at, first, last in stretches(sizes)]
    cpu = [None if one.server_cpu_us is None else one.client_cpu_us + one.server_cpu_us for one in places]
    ratio = None if not cpu[0] or not cpu[-1] else round(cpu[-1] / cpu[0], 2)
    return GrowthReport("growth", machine, places, ratio, round(places[-1].wal_bytes / places[0].wal_bytes, 2))


def run(dsn: str, sizes: Sizes) -> GrowthReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
