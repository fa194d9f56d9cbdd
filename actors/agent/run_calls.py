"""A run and its tools: calls that are let go, and what comes of them."""

from collections.abc import Sequence

from ..actor import on
from ..context import Context
from . import record
from .digest import call_digest, canonical, decision_id
from .events import (
    RequestedCall,
    ToolCallFailed,
    ToolCallInDoubt,
)
from .facts import Facts
from .forking import unlike
from .gate import Go, Hold, Refuse, Verdict, judge_all
from .messages import (
    ToolAnswered,
    ToolAsks,
    ToolDoubted,
    ToolErred,
)
from .run_decisions import RunDecisions
from .state import Call
from .text import row_text


class RunCalls(RunDecisions, kind="run"):
    """Makes tool calls."""

    def _judged(self, calls: Sequence[RequestedCall], ctx: Context) -> list[Verdict]:
        """What becomes of calls that are asked for together."""
        if not calls:
            return []
        facts = Facts.of(self.state.run, self.rules, calls=len(calls))
        judged = judge_all(calls, self._toolset(), facts, self.rules, ctx.port.monotonic)
        elsewhere = self.state.run.elsewhere
        return [unlike(verdict, elsewhere) for verdict in judged] if elsewhere else judged

    def _request(
        self, asked: RequestedCall, verdict: Refuse | Hold | Go, ctx: Context, shares: int = 1, later: int = 0
    ) -> None:
        """One call that the model asked for: refuse it, hold it, or make it. `shares`: calls of agents to come, this
        one included; `later`: calls of the turn that come after it."""
        step, number = self.state.run.step, self.state.run.calls + 1
        for finding in verdict.findings:
            self._record(record.guarded(finding, step, number), ctx)
        match verdict:
            case Refuse():
                refused = ToolCallFailed(step, number, asked.name, verdict.error, attempt=0, tool_call_id=asked.id)
                self._record(refused, ctx)
            case Hold():
                self._hold(asked, number, verdict, ctx)
            case Go() if verdict.tool.name in self.rules.agents:
                call = self._call(number, verdict)
                self._ask_agent(call, step, asked.id, ctx, shares=shares, later=later, tally=verdict.tally)
            case Go():
                call = self._call(number, verdict)
                identifier = ctx.send(self.parts.tool, call)
                requested = record.tool_requested(step, call, identifier, asked.id, ctx.node, tally=verdict.tally)
                self._record(requested, ctx)

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
    def tool_asks(self, message: ToolAsks, ctx: Context) -> None:
        """The tool wants people to decide first; it has done nothing."""
        call = self._running(message.call)
        if call is None or ctx.correlation != call.message:
            return  # of a message that is not the call any more: it has been let go since
        if self.state.run.cancelling:
            why = f"{message.asks.reason}; the run was cancelled before anybody was asked"
            self._record(record.tool_failed(call, row_text(why)), ctx)
        else:
            self._hold_for_tool(call, message, ctx)
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
            name = decision_id(run.name, call.call)
            digest = call_digest(name, call.tool, "in-doubt", canonical(call.arguments))
            decision = f"{name}.doubt-{ctx.row.events + 1}"  # numbered: a call may come into doubt again
            self._record(ToolCallInDoubt(call.step, call.call, call.tool, decision, digest, reason), ctx)
            self._ask(call, 0.0, ctx)
        self._go_on(ctx)

    def _running(self, number: int) -> Call | None:
        """The call of this number, while it is under way: what comes later, or twice, is for nobody."""
        call = self.state.run.pending.get(number)
        return call if call is not None and call.status == "running" else None
