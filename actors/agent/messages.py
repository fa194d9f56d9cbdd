"""What a run, its workers and its callers say to each other."""

from decimal import Decimal
from typing import Any

import msgspec

from ...mailbox.message import Message
from ...mailbox.request import Request
from .budget import Budget
from .events import RequestedCall


class StartRun(Message, tag="run.start"):
    """Anybody to a run's address: begin. Said twice, it is done once."""

    goal: str
    budget: Budget = Budget()
    model: str = "unspecified"
    system_prompt: str = ""
    requested_by: str = "unknown"
    max_llm_attempts: int = 0
    """0: transient errors are retried for as long as the run may last."""


class Tell(Message, tag="run.tell"):
    """Anybody to a live run: one more thing."""

    text: str
    by: str = ""


class CancelRun(Message, tag="run.cancel"):
    """Anybody with the right, to a run: begin nothing more and end."""

    by: str = ""
    reason: str = ""


class AwaitRest(Request["Rested"], tag="run.await_rest"):
    """Anybody to a run: answer when there is nothing you can do without a person (`Rested`)."""


class Rested(Message, tag="run.rested"):
    """A run to who awaited its rest."""

    status: str


class CallModel(Message, tag="model.call"):
    """Run to model worker: the transcript up to event `upto` is the prompt."""

    step: int
    upto: int
    system_prompt: str = ""
    max_attempts: int = 0


class ModelAnswered(Message, tag="model.answered"):
    """Model worker to run."""

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
    node: int = 0
    """Number of the node that made the call."""


class ModelFailed(Message, tag="model.failed"):
    """Model worker to run: an attempt failed; `final`: no other will be made."""

    step: int
    attempt: int
    error: str
    final: bool = False
    cost_usd: Decimal = Decimal(0)
    """What the attempt cost all the same."""


class CallTool(Message, tag="tool.call"):
    """Run to tool worker."""

    run_id: str
    call: int
    tool: str
    arguments: dict[str, Any]
    idempotency_key: str
    digest: str = ""
    """Of what was approved; checked again before the call. "" where no approval was needed."""


class ToolAnswered(Message, tag="tool.answered"):
    """Tool worker to run: it happened."""

    call: int
    result: dict[str, Any]
    duration_ms: int = 0
    attempt: int = 1
    node: int = 0
    """Number of the node that made the call."""


class ToolErred(Message, tag="tool.erred"):
    """Tool worker to run: an attempt failed; `final`: no other will be made."""

    call: int
    error: str
    attempt: int = 1
    final: bool = True


class ToolDoubted(Message, tag="tool.doubted"):
    """Tool worker to run: it was started before a crash, and may or may not have happened."""

    call: int
    detail: str = ""
