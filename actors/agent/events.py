"""What is written in a run's journal: past-tense facts, before and after each act.

    RunStarted
      LLMCallRequested  LLMCallFailed*  LLMCallCompleted
        ToolCallRequested  ToolCallFailed*  ToolCallCompleted          a call that may go
        ApprovalRequested  ApprovalGranted | Denied | Expired          a call that needs a person, before it goes
        ToolCallInDoubt    ToolCallSettled                             a call whose outcome nobody knows
    MessageTold                                                        somebody spoke to the run
    RunCompleted | RunFailed | RunCancelled

Fields are only added, with a default. A call is named by its number in the run (`call`, from 1); the model's own ids
may be empty or repeated and are only sent back to it.
"""

from decimal import Decimal
from typing import Any

import msgspec

from ..context import Event
from .budget import Budget, FailureReason


class ToolVersion(msgspec.Struct, frozen=True):
    """A tool as it was when the run started."""

    name: str
    version: str


class RequestedCall(msgspec.Struct, frozen=True):
    """A call as the model asked for it."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str = ""
    opaque: str = ""


class RunStarted(Event, tag="run.started"):
    """A run exists."""

    run_id: str
    goal: str
    at: float
    """Seconds since 1970."""
    budget: Budget
    model: str = "unspecified"
    system_prompt: str = ""
    system_prompt_hash: str = ""
    requested_by: str = "unknown"
    tools: list[ToolVersion] = msgspec.field(default_factory=list)
    max_llm_attempts: int = 0


class LLMCallRequested(Event, tag="llm.requested"):
    """The model is about to be called."""

    step: int
    message: int
    """Id of the message to the model worker."""
    node: int = 0
    """Number of the node that asks."""


class LLMCallFailed(Event, tag="llm.failed"):
    """One attempt failed; `final`: there will be no other."""

    step: int
    attempt: int
    error: str
    final: bool = False
    cost_usd: Decimal = Decimal(0)
    """What the attempt cost all the same."""


class LLMCallCompleted(Event, tag="llm.completed"):
    """The model answered; from here on the answer is never bought again."""

    step: int
    content: str
    tool_calls: list[RequestedCall] = msgspec.field(default_factory=list)
    stop_reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    latency_ms: int = 0
    provider_request_id: str = ""
    attempt: int = 1
    recovered: bool = False


class ToolCallRequested(Event, tag="tool.requested"):
    """A tool call is about to be made."""

    step: int
    call: int
    tool: str
    arguments: dict[str, Any]
    idempotency_key: str
    message: int
    digest: str = ""
    tool_call_id: str = ""
    decision: str = ""
    """The approval that let it go; "" where none was needed."""
    node: int = 0
    """Number of the node that asks."""


class ToolCallCompleted(Event, tag="tool.completed"):
    """A tool call had its effect, and this is its result."""

    step: int
    call: int
    tool: str
    result: dict[str, Any]
    idempotency_key: str = ""
    duration_ms: int = 0
    attempt: int = 1
    recovered: bool = False
    """The node that recorded the outcome is not the one that asked for the call."""
    provider_dedup_hit: bool = False
    tool_call_id: str = ""


class ToolCallFailed(Event, tag="tool.failed"):
    """One attempt at a tool call failed; `final`: the error goes to the model."""

    step: int
    call: int
    tool: str
    error: str
    attempt: int = 1
    final: bool = True
    idempotency_key: str = ""
    tool_call_id: str = ""


class ToolCallInDoubt(Event, tag="tool.in_doubt"):
    """It was started, and nobody knows whether it happened: a person is asked."""

    step: int
    call: int
    tool: str
    decision: str
    digest: str
    reason: str


class ToolCallSettled(Event, tag="tool.settled"):
    """A person said whether a call in doubt happened."""

    step: int
    call: int
    tool: str
    happened: bool
    by: str
    note: str = ""
    message: int = 0
    """The new attempt, where it had not happened."""
    node: int = 0
    """Number of the node that asks for it."""


class ApprovalRequested(Event, tag="approval.requested"):
    """A call is held until a person decides."""

    step: int
    call: int
    tool: str
    arguments: dict[str, Any]
    reason: str
    decision: str
    digest: str
    message: int
    idempotency_key: str = ""
    tool_call_id: str = ""
    expires_seconds: float = 0.0


class ApprovalGranted(Event, tag="approval.granted"):
    """A person let exactly this call go."""

    call: int
    decision: str
    approver: str
    note: str = ""


class ApprovalDenied(Event, tag="approval.denied_event"):
    """A person said no; the reason goes to the model."""

    step: int
    call: int
    tool: str
    decision: str
    approver: str
    reason: str = ""


class ApprovalExpired(Event, tag="approval.expired_event"):
    """Nobody decided in time; that means no."""

    step: int
    call: int
    tool: str
    decision: str


class MessageTold(Event, tag="run.told"):
    """Somebody said something to the run; the model reads it at the next iteration."""

    text: str
    by: str = ""


class CancelRequested(Event, tag="run.cancel_requested"):
    """Nothing new begins; what runs is waited for, so that the journal says what it did."""

    by: str = ""
    reason: str = ""


class RunCompleted(Event, tag="run.completed"):
    """The model gave its final answer."""

    final_answer: str
    total_steps: int
    total_tokens: int
    total_cost_usd: Decimal


class RunFailed(Event, tag="run.failed"):
    """The run ended without an answer; `detail` is a sentence."""

    reason: FailureReason
    detail: str


class RunCancelled(Event, tag="run.cancelled"):
    """Somebody ended the run."""

    by: str = ""
    reason: str = ""
