"""A run of an agent, as an actor: a state machine over messages, whose every step is in its journal.

    StartRun ──▶ iterate ──CallModel──▶ ModelAnswered ──▶ no tool calls: completed
                   ▲                         └─▶ each call: refused │ held for a person │ CallTool
                   └───── all calls answered ◀── ToolAnswered, ToolErred(final), Denied, Expired

The state changes by events only (`state.apply`): a handler decides, records, and sends. Calls of one turn run side by
side, gated ones are held while the others execute, and the model is asked again when every one has its answer.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ...mailbox.address import key_of
from ...persistence.rows import Decision
from ...persistence.unit import Move
from ..actor import Actor, on
from ..approval import Denied, Expired, ExpiryWanted, Release
from ..context import Context, Event
from .budget import overrun
from .digest import call_digest, canonical, idempotency_key
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
    RequestedCall,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
    ToolVersion,
)
from .gate import Go, Hold, Refuse, judge
from .messages import (
    AwaitRest,
    CallModel,
    CallTool,
    CancelRun,
    ModelAnswered,
    ModelFailed,
    Rested,
    StartRun,
    Tell,
    ToolAnswered,
    ToolDoubted,
    ToolErred,
)
from .prompt import prompt_hash
from .state import Call, RunState, apply
from .tool import Tool

MAX_WAITERS = 64
"""Askers that wait for a run to rest; the oldest is answered early when there are more."""


class Parts(msgspec.Struct, frozen=True):
    """Addresses that a run works with."""

    model: str
    tool: str
    approvals: str
    approval_seconds: float = 0.0
    """How long a decision may take; 0: for ever."""


class RunSnapshot(msgspec.Struct):
    """What a run keeps: the fold of its journal, and who waits for it."""

    run: RunState = msgspec.field(default_factory=RunState)
    waiters: list[tuple[str, int]] = []


class Run(Actor[RunSnapshot], kind="run"):
    """One run of an agent; its address's key is the run id."""

    def __init__(self, parts: Parts, tools: Mapping[str, Tool]) -> None:
        self.parts = parts
        self.tools = tools

    def summary(self) -> Mapping[str, Any]:
        run = self.state.run
        waits = run.pending_approval
        return {
            "status": run.status,
            "goal": run.goal[:200],
            "step": run.step,
            "tokens": run.total_tokens,
            "cost_usd": str(run.total_cost_usd),
            "started_at": run.started_at,
            "waits_for": f"{waits.tool}: {waits.reason}"[:200] if waits else "",
            "detail": (run.final_answer or run.failure_detail)[:200],
        }

    # --- from outside ------------------------------------------------------------------------------------------

    @on(creates=True)
    def start(self, message: StartRun, ctx: Context) -> None:
        if self.state.run.status != "not_started":
            return
        started = RunStarted(
            run_id=key_of(ctx.address) or ctx.address,
            goal=message.goal,
            at=ctx.now,
            budget=message.budget,
            model=message.model,
            system_prompt=message.system_prompt,
            system_prompt_hash=prompt_hash(message.system_prompt),
            requested_by=message.requested_by,
            tools=[ToolVersion(tool.name, tool.version) for tool in self.tools.values()],
            max_llm_attempts=message.max_llm_attempts,
        )
        self._record(started, ctx)
        self._iterate(ctx)

    @on
    def tell(self, message: Tell, ctx: Context) -> None:
        self._record(MessageTold(message.text, message.by), ctx)

    @on
    def await_rest(self, message: AwaitRest, ctx: Context) -> None:
        if self.state.run.status == "awaiting_approval":
            ctx.reply(Rested("awaiting_approval"))
            return
        self.state.waiters.append(ctx.reply_to)
        while len(self.state.waiters) > MAX_WAITERS:
            ctx.reply_later(self.state.waiters.pop(0), Rested(self.state.run.status))

    @on
    def cancel(self, message: CancelRun, ctx: Context) -> None:
        if self.state.run.cancelling:
            return
        self._record(CancelRequested(message.by, message.reason), ctx)
        for call in [call for call in self.state.run.pending.values() if call.status != "running"]:
            self._withdraw_decision(call, ctx)
            if call.status == "held":
                ctx.drop(call.message)
            error = "cancelled before anybody decided"
            self._record(ToolCallFailed(call.step, call.call, call.tool, error, tool_call_id=call.tool_call_id), ctx)
        self._go_on(ctx)

    def _withdraw_decision(self, call: Call, ctx: Context) -> None:
        for before in ("pending", "approved"):
            ctx.move_decision(Move(call.decision, before, "superseded", "the run was cancelled", must=False))

    # --- the model ---------------------------------------------------------------------------------------------

    def _iterate(self, ctx: Context) -> None:
        """The top of an iteration: may there be another, and if so, ask the model."""
        run = self.state.run
        if run.cancelling:
            self._record(RunCancelled(reason="cancelled"), ctx)
            self._end("cancelled", ctx)
            return
        over = overrun(run.budget, run, ctx.now)
        if over is not None:
            self._record(RunFailed(over.reason, over.detail), ctx)  # type: ignore[arg-type]
            self._end("failed", ctx)
            return
        step = run.step + 1
        request = CallModel(step, ctx.row.events + 1, run.system_prompt, run.max_llm_attempts)
        identifier = ctx.send(self.parts.model, request)
        self._record(LLMCallRequested(step, identifier, ctx.node), ctx)

    @on
    def model_failed(self, message: ModelFailed, ctx: Context) -> None:
        run = self.state.run
        if message.step != run.step or not run.model_message:
            return
        self._record(LLMCallFailed(message.step, message.attempt, message.error, message.final), ctx)
        if message.final:
            detail = f"the model call failed {message.attempt} time(s), at last with: {message.error}"
            self._record(RunFailed("unrecoverable_error", detail), ctx)
            self._end("failed", ctx)

    @on
    def model_answered(self, message: ModelAnswered, ctx: Context) -> None:
        run = self.state.run
        if message.step != run.step or not run.model_message:
            return
        self._record(_completed(message, recovered=message.node != run.model_node), ctx)
        if run.cancelling:
            for asked in message.tool_calls:
                self._refuse(asked, run.calls + 1, "the run was cancelled", ctx)
        elif message.tool_calls:
            for asked in message.tool_calls:
                self._request(asked, ctx)
        elif not run.news:
            total = (run.step, run.total_tokens, run.total_cost_usd)
            self._record(RunCompleted(message.content, *total), ctx)
            self._end("completed", ctx)
            return
        self._go_on(ctx)

    # --- tool calls --------------------------------------------------------------------------------------------

    def _request(self, asked: RequestedCall, ctx: Context) -> None:
        """One call that the model asked for: refuse it, hold it, or make it."""
        number = self.state.run.calls + 1
        verdict = judge(asked, self.tools)
        match verdict:
            case Refuse():
                self._refuse(asked, number, verdict.error, ctx)
            case Hold():
                self._hold(asked, number, verdict, ctx)
            case Go():
                call = self._call(number, verdict)
                self._send(asked.id, call, ctx)

    def _refuse(self, asked: RequestedCall, number: int, error: str, ctx: Context) -> None:
        failed = ToolCallFailed(self.state.run.step, number, asked.name, error, attempt=0, tool_call_id=asked.id)
        self._record(failed, ctx)

    def _call(self, number: int, verdict: Go | Hold, digest: str = "") -> CallTool:
        run_id, tool, arguments = self.state.run.run_id, verdict.tool, verdict.arguments
        key = idempotency_key(run_id, number, tool.name, arguments.canonical)
        return CallTool(run_id, number, tool.name, arguments.plain, key, digest)

    def _send(self, tool_call_id: str, call: CallTool, ctx: Context) -> None:
        identifier = ctx.send(self.parts.tool, call)
        requested = ToolCallRequested(
            self.state.run.step,
            call.call,
            call.tool,
            call.arguments,
            call.idempotency_key,
            identifier,
            tool_call_id=tool_call_id,
            node=ctx.node,
        )
        self._record(requested, ctx)

    def _hold(self, asked: RequestedCall, number: int, verdict: Hold, ctx: Context) -> None:
        run, tool, arguments = self.state.run, verdict.tool, verdict.arguments
        digest = call_digest(f"{run.run_id}.{number}", tool.name, tool.version, arguments.canonical)
        call = self._call(number, verdict, digest)
        identifier = ctx.hold(self.parts.tool, call)
        decision = f"{run.run_id}.{number}"
        requested = ApprovalRequested(
            run.step,
            number,
            tool.name,
            arguments.plain,
            verdict.reason,
            decision,
            digest,
            identifier,
            call.idempotency_key,
            asked.id,
            self.parts.approval_seconds,
        )
        self._record(requested, ctx)
        self._ask(run.pending[number], "approval", arguments.canonical, ctx)

    def _ask(self, call: Call, kind: Any, canonical: str, ctx: Context) -> None:
        """Put a question to people: its row, and the wait for its expiry."""
        seconds = self.parts.approval_seconds if kind == "approval" else 0.0
        ctx.ask_decision(
            Decision(
                id=call.decision,
                run=ctx.address,
                call=str(call.call),
                message_id=call.message if kind == "approval" else 0,
                approvals=self.parts.approvals,
                kind=kind,
                tool=call.tool,
                arguments=canonical,
                digest=call.digest,
                reason=call.reason,
                requested_by=self.state.run.requested_by,
                expires_seconds=seconds,
            )
        )
        if seconds:
            ctx.send(self.parts.approvals, ExpiryWanted(call.decision, str(call.call), call.digest, seconds))

    @on
    def tool_answered(self, message: ToolAnswered, ctx: Context) -> None:
        call = self.state.run.pending.get(message.call)
        if call is None or call.status != "running":
            return
        completed = ToolCallCompleted(
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
        self._record(completed, ctx)
        self._go_on(ctx)

    @on
    def tool_erred(self, message: ToolErred, ctx: Context) -> None:
        call = self.state.run.pending.get(message.call)
        if call is None or call.status != "running":
            return
        failed = ToolCallFailed(
            call.step,
            call.call,
            call.tool,
            message.error,
            message.attempt,
            message.final,
            call.idempotency_key,
            call.tool_call_id,
        )
        self._record(failed, ctx)
        if message.final:
            self._go_on(ctx)

    @on
    def tool_doubted(self, message: ToolDoubted, ctx: Context) -> None:
        call = self.state.run.pending.get(message.call)
        if call is None or call.status != "running":
            return
        run = self.state.run
        arguments = canonical(call.arguments)
        digest = call_digest(f"{run.run_id}.{call.call}", call.tool, "in-doubt", arguments)
        decision = f"{run.run_id}.{call.call}.doubt-{call.attempts + 1}"
        reason = f"in doubt: did {call.tool} happen? {message.detail}"
        self._record(ToolCallInDoubt(call.step, call.call, call.tool, decision, digest, reason), ctx)
        self._ask(call, "in-doubt", arguments, ctx)
        self._tell_waiters(ctx)

    # --- decisions ---------------------------------------------------------------------------------------------

    @on
    def released(self, message: Release, ctx: Context) -> None:
        call = self._decided(message)
        if call is None:
            return
        ctx.move_decision(Move(message.decision, "approved", "released"))
        if call.status == "in_doubt":
            self._record(
                ToolCallSettled(call.step, call.call, call.tool, True, message.by, message.note),
                ctx,
            )
            self._go_on(ctx)
            return
        ctx.release(call.message)
        self._record(ApprovalGranted(call.call, message.decision, message.by, message.note), ctx)
        requested = ToolCallRequested(
            call.step,
            call.call,
            call.tool,
            call.arguments,
            call.idempotency_key,
            call.message,
            call.digest,
            call.tool_call_id,
            message.decision,
            ctx.node,
        )
        self._record(requested, ctx)

    @on
    def denied(self, message: Denied, ctx: Context) -> None:
        call = self._decided(message)
        if call is None:
            return
        if call.status == "in_doubt":
            again = CallTool(self.state.run.run_id, call.call, call.tool, call.arguments, call.idempotency_key)
            identifier = ctx.send(self.parts.tool, again)
            settled = ToolCallSettled(call.step, call.call, call.tool, False, message.by, message.reason, identifier)
            self._record(settled, ctx)
            return
        ctx.drop(call.message)
        denied = ApprovalDenied(call.step, call.call, call.tool, message.decision, message.by, message.reason)
        self._record(denied, ctx)
        self._go_on(ctx)

    @on
    def expired(self, message: Expired, ctx: Context) -> None:
        call = self._decided(message)
        if call is None or call.status != "held":
            return
        # Should somebody have decided in this very moment, the row is not pending any more, this turn is not taken,
        # and the decision that is on its way is handled first.
        ctx.move_decision(Move(message.decision, "pending", "expired"))
        ctx.drop(call.message)
        self._record(ApprovalExpired(call.step, call.call, call.tool, message.decision), ctx)
        self._go_on(ctx)

    def _decided(self, message: Release | Denied | Expired) -> Call | None:
        """The call that a decision is about, if it still waits for exactly that."""
        call = self.state.run.pending.get(int(message.call)) if message.call.isdecimal() else None
        waits = call is not None and call.decision == message.decision and call.digest == message.digest
        return call if waits and call is not None and call.status != "running" else None

    # --- going on ----------------------------------------------------------------------------------------------

    def _go_on(self, ctx: Context) -> None:
        """After an answer: the next iteration when all are there; else the rest, if only people are waited for."""
        run = self.state.run
        if not run.pending and not run.model_message:
            self._iterate(ctx)
        else:
            self._tell_waiters(ctx)

    def _end(self, status: str, ctx: Context) -> None:
        # A run that failed is no actor that failed: its supervisor has nothing to mend.
        ctx.stop("cancelled" if status == "cancelled" else "completed", self.state.run.failure_detail)
        self._tell_waiters(ctx)

    def _tell_waiters(self, ctx: Context) -> None:
        run = self.state.run
        if run.status == "running":
            return
        for waiter in self.state.waiters:
            ctx.reply_later(waiter, Rested(run.status))
        self.state.waiters = []

    def _record(self, event: Event, ctx: Context) -> None:
        ctx.record(event)
        apply(self.state.run, event)


def _completed(message: ModelAnswered, *, recovered: bool) -> LLMCallCompleted:
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
