"""Ours and theirs on the same work: interleaved, on one server, each in a process and on a database of its own.

    step     runs of ten iterations, each a fake model call of 200 characters and a tool call that does nothing, both
             recorded as that system records them; one run alone, and fifty at once
    message  20,000 waiting messages worked off
    floor    the writes of a message by hand, with nothing around them

A round goes through all contenders once, and begins with another one each time; a figure is the median of its rounds.
The CPU of the contender's processes and that of the server's are what to look at: rates depend on who else is on the
machine and on its disk.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import anyio
import msgspec

from callboard.bench.machine import Machine, facts
from callboard.bench.meter import Cost, Meter, cost
from callboard.bench.peers.contenders import FLOOR, MESSAGES, OURS, STEPS, Contender, Work
from callboard.bench.peers.environments import NotInstalled, interpreter
from callboard.bench.peers.process import Failed, Process, ours
from callboard.bench.server import fresh_database, server
from callboard.persistence.postgres.database import Database

Told = Callable[[str], None]
_STEPS = 10
"""Of each run, in every adapter."""


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    peers: tuple[str, ...] | None = None
    """Which ones besides Callboard; None: all."""
    rounds: int = 3
    minutes: float = 8.0
    """No further round begins that would end later, by the length of the first; the first one is always done."""
    runs_alone: int = 30
    runs: int = 200
    at_once: int = 50
    messages: int = 20_000
    floor_alone: int = 1_000
    floor_at_once: int = 4_000
    floor_group: int = 40_000
    warm_runs: int = 5
    warm_messages: int = 1_000


class Figure(msgspec.Struct, frozen=True):
    """What one piece of work cost one contender: medians over the rounds."""

    name: str
    label: str
    work: Work
    at_once: int
    count: int
    """Pieces of work in a round."""
    rounds: int
    client_cpu_us: float
    server_cpu_us: float | None
    cpu_us: float | None
    """Client and server."""
    least_cpu_us: float | None
    """Of the rounds."""
    most_cpu_us: float | None
    per_second: float
    wal_bytes: float
    foreign_cores: float | None
    versions: dict[str, str]


class Ratio(msgspec.Struct, frozen=True):
    """Another contender beside Callboard on the same work."""

    name: str
    work: Work
    at_once: int
    cpu: float | None
    """Its CPU for a piece of work in multiples of ours: 5 means that we take a fifth."""
    rate: float
    """Our rate in multiples of its own."""


class PeersReport(msgspec.Struct, frozen=True):
    """What `python -m bench peers --json` prints."""

    bench: str
    machine: Machine
    rounds: int
    minutes: float
    """It took so long."""
    figures: list[Figure]
    ratios: list[Ratio]
    not_measured: dict[str, str]
    """By name, the reason."""
    schema: str = "callboard.bench.peers/1"


def quick() -> Sizes:
    """In two minutes: one round of a quarter."""
    return Sizes(
        rounds=1, runs_alone=10, runs=50, messages=5_000, floor_alone=300, floor_at_once=1_000, floor_group=10_000
    )


class Comparison:
    """One comparison on one server."""

    def __init__(self, server_dsn: str, sizes: Sizes, tell: Told) -> None:
        self._server_dsn = server_dsn
        self._sizes = sizes
        self._tell = tell
        self._costs: dict[tuple[Contender, int], list[Cost]] = {}
        self._versions: dict[Contender, dict[str, str]] = {}
        self._missing: dict[str, str] = {}

    async def run(self) -> PeersReport:
        """All rounds."""
        machine = await facts(self._server_dsn)
        present = await self._present()
        self._tell(f"{self._sizes.rounds} rounds of {len(present)}")
        began, rounds = time.monotonic(), 0
        while rounds < self._sizes.rounds:
            first = rounds % max(1, len(present))
            for contender, python in [*present[first:], *present[:first]]:
                if contender.name not in self._missing or contender.name == OURS:
                    await self._turn(contender, python, rounds)
            rounds += 1
            spent = time.monotonic() - began
            if spent * (rounds + 1) / rounds > 60 * self._sizes.minutes:
                break
        figures = [self._figure(contender, at_once) for contender, at_once in self._costs]
        minutes = round((time.monotonic() - began) / 60, 1)
        return PeersReport("peers", machine, rounds, minutes, figures, list(_ratios(figures)), self._missing)

    async def _present(self) -> list[tuple[Contender, Path]]:
        found: list[tuple[Contender, Path]] = []
        wanted = self._sizes.peers
        for contender in (*STEPS, *MESSAGES, *FLOOR):
            if not contender.requirements:
                found.append((contender, ours()))
                continue
            if wanted is not None and contender.name not in wanted:
                self._missing[contender.name] = "not asked for"
                continue
            self._tell(f"environment of {contender.environment}")
            try:
                made = await anyio.to_thread.run_sync(
                    interpreter, contender.environment, contender.requirements, contender.needs
                )
            except NotInstalled as reason:
                self._missing[contender.name] = str(reason)
            else:
                found.append((contender, made))
        return found

    def _loads(self, contender: Contender) -> list[tuple[int, int]]:
        """(at once, pieces) of each thing that is measured."""
        sizes = self._sizes
        match contender.work, contender.name:
            case "step", _:
                return [(1, sizes.runs_alone), (sizes.at_once, sizes.runs)]
            case "floor", "group":
                return [(1, sizes.floor_group)]
            case "floor", _:
                return [(1, sizes.floor_alone), (32, sizes.floor_at_once)]
        return [(1, sizes.messages)]

    async def _turn(self, contender: Contender, python: Path, number: int) -> None:
        """One contender's part of a round; one that breaks off is out of it, and said to be."""
        self._tell(f"round {number + 1}: {contender.label}")
        try:
            async with (
                fresh_database(self._server_dsn, schema=False) as dsn,
                Meter.of(dsn, self._server_dsn) as meter,
                Process.of(contender, python, dsn) as process,
            ):
                self._versions[contender] = process.versions
                warm = self._sizes.warm_runs if contender.work == "step" else self._sizes.warm_messages
                await self._measured(contender, process, meter, dsn, (1, warm))
                for load in self._loads(contender):
                    spent = await self._measured(contender, process, meter, dsn, load)
                    self._costs.setdefault((contender, load[0]), []).append(spent)
        except Failed as reason:
            self._missing[contender.name] = str(reason)
            self._costs = {key: costs for key, costs in self._costs.items() if key[0] is not contender}

    async def _measured(
        self, contender: Contender, process: Process, meter: Meter, dsn: str, load: tuple[int, int]
    ) -> Cost:
        at_once, count = load
        if contender.fills:
            await process.order("fill", count)
            async with await Database.open(dsn, size=1) as database:
                await database.execute("vacuum analyze")
        pieces = count * _STEPS if contender.work == "step" else count
        before = msgspec.structs.replace(await meter.read(), client_cpu_seconds=process.cpu_seconds)
        seconds = await process.order("go", count, at_once)
        after = msgspec.structs.replace(await meter.read(), client_cpu_seconds=process.cpu_seconds)
        spent = cost(before, after, pieces)
        return msgspec.structs.replace(spent, per_second=round(pieces / seconds, 1))

    def _figure(self, contender: Contender, at_once: int) -> Figure:
        costs = self._costs[contender, at_once]
        server = [one.server_cpu_us for one in costs if one.server_cpu_us is not None]
        both = [one.client_cpu_us + one.server_cpu_us for one in costs if one.server_cpu_us is not None]
        foreign = [one.foreign_cores for one in costs if one.foreign_cores is not None]
        return Figure(
            name=contender.name,
            label=contender.label,
            work=contender.work,
            at_once=at_once,
            count=costs[0].count,
            rounds=len(costs),
            client_cpu_us=round(median(one.client_cpu_us for one in costs), 1),
            server_cpu_us=round(median(server), 1) if server else None,
            cpu_us=round(median(both), 1) if both else None,
            least_cpu_us=round(min(both), 1) if both else None,
            most_cpu_us=round(max(both), 1) if both else None,
            per_second=round(median(one.per_second for one in costs), 1),
            wal_bytes=round(median(one.wal_bytes for one in costs), 1),
            foreign_cores=round(median(foreign), 2) if foreign else None,
            versions=self._versions[contender],
        )


def _ratios(figures: list[Figure]) -> Iterator[Ratio]:
    """Each other contender beside ours; the floor beside our ring, whose messages do what it does by hand."""
    for figure in figures:
        name = "callboard-ring" if figure.work == "floor" else OURS
        work = "message" if figure.work == "floor" else figure.work
        at_once = 1 if figure.work == "floor" else figure.at_once
        mine = next((one for one in figures if (one.name, one.work, one.at_once) == (name, work, at_once)), None)
        if mine is None or figure.name.startswith(OURS):
            continue
        cpu = None if not figure.cpu_us or not mine.cpu_us else round(figure.cpu_us / mine.cpu_us, 2)
        rate = round(mine.per_second / figure.per_second, 2)
        yield Ratio(figure.name, figure.work, figure.at_once, cpu, rate)


def run(dsn: str, sizes: Sizes, *, tell: Told = lambda line: None) -> PeersReport:
    """Compare on the server of `dsn`, or on one of its own; `tell` hears what is going on."""
    with server(dsn) as server_dsn:
        return anyio.run(Comparison(server_dsn, sizes, tell).run)
