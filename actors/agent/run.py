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

from ...mailbox.address import key_of
from ..actor import on
from ..context import Context
from ..system import Cancel
from . import record, spans
from .agents import tools_for
from .budget import check, spent_ratio
from .classifier import lowered
from .events import (
    BudgetSet,
    CancelRequested,
    LLMCallFailed,
    MessageTold,
    RunCancelled,
    ToolCallFailed,
    ToolVersion,
)
from .messages import (
    AwaitRest,
    CancelRun,
    ChildAnswered,
    ForkRun,
    ModelFailed,
    Rested,
    StartChild,
    StartRun,
    Tell,
)
from .planning import plan_of, unknown_profile
from .prompt import prompt_hash
from .retooling import code_of
from .run_base import Parts, RunSnapshot
from .run_model import RunModel
from .state import Call, RunState
from .text import error_line, row_text, said, well_formed

__all__ = ["Parts", "Run", "RunSnapshot"]

MAX_WAITERS = 64
"""Askers that wait for a run to rest; the oldest is answered early when there are more."""


class Run(RunModel, kind="run"):
    """One run of an agent; its address's key is the run id."""

    def summary(self) -> Mapping[str, Any]:
        run = self.state.run
        waits: Call | None = None
        called: list[str] = []
        tools: list[str] = []
        for call in run.pending.values():
            if call.status != "running":
                waits = waits or call
            elif not call.child:
                tools.append(call.tool[:80])
            if call.child:
                called.append(f"{call.tool}: run {key_of(call.child)}")
        return {
            "status": run.status,
            "goal": run.goal[:200],
            "step": run.step,
            "tokens": run.total_tokens,
            "cost_usd": str(run.total_cost_usd),
            "started_at": run.started_at,
            "origin": (key_of(run.origin) or "") if run.origin else "",
            "requested_by": run.requested_by[:200],
            "agent": run.agent,
            "waits_for": (f"{waits.tool}: {waits.reason}" if waits else ", ".join(called))[:200],
            "detail": (run.final_answer or run.failure_detail or run.model_error)[:200],
            "asks_model": bool(run.model_message),
            "tools": tools[:3],
            **_budgeted(run),
        }

    @on(creates=True)
    def start(self, message: StartRun, ctx: Context) -> None:
        if self.state.run.status != "not_started":
            return
        self._begin(message, ctx)

    @on(creates=True)
    def start_child(self, message: StartChild, ctx: Context) -> None:
        if self.state.run.status != "not_started":
            ctx.reply(ChildAnswered("failed", f"there is another run at {ctx.address}"))
            return
        self.state.asker = ctx.reply_to
        self._begin(message.start, ctx)

    def _begin(self, message: StartRun, ctx: Context) -> None:
        tools, code = self._versions(message.agent, well_formed(message.system_prompt))
        self._record(record.started(message, ctx.address, ctx.now, tools, code, guardrail=self.rules.guardrail), ctx)
        if self._is_strange(ctx):
            return
        plan = plan_of(message, self._toolset(), self.rules)
        if plan is not None:
            self._record(plan, ctx)
        self._classify(ctx)
        self._iterate(ctx)

    def _is_strange(self, ctx: Context) -> bool:
        """Whether this program does not know what the run is; then it fails."""
        run, known = self.state.run, ", ".join(self.rules.agents) or "none"
        problem = unknown_profile(run.guardrails, self.rules)
        if run.agent and run.agent not in self.rules.agents:
            problem = row_text(f"there is no agent {run.agent!r} here; known are: {known}")
        if problem:
            self._fail("unrecoverable_error", problem, ctx)
        return bool(problem)

    def _versions(self, agent: str, system_prompt: str) -> tuple[list[ToolVersion], str]:
        tools = tools_for(agent, self.tools, self.rules)
        versions = [ToolVersion(tool.name, tool.version) for tool in tools.values()]
        return versions, code_of(prompt_hash(system_prompt), tools, self.rules)

    def _classify(self, ctx: Context) -> None:
        """Let the desk's classifier lower the budget; without a word of it the run keeps its own."""
        run, classifier = self.state.run, self.rules.classifier
        if classifier is None:
            return
        try:
            verdict = classifier.classify(run.goal, tuple(self._toolset()), run.agent)
            budget = lowered(run.budget, verdict)
            check(budget)
            said = BudgetSet(row_text(verdict.label, 80), budget, row_text(verdict.reason))
        except Exception as error:  # noqa: BLE001 - somebody else's function, and no run shall fail for it
            said = BudgetSet("unclassified", run.budget, f"the classifier failed: {error_line(error)}")
        self._record(said, ctx)

    @on(creates=True)
    def fork(self, message: ForkRun, ctx: Context) -> None:
        run = self.state.run
        if run.status != "not_started":
            return
        tools, code = self._versions(message.state.get("agent", ""), message.state.get("system_prompt", ""))
        self._record(record.forked(message, ctx.address, ctx.now, tools, code), ctx)
        for call in message.unanswered:
            none = ToolCallFailed(run.step, call.call, call.tool, call.error, 0, tool_call_id=call.tool_call_id)
            self._record(none, ctx)
        if message.say:
            self._record(MessageTold(well_formed(message.say), row_text(message.requested_by)), ctx)
        if not self._is_strange(ctx):
            self._iterate(ctx)

    @on
    def tell(self, message: Tell, ctx: Context) -> None:
        self._record(MessageTold(well_formed(message.text), row_text(message.by), message.trust), ctx)

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
        self._cancel_children(row_text(message.by), said(message.reason), ctx)
        if run.model_message and (run.model_attempts or run.failing_since):
            self.model_failed(ModelFailed(run.step, run.model_attempts + 1, "the run was cancelled"), ctx)
        elif run.status != "not_started":
            self._go_on(ctx)

    def on_cancel(self, ctx: Context) -> None:
        """`Cancel` ends a run at once: what `CancelRun` would wait for is taken back, and its journal ends here."""
        run, message = self.state.run, ctx.envelope.message()
        if not run.cancelling and isinstance(message, Cancel):
            self._record(CancelRequested(row_text(message.by), said(message.reason)), ctx)
        self._ask_no_more(ctx)
        self._cancel_children(run.cancelled_by, run.cancel_reason, ctx)
        for call in list(run.pending.values()):
            if not call.child:
                ctx.withdraw(call.message)
            self._record(record.tool_failed(call, "the run was cancelled while it was under way"), ctx)
        if run.model_message:
            ctx.withdraw(run.model_message)
            error = "the run was cancelled while it was under way"
            self._record(LLMCallFailed(run.step, run.model_attempts + 1, error, final=True), ctx)
        self._record(RunCancelled(run.cancelled_by, run.cancel_reason or "cancelled"), ctx)
        spans.run_ended(ctx.span, self.state.work, run)
        self._tell_waiters(ctx)
        self._tell_parent(ctx)


def _budgeted(run: RunState) -> dict[str, Any]:
    """How much of its budget a run has used. Time goes on where no turn is: of that, until when it lasts."""
    limits, seconds = run.budget, run.budget.max_duration_seconds
    counted = limits.max_iterations or limits.max_tokens or limits.max_cost_usd or limits.max_tool_calls
    return {
        "spent": round(spent_ratio(limits, run, run.started_at), 3) if counted else None,
        "until": run.started_at + seconds if seconds else 0.0,
    }
