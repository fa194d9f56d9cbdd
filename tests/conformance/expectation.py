"""What ours is to show in a case: the recording itself, or where it is not to be the same, what the model says.

A `same` case is its recording. For `adapt` and `must_differ` the model plays the case as OTP and as ours; where it is
right about OTP, what it says of ours is expected. Where it is not, an `adapt` case is held to its recording.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .cases import Case, Event, Step
from .foretell import Model, per_id

_FAILED_TO_START = re.compile(r"error\(failed_to_start\([^,]*,(.*)\)\)")


@dataclass(frozen=True)
class Expected:
    """Of one step."""

    events: tuple[Event, ...]
    result: Any
    """None: whatever it is."""
    any_order: bool


def expectation(case: Case) -> list[Expected]:
    """What each step of a case is to show on our runtime."""
    recorded = [Expected(step.expect, step.result, step.any_order) for step in case.steps]
    if case.disposition == "same":
        return recorded
    try:
        otp = _told(case, ours=False)
        ours = _told(case, ours=True)
    except (ValueError, KeyError, RuntimeError):
        return recorded  # a script beyond the model
    if case.disposition == "must_differ" or _agree(recorded, otp):
        return ours
    return recorded


def _told(case: Case, *, ours: bool) -> list[Expected]:
    told = Model(case, ours=ours).run()
    supervisors = {spec["id"] for spec in case.specs() if spec["kind"] == "supervisor"}
    expected = []
    for step, (events, result) in zip(case.steps, told, strict=True):
        # Where a supervisor is killed, so is all below it, at the same time.
        killed = [event for event in events if event[0] == "exit" and event[1] in supervisors and event[3] == "killed"]
        compared = result if step.result is not None else None
        expected.append(Expected(tuple(events), compared, step.any_order or (ours and bool(killed))))
    return expected


def _agree(recorded: Sequence[Expected], told: Sequence[Expected]) -> bool:
    return not any(problem(one, other.events, other.result) for one, other in zip(recorded, told, strict=True))


def problem(expected: Expected, events: Sequence[Event], result: Any) -> str:
    """What is not as expected, in a line; "" where all is."""
    if expected.any_order:
        wanted, came = per_id(expected.events), per_id(events)
        for whose in [*wanted, *(other for other in came if other not in wanted)]:
            if wanted.get(whose, []) != came.get(whose, []):
                return f"events of {whose}: expected {_show(wanted.get(whose, []))}, came {_show(came.get(whose, []))}"
    elif list(expected.events) != list(events):
        return f"events: expected {_show(expected.events)}, came {_show(events)}"
    if expected.result is not None and not _same(expected.result, result):
        return f"result: expected {expected.result!r}, came {result!r}"
    return ""


def overlap(events: Sequence[Event]) -> str:
    """Two incarnations of one id at the same time, in a line; "" where there never were."""
    alive: dict[str, int] = {}
    for event in events:
        if event[0] == "start":
            if event[1] in alive:
                return f"{event[1]} #{event[2]} started while #{alive[event[1]]} was there"
            alive[event[1]] = event[2]
        elif event[0] == "exit":
            alive.pop(event[1], None)
    return ""


def differs(case: Case, came: Sequence[tuple[Sequence[Event], Any]]) -> bool:
    """Whether a run showed anything else than the recording."""
    return any(problem(_recorded(step), *told) for step, told in zip(case.steps, came, strict=True))


def _recorded(step: Step) -> Expected:
    return Expected(step.expect, step.result, step.any_order)


def _same(expected: Any, came: Any) -> bool:
    """OTP's answers carry process ids and whole specs, of which only the name is compared."""
    if expected == came or not (isinstance(expected, str) and isinstance(came, str)):
        return bool(expected == came)
    if came == "ok":
        return expected.startswith("ok(")
    started = _FAILED_TO_START.fullmatch(expected)
    return expected.startswith(came[:-1] + "(") or (started is not None and came == f"error({started[1]})")


def _show(events: Sequence[Event]) -> str:
    return " ".join("/".join(str(part) for part in event) for event in events) or "nothing"
