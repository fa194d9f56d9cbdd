"""What a run, its workers and its callers say to each other."""

from decimal import Decimal
from typing import Any

import msgspec

from ...mailbox.message import Message
from ...mailbox.request import Request
from .budget import Budget
from .compaction import Cut
from .events import Finding, Provenance, RequestedCall, ToolAsked, Trust
from .guard_events import Guarded


class StartRun(Message, tag="run.start"):
    """Anybody to a run's address: begin. Said twice, it is done once."""

    goal: str
    budget: Budget = Budget()
    model: str = "unspecified"
    system_prompt: str = ""
    requested_by: str = "unknown"
    max_llm_attempts: int = 0
    """0: transient errors are retried for as long as the run may last."""
    agent: str = ""
    """Which agent of the desk it is; "": the desk's own."""
    goal_trust: Trust = "trusted"
    """untrusted: the goal was written by somebody outside."""
    guardrails: str = ""
    """Name of the guardrail profile; "": the desk's."""
    parent: str = ""
    """Address of the run that asks for it, as a call of its own."""
    parent_call: int = 0
    depth: int = 0
    elsewhere: dict[str, str] = msgspec.field(default_factory=dict)
    """Child of a fork: what was done elsewhere and is not to be done again unasked."""
    plan: dict[str, int] | None = None
    """Tools that may be called without asking, each at most so many times (0: any number); None: no plan."""


class StartChild(Request["ChildAnswered"], tag="run.start_child"):
    """A run to a child run's address: begin, and answer when you have ended."""

    start: StartRun


class ChildAnswered(Message, tag="run.child_answered"):
    """A run that has ended, to the run whose child it is."""

    status: str
    answer: str = ""
    """Its final answer, or why there is none."""
    iterations: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)


class RunUnfinished(Message, tag="run.unfinished"):
    """A run that has ended without an answer, and is nobody's child, to who looks after such (`Parts.unfinished`)."""

    run: str
    """Its address."""
    goal: str
    status: str
    """failed or cancelled."""
    reason: str = ""
    """Of a failed run: which limit was reached, or what else (`budget.FailureReason`)."""
    detail: str = ""


class Unanswered(msgspec.Struct, frozen=True):
    """A call that the origin had no answer to at the event where it is forked."""

    call: int
    tool: str
    tool_call_id: str
    error: str
    """What the fork's model is told instead."""


class ForkRun(Message, tag="run.fork"):
    """Anybody to a new run's address: go on from an event of another run. Said twice, it is done once."""

    origin: str
    """Address of the other run."""
    origin_seq: int
    state: dict[str, Any]
    """Its state at that event, without what it waits for."""
    budget: Budget
    unanswered: list[Unanswered] = msgspec.field(default_factory=list)
    elsewhere: dict[str, str] = msgspec.field(default_factory=dict)
    requested_by: str = "unknown"
    note: str = ""
    """For people."""
    say: str = ""
    """For the model."""


class Tell(Message, tag="run.tell"):
    """Anybody to a live run: one more thing."""

    text: str
    by: str = ""
    trust: Trust = "trusted"


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
    agent: str = ""
    """Which agent's model and tools; "": the desk's own."""
    guardrails: str = "validation"
    compactions: int = 0
    """How often the conversation was made shorter for this step."""
    until: float = 0.0
    """When the run's time is up, in seconds since 1970; 0: never."""
    summary_of: Cut | None = None
    """Given: the model is not to answer, but to sum up what this leaves out (`SummaryWritten`)."""
    cause: str = ""
    """Of the cut."""


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
    findings: list[Guarded] = msgspec.field(default_factory=list)
    """What the guardrails saw in what is new since the last answer, and in this one."""
    untrusted: bool = False
    """There was untrusted text in what the model had read."""
    model: str = ""
    """Which model it was; "" where its client has no name for it."""


class ModelFailed(Message, tag="model.failed"):
    """Model worker to run: an attempt failed; `final`: no other will be made."""

    step: int
    attempt: int
    error: str
    final: bool = False
    cost_usd: Decimal = Decimal(0)
    """What the attempt cost all the same."""
    kind: str = ""
    wait_seconds: float = 0.0
    """How long until the next attempt."""
    sent: bool = True
    """False: the provider was not asked at all, and `attempt` is the number of the last one that was made."""
    lost: int = 0
    """See `LLMCallFailed`."""


class ModelTooLong(Message, tag="model.too_long"):
    """Model worker to run: the conversation is too long, and this is what to leave out of it."""

    step: int
    cut: Cut
    cause: str


class SummaryWritten(Message, tag="model.summary"):
    """Model worker to run: the cut, with the model's summary; or with the one by rule where it could not write one."""

    step: int
    cut: Cut
    cause: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)


class CallTool(Message, tag="tool.call"):
    """Run to tool worker."""

    run_id: str
    call: int
    tool: str
    arguments: dict[str, Any]
    idempotency_key: str
    digest: str = ""
    """Of what was approved; checked again before the call. "" where no approval was needed."""
    approval: str = ""
    """The decision that lets it go, for the tool; "" where nobody was asked."""


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


class ToolAsks(Message, tag="tool.asks"):
    """Tool worker to run: nothing was done, and people have to let this call go first."""

    call: int
    asks: ToolAsked
    provenance: list[Provenance] = msgspec.field(default_factory=list)
    """Where the call's values come from, as the model's answer was recorded with it."""


class ToolDoubted(Message, tag="tool.doubted"):
    """Tool worker to run: it was started before a crash, and may or may not have happened."""

    call: int
    detail: str = ""


class CheckCall(Message, tag="tool.check"):
    """Run to tool worker: what do the tool's `checks` find about a call that waits for a person?"""

    decision: str
    call: int
    tool: str
    arguments: dict[str, Any]
    at_release: bool = False
    """Asked again after the approval, before the call goes."""


class CallChecked(Message, tag="tool.checked"):
    """Tool worker to run."""

    decision: str
    call: int
    findings: list[Finding] = msgspec.field(default_factory=list)
    at_release: bool = False
