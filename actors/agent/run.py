"""A run of an agent, as an actor: a state machine over messages, whose every step is in its journal.

    StartRun ──▶ iterate ──CallModel──▶ ModelAnswered ──▶ no tool calls: completed
                   ▲                         └─▶ each call: refused │ held for a person │ CallTool
                   └───── all calls answered ◀── ToolAnswered, ToolErred(final), Denied, Expired

The state changes by events only (`state.apply`): a handler decides, records, and sends. Calls of one turn run side by
side, gated ones are held while the others execute, and the model is asked again when every one has its answer. Every
call that is sent is answered, if with AskFailed, and every handler ends in `_go_on`, `_end` or with a call under way or
held: a run never stands still without somebody it waits for.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ...mailbox.address import key_of
from ...persistence.unit import Move
from ..actor import Actor, on
from ..approval import Denied, Expired, ExpiryWanted, Release, Withdrawn
from ..context import Context, Event
from ..system import AskFailed, Cancel
from . import record
from .budget import FailureReason, overcalled, overdue, overrun
from .digest import call_digest, canonical, decision_id, idempotency_key
from .events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    CancelRequested,
    LLMCallFailed,
    LLMCallRequested,
    MessageTold,
    RequestedCall,
    RunCancelled,
    RunCompleted,
    RunFailed,
    ToolCallFailed,
    ToolCallInDoubt,
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
from .state import Call, RunState, apply
from .text import row_text, said, well_formed
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
        tools = [ToolVersion(tool.name, tool.version) for tool in self.tools.values()]
        self._record(record.started(message, key_of(ctx.address) or ctx.address, ctx.now, tools), ctx)
        self._iterate(ctx)

    @on
    def tell(self, message: Tell, ctx: Context) -> None:
        self._record(MessageTold(well_formed(message.text), row_text(message.by)), ctx)

    @on
    def await_rest(self, message: AwaitRest, ctx: Context) -> None:
        if self.state.run.status == "awaiting_approval":
            ctx.reply(Rested("awaiting_approval"))
            return
        self.state.waiters.append(ctx.reply_to)
        while len(self.state.waiters) > MAX_WAITERS:
            ctx.reply_later(self.state.waiters.pop(0), Rested(self.state.run.status))

    @on(creates=True)
    def cancel(self, message: CancelRun, ctx: Context) -> None:
        """Begin nothing more. It may come before the message that starts the run, which then ends it."""
        run = self.state.run
        if run.cancelling:
            return
        self._record(CancelRequested(row_text(message.by), said(message.reason)), ctx)
        self._ask_no_more(ctx)
        if run.model_message and run.model_attempts:
            self.model_failed(ModelFailed(run.step, run.model_attempts + 1, "the run was cancelled"), ctx)
        elif run.status != "not_started":
            self._go_on(ctx)

    def _ask_no_more(self, ctx: Context) -> None:
        """People are not waited for any more."""
        for call in self.state.run.pending_approvals:
            for before in ("pending", "approved"):
                ctx.move_decision(Move(call.decision, before, "superseded", "the run was cancelled", must=False))
            if call.status == "held":
                ctx.drop(call.message)
                ctx.send(self.parts.approvals, Withdrawn(call.decision))
            doubt = f"{call.reason}; " if call.status == "in_doubt" else ""
            self._record(record.tool_failed(call, f"{doubt}the run was cancelled before anybody decided"), ctx)

    def on_cancel(self, ctx: Context) -> None:
        """`Cancel` ends a run at once: what `CancelRun` would wait for is taken back, and its journal ends here."""
        run, message = self.state.run, ctx.envelope.message()
        if not run.cancelling and isinstance(message, Cancel):
            self._record(CancelRequested(row_text(message.by), said(message.reason)), ctx)
        self._ask_no_more(ctx)
        for call in list(run.pending.values()):
            ctx.withdraw(call.message)
            self._record(record.tool_failed(call, "the run was cancelled while it was under way"), ctx)
        if run.model_message:
            ctx.withdraw(run.model_message)
            error = "the run was cancelled while it was under way"
            self._record(LLMCallFailed(run.step, run.model_attempts + 1, error, final=True), ctx)
        self._record(RunCancelled(run.cancelled_by, run.cancel_reason or "cancelled"), ctx)
        self._tell_waiters(ctx)

    # --- the model ---------------------------------------------------------------------------------------------

    def _iterate(self, ctx: Context) -> None:
        """The top of an iteration: may there be another, and if so, ask the model."""
        run = self.state.run
        over = overrun(run.budget, run, ctx.now)
        if run.cancelling:
            self._cancelled(ctx)
        elif over is not None:
            self._fail(over.reason, over.detail, ctx)
        else:
            step = run.step + 1
            request = CallModel(step, ctx.row.events + 1, run.system_prompt, run.max_llm_attempts)
            identifier = ctx.send(self.parts.model, request)
            self._record(LLMCallRequested(step, identifier, ctx.node), ctx)

    @on
    def model_failed(self, message: ModelFailed, ctx: Context) -> None:
        run = self.state.run
        if message.step != run.step or not run.model_message:
            return
        over = None if message.final else overdue(run.budget, run, ctx.now)
        last = message.final or run.cancelling or over is not None
        if last and not message.final:
            ctx.withdraw(run.model_message)  # it would be tried again, and nobody waits for that any more
        self._record(LLMCallFailed(message.step, message.attempt, message.error, last, message.cost_usd), ctx)
        if run.cancelling:
            self._cancelled(ctx)
        elif over is not None:
            self._fail(over.reason, over.detail, ctx)
        elif last:
            detail = f"the model call failed {message.attempt} time(s), at last with: {message.error}"
            self._fail("unrecoverable_error", detail, ctx)

    @on
    def model_answered(self, message: ModelAnswered, ctx: Context) -> None:
        run = self.state.run
        if message.step != run.step or not run.model_message:
            return
        self._record(record.model_completed(message, recovered=message.node != run.model_node), ctx)
        verdicts = [judge(asked, self.tools) for asked in message.tool_calls]
        over = overcalled(run.budget, run, sum(not isinstance(verdict, Refuse) for verdict in verdicts))
        none = Refuse("the run was cancelled") if run.cancelling else Refuse(over.detail) if over else None
        for asked, verdict in zip(message.tool_calls, verdicts, strict=True):
            self._request(asked, none or verdict, ctx)
        if over is not None and not run.cancelling:
            self._fail(over.reason, over.detail, ctx)
        elif message.tool_calls or run.news or run.cancelling:
            self._go_on(ctx)
        else:
            self._record(RunCompleted(message.content, run.step, run.total_tokens, run.total_cost_usd), ctx)
            self._end("completed", ctx)

    @on
    def unanswered(self, message: AskFailed, ctx: Context) -> None:
        """A worker could not answer at all, so the runtime did: nothing else would ever come for that call."""
        run, asked = self.state.run, ctx.envelope.correlation
        error = row_text(f"no answer: {message.why}: {message.detail}")
        if asked and asked == run.model_message:
            self.model_failed(ModelFailed(run.step, run.model_attempts + 1, error, final=True), ctx)
        for call in [call for call in run.pending.values() if call.message == asked]:
            self.tool_erred(ToolErred(call.call, error, call.attempts + 1), ctx)

    # --- tool calls --------------------------------------------------------------------------------------------

    def _request(self, asked: RequestedCall, verdict: Refuse | Hold | Go, ctx: Context) -> None:
        """One call that the model asked for: refuse it, hold it, or make it."""
        step, number = self.state.run.step, self.state.run.calls + 1
        match verdict:
            case Refuse():
                refused = ToolCallFailed(step, number, asked.name, verdict.error, attempt=0, tool_call_id=asked.id)
                self._record(refused, ctx)
            case Hold():
                self._hold(asked, number, verdict, ctx)
            case Go():
                call = self._call(number, verdict)
                identifier = ctx.send(self.parts.tool, call)
                self._record(record.tool_requested(step, call, identifier, asked.id, ctx.node), ctx)

    def _call(self, number: int, verdict: Go | Hold, digest: str = "") -> CallTool:
        run_id, tool, arguments = self.state.run.run_id, verdict.tool, verdict.arguments
        key = idempotency_key(run_id, number, tool.name, arguments.canonical)
        return CallTool(run_id, number, tool.name, arguments.plain, key, digest)

    def _hold(self, asked: RequestedCall, number: int, verdict: Hold, ctx: Context) -> None:
        run, tool, seconds = self.state.run, verdict.tool, self.parts.approval_seconds
        decision = decision_id(run.run_id, number)
        call = self._call(number, verdict, call_digest(decision, tool.name, tool.version, verdict.arguments.canonical))
        identifier = ctx.hold(self.parts.tool, call)
        requested = ApprovalRequested(
            run.step,
            number,
            tool.name,
            call.arguments,
            verdict.reason,
            decision,
            call.digest,
            identifier,
            call.idempotency_key,
            asked.id,
            seconds,
        )
        self._record(requested, ctx)
        self._ask(run.pending[number], seconds, ctx)

    def _ask(self, call: Call, seconds: float, ctx: Context) -> None:
        """Put a question to people: its row, and the wait for its expiry."""
        ctx.ask_decision(record.question(call, self.state.run, ctx.address, self.parts.approvals, seconds))
        if seconds:
            ctx.send(self.parts.approvals, ExpiryWanted(call.decision, str(call.call), call.digest, seconds))

    @on
    def tool_answered(self, message: ToolAnswered, ctx: Context) -> None:
        call = self._running(message.call)
        if call is not None:
            self._record(record.tool_completed(call, message), ctx)
            self._go_on(ctx)

    @on
    def tool_erred(self, message: ToolErred, ctx: Context) -> None:
        call = self._running(message.call)
        if call is None:
            return
        last = message.final or self.state.run.cancelling
        if last and not message.final:
            ctx.withdraw(call.message)  # no other attempt
        self._record(record.tool_failed(call, message.error, message.attempt, final=last), ctx)
        if last:
            self._go_on(ctx)

    @on
    def tool_doubted(self, message: ToolDoubted, ctx: Context) -> None:
        call = self._running(message.call)
        if call is None:
            return
        run = self.state.run
        reason = row_text(f"in doubt: did {call.tool} happen? {message.detail}")
        if run.cancelling:
            self._record(record.tool_failed(call, f"{reason}; the run was cancelled before anybody said"), ctx)
        else:
            name = decision_id(run.run_id, call.call)
            digest = call_digest(name, call.tool, "in-doubt", canonical(call.arguments))
            decision = f"{name}.doubt-{ctx.row.events + 1}"  # numbered: a call may come into doubt again
            self._record(ToolCallInDoubt(call.step, call.call, call.tool, decision, digest, reason), ctx)
            self._ask(call, 0.0, ctx)
        self._go_on(ctx)

    def _running(self, number: int) -> Call | None:
        """The call of this number, while it is under way: what comes later, or twice, is for nobody."""
        call = self.state.run.pending.get(number)
        return call if call is not None and call.status == "running" else None

    # --- decisions ---------------------------------------------------------------------------------------------

    @on
    def released(self, message: Release, ctx: Context) -> None:
        call = self._decided(message)
        if call is None:
            return
        by, note = row_text(message.by), said(message.note)
        ctx.move_decision(Move(message.decision, "approved", "released"))
        if call.status == "in_doubt":
            self._record(ToolCallSettled(call.step, call.call, call.tool, True, by, note), ctx)
            self._go_on(ctx)
            return
        ctx.release(call.message)
        self._record(ApprovalGranted(call.call, message.decision, by, note), ctx)
        self._record(record.tool_released(call, message.decision, ctx.node), ctx)

    @on
    def denied(self, message: Denied, ctx: Context) -> None:
        call = self._decided(message)
        if call is None:
            return
        run, by, reason = self.state.run, row_text(message.by), said(message.reason)
        if call.status == "in_doubt":
            # It did not happen: made again, and if it was approved, as exactly what was approved then.
            again = CallTool(
                run.run_id, call.call, call.tool, call.arguments, call.idempotency_key, digest=call.approved
            )
            identifier = ctx.send(self.parts.tool, again)
            self._record(ToolCallSettled(call.step, call.call, call.tool, False, by, reason, identifier, ctx.node), ctx)
            return
        ctx.drop(call.message)
        self._record(ApprovalDenied(call.step, call.call, call.tool, message.decision, by, reason), ctx)
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

    def _fail(self, reason: FailureReason, detail: str, ctx: Context) -> None:
        self._record(RunFailed(reason, detail), ctx)
        self._end("failed", ctx)

    def _cancelled(self, ctx: Context) -> None:
        self._record(RunCancelled(self.state.run.cancelled_by, self.state.run.cancel_reason or "cancelled"), ctx)
        self._end("cancelled", ctx)

    def _end(self, status: str, ctx: Context) -> None:
        # A run that failed is no actor that failed: its supervisor has nothing to mend.
        ctx.stop("cancelled" if status == "cancelled" else "completed", row_text(self.state.run.failure_detail))
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
