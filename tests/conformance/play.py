"""Plays whole cases and judges them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from callboard.actors.spec import InvalidSpec, Tree
from callboard.persistence.postgres import PostgresStore

from .behaviour import behaviour_of
from .cases import Case, Event
from .cast import Cast
from .diary import Diary
from .driver import Driver, Shown, UnknownStep
from .expectation import Expected, differs, expectation, overlap, problem
from .recorder import Recorder
from .stages import Stage, memory_stage, postgres_stage

SHORT_CASE_MS = 1_000.0
STRETCH = 4.0
"""A short case's times are stretched so far on a real clock, so that a commit is small beside them."""


@dataclass(frozen=True)
class Verdict:
    """What became of a case on one store."""

    case: str
    store: str
    step: int = 0
    """The first one that was not as expected, from 1."""
    wrong: str = ""
    shown: tuple[Shown, ...] = ()

    def but(self, step: int, wrong: str) -> "Verdict":
        """This one, or that something else is wrong where nothing was."""
        return self if self.wrong else replace(self, step=step, wrong=wrong)

    def __str__(self) -> str:
        return f"{self.case} ({self.store}) step {self.step}: {self.wrong}" if self.wrong else f"{self.case} passed"


async def play_case(
    case: Case, store: PostgresStore | None = None, *, suffix: str = "", slower: float = 1.0
) -> Verdict:
    """Play a case: on `store`, under a root named with `suffix` and so much slower; without one, in memory."""
    where = "memory" if store is None else "postgres"
    diary = Diary()
    expected = expectation(case)
    scale = slower * (1.0 if store is None or duration_ms(case) > SHORT_CASE_MS else STRETCH)
    try:
        cast = Cast(case, diary, suffix=suffix, scale=scale)
    except InvalidSpec as refused:
        return _judge(case, where, expected, _refused(case, refused))
    except Exception as error:  # noqa: BLE001 - a tree that we cannot even say is this case's failure only
        return Verdict(case.id, where, 1, f"this tree cannot be built: {error}")
    recorder = Recorder(cast, diary)
    shown: list[Shown] = []
    async with _stage(cast, recorder, store, slower) as stage:
        driver = Driver(case, cast, recorder, stage, _longest_ms(case), slower)
        for step, wanted in zip(case.steps, expected, strict=True):
            begun = sum(len(done.events) for done in shown)
            try:
                shown.append(await driver.play(step, wanted, begun))
            except (UnknownStep, KeyError) as error:
                return Verdict(case.id, where, len(shown) + 1, str(error), tuple(shown))
            if problem(wanted, shown[-1].events, shown[-1].result):
                break
        else:
            shown[-1] = await _last_look(driver, shown)
            alive, wanted_alive = await driver.root_is_alive(), _alive_at_the_end(case, expected)
            if alive != wanted_alive:
                wrong = f"at the end the root is {'alive' if alive else 'dead'}"
                return _judge(case, where, expected, shown).but(len(shown), wrong)
    return _judge(case, where, expected, shown)


def _alive_at_the_end(case: Case, expected: list[Expected]) -> bool:
    if case.disposition == "same" and case.final:
        return case.final == "root_alive"
    return not any(event[0] == "owner_notified" for wanted in expected for event in wanted.events)


async def _last_look(driver: Driver, shown: list[Shown]) -> Shown:
    """Whether anything comes after all."""
    begun = sum(len(done.events) for done in shown[:-1])
    await driver.stage.advance(0.05 * driver.cast.scale)
    await driver.stage.settle()
    return Shown(tuple(driver.recorder.events[begun:]), shown[-1].result)


def _judge(case: Case, where: str, expected: list[Expected], shown: list[Shown]) -> Verdict:
    for number, (wanted, came) in enumerate(zip(expected, shown, strict=False), 1):
        if wrong := problem(wanted, came.events, came.result):
            return Verdict(case.id, where, number, wrong, tuple(shown))
    events = [event for came in shown for event in came.events]
    if wrong := overlap(events):
        return Verdict(case.id, where, len(shown), wrong, tuple(shown))
    if case.disposition == "must_differ" and not differs(case, [(came.events, came.result) for came in shown]):
        return Verdict(case.id, where, len(shown), "it shows what was recorded, which it must not", tuple(shown))
    return Verdict(case.id, where, shown=tuple(shown))


def _refused(case: Case, error: InvalidSpec) -> list[Shown]:
    """A tree that we refuse when it is written down, before anything runs: what OTP says when it starts it."""
    root = case.tree["id"]
    events: tuple[Event, ...] = (
        ("start", root, 1),
        ("exit", root, 1, error.result),
        ("owner_notified", root, 1, error.result),
    )
    return [Shown(events, f"error({error.result})"), *(Shown((), None) for _ in case.steps[1:])]


@asynccontextmanager
async def _stage(cast: Cast, recorder: Recorder, store: PostgresStore | None, slower: float) -> AsyncIterator[Stage]:
    if store is None:
        async with memory_stage(Tree(cast.tree), recorder) as memory:
            yield memory
    else:
        async with postgres_stage(Tree(cast.tree), recorder, store, slower) as postgres:
            yield postgres


def duration_ms(case: Case) -> float:
    """About how long it takes by its own clock."""
    waits = sum(step.milliseconds for step in case.steps)
    return waits + max(behaviour_of(spec).longest() for spec in _all_specs(case))


def _all_specs(case: Case) -> list[dict[str, Any]]:
    return [*case.specs(), *(step.fields["spec"] for step in case.steps if step.do == "start_child")]


def _longest_ms(case: Case) -> float:
    specs = _all_specs(case)
    return max(behaviour_of(spec).longest() for spec in specs) + max(_finite(spec) for spec in specs)


def _finite(spec: dict[str, Any]) -> float:
    value = spec.get("shutdown", 0)
    return float(value) if isinstance(value, int | float) else 0.0
