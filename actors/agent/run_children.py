"""A run and the runs it has started: a call of an agent is a child run, whose answer is the call's.

The call is an ask (`StartChild`), so exactly one outcome comes back, whatever dies meanwhile: the child's own word when
it ends, or `AskFailed` where there will be none. What the child spent is counted here as well.
"""

from ...mailbox.address import child, parent_of
from ...mailbox.errors import BadAddress, BadMessage
from ...mailbox.lane import Lane
from ...mailbox.message import encode
from ..actor import on
from ..context import Context
from . import record
from .budget import Budget, Overrun, calls_left, least, left
from .events import ChildEnded, ChildStarted, ToolCallCompleted, ToolCallFailed
from .guard_events import Tally
from .messages import CallTool, CancelRun, ChildAnswered, StartChild, StartRun
from .request import goal_of
from .run_base import RunBase
from .state import Call
from .text import row_text, well_formed

CHILD_SECONDS = 365 * 86_400.0
"""For how long a child's answer is waited for: it may wait for people in turn."""
MAX_CHILDREN = 100
"""Children of one run at the same time."""
MAX_GOAL_CHARS = 200_000
MAX_ANSWER_CHARS = 100_000


class RunChildren(RunBase, kind="run"):
    """Starts child runs, and takes in what they say."""

    def _ask_agent(
        self,
        asked: CallTool,
        step: int,
        tool_call_id: str,
        ctx: Context,
        *,
        decision: str = "",
        shares: int = 1,
        later: int = 0,
        tally: Tally | None = None,
    ) -> None:
        """Start the child that answers a call of an agent, or record why there is none."""
        try:
            address = child(parent_of(ctx.address), ctx.address.rpartition("/")[2].partition(":")[0], self._id(asked))
            given = self._given(asked, shares, later, ctx)
            if isinstance(given, Budget):
                start = StartChild(self._beginning(asked, given, ctx.address))
                encode(start)  # the agent's prompt and a long goal may be too much together, which ends no whole run
        except (BadAddress, BadMessage) as error:
            given = str(error)
        if isinstance(given, str):
            failed = ToolCallFailed(step, asked.call, asked.tool, row_text(given), 0, tool_call_id=tool_call_id)
            self._record(failed, ctx)
            return
        identifier = ctx.ask(address, start, timeout=CHILD_SECONDS)
        made = record.tool_requested(step, asked, identifier, tool_call_id, ctx.node, decision=decision, tally=tally)
        self._record(made, ctx)
        self._record(ChildStarted(asked.call, asked.tool, address, given), ctx)

    def _id(self, asked: CallTool) -> str:
        return f"{self.state.run.run_id}.{asked.call}"

    def _goal(self, asked: CallTool) -> str:
        """What the child is told. A function of the call as it is recorded, whoever starts it, and however often."""
        if self.rules.agents[asked.tool].request is not None:
            return goal_of(asked.arguments)
        goal = asked.arguments.get("goal")
        return goal if isinstance(goal, str) else ""

    def _given(self, asked: CallTool, shares: int, later: int, ctx: Context) -> Budget | str:
        """What the child may spend, or why there can be none. Of tool calls, no more than all others of the run and the
        `later` ones of this turn leave: the run's limit is the tree's."""
        run, goal = self.state.run, self._goal(asked)

        def look(budget: Budget) -> Overrun | None:
            rest, calls = left(budget, run, ctx.now, shares), calls_left(budget, run, asked.call, later)
            if calls is not None and calls < shares:
                return Overrun("max_tool_calls_exceeded", f"{calls} tool calls are left for {asked.tool}")
            return rest if isinstance(rest, Overrun) else None

        self._over(look, ctx)  # what a classifier lowered wrongly shall cost no child either
        if not goal.strip() or len(goal) > MAX_GOAL_CHARS:
            return f"{asked.tool}: say in 1 to {MAX_GOAL_CHARS:,} characters what it shall do"
        if run.depth >= self.rules.max_depth:
            return f"{asked.tool}: agents are called {run.depth} deep already, which is the limit; do it yourself"
        if sum(bool(call.child) for call in run.pending.values()) >= MAX_CHILDREN:
            return f"{asked.tool}: {MAX_CHILDREN} agents are at work for this run; wait for some of them"
        rest, calls = left(run.budget, run, ctx.now, shares), calls_left(run.budget, run, asked.call, later)
        if isinstance(rest, Overrun):
            return f"{asked.tool}: nothing is left of the budget for it: {rest.detail}"
        given = least(self.rules.agents[asked.tool].budget, rest)
        return given if calls is None else least(given, Budget(None, None, max_tool_calls=calls // shares))

    def _beginning(self, asked: CallTool, given: Budget, me: str) -> StartRun:
        run, spec = self.state.run, self.rules.agents[asked.tool]
        return StartRun(
            self._goal(asked),
            given,
            spec.model or run.model,
            spec.system_prompt,
            run.requested_by,
            run.max_llm_attempts,
            agent=spec.name,
            goal_trust=spec.goal_trust,
            guardrails=run.guardrails,
            parent=me,
            parent_call=asked.call,
            depth=run.depth + 1,
            elsewhere=run.elsewhere,
        )

    @on
    def child_answered(self, message: ChildAnswered, ctx: Context) -> None:
        asked = ctx.correlation
        for call in [call for call in self.state.run.pending.values() if call.child and call.message == asked]:
            answer = well_formed(message.answer)
            if len(answer) > MAX_ANSWER_CHARS:
                answer = answer[:MAX_ANSWER_CHARS] + " …"
            self._record(record.child_ended(call, message), ctx)
            if message.status == "completed":
                key, result = call.idempotency_key, {"answer": answer}
                done = ToolCallCompleted(call.step, call.call, call.tool, result, key, tool_call_id=call.tool_call_id)
                self._record(done, ctx)
            else:
                self._record(record.tool_failed(call, f"{call.tool} {message.status}: {answer}"), ctx)
            self._go_on(ctx)

    def _child_lost(self, call: Call, why: str, ctx: Context) -> None:
        """There will be no word of it. Should it live all the same, it shall begin nothing more."""
        ctx.send(call.child, CancelRun("its parent run", why), lane=Lane.REPLY)
        self._record(ChildEnded(call.call, call.tool, call.child, "lost"), ctx)
        self._record(record.tool_failed(call, why), ctx)
        self._go_on(ctx)

    def _cancel_children(self, by: str, reason: str, ctx: Context) -> None:
        for call in self.state.run.pending.values():
            if call.child:
                ctx.send(call.child, CancelRun(by, reason), lane=Lane.REPLY)
