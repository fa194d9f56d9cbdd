"""A run's state: the fold of its journal, nothing more.

`apply` is pure but for the state it is given, and total: every prefix of a journal folds. The run actor changes its
state in no other way, so its snapshot can be proved from the journal at any time (`callboard verify`). The transcript
is not in here: it *is* the journal (`transcript`), so a snapshot stays small and a step costs the same at any length.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal

import msgspec

from ...mailbox.message import Message
from .budget import Budget
from .events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
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

RunStatus = Literal["not_started", "running", "awaiting_approval", "completed", "failed", "cancelled"]

FINISHED: frozenset[str] = frozenset({"completed", "failed", "cancelled"})


class Call(msgspec.Struct):
    """A tool call that has no answer yet."""

    call: int
    step: int
    tool: str
    arguments: dict[str, Any]
    status: Literal["running", "held", "in_doubt"]
    message: int
    idempotency_key: str = ""
    digest: str = ""
    """Of what is asked, while it waits for a person; of what was approved, once it was let go."""
    tool_call_id: str = ""
    decision: str = ""
    reason: str = ""
    attempts: int = 0
    node: int = 0
    """Number of the node that let it go."""
    approved: str = ""
    """In doubt: the digest that was approved before; what is made again must still have it."""


class RunState(msgspec.Struct):
    """Where a run is."""

    status: RunStatus = "not_started"
    run_id: str = ""
    goal: str = ""
    model: str = ""
    system_prompt: str = ""
    requested_by: str = ""
    started_at: float = 0.0
    budget: Budget = Budget()
    max_llm_attempts: int = 0
    step: int = 0
    """Model calls that were asked for."""
    calls: int = 0
    """Tool calls that were asked for, refused ones included; numbers the next one."""
    tool_calls: int = 0
    """Tool calls that were let go."""
    pending: dict[int, Call] = {}
    """Tool calls without an answer, by number."""
    model_message: int = 0
    """The model call under way; 0 for none."""
    model_node: int = 0
    model_attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_cost_usd: Decimal = Decimal(0)
    news: bool = False
    """Something was said that the model has not read."""
    cancelling: bool = False
    cancelled_by: str = ""
    cancel_reason: str = ""
    final_answer: str | None = None
    failure_reason: str | None = None
    failure_detail: str = ""

    @property
    def total_tokens(self) -> int:
        """Input and output tokens of all model calls."""
        return self.input_tokens + self.output_tokens

    @property
    def pending_approvals(self) -> list[Call]:
        """Calls that wait for a person, oldest first."""
        return [call for call in self.pending.values() if call.status != "running"]

    @property
    def pending_approval(self) -> Call | None:
        """The oldest call that waits for a person."""
        return next(iter(self.pending_approvals), None)

    @property
    def finished(self) -> bool:
        """Whether nothing more happens in this run."""
        return self.status in FINISHED


def fold(events: Iterable[Message]) -> RunState:
    """The state after these events."""
    state = RunState()
    for event in events:
        apply(state, event)
    return state


def apply(state: RunState, event: Message) -> None:
    """Change `state` as `event` says."""
    match event:
        case RunStarted():
            _started(state, event)
        case LLMCallRequested():
            state.step, state.model_message, state.model_attempts = event.step, event.message, 0
            state.model_node = event.node
            state.news = False
        case LLMCallFailed():
            state.model_attempts = event.attempt
            state.model_message = 0 if event.final else state.model_message
            state.total_cost_usd += event.cost_usd
        case LLMCallCompleted():
            state.model_message = 0
            state.input_tokens += event.input_tokens
            state.output_tokens += event.output_tokens
            state.total_cost_usd += event.cost_usd
        case MessageTold():
            state.news = True
        case CancelRequested():
            state.cancelling, state.cancelled_by, state.cancel_reason = True, event.by, event.reason
        case RunCompleted():
            state.status, state.final_answer = "completed", event.final_answer
        case RunFailed():
            state.status, state.failure_reason, state.failure_detail = "failed", event.reason, event.detail
        case RunCancelled():
            state.status, state.failure_detail = "cancelled", event.reason
        case _:
            _apply_to_call(state, event)
    if not state.finished:
        _settle_status(state)


def _started(state: RunState, event: RunStarted) -> None:
    state.status, state.run_id, state.goal = "running", event.run_id, event.goal
    state.model, state.system_prompt, state.requested_by = event.model, event.system_prompt, event.requested_by
    state.started_at, state.budget, state.max_llm_attempts = event.at, event.budget, event.max_llm_attempts


def _apply_to_call(state: RunState, event: Message) -> None:
    match event:
        case ToolCallRequested():
            _let_go(state, event)
        case ApprovalRequested():
            state.calls = max(state.calls, event.call)
            state.pending[event.call] = Call(
                event.call,
                event.step,
                event.tool,
                event.arguments,
                "held",
                event.message,
                event.idempotency_key,
                event.digest,
                event.tool_call_id,
                event.decision,
                event.reason,
            )
        case ApprovalGranted():
            return
        case ToolCallFailed():
            state.calls = max(state.calls, event.call)
            if event.final:
                state.pending.pop(event.call, None)
            elif event.call in state.pending:
                state.pending[event.call].attempts = event.attempt
        case ToolCallCompleted() | ApprovalDenied() | ApprovalExpired():
            state.pending.pop(event.call, None)
        case ToolCallInDoubt():
            if event.call in state.pending:
                call = state.pending[event.call]
                call.status, call.decision, call.approved = "in_doubt", event.decision, call.digest
                call.digest, call.reason = event.digest, event.reason
                call.attempts += 1
        case ToolCallSettled():
            _settled(state, event)
        case _:
            return


def _let_go(state: RunState, event: ToolCallRequested) -> None:
    state.calls = max(state.calls, event.call)
    state.tool_calls += 1
    state.pending[event.call] = Call(
        event.call,
        event.step,
        event.tool,
        event.arguments,
        "running",
        event.message,
        event.idempotency_key,
        event.digest,
        event.tool_call_id,
        event.decision,
        node=event.node,
    )


def _settled(state: RunState, event: ToolCallSettled) -> None:
    if event.happened:
        state.pending.pop(event.call, None)
    elif event.call in state.pending:
        call = state.pending[event.call]
        call.status, call.message, call.decision, call.reason = "running", event.message, "", ""
        call.digest, call.approved, call.node = call.approved, "", event.node


def _settle_status(state: RunState) -> None:
    if state.status == "not_started":
        return
    waits = state.pending and all(call.status != "running" for call in state.pending.values())
    state.status = "awaiting_approval" if waits and not state.model_message else "running"
