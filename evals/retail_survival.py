"""What is left of the retail tasks when nodes die: the rows of a report, and which tasks they are made on.

In one process on the memory store for a sample or for all tasks (`retail_kills`), and with SIGKILL on real processes
over a real PostgreSQL for a smaller sample (`retail_sigkill`), which also plays every task undisturbed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec

from callboard.evals.parallel import side_by_side
from callboard.evals.rates import Rate, rate_of
from callboard.evals.retail_kills import SIDES, Harm, KilledTask, Side, killed_at_every_commit
from callboard.evals.retail_rows import Records
from callboard.evals.retail_sigkill import CalmTask, Job, over_postgres
from callboard.evals.retail_tasks import RetailData, RetailTask, writes_of

SAMPLE: Final = 12
SIGKILLED: Final = 3
CARELESS: Final = "a tool that ignores its key"
IN_PROCESS: Final = "cut off in one process"
BY_SIGNAL: Final = "SIGKILL of a process"
_LANES_PER_PROCESS: Final = 2
"""A play over PostgreSQL waits for most of its time."""


class Plays(msgspec.Struct, frozen=True):
    """What is played beside the gate's rows."""

    dsn: str = ""
    """A server where databases may be made; "": the embedded one."""
    killed: int | None = SAMPLE
    """How many tasks are killed at every commit in one process; None: all."""
    sigkilled: int = SIGKILLED
    """How many are over PostgreSQL, with SIGKILL."""
    folder: Path | None = None
    """Where the data was read, if it was not the installed one."""


class CalmRow(msgspec.Struct, frozen=True):
    """All tasks over PostgreSQL with nothing in their way; every write asks, and an approver says yes."""

    store: str
    same: Rate
    """Tasks that left the rows and attempts of their calls made directly in the same database."""
    same_as_memory: Rate
    """Tasks whose rows there are those of the desk in memory."""
    rewarded: Rate
    """As tau2-bench counts it."""


class KillRow(msgspec.Struct, frozen=True):
    """All kills of one kind."""

    name: str
    store: str
    how: str
    unharmed: Rate
    """Tasks that no kill harmed; none of those with a write, where the tools ignore their keys."""
    harm: Harm
    calls_made_again: int
    """See `KilledTask`; 0 with SIGKILL, where they are not counted."""


class Survival(msgspec.Struct, frozen=True):
    """What plays left."""

    calm: CalmRow
    kills: list[KillRow]
    controls: list[KillRow]
    """The same kills with careless tools: to be noticed in every task."""


class _Kind(msgspec.Struct, frozen=True):
    """One row of kills."""

    side: Side
    careless: bool = False

    @property
    def name(self) -> str:
        return CARELESS if self.careless else f"killed {self.side} the commit"


_KINDS: Final = (*map(_Kind, SIDES), _Kind("before", careless=True))


def sampled(tasks: Sequence[RetailTask], count: int | None) -> list[RetailTask]:
    """So many tasks in their order, of each kind in turn; a kind is which tools with an effect are called."""
    kinds: dict[tuple[str, ...], list[RetailTask]] = {}
    for task in tasks:
        kinds.setdefault(tuple(sorted({task.calls[place][0] for place in writes_of(task.calls)})), []).append(task)
    turns = sorted((place, number) for number, kind in enumerate(kinds.values()) for place in range(len(kind)))
    by_kind = list(kinds.values())
    chosen = {by_kind[number][place].task_id for place, number in turns[:count]}
    return [task for task in tasks if task.task_id in chosen]


def survival(data: RetailData, plays: Plays, *, processes: int, advance: Callable[[], None]) -> Survival:
    """Play all tasks undisturbed, and the sampled ones with their nodes dying at every commit.

    `advance` is told of each task of each row.

    Raises:
        RetailFailed, RunStuck: a play ends in a way that nobody planned. StoreError: the server refuses.
    """
    with _quiet():
        memory = _in_memory(data, sampled(data.tasks, plays.killed), processes, advance)
        calm, killed = _over_postgres(data, plays, processes, advance)
    rows = [*memory, *killed]
    return Survival(calm, [row for row in rows if row.name != CARELESS], [row for row in rows if row.name == CARELESS])


def steps(data: RetailData, plays: Plays) -> int:
    """How often `survival` advances."""
    samples = [sampled(data.tasks, plays.killed), sampled(data.tasks, plays.sigkilled)]
    return len(data.tasks) + sum(len(_of(kind, sample)) for kind in _KINDS for sample in samples)


@contextmanager
def _quiet() -> Iterator[None]:
    """That nodes die is no news here."""
    logger = logging.getLogger("callboard")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _of(kind: _Kind, tasks: Sequence[RetailTask]) -> list[RetailTask]:
    """On which tasks: a careless tool does nothing wrong where nothing is written, and a control needs no more of them
    than a sample."""
    return sampled([task for task in tasks if writes_of(task.calls)], SAMPLE) if kind.careless else list(tasks)


# --- in one process ------------------------------------------------------------------------------------------------


class _InMemory:
    """Kills of one task, in whichever process."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def __call__(self, job: tuple[_Kind, RetailTask]) -> KilledTask:
        kind, task = job
        with _quiet():
            return asyncio.run(killed_at_every_commit(task, self._records, kind.side, careless=kind.careless))


def _in_memory(
    data: RetailData, tasks: Sequence[RetailTask], processes: int, advance: Callable[[], None]
) -> list[KillRow]:
    jobs = [(kind, task) for kind in _KINDS for task in _of(kind, tasks)]
    done = iter(side_by_side(_InMemory(data.records), jobs, processes, advance))
    return [_row(kind, "memory", IN_PROCESS, [next(done) for _ in _of(kind, tasks)]) for kind in _KINDS if tasks]


def _row(kind: _Kind, store: str, how: str, done: Sequence[KilledTask]) -> KillRow:
    return KillRow(
        kind.name,
        store,
        how,
        rate_of(one.harm.none for one in done),
        sum((one.harm for one in done), Harm()),
        sum(one.calls_made_again for one in done),
    )


# --- over PostgreSQL -----------------------------------------------------------------------------------------------


def _over_postgres(
    data: RetailData, plays: Plays, processes: int, advance: Callable[[], None]
) -> tuple[CalmRow, list[KillRow]]:
    tasks = sampled(data.tasks, plays.sigkilled)
    kills = [Job(task, kind.side, kind.careless) for kind in _KINDS for task in _of(kind, tasks)]

    async def play() -> list[CalmTask | KilledTask]:
        jobs = [*map(Job, data.tasks), *kills]
        lanes = processes * _LANES_PER_PROCESS
        return await over_postgres(plays.dsn, data, jobs, processes=lanes, advance=advance, folder=plays.folder)

    done = anyio.run(play)
    calm = [one for one in done if isinstance(one, CalmTask)]
    killed = iter([one for one in done if isinstance(one, KilledTask)])
    row = CalmRow(
        "PostgreSQL",
        rate_of(one.same for one in calm),
        rate_of(one.same_as_memory for one in calm),
        rate_of(one.rewarded for one in calm),
    )
    return row, [
        _row(kind, "PostgreSQL", BY_SIGNAL, [next(killed) for _ in _of(kind, tasks)]) for kind in _KINDS if tasks
    ]
