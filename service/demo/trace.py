"""A run's journal, one line for each event: short enough for the end of a demonstration.

Pure: events in, lines out. Long values are cut with a mark; `callboard replay` tells all (`service/trace.py`). Callers
make the text safe for what they show it on.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from callboard.actors.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    BudgetSet,
    CancelRequested,
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    MessageTold,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
)
from callboard.actors.agent.guard_events import GuardrailTriggered
from callboard.actors.agent.runs import Recorded
from callboard.mailbox import codec

MAX_TEXT = 160
PAUSE_SECONDS = 1.0
"""A wait at least this long between two events is shown."""


def trace_lines(events: Iterable[Recorded]) -> Iterator[str]:
    """The lines that tell these events, in order."""
    previous: Recorded | None = None
    for recorded in events:
        if previous is not None:
            if recorded.node != previous.node:
                yield f"      ── node {previous.node} is gone; node {recorded.node} goes on ──"
            if recorded.at - previous.at >= PAUSE_SECONDS:
                yield f"      … {_duration(recorded.at - previous.at)} …"
        yield f"{recorded.seq:>4}  {_tell(recorded.event)}"
        previous = recorded


def _tell(event: Any) -> str:
    name = type(event).__name__
    return f"{name:<18}  {_detail(event)}".rstrip()


def _detail(event: Any) -> str:
    match event:
        case RunStarted():
            return f"goal={_cut(event.goal)!r}"
        case LLMCallRequested():
            return f"iteration {event.step}"
        case LLMCallFailed():
            return f"iteration {event.step} attempt {event.attempt}{_final(event.final)}: {_cut(event.error)}"
        case LLMCallCompleted():
            calls = ", ".join(f"{call.name}({_arguments(call.arguments)})" for call in event.tool_calls)
            said = calls or repr(_cut(event.content))
            tokens = f"{event.input_tokens}+{event.output_tokens} tokens"
            return f"iteration {event.step} -> {said}  {tokens}{_recovered(event.recovered)}"
        case RunCompleted():
            return f"{_cut(event.final_answer)!r} after {event.total_steps} iterations, {event.total_tokens} tokens"
        case RunFailed():
            return f"{event.reason}: {_cut(event.detail)}"
        case RunCancelled() | CancelRequested():
            return f"by {event.by or 'somebody'} {_cut(event.reason)}".rstrip()
        case MessageTold():
            return f"{event.by or 'somebody'}: {_cut(event.text)!r}"
        case _:
            return _detail_of_call(event)


def _detail_of_call(event: Any) -> str:
    match event:
        case ToolCallRequested():
            gate = "  (approved)" if event.decision else ""
            return f"call {event.call} {event.tool}({_arguments(event.arguments)}){gate}"
        case ToolCallCompleted():
            result = _cut(codec.encode(event.result))
            dedup = "  [dedup hit]" if event.provider_dedup_hit else ""
            return f"call {event.call} {event.tool} -> {result}{dedup}{_recovered(event.recovered)}"
        case ToolCallFailed():
            return f"call {event.call} {event.tool} attempt {event.attempt}{_final(event.final)}: {_cut(event.error)}"
        case ToolCallInDoubt():
            return f"call {event.call} {event.tool}: {_cut(event.reason)}"
        case ToolCallSettled():
            said = "happened" if event.happened else "did not happen, made again"
            return f"call {event.call} {event.tool}: {event.by} says it {said} {_cut(event.note)}".rstrip()
        case ApprovalRequested():
            return f"call {event.call} {event.tool}({_arguments(event.arguments)}) held: {_cut(event.reason)}"
        case ApprovalGranted():
            return f"call {event.call} by {event.approver} {_cut(event.note)}".rstrip()
        case ApprovalDenied():
            return f"call {event.call} {event.tool} by {event.approver}: {_cut(event.reason)}"
        case ApprovalExpired():
            return f"call {event.call} {event.tool}: nobody decided in time"
        case _:
            return _detail_of_rest(event)


def _detail_of_rest(event: Any) -> str:
    match event:
        case GuardrailTriggered():
            return f"{event.rule} {event.action}: {_cut(event.detail)}"
        case BudgetSet():
            return f"{event.label}: {_cut(event.reason)}"
        case _:
            return _cut(codec.encode(event))


def _arguments(arguments: dict[str, Any]) -> str:
    return _cut(", ".join(f"{name}={value!r}" for name, value in arguments.items()))


def _final(final: bool) -> str:
    return " (final)" if final else ""


def _recovered(recovered: bool) -> str:
    return "  [recovered]" if recovered else ""


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT else f"{line[:MAX_TEXT]}… ({len(line) - MAX_TEXT} more)"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"
