"""What a run's journal does not say in so many words: its waits, its changes of node, and where its time went.

Fed with the events one by one, so that a live run can be told as well as one that has ended. It folds the run's state
on the way (`actors.agent.state`), which knows what was under way at any moment. Neighbours: `trace` puts the marks into
words, `operations.views` into JSON.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from ..actors.agent.approval_events import ApprovalEdited, ApprovalEditRefused, ApprovalSuperseded
from ..actors.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    LLMCallCompleted,
    LLMCallFailed,
    ProviderDown,
    ProviderWaited,
    StepCompleted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallSettled,
)
from ..actors.agent.runs import Recorded
from ..actors.agent.state import Call, RunState, apply

Spent = Literal["people", "models", "agents", "tools", "provider", "changes of node", "callboard"]
LEAST_RETRY_SECONDS = 1.0
"""A back-off that is shorter is no wait worth a line."""


class Wait(msgspec.Struct, frozen=True):
    """A time in which the run, or one of its calls, waited for something from outside."""

    kind: Literal["decision", "in-doubt", "provider", "retry"]
    began: int
    """Number of the event it began with."""
    ended: int
    """Of the event that ended it; 0: it goes on."""
    seconds: float
    outcome: str
    """`ann approved`, `nobody decided`, `the model answered`; "" while it goes on."""
    call: int = 0
    decision: str = ""


class Move(msgspec.Struct, frozen=True):
    """The run goes on at another node: the one before has crashed, was drained, or gave it away."""

    seq: int
    """Number of the first event that the new node recorded."""
    before: int
    after: int
    seconds: float
    """From the last event of the one to the first of the other."""
    answers: int
    """Answers of models that were on record, and were not bought again."""
    calls: int
    """Tool calls whose outcome was on record, and which were not made again."""
    under_way: list[str]
    """What had been asked for and had no outcome: goes on under the same keys."""


class Account(msgspec.Struct, frozen=True):
    """Where a run's time went, and how often something had to be tried again."""

    seconds: float
    parts: dict[str, float]
    """Seconds by `Spent`, each moment counted once; what is at work goes before what waits."""
    failed_answers: int = 0
    """Attempts at a model call that failed."""
    failed_calls: int = 0
    """Attempts at a tool call that failed, and calls that were refused."""
    recovered: int = 0
    """Outcomes that another node recorded than the one which had asked for the call."""
    nodes: list[int] = []


class Marks:
    """Reads a journal and notes what stands between its lines."""

    def __init__(self) -> None:
        self.state = RunState()
        self.last: Recorded | None = None
        self._first_at = 0.0
        self._answers = self._calls = 0
        self._failed_answers = self._failed_calls = self._recovered = 0
        self._asked: dict[str, Recorded] = {}
        self._failed: dict[str, Recorded] = {}
        self._down: Recorded | None = None
        self._parts: dict[str, float] = {}
        self._nodes: list[int] = []

    def feed(self, recorded: Recorded) -> list[Wait | Move]:
        """What is to be said before this event."""
        found: list[Wait | Move] = [*self._moves(recorded), *self._waits(recorded)]
        if self.last is None:
            self._first_at = recorded.at
        else:
            self._spend(self.last, recorded)
        self._count(recorded)
        apply(self.state, recorded.event)
        self.last = recorded
        return found

    def open_waits(self, now: float) -> list[Wait]:
        """The waits that go on at `now`."""
        return [
            Wait(
                "in-doubt" if isinstance(asked.event, ToolCallInDoubt) else "decision",
                asked.seq,
                0,
                max(0.0, now - asked.at),
                "",
                getattr(asked.event, "call", 0),
                decision,
            )
            for decision, asked in self._asked.items()
        ]

    def account(self, now: float = 0.0) -> Account:
        """Where the time went: up to the last event, or to `now` where the run has not ended."""
        parts, end = dict(self._parts), self._first_at
        if self.last is not None:
            end = self.last.at
            if not self.state.finished and now > end:
                what = doing(self.state)
                parts[what] = parts.get(what, 0.0) + now - end
                end = now
        return Account(
            end - self._first_at,
            parts,
            self._failed_answers,
            self._failed_calls,
            self._recovered,
            list(self._nodes),
        )

    def _moves(self, recorded: Recorded) -> Iterator[Move]:
        last = self.last
        if last is not None and last.node != recorded.node:
            under_way = list(under_way_in(self.state))
            yield Move(
                recorded.seq,
                last.node,
                recorded.node,
                max(0.0, recorded.at - last.at),
                self._answers,
                self._calls,
                under_way,
            )

    def _waits(self, recorded: Recorded) -> Iterator[Wait]:
        event = recorded.event
        match event:
            case ApprovalRequested() | ToolCallInDoubt():
                self._asked[event.decision] = recorded
                self._failed.pop(f"call {event.call}", None)  # whatever comes now comes after people's word
            case ToolCallSettled():
                for decision in [d for d, asked in self._asked.items() if _is_doubt(asked, event.call)]:
                    yield self._ended(decision, recorded, f"{event.by} said it {_happened(event)}", "in-doubt")
            case (
                ApprovalGranted()
                | ApprovalDenied()
                | ApprovalExpired()
                | ApprovalEdited()
                | ApprovalEditRefused()
                | ApprovalSuperseded()
            ):
                if event.decision in self._asked:
                    yield self._ended(event.decision, recorded, _said(event), "decision")
            case ProviderWaited() | ProviderDown():
                self._down = self._down or recorded
            case LLMCallFailed() if not event.final:
                self._failed["model"] = recorded
            case ToolCallFailed() if not event.final:
                self._failed[f"call {event.call}"] = recorded
            case LLMCallCompleted() | LLMCallFailed():
                yield from self._answered(recorded)
            case ToolCallCompleted():
                yield from self._tried_again(f"call {event.call}", recorded, event.duration_ms / 1000, event.call)

    def _ended(self, decision: str, recorded: Recorded, outcome: str, kind: Literal["decision", "in-doubt"]) -> Wait:
        asked = self._asked.pop(decision)
        call = getattr(recorded.event, "call", 0)
        return Wait(kind, asked.seq, recorded.seq, max(0.0, recorded.at - asked.at), outcome, call, decision)

    def _answered(self, recorded: Recorded) -> Iterator[Wait]:
        event = recorded.event
        if self._down is not None:
            began, self._down = self._down, None
            self._failed.pop("model", None)
            said = "the model answered" if isinstance(event, LLMCallCompleted) else "it was given up"
            yield Wait("provider", began.seq, recorded.seq, max(0.0, recorded.at - began.at), said)
        elif isinstance(event, LLMCallCompleted):
            yield from self._tried_again("model", recorded, event.latency_ms / 1000)

    def _tried_again(self, key: str, recorded: Recorded, took: float, call: int = 0) -> Iterator[Wait]:
        failed = self._failed.pop(key, None)
        if failed is None:
            return
        seconds = recorded.at - failed.at - took
        if seconds >= LEAST_RETRY_SECONDS:
            yield Wait("retry", failed.seq, recorded.seq, seconds, "it was tried again", call)

    def _spend(self, last: Recorded, recorded: Recorded) -> None:
        what = doing(self.state)
        if last.node != recorded.node and what != "people":
            what = "changes of node"
        self._parts[what] = self._parts.get(what, 0.0) + max(0.0, recorded.at - last.at)

    def _count(self, recorded: Recorded) -> None:
        event = recorded.event
        match event:
            case LLMCallCompleted():
                self._answers += 1
                self._recovered += event.recovered
            case ToolCallCompleted():
                self._calls += 1
                self._recovered += event.recovered
            case StepCompleted():
                self._calls += 1
            case LLMCallFailed():
                self._failed_answers += 1
            case ToolCallFailed():
                self._failed_calls += 1
                self._calls += event.final
        if recorded.node not in self._nodes:
            self._nodes.append(recorded.node)


def read_marks(events: Iterable[Recorded]) -> tuple[Marks, list[Wait], list[Move]]:
    """A whole journal's waits and changes of node."""
    marks, found = Marks(), list[Wait | Move]()
    for recorded in events:
        found += marks.feed(recorded)
    return marks, [x for x in found if isinstance(x, Wait)], [x for x in found if isinstance(x, Move)]


def doing(state: RunState) -> Spent:
    """What a run's time is spent on while it is in this state."""
    running = [call for call in state.pending.values() if call.status == "running"]
    if state.status == "provider_down":
        return "provider"
    if state.model_message:
        return "models"
    if running:
        return "agents" if all(call.child for call in running) else "tools"
    return "people" if state.pending else "callboard"


def under_way_in(state: RunState) -> Iterator[str]:
    """What has been asked for and has no outcome."""
    if state.model_message:
        yield f"the model's answer of iteration {state.step}" if state.step else "the code of the run"
    for call in state.pending.values():
        yield _under_way(call)


def _under_way(call: Call) -> str:
    name = f"call {call.call} {call.tool}"
    if call.status == "held":
        return f"{name}, held for a decision"
    if call.status == "in_doubt":
        return f"{name}, in doubt"
    if call.child:
        return f"{name}, answered by {call.child}"
    return f"{name}, sent" + (f" under its key {call.idempotency_key}" if call.idempotency_key else "")


def _is_doubt(asked: Recorded, call: int) -> bool:
    return isinstance(asked.event, ToolCallInDoubt) and asked.event.call == call


def _happened(event: ToolCallSettled) -> str:
    return "had happened" if event.happened else "had not happened"


def _said(event: Any) -> str:
    match event:
        case ApprovalGranted():
            return f"{event.approver} approved"
        case ApprovalDenied():
            return f"{event.approver} denied"
        case ApprovalExpired():
            return "nobody decided"
        case ApprovalEdited() | ApprovalEditRefused():
            return f"{event.by} changed the call"
        case _:
            return f"{event.approver} approved, too late"
