"""Two runs side by side: what is the same, where they part, what each did after that. Pure.

Compared are facts: what models answered, what became of each call, what people said and decided. Left out is what two
runs cannot share (ids, keys, times, nodes, costs, failed attempts that were made good). Calls of one answer run at
once, so their facts are taken in the order of the calls, not in that of their ends. Of a fork, the past it goes on
from is its own.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ..actors.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    BudgetSet,
    CancelRequested,
    ChildEnded,
    GuardrailTriggered,
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    MessageTold,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    StepCompleted,
    StepFailed,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallSettled,
    ToolsChanged,
)
from ..actors.agent.runs import Recorded
from .operations.views import RunView, run_document
from .trace_text import Line, block, duration

_NO_CALL = 1 << 60
"""Sorts what is about no call behind the calls of the same answer."""


class Fact(msgspec.Struct, frozen=True):
    """One thing that happened in a run."""

    seq: int
    """Number of its event, in the journal of `run`."""
    run: str
    """Id of the run whose journal has it: of a fork's past, another one."""
    what: str
    """In our words: `call 2 issue_refund completed`."""
    content: dict[str, Any]
    """In its own."""
    call: int = _NO_CALL

    @property
    def key(self) -> str:
        """Equal for facts that are the same."""
        return f"{self.what} {json.dumps(self.content, sort_keys=True, default=str)}"


class Side(msgspec.Struct, frozen=True):
    """One of the two runs."""

    view: RunView
    events: Sequence[tuple[str, Recorded]]
    """(run id, event): a fork's past, then its own journal."""


class Difference(msgspec.Struct, frozen=True):
    """How two runs compare."""

    runs: tuple[RunView, RunView]
    same: list[Fact]
    """As the first of the two has them."""
    after: tuple[list[Fact], list[Fact]]
    """What each did from where they part; both empty where they are the same."""
    seconds: tuple[float, float]
    """From the first event to the last."""


def compare(one: Side, other: Side) -> Difference:
    """Compare two runs."""
    first, second = list(facts_of(one.events)), list(facts_of(other.events))
    same = 0
    while same < min(len(first), len(second)) and first[same].key == second[same].key:
        same += 1
    return Difference(
        (one.view, other.view), first[:same], (first[same:], second[same:]), (_took(one.events), _took(other.events))
    )


def _took(events: Sequence[tuple[str, Recorded]]) -> float:
    return events[-1][1].at - events[0][1].at if events else 0.0


def facts_of(events: Iterable[tuple[str, Recorded]]) -> Iterator[Fact]:
    """What happened, in an order that does not depend on which of several calls ended first."""
    gathered: list[Fact] = []
    for run, recorded in events:
        if isinstance(recorded.event, LLMCallRequested):
            yield from sorted(gathered, key=lambda fact: fact.call)
            gathered = []
        told = _told(recorded.event)
        if told is not None:
            what, content, call = told
            gathered.append(Fact(recorded.seq, run, what, content, call or _NO_CALL))
            if isinstance(recorded.event, LLMCallCompleted):
                yield gathered.pop()  # the calls that it asks for come behind it
    yield from sorted(gathered, key=lambda fact: fact.call)


_Told = tuple[str, dict[str, Any], int]


def _told(event: Any) -> _Told | None:
    match event:
        case RunStarted():
            tools = {tool.name: tool.version for tool in event.tools}
            return "run started", {"goal": event.goal, "system prompt": event.system_prompt, "tools": tools}, 0
        case LLMCallCompleted():
            calls = [{"tool": call.name, "arguments": call.arguments} for call in event.tool_calls]
            return f"model answered, iteration {event.step}", {"text": event.content, "calls": calls}, 0
        case LLMCallFailed() if event.final:
            return f"model gave no answer, iteration {event.step}", {"error": event.error}, 0
        case RunCompleted() | RunFailed() | RunCancelled() | CancelRequested():
            return _told_of_end(event)
        case MessageTold():
            return f"told by {event.by or 'unknown'}", {"text": event.text}, 0
        case BudgetSet():
            return f"classified as {event.label}", {"reason": event.reason}, 0
        case ToolsChanged():
            changed = [*event.added, *event.removed, *event.changed]
            return "tools changed", {"tools": sorted(tool.name for tool in changed)}, 0
        case StepCompleted():
            return f"step {event.name} done", {"key": event.key, "value": event.value}, 0
        case StepFailed():
            return f"step {event.name} failed", {"key": event.key, "error": event.error}, 0
        case _:
            return _told_of_call(event)


def _told_of_end(event: RunCompleted | RunFailed | RunCancelled | CancelRequested) -> _Told:
    match event:
        case RunCompleted():
            return "run completed", {"answer": event.final_answer}, 0
        case RunFailed():
            return "run failed", {"reason": event.reason, "detail": event.detail}, 0
        case _:
            what = "run cancelled" if isinstance(event, RunCancelled) else "cancel asked for"
            return what, {"by": event.by, "reason": event.reason}, 0


def _told_of_call(event: Any) -> _Told | None:
    match event:
        case ToolCallCompleted():
            return f"call {event.call} {event.tool} completed", event.result, event.call
        case ToolCallFailed() if event.final:
            return f"call {event.call} {event.tool} failed", {"error": event.error}, event.call
        case ApprovalRequested():
            return f"call {event.call} {event.tool} held", {"arguments": event.arguments}, event.call
        case ApprovalGranted():
            return f"call {event.call} approved by {event.approver}", {"note": event.note}, event.call
        case ApprovalDenied():
            what = f"call {event.call} {event.tool} denied by {event.approver}"
            return what, {"reason": event.reason}, event.call
        case ApprovalExpired() | ToolCallInDoubt():
            said = "expired" if isinstance(event, ApprovalExpired) else "in doubt"
            return f"call {event.call} {event.tool} {said}", {}, event.call
        case ToolCallSettled():
            said = "happened" if event.happened else "did not happen"
            return f"call {event.call} {event.tool}: {event.by} says it {said}", {"note": event.note}, event.call
        case ChildEnded():
            return f"call {event.call}: run of agent {event.agent} {event.status}", {}, event.call
        case GuardrailTriggered():
            return f"guardrail {event.rule}: {event.action}", {"detail": event.detail}, event.call
        case _:
            return None


def diff_lines(found: Difference) -> Iterator[Line]:
    """The comparison, for people."""
    (one, other), (first, second) = found.runs, found.after
    yield Line(f"run {one.run_id} ({one.state.status}) beside run {other.run_id} ({other.state.status})", "title")
    if not first and not second:
        yield Line(f"  the same in all {len(found.same)} facts", "good")
    else:
        if found.same:
            yield Line(f"  the same in the first {len(found.same)} facts, up to #{found.same[-1].seq}", "good")
        else:
            yield Line("  they differ from the first fact on", "waits")
        yield Line("")
        yield Line("they part", "section")
        yield from _parting(one.run_id, first, second)
        yield from _parting(other.run_id, second, first)
        for view, facts in zip(found.runs, found.after, strict=True):
            if len(facts) > 1:
                yield Line("")
                yield Line(f"after that, run {view.run_id}", "section")
                yield from (Line(f"  #{fact.seq:<4} {fact.what}") for fact in facts[1:])
    yield Line("")
    yield Line("spent", "section")
    for view, seconds in zip(found.runs, found.seconds, strict=True):
        state = view.state
        calls = f"{state.step - state.first_step} iteration(s), {state.tool_calls} tool call(s)"
        cost = f"{state.total_tokens:,} tokens, {state.total_cost_usd:f} USD"
        yield Line(f"  run {view.run_id}: {calls}, {cost}, {duration(seconds)}")


def _parting(run: str, facts: Sequence[Fact], others: Sequence[Fact]) -> Iterator[Line]:
    """The first fact that only one run has; of what both have, the parts that differ."""
    if not facts:
        yield Line(f"  run {run} has nothing more", "waits")
        return
    fact = facts[0]
    yield Line(f"  run {run} #{fact.seq} {fact.what}", "waits")
    content = fact.content
    if others and others[0].what == fact.what:
        theirs = others[0].content
        content = {name: value for name, value in content.items() if name not in theirs or theirs[name] != value}
    for name, value in content.items():
        if isinstance(value, str):
            yield from block(f"{name}: {value}")
        else:
            yield from block(f"{name}: {json.dumps(value, ensure_ascii=False, indent=2, default=str)}")


def diff_document(found: Difference) -> dict[str, Any]:
    """`callboard.diff/1`."""
    first, second = found.after
    return {
        "schema": "callboard.diff/1",
        "equal": not first and not second,
        "runs": [run_document(view) for view in found.runs],
        "seconds": list(found.seconds),
        "same": [_fact(fact) for fact in found.same],
        "after": [[_fact(fact) for fact in facts] for facts in found.after],
    }


def _fact(fact: Fact) -> dict[str, Any]:
    about = None if fact.call == _NO_CALL else fact.call
    return {"run": fact.run, "seq": fact.seq, "what": fact.what, "call": about, "content": fact.content}
