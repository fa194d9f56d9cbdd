"""What is written in a run's journal: past-tense facts, before and after each act.

    RunStarted | RunForked  BudgetSet?  BudgetRaised?
      LLMCallRequested  LLMCallFailed*  LLMCallCompleted
        ProviderWaited     ProviderDown                                the model cannot be had: not now, not for long
        SummaryRequested   TranscriptCompacted                         the conversation is too long, and is made shorter
        ToolCallRequested  ToolCallFailed*  ToolCallCompleted          a call that may go
        ToolCallRequested  ChildStarted  ChildEnded  ToolCallCompleted a call of another agent
        ApprovalRequested  ApprovalGranted | Denied | Expired          a call that needs a person, before it goes
        ToolCallRequested  ApprovalRequested  ApprovalGranted …        a call whose tool asks for people first
          ApprovalCheckRequested  ApprovalChecked                      what its tool's checks find meanwhile
          ApprovalTakenBack  ApprovalSuperseded                        an approval that did not come to anything
          ApprovalEdited | ApprovalEditRefused                         a person changed the arguments: asked anew
        ToolCallInDoubt    ToolCallSettled                             a call whose outcome nobody knows
    PlanCommitted      GuardrailTriggered                              what was planned, and what guardrails saw
    MessageTold                                                        somebody spoke to the run
    ToolsChanged                                                       it goes on under another release's tools
    RunCompleted | RunFailed | RunCancelled

Fields are only added, with a default. A call is named by its number in the run (`call`, from 1); the model's own ids
may be empty or repeated and are only sent back to it.
"""

from decimal import Decimal
from typing import Any, Literal

import msgspec

from ..context import Event
from .budget import Budget, FailureReason
from .code_events import CodeBegun as CodeBegun  # noqa: PLC0414 - who reads a journal imports this module
from .code_events import CodeCalled as CodeCalled  # noqa: PLC0414 - who reads a journal imports this module
from .code_events import CodeRequested as CodeRequested  # noqa: PLC0414 - who reads a journal imports this module
from .code_events import CodeSuspended as CodeSuspended  # noqa: PLC0414 - who reads a journal imports this module
from .code_events import OpaqueKept as OpaqueKept  # noqa: PLC0414 - who reads a journal imports this module
from .code_events import StepCompleted as StepCompleted  # noqa: PLC0414 - who reads a journal imports this module
from .code_events import StepFailed as StepFailed  # noqa: PLC0414 - who reads a journal imports this module
from .compaction import Cut
from .guard_events import GuardrailTriggered as GuardrailTriggered  # noqa: PLC0414 - who reads a journal imports this module
from .guard_events import PlanCommitted as PlanCommitted  # noqa: PLC0414 - who reads a journal imports this module
from .guard_events import Tally
from .lineage_events import BudgetRaised as BudgetRaised  # noqa: PLC0414 - who reads a journal imports this module
from .lineage_events import BudgetSet as BudgetSet  # noqa: PLC0414 - who reads a journal imports this module
from .lineage_events import ChildEnded as ChildEnded  # noqa: PLC0414 - who reads a journal imports this module
from .lineage_events import ChildStarted as ChildStarted  # noqa: PLC0414 - who reads a journal imports this module
from .lineage_events import RunForked as RunForked  # noqa: PLC0414 - who reads a journal imports this module
from .lineage_events import ToolsChanged as ToolsChanged  # noqa: PLC0414 - who reads a journal imports this module
from .lineage_events import ToolVersion as ToolVersion  # noqa: PLC0414 - who reads a journal imports this module

Trust = Literal["trusted", "untrusted"]


class Provenance(msgspec.Struct, frozen=True):
    """Where one value in a call's arguments comes from, as far as the conversation explains it."""

    path: str
    """Of the value in the arguments: `order_id`, `items[0].sku`."""
    source: str
    """`system` (the prompt), `goal`, `said` (by a person to the run), `tool` (a result), `secret` (of such a field),
    `composed` (a sentence of the model's own), `novel`: found nowhere, or `unread`: too much to be looked at."""
    trust: Trust
    origin: str = ""
    """tool: name, call number and field of the result, such as `read_ticket#2.messages[0].text`. novel: `a date` or
    `an address` where it is one."""


class Finding(msgspec.Struct, frozen=True):
    """What one check found."""

    check: str
    """Name of its function."""
    ok: bool
    detail: str = ""
    """A sentence for the approver."""


class RequestedCall(msgspec.Struct, frozen=True):
    """A call as the model asked for it."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str = ""
    opaque: str = ""
    provenance: list[Provenance] = []
    """Where its values come from; empty where the run's guardrails do not look."""


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
    agent: str = ""
    """Which agent of the desk it is; "": the desk's own."""
    goal_trust: Trust = "trusted"
    guardrails: str = "validation"
    """Name of the guardrail profile."""
    code_version: str = ""
    """Of the program that started it."""
    parent: str = ""
    """Address of the run whose child it is."""
    parent_call: int = 0
    """Number of the call of the parent that it answers."""

    scope: str = ""
    """What the run id is unique in (`record.scope_of`)."""
    depth: int = 0
    """How many runs are above it."""
    elsewhere: dict[str, str] = msgspec.field(default_factory=dict)
    """Child of a fork: as in `RunForked`."""


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
    kind: str = ""
    """What went wrong, in one word of `llm.client.ErrorKind`; "" where nobody knows."""
    at: float = 0.0
    """Seconds since 1970."""
    lost: int = 0
    """No attempt that failed, but so many that nobody saw the end of, as their node was gone: the provider may have
    charged for them, `cost_usd` is an estimate of it, and they are not counted as attempts."""


class ProviderWaited(Event, tag="llm.provider_waited"):
    """The call was not sent, as its provider is known to be down or busy; it is tried again by itself."""

    step: int
    error: str
    at: float
    """Seconds since 1970; later ones of the same call are not recorded."""


class ProviderDown(Event, tag="llm.provider_down"):
    """The provider has not answered this call for an hour. It is tried about every minute until it does."""

    step: int
    since: float
    """When the call failed first, in seconds since 1970."""
    error: str


class SummaryRequested(Event, tag="llm.summary_requested"):
    """The conversation is too long; the model is about to sum up what is to be left out."""

    step: int
    message: int
    """Id of the message to the model worker."""
    node: int = 0
    cause: str = "limit"


class TranscriptCompacted(Event, tag="llm.transcript_compacted"):
    """The conversation was made shorter, and the model is about to be called with it: the same step goes on."""

    step: int
    message: int
    """Id of the new message to the model worker."""
    cut: Cut
    """From here on the conversation is what it was, with this cut."""
    cause: str = "limit"
    """`limit` of the desk, or `provider`: it was too long for the model."""
    node: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    """Of the summary, where the model wrote it."""


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
    untrusted: bool = False
    """There was untrusted text in what the model had read; only where the run's guardrails ask."""
    model: str = ""
    """Which model it was; "" where its client has no name for it."""


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
    tally: Tally | None = None


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


class ToolAsked(msgspec.Struct, frozen=True):
    """What a tool wants before it does anything: it was called, and asked for people (`faults.NeedsApproval`)."""

    reason: str
    risk: str = "medium"
    needed: int = 1


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
    tally: Tally | None = None
    policy: str = "tool"
    risk: str = "medium"
    needed: int = 1
    """How many different people have to approve."""
    not_requester: bool = False
    hold_seconds: float = 0.0
    provenance: list[Provenance] = msgspec.field(default_factory=list)
    replaces: str = ""
    """The decision whose place this one takes."""
    edited_by: list[str] = msgspec.field(default_factory=list)
    """Everybody who has changed the call since the model asked for it."""
    again: str = ""
    """Why it is asked for once more."""
    findings: list[Finding] = msgspec.field(default_factory=list)
    """What made it be asked again: what the checks found at the release."""
    sums: dict[str, str] = msgspec.field(default_factory=dict)
    """What the tool declared of the sums among the arguments: path to unit (sums.py)."""
    by_tool: ToolAsked | None = None
    """The tool itself asked, when the call was made; None: the gate did, before it was. An edit keeps it."""


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
    trust: Trust = "trusted"


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
