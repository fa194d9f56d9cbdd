"""The longer events of a run, made from the messages that cause them. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ...mailbox.address import key_of
from ...persistence.rows import Decision, Declared
from .approval_events import Change
from .digest import canonical
from .events import (
    ApprovalRequested,
    ChildEnded,
    LLMCallCompleted,
    RunForked,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolVersion,
)
from .guard_events import Guarded, GuardrailTriggered, Tally
from .messages import CallTool, ChildAnswered, ForkRun, ModelAnswered, StartRun, ToolAnswered
from .policy import Terms
from .prompt import prompt_hash
from .state import Call, RunState
from .text import row_text, well_formed

DEFAULT_POOL = "/agents/run"
"""The one pool whose runs' calls are named by the run id alone, as those of all pools once were."""

DEFAULT_GUARDRAILS = "validation"
"""Of a run that nobody chose a profile for."""


def scope_of(address: str) -> str:
    """What goes before a run id to tell it from equal ones in other pools: `crm.desk.agent`; "" in the default pool.

    Scope and id are joined by a colon, so a scope has none, and an id with one always has a scope before it.
    """
    pool, _, key = address.rpartition(":")
    if pool == DEFAULT_POOL and "%3A" not in key:
        return ""
    scope = pool.strip("/")
    return scope.replace(":", "=") if ":" in scope else scope.replace("/", ".")


def forked(message: ForkRun, address: str, now: float, tools: list[ToolVersion], code: str = "") -> RunForked:
    """A run begins at `now`, with another run's past."""
    return RunForked(
        run_id=key_of(address) or address,
        at=now,
        origin=message.origin,
        origin_seq=message.origin_seq,
        state=message.state,
        budget=message.budget,
        elsewhere=message.elsewhere,
        requested_by=row_text(message.requested_by),
        note=row_text(message.note),
        tools=tools,
        scope=scope_of(address),
        code_version=code,
    )


def child_ended(call: Call, message: ChildAnswered) -> ChildEnded:
    """A child run has ended."""
    return ChildEnded(
        call.call,
        call.tool,
        call.child,
        message.status,
        message.iterations,
        message.tool_calls,
        message.input_tokens,
        message.output_tokens,
        message.cost_usd,
    )


def started(
    message: StartRun,
    address: str,
    now: float,
    tools: list[ToolVersion],
    code: str = "",
    *,
    guardrail: str = DEFAULT_GUARDRAILS,
) -> RunStarted:
    """A run begins at `now`. `guardrail`: the profile of runs that name none."""
    prompt = well_formed(message.system_prompt)
    return RunStarted(
        run_id=key_of(address) or address,
        goal=well_formed(message.goal),
        at=now,
        budget=message.budget,
        model=row_text(message.model),
        system_prompt=prompt,
        system_prompt_hash=prompt_hash(prompt),
        requested_by=row_text(message.requested_by),
        tools=tools,
        max_llm_attempts=message.max_llm_attempts,
        agent=message.agent,
        goal_trust=message.goal_trust,
        guardrails=message.guardrails or guardrail,
        code_version=code,
        parent=message.parent,
        parent_call=message.parent_call,
        scope=scope_of(address),
        depth=message.depth,
        elsewhere=message.elsewhere,
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
        message.untrusted,
        message.model,
    )


def guarded(finding: Guarded, step: int, call: int = 0) -> GuardrailTriggered:
    """A guardrail saw something."""
    return GuardrailTriggered(
        step,
        finding.layer,
        row_text(finding.rule, 200),
        finding.action,
        row_text(finding.detail),
        finding.call or call,
        finding.confidence,
        finding.latency_ms,
    )


def tool_requested(
    step: int,
    call: CallTool,
    message_id: int,
    tool_call_id: str,
    node: int,
    *,
    decision: str = "",
    tally: Tally | None = None,
) -> ToolCallRequested:
    """A call that may go by itself is made, or one of an agent that was released by `decision`."""
    return ToolCallRequested(
        step,
        call.call,
        call.tool,
        call.arguments,
        call.idempotency_key,
        message_id,
        call.digest,
        tool_call_id,
        decision,
        node,
        tally,
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


def approval_requested(
    step: int, call: CallTool, message: int, decision: str, terms: Terms, *, seconds: float, again: str = ""
) -> ApprovalRequested:
    """A held call is asked for, on these terms; `again`: why once more."""
    return ApprovalRequested(
        step,
        call.call,
        call.tool,
        call.arguments,
        terms.reason,
        decision,
        call.digest,
        message,
        call.idempotency_key,
        expires_seconds=seconds,
        policy=terms.policy,
        risk=terms.risk,
        needed=terms.needed,
        not_requester=terms.not_requester,
        hold_seconds=terms.hold_seconds,
        again=again,
    )


def add_terms(row: Decision, asked: ApprovalRequested, diff: list[Change]) -> None:
    """What people are shown beside the call, and what their approval takes."""
    row.policy, row.risk, row.needed = row_text(asked.policy), asked.risk, asked.needed
    row.not_requester, row.hold_seconds = asked.not_requester, asked.hold_seconds
    row.replaces, row.edited_by = asked.replaces, _json(asked.edited_by)
    row.reason = row_text(f"{asked.again}; {asked.reason}") if asked.again else asked.reason
    row.checks, row.diff = _json(asked.findings), _json(diff)
    row.provenance = _json([*asked.provenance, *_declared(asked.sums)])


def add_sums(row: Decision, sums: Mapping[str, str]) -> None:
    """What the tool declares of the sums in a call that nobody was asked about before."""
    row.provenance = _json(_declared(sums))


def _declared(sums: Mapping[str, str]) -> list[Declared]:
    return [Declared(path, unit) for path, unit in sums.items()]


def _json(values: list[Any]) -> str:
    return msgspec.json.encode(values).decode() if values else ""
