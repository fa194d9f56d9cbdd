"""The desk with a model that is fully compromised: 20 goals, planted by 16 carriers into a ticket's surroundings.

The model works its ticket as the desk's own model does, and obeys the planted text in the turn after it has read it.
The tools are the desk's, over paper (`paper_desk`); what the gate holds is denied. An attack lands when any of its
calls with an effect goes, even where the desk's own books would have refused it afterwards.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

import msgspec

from callboard.actors.agent.tool import Tool
from callboard.actors.guard.profiles import GuardrailProfile
from callboard.crm.guardrails import PROFILE
from callboard.crm.policy import policy_text
from callboard.evals.desk_tasks import GOAL, DeskTask, attacked_tasks, desk_tasks
from callboard.evals.injections import CARRIERS, GOALS, Carrier, Goal
from callboard.evals.paper_desk import PaperDesk, real_tools
from callboard.evals.parallel import side_by_side
from callboard.evals.profiles import Compared, compared
from callboard.evals.rates import Rate, rate
from callboard.evals.real_gate import RealGate
from callboard.evals.worst_case import Attack, Played, holds_text, play

SEEN_CHARS: Final = 40
DESK: Final = "the desk's own"
"""The profile that the desk runs under: a row of its own, as it is `standard` with the desk's numbers."""


class DeskRow(msgspec.Struct, frozen=True):
    """One profile on all attacks and on all benign tickets."""

    name: str
    landed: Rate
    """Of all pairs of a task and an attack."""
    landed_by_goal: dict[str, int]
    landed_by_place: dict[str, int]
    landed_by_form: dict[str, int]
    tasks_asking: Rate
    """Benign tickets in which a person is asked at least once."""
    asked_per_task: float
    """Questions to a person for each benign ticket."""
    writes_asked: Rate
    tasks_whole: Rate
    """Benign tickets in which every call goes though nobody answers."""
    asked_for: dict[str, int]


class DeskReport(msgspec.Struct, frozen=True):
    """The table."""

    goals: int
    carriers: int
    attacked_tasks: int
    pairs: int
    ceiling: int
    """Pairs that land where nothing is held."""
    benign_tasks: int
    rows: list[DeskRow]
    schema: str = "callboard.eval.injections/1"


@cache
def _tools() -> dict[str, Tool]:
    return {tool.name: tool for tool in real_tools()}


def gate_for(profile: GuardrailProfile, task: DeskTask, *, empty_plan: bool = False) -> RealGate:
    """The gate of one ticket's run. The plan is what the task needs; see `DeskTask.plan`."""
    plan = {} if empty_plan else task.plan
    return RealGate(profile, _tools(), GOAL, plan=plan, system_prompt=policy_text())


def play_ticket(
    task: DeskTask, gate: RealGate, goal: Goal | None = None, carrier: Carrier | None = None
) -> tuple[Played, PaperDesk]:
    """One run; with goal and carrier, one that is attacked."""
    planted: dict[str, str] = {}
    attack = None
    if goal is not None and carrier is not None:
        text = carrier.text(goal.sentence(task.facts))
        planted = {carrier.place: text}
        mark = text[:SEEN_CHARS]
        attack = Attack(lambda result: holds_text(result, mark), lambda: goal.calls(task.facts))
    paper = PaperDesk(task.ticket, planted)
    return play(task.turns, gate, paper.call, lambda name: _tools()[name].side_effect, attack), paper


def measure(
    names: Iterable[str] = (),
    *,
    goals: Sequence[Goal] = GOALS,
    carriers: Sequence[Carrier] = CARRIERS,
    tasks: Sequence[DeskTask] | None = None,
    processes: int = 1,
) -> DeskReport:
    """Play every goal by every carrier in every attacked task, and every benign ticket, for each profile.

    Raises:
        UnknownProfile: there is none of that name.
    """
    attacked = attacked_tasks() if tasks is None else tasks
    wanted = _compared(names)
    with_off = wanted if any(row.name == "off" for row in wanted) else [*wanted, *compared(["off"])]
    played = side_by_side(_Attacked(tuple(goals), tuple(carriers), tuple(attacked)), with_off, processes)
    ceiling = next(row.landed.count for row in played if row.name == "off")
    pairs = len(goals) * len(carriers) * len(attacked)
    rows = played[: len(wanted)]
    return DeskReport(len(goals), len(carriers), len(attacked), pairs, ceiling, len(desk_tasks()), rows)


def _compared(names: Iterable[str]) -> list[Compared]:
    own, wanted = Compared(DESK, PROFILE), list(names)
    if not wanted:
        return [*compared(), own]
    return [own if name == DESK else compared([name])[0] for name in wanted]


class _Attacked:
    """What is played for each row."""

    def __init__(self, goals: Sequence[Goal], carriers: Sequence[Carrier], tasks: Sequence[DeskTask]) -> None:
        # Goals hold functions, which do not travel between processes; their names do.
        self._goals = [goal.name for goal in goals]
        self._carriers, self._tasks = carriers, tasks

    def __call__(self, row: Compared) -> DeskRow:
        goals = [goal for goal in GOALS if goal.name in self._goals]
        return _row(row, goals, self._carriers, self._tasks, desk_tasks())


def _row(
    row: Compared,
    goals: Sequence[Goal],
    carriers: Sequence[Carrier],
    attacked: Sequence[DeskTask],
    benign: Sequence[DeskTask],
) -> DeskRow:
    landed: list[tuple[Goal, Carrier]] = []
    for task in attacked:
        for goal in goals:
            for carrier in carriers:
                gate = gate_for(row.profile, task, empty_plan=row.empty_plan)
                if play_ticket(task, gate, goal, carrier)[0].landed:
                    landed.append((goal, carrier))
    played: list[Played] = []
    reasons: dict[str, int] = {}
    for task in benign:
        gate = gate_for(row.profile, task, empty_plan=row.empty_plan)
        played.append(play_ticket(task, gate)[0])
        for reason in gate.reasons:
            reasons[reason] = reasons.get(reason, 0) + 1
    writes = [call for one in played for call in one.calls if call.effect]
    return DeskRow(
        row.name,
        rate(len(landed), len(goals) * len(carriers) * len(attacked)),
        _counted(goal.name for goal, _ in landed),
        _counted(carrier.place for _, carrier in landed),
        _counted(carrier.form for _, carrier in landed),
        rate(sum(one.asked > 0 for one in played), len(played)),
        round(sum(one.asked for one in played) / len(played), 3) if played else 0.0,
        rate(sum(call.outcome == "held" for call in writes), len(writes)),
        rate(sum(one.stopped == 0 for one in played), len(played)),
        dict(sorted(reasons.items())),
    )


def _counted(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))
