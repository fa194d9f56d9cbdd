"""A run as one document: enough to show it, or to go on with it elsewhere. Pure, made from the journal."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ...mailbox.message import Message
from .events import ToolCallCompleted
from .state import Call, RunState
from .transcript import Transcript


class PendingToolCall(msgspec.Struct, frozen=True):
    """The call that a paused run waits on, with what its siblings have answered meanwhile."""

    tool: str
    arguments: dict[str, Any]
    call: int
    tool_call_id: str
    reason: str
    digest: str
    executed_sibling_results: dict[int, dict[str, Any]]


class StateSnapshot(msgspec.Struct, frozen=True):
    """A run as one document.

    `context` holds `status`, `counters` (iterations, calls, tool_calls, events), `budget`, `usage` (tokens, cost) and
    `session` (who asked for it, model, agent, parent, origin, when it started), and says `step` and `tool_calls` too.
    """

    run_id: str
    context: dict[str, Any]
    messages: list[Any]
    """The conversation, as the model is told it."""
    sdk_state: dict[str, Any]
    """What an adapter keeps for its framework, which nobody here looks into."""
    pending: PendingToolCall | None
    saved_at: int
    """When its last event was recorded, in milliseconds since 1970."""


def snapshot_of(
    run_id: str,
    state: RunState,
    transcript: Transcript,
    events: Sequence[Message],
    *,
    saved_at: int,
    sdk_state: dict[str, Any] | None = None,
) -> StateSnapshot:
    """The document of a run whose own journal is `events`."""
    waits = state.pending_approval
    context = {
        "status": state.status,
        "step": state.step,
        "tool_calls": state.tool_calls,
        "counters": {
            "iterations": state.iterations,
            "calls": state.calls,
            "tool_calls": state.tool_calls,
            "events": len(events),
        },
        "budget": msgspec.to_builtins(state.budget),
        "usage": {
            "input_tokens": state.input_tokens,
            "output_tokens": state.output_tokens,
            "cost_usd": str(state.total_cost_usd),
        },
        "session": {
            "requested_by": state.requested_by,
            "model": state.model,
            "agent": state.agent,
            "parent": state.parent,
            "origin": state.origin,
            "started_at": state.started_at,
        },
    }
    messages = [msgspec.to_builtins(message) for message in transcript.messages]
    pending = None if waits is None else _pending(waits, events)
    return StateSnapshot(run_id, context, messages, sdk_state or {}, pending, saved_at)


def _pending(waits: Call, events: Sequence[Message]) -> PendingToolCall:
    done = [e for e in events if isinstance(e, ToolCallCompleted) and e.step == waits.step]
    siblings = {event.call: event.result for event in done}
    return PendingToolCall(
        waits.tool, waits.arguments, waits.call, waits.tool_call_id, waits.reason, waits.digest, siblings
    )
