"""The longer events of a run, made from the messages that cause them. Pure."""

from ...persistence.rows import Decision
from .digest import canonical
from .events import (
    LLMCallCompleted,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolVersion,
)
from .messages import CallTool, ModelAnswered, StartRun, ToolAnswered
from .prompt import prompt_hash
from .state import Call, RunState
from .text import row_text, well_formed


def started(message: StartRun, run_id: str, now: float, tools: list[ToolVersion]) -> RunStarted:
    """A run begins at `now`."""
    prompt = well_formed(message.system_prompt)
    return RunStarted(
        run_id=run_id,
        goal=well_formed(message.goal),
        at=now,
        budget=message.budget,
        model=row_text(message.model),
        system_prompt=prompt,
        system_prompt_hash=prompt_hash(prompt),
        requested_by=row_text(message.requested_by),
        tools=tools,
        max_llm_attempts=message.max_llm_attempts,
    )


def model_completed(message: ModelAnswered, *, recovered: bool) -> LLMCallCompleted:
    """The model answered."""
    return LLMCallCompleted(
        message.step,
        message.content,
        message.tool_calls,
        message.stop_reason,
        message.input_tokens,
        message.output_tokens,
        message.cost_usd,
        message.latency_ms,
        message.provider_request_id,
        message.attempt,
        recovered,
    )


def tool_requested(step: int, call: CallTool, message_id: int, tool_call_id: str, node: int) -> ToolCallRequested:
    """A call that may go by itself is made."""
    return ToolCallRequested(
        step,
        call.call,
        call.tool,
        call.arguments,
        call.idempotency_key,
        message_id,
        tool_call_id=tool_call_id,
        node=node,
    )


def tool_released(call: Call, decision: str, node: int) -> ToolCallRequested:
    """A held call is made."""
    return ToolCallRequested(
        call.step,
        call.call,
        call.tool,
        call.arguments,
        call.idempotency_key,
        call.message,
        call.digest,
        call.tool_call_id,
        decision,
        node,
    )


def tool_completed(call: Call, message: ToolAnswered) -> ToolCallCompleted:
    """A call had its effect."""
    return ToolCallCompleted(
        call.step,
        call.call,
        call.tool,
        message.result,
        call.idempotency_key,
        message.duration_ms,
        message.attempt,
        message.node != call.node,
        bool(message.result.get("dedup_hit")),
        call.tool_call_id,
    )


def tool_failed(call: Call, error: str, attempt: int = 1, *, final: bool = True) -> ToolCallFailed:
    """An attempt at a call failed, or it will not be made."""
    return ToolCallFailed(
        call.step, call.call, call.tool, error, attempt, final, call.idempotency_key, call.tool_call_id
    )


def question(call: Call, run: RunState, address: str, approvals: str, seconds: float) -> Decision:
    """The row that puts a waiting call to people; `seconds`: how long they have, 0 for ever."""
    held = call.status == "held"
    return Decision(
        id=call.decision,
        run=address,
        call=str(call.call),
        message_id=call.message if held else 0,
        approvals=approvals,
        kind="approval" if held else "in-doubt",
        tool=call.tool,
        arguments=canonical(call.arguments),
        digest=call.digest,
        reason=call.reason,
        requested_by=run.requested_by,
        expires_seconds=seconds,
    )
