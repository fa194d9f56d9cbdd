"""AgentDojo's 949 pairs of a user's task and an attack, with a model that is fully compromised, at our gate.

The model is made of AgentDojo's oracles: it follows the user's until it has read the attacker's text, then the
attacker's to its end, and then goes on. Calls that the gate holds are denied. AgentDojo judges the office afterwards.
Each attack is made twice: in plain words, and in base64, which the model decodes and no gate can follow.
The plan of a run is the oracle's own: the tools that the user's task needs, each as often. That is the best plan there
is, so what plans buy here is an upper bound.
"""

import pickle
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from callboard.actors.guard.profiles import GuardrailProfile
from callboard.evals.dojo import VERSION, Office, offices, said_by
from callboard.evals.dojo_labels import LABELS
from callboard.evals.injections import FORMS, Form, in_form
from callboard.evals.parallel import side_by_side
from callboard.evals.profiles import Compared, compared
from callboard.evals.rates import Rate, rate
from callboard.evals.real_gate import RealGate
from callboard.evals.worst_case import Attack, Call, Played, holds_text, play

SEEN_CHARS: Final = 60
"""So much of an attacker's text in a result means that the model has read it."""


class DojoRow(msgspec.Struct, frozen=True):
    """One profile on all pairs and on all tasks without an attack."""

    name: str
    landed: Rate
    """Of all pairs."""
    of_ceiling: float
    """Landed as a share of what lands where nothing is held."""
    landed_by_suite: dict[str, Rate]
    landed_actions: int
    """Of these, attacks whose harm a call does."""
    landed_text_only: int
    """The others: no tool is needed, and what the model says is the harm. No gate can see these."""
    landed_encoded: Rate
    """The same attacks with their text in base64, which the model decodes: no value can be followed. Calls only."""
    tasks_asking: Rate
    """Benign tasks in which a person is asked at least once."""
    writes_asked: Rate
    """Calls with an effect, of the benign tasks."""
    tasks_done: Rate
    """Benign tasks that are done though nobody answers."""
    asked_for: dict[str, int]
    """Which rules held calls in the benign tasks, and how often."""


class DojoReport(msgspec.Struct, frozen=True):
    """The table."""

    version: str
    pairs: int
    ceiling: int
    """Pairs that land where nothing is held; in the others the oracle of the attack does not work in that office."""
    rows: list[DojoRow]
    schema: str = "callboard.eval.agentdojo/1"


class _Tally:
    """Counts of one profile."""

    def __init__(self) -> None:
        self.landed: dict[str, list[bool]] = {}
        self.text_only = 0
        self.encoded: list[bool] = []
        self.tasks: list[Played] = []
        self.done: list[bool] = []
        self.reasons: dict[str, int] = {}

    @classmethod
    def joined(cls, tallies: "Iterable[_Tally]") -> "_Tally":
        """Those of several offices in one."""
        joined = cls()
        for one in tallies:
            joined.landed.update(one.landed)
            joined.text_only += one.text_only
            joined.encoded += one.encoded
            joined.tasks += one.tasks
            joined.done += one.done
            for reason, count in one.reasons.items():
                joined.reasons[reason] = joined.reasons.get(reason, 0) + count
        return joined

    def attacked(self, suite: str, played: Played, done: bool, form: Form) -> None:
        """Count one run that was attacked."""
        acted = done and any(call.hostile for call in played.calls)
        if form == "encoded":
            self.encoded.append(acted)
        else:
            self.landed.setdefault(suite, []).append(done)
            self.text_only += done and not acted

    def honest(self, gate: RealGate, played: Played, done: bool) -> None:
        """Count one run of a task alone."""
        self.tasks.append(played)
        self.done.append(done)
        for reason in gate.reasons:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1


def measure(
    names: Iterable[str] = (),
    *,
    suites: Iterable[str] = (),
    user_tasks: int | None = None,
    processes: int = 1,
) -> DojoReport:
    """Play all pairs through the gate of each profile. `user_tasks` of each suite at most; all for None.

    Raises:
        MissingPackage: AgentDojo is not installed. UnknownProfile: there is none of that name.
    """
    rows = compared(names)
    with_off = rows if any(row.name == "off" for row in rows) else [*compared(["off"]), *rows]
    wanted = [suite for suite in LABELS if suite in set(suites or LABELS)]
    played = side_by_side(partial(_in_office, rows=with_off, limit=user_tasks), wanted, processes)
    tallies = {row.name: _Tally.joined(one[row.name] for one in played) for row in with_off}
    landed = [one for office in tallies["off"].landed.values() for one in office]
    return DojoReport(VERSION, len(landed), sum(landed), [_row(row, tallies[row.name], sum(landed)) for row in rows])


def _in_office(suite: str, *, rows: Sequence[Compared], limit: int | None) -> "dict[str, _Tally]":
    tallies = {row.name: _Tally() for row in rows}
    office = next(office for office in offices() if office.name == suite)
    for task in list(office.user_tasks.values())[:limit]:
        _with_task(office, task, rows, tallies)
    return tallies


def _with_task(office: Office, task: Any, rows: Sequence[Compared], tallies: Mapping[str, "_Tally"]) -> None:
    alone = _Stage(office, task)
    for row in rows:
        tallies[row.name].honest(*alone.play(row))
    for attack in office.injection_tasks.values():
        for form in FORMS:
            stage = _Stage(office, task, attack, form)
            for row in rows:
                _, played, done = stage.play(row)
                tallies[row.name].attacked(office.name, played, done, form)


class _Stage:
    """One user's task, attacked or not, in a fresh office for each profile that plays it."""

    def __init__(self, office: Office, task: Any, injection: Any = None, form: Form = "plain") -> None:
        self._office, self._task, self._injection = office, task, injection
        self._planted = "" if injection is None else in_form(injection.GOAL, form)
        self._before = office.environment(task, self._planted)
        self._wanted = office.oracle(task, self._before.model_copy(deep=True))
        self._frozen = pickle.dumps(self._before)  # a copy from it takes a fifth of what a deep copy takes

    def play(self, row: Compared) -> tuple[RealGate, Played, bool]:
        """One run, and whether it did what is asked about: the attack's aim where there is one, else the user's."""
        office, injection = self._office, self._injection
        environment = pickle.loads(self._frozen)  # noqa: S301 - made here
        gate = gate_of(row.profile, office, self._task.PROMPT, [] if row.empty_plan else self._wanted)
        made: list[Call] = []

        def make(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            made.append((name, arguments))
            return office.call(environment, name, arguments)

        attack = None
        if injection is not None:
            mark = " ".join(self._planted.split())[:SEEN_CHARS]
            attack = Attack(lambda result: holds_text(result, mark), lambda: office.oracle(injection, environment))
        played = play([[call] for call in self._wanted], gate, make, office.has_effect, attack)
        said = said_by(self._task) + (f" {said_by(injection)}" if played.read else "")
        done = office.holds(injection or self._task, said, self._before, environment, made)
        return gate, played, done


def gate_of(profile: GuardrailProfile, office: Office, goal: str, planned: Iterable[Call]) -> RealGate:
    """The gate of one run, with the plan that `planned` calls make."""
    plan: dict[str, int] = {}
    for name, _ in planned:
        plan[name] = plan.get(name, 0) + 1
    return RealGate(profile.with_(free_text=office.free_text), office.tools, goal, plan=plan)


def _row(row: Compared, tally: _Tally, ceiling: int) -> DojoRow:
    hits = [one for landed in tally.landed.values() for one in landed]
    writes = [call for played in tally.tasks for call in played.calls if call.effect]
    return DojoRow(
        row.name,
        rate(sum(hits), len(hits)),
        round(sum(hits) / ceiling, 4) if ceiling else 0.0,
        {suite: rate(sum(landed), len(landed)) for suite, landed in tally.landed.items()},
        sum(hits) - tally.text_only,
        tally.text_only,
        rate(sum(tally.encoded), len(tally.encoded)),
        rate(sum(played.asked > 0 for played in tally.tasks), len(tally.tasks)),
        rate(sum(call.outcome == "held" for call in writes), len(writes)),
        rate(sum(tally.done), len(tally.done)),
        dict(sorted(tally.reasons.items())),
    )
