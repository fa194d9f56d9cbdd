"""A run and its model: what it answers, and what becomes of a call that fails.

A failed attempt is tried again by the model worker, and told here, so that it is in the journal and counts. The run
ends the call where its own limits say so; else it waits, after an hour as `provider_down`, until the model answers.
"""

import msgspec

from ..actor import on
from ..context import Context
from ..system import AskFailed
from . import record
from .budget import Budget, Overrun, overcalled, overrun
from .compaction import Cut
from .events import (
    LLMCallFailed,
    MessageTold,
    ProviderDown,
    ProviderWaited,
    RunCompleted,
    SummaryRequested,
    TranscriptCompacted,
)
from .gate import Go, Refuse
from .messages import (
    ModelAnswered,
    ModelFailed,
    ModelTooLong,
    SummaryWritten,
    ToolErred,
)
from .model_errors import TIME_IS_UP
from .run_calls import RunCalls
from .text import row_text

FED_BACK = {
    "malformed": (
        "Your last answer could not be read, so nothing of it was done. "
        "Answer again; where you call a tool, give its arguments as one valid JSON object."
    ),
    "length": (
        "Your last answer was cut off at its greatest length before it said anything. Answer again, and more briefly."
    ),
}
"""What the model is told after an answer that came to nothing. That is a step: the next answer is another one."""
MAX_UNREADABLE = 3
"""So many such answers one after the other are answered this way; the next one ends the run."""


class RunModel(RunCalls, kind="run"):
    """Takes in what the model says."""

    @on
    def model_failed(self, message: ModelFailed, ctx: Context) -> None:
        run = self.state.run
        if message.step != run.step or not run.model_message:
            return
        over = None if message.final and message.kind != TIME_IS_UP else self._over_after(message, ctx)
        last = message.final or run.cancelling or over is not None
        if last and not message.final:
            ctx.withdraw(run.model_message)  # it would be tried again, and nobody waits for that any more
        self._record_failure(message, last, ctx)
        if run.cancelling:
            self._cancelled(ctx)
        elif over is not None:
            self._fail(over.reason, over.detail, ctx)
        elif last and message.kind in FED_BACK and run.unreadable <= MAX_UNREADABLE:
            self._record(MessageTold(FED_BACK[message.kind], "callboard"), ctx)
            self._go_on(ctx)
        elif last:
            detail = f"the model call failed {message.attempt} time(s), at last with: {message.error}"
            self._fail("unrecoverable_error", detail, ctx)
        elif not message.lost:
            self._wait_for_provider(message, ctx)

    def _over_after(self, message: ModelFailed, ctx: Context) -> Overrun | None:
        """Whether time or money is up, with what this attempt cost; another one would go on spending it."""
        run = self.state.run
        spent = msgspec.structs.replace(run, total_cost_usd=run.total_cost_usd + message.cost_usd)

        def look(budget: Budget) -> Overrun | None:
            return overrun(msgspec.structs.replace(budget, max_iterations=None), spent, ctx.now)  # this one has begun

        return self._over(look, ctx)

    def _record_failure(self, message: ModelFailed, last: bool, ctx: Context) -> None:
        run = self.state.run
        if message.lost:
            lost = LLMCallFailed(
                message.step,
                run.model_attempts,
                message.error,
                cost_usd=message.cost_usd,
                kind=message.kind,
                at=ctx.now,
                lost=message.lost,
            )
            self._record(lost, ctx)
            if last:
                self._record(LLMCallFailed(message.step, run.model_attempts, message.error, True, at=ctx.now), ctx)
        elif message.sent or last:
            # While the provider is down, one line for each attempt would be all that the journal says for days.
            if last or message.cost_usd or not run.down_since:
                failed = LLMCallFailed(
                    message.step, message.attempt, message.error, last, message.cost_usd, message.kind, ctx.now
                )
                self._record(failed, ctx)
        elif not run.failing_since:
            self._record(ProviderWaited(message.step, message.error, ctx.now), ctx)

    def _wait_for_provider(self, message: ModelFailed, ctx: Context) -> None:
        run = self.state.run
        patience = self.rules.provider_down_seconds
        if not run.down_since and ctx.now + message.wait_seconds - run.failing_since >= patience:
            self._record(ProviderDown(message.step, run.failing_since, message.error), ctx)
        self._tell_waiters(ctx)

    @on
    def too_long(self, message: ModelTooLong, ctx: Context) -> None:
        run, rule = self.state.run, self.rules.compaction
        if message.step != run.step or not run.model_message:
            return
        by_model = rule is not None and rule.summary == "model" and message.cut.dropped_turns
        if by_model and not run.cancelling:
            call = self._model_call(run.step, ctx)
            call = msgspec.structs.replace(call, summary_of=message.cut, cause=message.cause)
            identifier = ctx.send(self.parts.model, call)
            self._record(SummaryRequested(run.step, identifier, ctx.node, message.cause), ctx)
        else:
            self._shorten(message.cut, message.cause, SummaryWritten(run.step, message.cut, message.cause), ctx)

    @on
    def summarised(self, message: SummaryWritten, ctx: Context) -> None:
        run = self.state.run
        if message.step == run.step and run.model_message:
            self._shorten(message.cut, message.cause, message, ctx)

    def _shorten(self, cut: Cut, cause: str, paid: SummaryWritten, ctx: Context) -> None:
        """Make the conversation shorter, and go on with this step; unless it ends here."""
        run = self.state.run
        over = self._over_after(ModelFailed(run.step, 0, "", cost_usd=paid.cost_usd), ctx)
        if run.cancelling or over is not None:
            why = "the run was cancelled" if over is None else over.detail
            failed = LLMCallFailed(run.step, run.model_attempts, why, True, paid.cost_usd, at=ctx.now)
            self._record(failed, ctx)
            if run.cancelling or over is None:
                self._cancelled(ctx)
            else:
                self._fail(over.reason, over.detail, ctx)
            return
        call = msgspec.structs.replace(self._model_call(run.step, ctx), compactions=run.compactions + 1)
        identifier = ctx.send(self.parts.model, call)
        compacted = TranscriptCompacted(
            run.step, identifier, cut, cause, ctx.node, paid.input_tokens, paid.output_tokens, paid.cost_usd
        )
        self._record(compacted, ctx)

    @on
    def model_answered(self, message: ModelAnswered, ctx: Context) -> None:
        run = self.state.run
        if message.step != run.step or not run.model_message:
            return
        self._record(record.model_completed(message, recovered=message.node != run.model_node), ctx)
        for finding in message.findings:
            self._record(record.guarded(finding, run.step), ctx)
        verdicts = self._judged(message.tool_calls, ctx)
        wanted = sum([not isinstance(verdict, Refuse) for verdict in verdicts])
        limited = run.budget.max_tool_calls is not None
        over = self._over(lambda budget: overcalled(budget, run, wanted), ctx) if limited else None
        none = Refuse("the run was cancelled") if run.cancelling else Refuse(over.detail) if over else None
        agents = sum([isinstance(verdict, Go) and verdict.tool.name in self.rules.agents for verdict in verdicts])
        for asked, verdict in zip(message.tool_calls, verdicts, strict=True):
            wanted -= not isinstance(verdict, Refuse)
            self._request(asked, none or verdict, ctx, shares=agents, later=wanted)
            agents -= isinstance(verdict, Go) and verdict.tool.name in self.rules.agents
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
        run, asked = self.state.run, ctx.correlation
        error = row_text(f"no answer: {message.why}: {message.detail}")
        if asked and asked == run.model_message:
            self.model_failed(ModelFailed(run.step, run.model_attempts + 1, error, final=True), ctx)
        for call in [call for call in run.pending.values() if call.message == asked]:
            if call.child:
                self._child_lost(call, error, ctx)
            else:
                self.tool_erred(ToolErred(call.call, error, call.attempts + 1), ctx)
        self._checks_unanswered(asked, error, ctx)
