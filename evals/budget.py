"""What the budget classifier saves, and which runs it cuts short wrongly.

Two questions to the same tasks. Honest: each retail task is played to its end through the real runtime, one call a
turn, under the runs' own limit and again under the classifier's; a run that fails then was cut short wrongly. Runaway:
a model that never comes to an end works on the same goal until its budget stops it; what it spends less than under the
runs' own limit is what the classifier saves. No model is asked, so iterations are counted, not tokens.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.classifier import Classifier, RuleClassifier, Verdict
from callboard.actors.agent.events import BudgetRaised, BudgetSet
from callboard.actors.agent.runtime import Runtime
from callboard.actors.llm.client import ChatMessage, LLMResponse, ToolSpec
from callboard.actors.llm.scripted import FunctionLLM
from callboard.actors.spec import Supervisor
from callboard.actors.testing import CALM, TestKit
from callboard.evals.parallel import side_by_side
from callboard.evals.rates import Rate, counted, rate_of
from callboard.evals.retail_desk import RetailDesk
from callboard.evals.retail_rows import Records
from callboard.evals.retail_tasks import RetailData, Walk, walked
from callboard.evals.retail_tools import retail_tools
from callboard.evals.tables import Table
from callboard.evals.worst_case import Call

OWN: Final = Budget(max_iterations=50, max_tokens=None)
"""The limit of runs that no classifier looked at: the runtime's own default."""
WALKS: Final[tuple[Walk, ...]] = ("listed", "looked up")


class Spent(msgspec.Struct, frozen=True):
    """One run."""

    completed: bool
    iterations: int
    label: str
    """What the classifier said; "" without one."""
    allowed: int
    """Iterations that its budget allowed at the start."""
    raised: bool
    """Whether the lowered limit was reached and raised."""


class BudgetRow(msgspec.Struct, frozen=True):
    """All tasks that the classifier put into one class, or all of them."""

    label: str
    tasks: int
    allowed: float
    """Iterations that a run may make at first, on average; without a classifier, 50."""
    used: float
    """Iterations that the honest run needs, on average."""
    raised: Rate
    """Honest runs that reached the lowered limit, and went on under a raised one."""
    cut_short: Rate
    """Honest runs that completed under their own limit and failed under the classifier's."""
    runaway: float
    """Iterations of a run that never ends, on average."""
    saved: float
    """Share of a runaway's iterations that was not spent."""


class BudgetReport(msgspec.Struct, frozen=True):
    """A table for each walk through the tasks."""

    data: str
    own_iterations: int
    walks: dict[Walk, list[BudgetRow]]
    control: BudgetRow
    """The walk with lookups under a classifier that gives every task 4 iterations: runs cut short have to show."""
    schema: str = "callboard.eval.budget/1"


class Miser(Classifier):
    """Thinks that everything is small."""

    def classify(self, goal: str, tools: Sequence[str], agent: str) -> Verdict:
        """See `Classifier`."""
        return Verdict("miser", "everything is small", Budget(max_iterations=4, max_tokens=None))


class _Job(msgspec.Struct, frozen=True):
    """One task, walked in one way."""

    walk: Walk
    place: int
    control: bool = False


class _Task(msgspec.Struct, frozen=True):
    """The runs of one task."""

    walk: Walk
    free: Spent
    honest: Spent
    runaway: Spent


def measure(
    data: RetailData, *, processes: int = 1, classifier: Callable[[], Classifier] = RuleClassifier
) -> BudgetReport:
    """Play all tasks in both walks. Deterministic: the same data and classifier give the same report."""
    places = range(len(data.tasks))
    jobs = [_Job(walk, place) for walk in WALKS for place in places]
    jobs += [_Job("looked up", place, control=True) for place in places]
    done = side_by_side(_Measured(data, classifier), jobs, processes)
    played, control = done[: -len(places)], done[-len(places) :]
    walks = {walk: _rows([one for one in played if one.walk == walk]) for walk in WALKS}
    return BudgetReport(data.digest, OWN.max_iterations or 0, walks, _row("miser", control))


class _Measured:
    """What is done for each job, in whichever process."""

    def __init__(self, data: RetailData, classifier: Callable[[], Classifier]) -> None:
        self._data = data
        self._classifier = classifier

    def __call__(self, job: _Job) -> _Task:
        return asyncio.run(self._done(job))

    async def _done(self, job: _Job) -> _Task:
        task, records = self._data.tasks[job.place], self._data.records
        calls = walked(task, records, job.walk)
        made = Miser if job.control else self._classifier
        return _Task(
            job.walk,
            await spent(task.goal, _walking(calls), records, None),
            await spent(task.goal, _walking(calls), records, made()),
            await spent(task.goal, _walking(calls, for_ever=True), records, made()),
        )


async def spent(goal: str, llm: FunctionLLM, records: Records, classifier: Classifier | None) -> Spent:
    """Run a task to its end, with nothing but the budget in its way."""
    kit = TestKit(Supervisor("nothing", ()), nodes=0, settings=CALM)
    runtime = Runtime(
        kit.store,
        llm,
        retail_tools(RetailDesk(records)),
        budget=OWN,
        classifier=classifier,
        guardrail_profile="off",
        compaction=None,
        settings=CALM,
        port=kit.port,
    )
    async with kit:
        await kit.join(tree=runtime.tree)
        run = await runtime.create(goal)
        await kit.settle()
        state, events = await runtime.state(run), [one.event for one in await runtime.events(run)]
    allowed = next((one.budget for one in events if isinstance(one, BudgetSet)), OWN).max_iterations or 0
    raised = any(isinstance(one, BudgetRaised) for one in events)
    return Spent(state.status == "completed", state.iterations, state.label, allowed, raised)


def _rows(tasks: Sequence[_Task]) -> list[BudgetRow]:
    labels = sorted({one.honest.label for one in tasks})
    rows = [_row(label, [one for one in tasks if one.honest.label == label]) for label in labels]
    return [*rows, _row("all", tasks)]


def _row(label: str, tasks: Sequence[_Task]) -> BudgetRow:
    own, runaway = OWN.max_iterations or 0, _mean([one.runaway.iterations for one in tasks])
    return BudgetRow(
        label,
        len(tasks),
        _mean([one.honest.allowed for one in tasks]),
        _mean([one.free.iterations for one in tasks]),
        rate_of(one.honest.raised for one in tasks),
        rate_of(one.free.completed and not one.honest.completed for one in tasks),
        runaway,
        round(1 - runaway / own, 3),
    )


def _mean(numbers: Sequence[int]) -> float:
    return round(sum(numbers) / len(numbers), 2) if numbers else 0.0


def _walking(calls: Sequence[Call], *, for_ever: bool = False) -> FunctionLLM:
    """A model that makes the calls, one a turn, and then is done; or begins with them anew, without an end."""

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        del tools, system
        turn = sum(message.role == "assistant" for message in messages)
        if for_ever and calls:
            name, arguments = calls[turn % len(calls)]
        elif for_ever:
            name, arguments = "list_all_product_types", {}
        elif turn < len(calls):
            name, arguments = calls[turn]
        else:
            return LLMResponse("Done.")
        wanted: list[dict[str, Any]] = [{"id": f"c{turn + 1}", "name": name, "arguments": arguments}]
        return LLMResponse("", wanted)

    return FunctionLLM(answer)


def budget_table(report: BudgetReport) -> Table:
    """One row for each walk and class, and the control."""
    columns = ("calls", "class", "tasks", "allowed", "used", "raised", "cut short wrongly", "runaway", "saved")
    named = [(walk, row) for walk, rows in report.walks.items() for row in rows]
    rows: list[Sequence[str]] = [
        (
            walk,
            row.label,
            str(row.tasks),
            f"{row.allowed:g}",
            f"{row.used:g}",
            counted(row.raised),
            counted(row.cut_short),
            f"{row.runaway:g}",
            f"{100 * row.saved:.0f} %",
        )
        for walk, row in [*named, ("control", report.control)]
    ]
    return columns, rows
