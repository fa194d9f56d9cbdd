"""A run's state: the fold of its journal, nothing more.

`apply` is pure but for the state it is given, and total: every prefix of a journal folds. The run actor changes its
state in no other way, so its snapshot can be proved from the journal at any time (`callboard verify`). The transcript
is not in here: it *is* the journal (`transcript`), so a snapshot stays small and a step costs the same at any length.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Literal

import msgspec

from ...mailbox.message import Message
from .approval_events import ApprovalChecked, ApprovalCheckRequested
from .budget import Budget
from .call import Call as Call  # noqa: PLC0414 - who reads a state imports this module
from .counting import COUNTED, Counted
from .events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalRequested,
    BudgetRaised,
    BudgetSet,
    CancelRequested,
    ChildEnded,
    ChildStarted,
    CodeBegun,
    CodeCalled,
    CodeRequested,
    CodeSuspended,
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    MessageTold,
    ProviderDown,
    ProviderWaited,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunForked,
    RunStarted,
    StepCompleted,
    SummaryRequested,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
    ToolsChanged,
    TranscriptCompacted,
    Trust,
)
from .question import apply_to_question, asked

RunStatus = Literal["not_started", "running", "awaiting_approval", "provider_down", "completed", "failed", "cancelled"]

FINISHED: frozenset[str] = frozenset({"completed", "failed", "cancelled"})


KEPT_BY_FORKS = ("goal", "model", "system_prompt", "max_llm_attempts", "agent", "guardrails", "goal_trust", "counted")
"""What a fork takes over from its origin, besides the numbers of steps and calls."""


class RunState(msgspec.Struct, omit_defaults=True):
    """Where a run is.

    Every turn writes it, so what has its default is left out, which is most of it. A default is therefore part of what
    is stored: it never changes (`test_the_defaults_of_a_state_are_for_ever`).
    """

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
    compactions: int = 0
    """How often the conversation was made shorter for this step."""
    failing_since: float = 0.0
    """When the model call under way failed first, in seconds since 1970; 0: it did not."""
    down_since: float = 0.0
    """The same, from when its provider counts as down; 0: it does not."""
    unreadable: int = 0
    """Answers one after the other that came to nothing (`run_model.FED_BACK`)."""
    model_error: str = ""
    """What the model call under way failed with last."""
    input_tokens: int = 0
    output_tokens: int = 0
    total_cost_usd: Decimal = Decimal(0)
    agent: str = ""
    """Which agent of the desk it is; "": the desk's own."""
    guardrails: str = "validation"
    goal_trust: Trust = "trusted"
    scope: str = ""
    """What its run id is unique in; "": the default pool, or it is older than scopes."""
    parent: str = ""
    """Address of the run whose child it is."""
    parent_call: int = 0
    depth: int = 0
    """How many runs are above it."""
    own_budget: Budget | None = None
    """What `budget` was before a classifier lowered it, for as long as it is lowered."""
    label: str = ""
    """The classifier's."""
    child_iterations: int = 0
    """Of children that have ended; their tokens, cost and tool calls are in the run's own counts."""
    first_step: int = 0
    """Step at which it was forked: what came before was another run's."""
    origin: str = ""
    """Address of the run that it was forked from."""
    origin_seq: int = 0
    """Number of the last event of `origin` that it shares."""
    elsewhere: dict[str, str] = {}
    """Calls with side effects that the origin made beyond that event, by fingerprint (`forking`): which one."""
    counted: Counted = msgspec.field(default_factory=Counted)
    """What guardrails go by."""
    news: bool = False
    """Something was said that the model has not read."""
    tools: dict[str, str] | None = None
    """The versions of the tools it has, by name; None: of an older release, which did not look."""
    cancelling: bool = False
    cancelled_by: str = ""
    cancel_reason: str = ""
    attempt: int = 0
    """Of a run whose loop is somebody else's code: how often that was begun."""
    waits: list[int] = []
    """And the calls that it was suspended for."""
    final_answer: str | None = None
    failure_reason: str | None = None
    failure_detail: str = ""

    @property
    def name(self) -> str:
        """What its decisions and keys are named after: no other run of any pool has it."""
        return f"{self.scope}:{self.run_id}" if self.scope else self.run_id

    @property
    def iterations(self) -> int:
        """Model calls that count against the budget: its own, and those of its children."""
        return self.step - self.first_step + self.child_iterations

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


def spelled_out(state: RunState) -> dict[str, Any]:
    """All of a state as plain data, also what has its default."""

    def plain(struct: msgspec.Struct) -> dict[str, Any]:
        return {name: msgspec.to_builtins(getattr(struct, name)) for name in struct.__struct_fields__}

    return {**plain(state), "pending": {number: plain(call) for number, call in state.pending.items()}}


def apply(state: RunState, event: Message) -> None:
    """Change `state` as `event` says."""
    kind = type(event)
    if kind in COUNTED:
        state.counted.note(event)
    change = _CHANGES.get(kind)
    if change is not None:
        change(state, event)
    if state.status not in FINISHED:
        _settle_status(state)


def _model_asked(state: RunState, event: LLMCallRequested) -> None:
    state.step, state.model_message, state.model_attempts = event.step, event.message, 0
    state.model_node = event.node
    state.news = False
    state.compactions = 0
    _works(state)


def _model_answered(state: RunState, event: LLMCallCompleted) -> None:
    state.model_message = state.unreadable = 0
    _works(state)
    state.input_tokens += event.input_tokens
    state.output_tokens += event.output_tokens
    state.total_cost_usd += event.cost_usd


def _summary_asked(state: RunState, event: SummaryRequested) -> None:
    state.model_message, state.model_node = event.message, event.node


def _told(state: RunState, event: MessageTold) -> None:
    state.news = True


def _cancelled(state: RunState, event: CancelRequested) -> None:
    state.cancelling, state.cancelled_by, state.cancel_reason = True, event.by, event.reason


def _ended(state: RunState, event: RunCompleted | RunFailed | RunCancelled) -> None:
    match event:
        case RunCompleted():
            state.status, state.final_answer = "completed", event.final_answer
        case RunFailed():
            state.status, state.failure_reason, state.failure_detail = "failed", event.reason, event.detail
        case RunCancelled():
            state.status, state.failure_detail = "cancelled", event.reason


def _rebudgeted(state: RunState, event: BudgetSet | BudgetRaised) -> None:
    if isinstance(event, BudgetSet):
        state.own_budget = state.budget if event.budget != state.budget else None
        state.label = event.label
    else:
        state.own_budget = None
    state.budget = event.budget


def _waits_for_provider(state: RunState, event: ProviderWaited | ProviderDown) -> None:
    if isinstance(event, ProviderWaited):
        state.failing_since = state.failing_since or event.at
    else:
        state.down_since = event.since
    state.model_error = event.error


def _started(state: RunState, event: RunStarted) -> None:
    state.status, state.run_id, state.goal = "running", event.run_id, event.goal
    state.model, state.system_prompt, state.requested_by = event.model, event.system_prompt, event.requested_by
    state.started_at, state.budget, state.max_llm_attempts = event.at, event.budget, event.max_llm_attempts
    state.agent, state.guardrails, state.goal_trust = event.agent, event.guardrails, event.goal_trust
    state.scope, state.depth, state.elsewhere = event.scope, event.depth, dict(event.elsewhere)
    state.parent, state.parent_call = event.parent, event.parent_call
    state.tools = {tool.name: tool.version for tool in event.tools}


def _forked(state: RunState, event: RunForked) -> None:
    """What the origin was, without what it waited for, and with nothing spent."""
    was = msgspec.convert(event.state, RunState)
    for name in (*KEPT_BY_FORKS, "step", "calls"):
        setattr(state, name, getattr(was, name))
    state.status, state.run_id, state.scope, state.first_step = "running", event.run_id, event.scope, was.step
    state.started_at, state.budget, state.elsewhere = event.at, event.budget, dict(event.elsewhere)
    state.origin, state.origin_seq = event.origin, event.origin_seq
    state.requested_by = event.requested_by
    state.tools = {tool.name: tool.version for tool in event.tools}


def _works(state: RunState) -> None:
    state.failing_since = state.down_since = 0.0
    state.model_error = ""


def _failed(state: RunState, event: LLMCallFailed) -> None:
    state.total_cost_usd += event.cost_usd
    if event.lost:
        return
    state.model_attempts = event.attempt
    if event.final:
        state.model_message = 0
        state.unreadable += 1
        _works(state)
    else:
        state.failing_since, state.model_error = state.failing_since or event.at, event.error


def _compacted(state: RunState, event: TranscriptCompacted) -> None:
    state.model_message, state.model_node, state.model_attempts = event.message, event.node, 0
    state.compactions += 1
    state.input_tokens += event.input_tokens
    state.output_tokens += event.output_tokens
    state.total_cost_usd += event.cost_usd
    _works(state)


def _apply_to_code(
    state: RunState, event: CodeRequested | CodeBegun | CodeSuspended | CodeCalled | StepCompleted
) -> None:
    match event:
        case CodeRequested():
            # Running the code takes the place that the model call has in other runs: somebody is at work.
            state.model_message, state.model_node, state.waits = event.message, event.node, []
        case CodeBegun():
            state.attempt = event.attempt
        case CodeSuspended():
            state.model_message, state.waits = 0, event.waits
        case CodeCalled():
            state.step = max(state.step, event.step)
        case StepCompleted():
            state.input_tokens += event.input_tokens
            state.output_tokens += event.output_tokens
            state.total_cost_usd += event.cost_usd


def _retooled(state: RunState, event: ToolsChanged) -> None:
    gone = {tool.name for tool in event.removed}
    kept = {name: version for name, version in (state.tools or {}).items() if name not in gone}
    state.tools = kept | {tool.name: tool.version for tool in [*event.added, *event.changed]}


def _checks(state: RunState, event: ApprovalCheckRequested | ApprovalChecked) -> None:
    held = state.pending.get(event.call)
    if held is not None and held.question is not None and held.decision == event.decision:
        apply_to_question(held.question, event)


def _call_failed(state: RunState, event: ToolCallFailed) -> None:
    state.calls = max(state.calls, event.call)
    if event.final:
        state.pending.pop(event.call, None)
    elif event.call in state.pending:
        state.pending[event.call].attempts = event.attempt


def _call_answered(state: RunState, event: ToolCallCompleted | ApprovalDenied | ApprovalExpired) -> None:
    state.pending.pop(event.call, None)


def _child_started(state: RunState, event: ChildStarted) -> None:
    if event.call in state.pending:
        call = state.pending[event.call]
        call.child, call.granted = event.child, event.budget


def _child_ended(state: RunState, event: ChildEnded) -> None:
    state.child_iterations += event.iterations
    state.tool_calls += event.tool_calls
    state.input_tokens += event.input_tokens
    state.output_tokens += event.output_tokens
    state.total_cost_usd += event.cost_usd


def _held(state: RunState, event: ApprovalRequested) -> None:
    state.calls = max(state.calls, event.call)
    if event.by_tool is not None and not event.replaces:
        state.tool_calls -= 1  # it was let go, and has come back with nothing done
    call = Call(event.call, event.step, event.tool, event.arguments, "held", event.message, event.idempotency_key)
    call.digest, call.tool_call_id = event.digest, event.tool_call_id
    call.decision, call.reason, call.question = event.decision, event.reason, asked(event)
    state.pending[event.call] = call


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


def _doubted(state: RunState, event: ToolCallInDoubt) -> None:
    if event.call in state.pending:
        call = state.pending[event.call]
        call.released = call.released or call.decision
        call.status, call.decision, call.approved = "in_doubt", event.decision, call.digest
        call.digest, call.reason = event.digest, event.reason
        call.attempts += 1


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
    if state.model_message:
        state.status = "provider_down" if state.down_since else "running"
    else:
        waits = state.pending and all(call.status != "running" for call in state.pending.values())
        state.status = "awaiting_approval" if waits else "running"


_CHANGES: Mapping[type[Message], Callable[[RunState, Any], None]] = {
    RunStarted: _started,
    RunForked: _forked,
    **dict.fromkeys((BudgetSet, BudgetRaised), _rebudgeted),
    LLMCallRequested: _model_asked,
    LLMCallCompleted: _model_answered,
    LLMCallFailed: _failed,
    **dict.fromkeys((ProviderWaited, ProviderDown), _waits_for_provider),
    SummaryRequested: _summary_asked,
    TranscriptCompacted: _compacted,
    **dict.fromkeys((CodeRequested, CodeBegun, CodeSuspended, CodeCalled, StepCompleted), _apply_to_code),
    MessageTold: _told,
    ToolsChanged: _retooled,
    ToolCallRequested: _let_go,
    **dict.fromkeys((ToolCallCompleted, ApprovalDenied, ApprovalExpired), _call_answered),
    ToolCallFailed: _call_failed,
    ToolCallInDoubt: _doubted,
    ToolCallSettled: _settled,
    ApprovalRequested: _held,
    **dict.fromkeys((ApprovalCheckRequested, ApprovalChecked), _checks),
    ChildStarted: _child_started,
    ChildEnded: _child_ended,
    CancelRequested: _cancelled,
    **dict.fromkeys((RunCompleted, RunFailed, RunCancelled), _ended),
}
"""What each event does; one that is not in here changes nothing."""
