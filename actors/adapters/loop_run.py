"""A hosted run: a run whose loop is somebody else's code, as an actor.

    StartRun ──▶ RunCode ──▶ the code, in a worker ──▶ CodeReturned: completed │ CodeRaised: failed │ CodeWaits
                    ▲                                                                                   │
                    └────────────── the calls that it waits for have their answers ◀───────────────────┘

It is a `Run`, with the same state, journal, gates, tool worker and approvals; only who decides what comes next is
another. The code says so by requests under the number of its attempt, and each is on record before the code goes on: so
it can be run again from its beginning at any time, anywhere, and comes to where it was without doing anything twice. A
request of an earlier attempt (a node that was frozen, and wakes) changes nothing. A step with a side effect is a call
without a message: the worker that runs the code does it itself.
"""

from ..actor import on
from ..agent import record
from ..agent.budget import overcalled, overrun
from ..agent.digest import call_digest, canonical, idempotency_key
from ..agent.events import (
    CodeBegun,
    CodeCalled,
    CodeRequested,
    CodeSuspended,
    OpaqueKept,
    RequestedCall,
    RunCompleted,
    StepCompleted,
    StepFailed,
    ToolCallCompleted,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
)
from ..agent.gate import Verdict
from ..agent.run import Run
from ..agent.run_base import Asking
from ..agent.state import Call
from ..agent.text import row_text, said
from ..approval import Denied
from ..context import Context
from ..system import AskFailed
from .loop_messages import (
    AttemptOver,
    AwaitCalls,
    BeginCode,
    BeginStep,
    CodeGranted,
    CodeRaised,
    CodeReturned,
    CodeStopped,
    CodeWaits,
    DoubtStep,
    KeepOpaque,
    KeepStep,
    Kept,
    MakeCalls,
    RunCode,
    StepGranted,
    WantedCall,
)
from .loop_replay import STEP_KEY

Attempted = KeepStep | BeginStep | DoubtStep | MakeCalls | AwaitCalls | KeepOpaque


class LoopRun(Run, kind="run"):
    """One run of somebody's loop; its address's key is the run id."""

    # --- who is at work ----------------------------------------------------------------------------------------

    def _ask_next(self, ctx: Context) -> None:
        """Have the code run, from its beginning."""
        identifier = ctx.send(self.parts.model, RunCode(self.state.run.run_id))
        self._record(CodeRequested(identifier, ctx.node), ctx)

    def _go_on(self, ctx: Context) -> None:
        """After an answer: tell the code, or have it run again when all that it waits for is answered."""
        run = self.state.run
        self._answer_asking(ctx)
        waits = run.pending if run.cancelling else [number for number in run.waits if number in run.pending]
        if run.model_message or waits:
            self._tell_waiters(ctx)
        else:
            self._iterate(ctx)

    def _end(self, status: str, ctx: Context) -> None:
        run = self.state.run
        for asking in self.state.asking:
            ctx.reply_later(asking.reply_to, AttemptOver(f"the run is {run.status}"))
        self.state.asking = []
        if run.model_message and run.model_message != ctx.correlation:
            ctx.withdraw(run.model_message)
        super()._end(status, ctx)

    @on
    def begin(self, message: BeginCode, ctx: Context) -> None:
        run = self.state.run
        if message.message != run.model_message:
            ctx.reply(AttemptOver("this attempt is not the one that the run waits for"))
        elif run.cancelling:
            ctx.reply(AttemptOver("the run was cancelled"))
        else:
            self.state.asking = []
            self._record(CodeBegun(run.attempt + 1, message.node), ctx)
            ctx.reply(CodeGranted(run.attempt, ctx.row.events, run.step, self._limit(ctx)))

    def _refused(self, message: Attempted, ctx: Context) -> bool:
        """Whether a request is one of an attempt that is over; it is answered then."""
        run = self.state.run
        if message.attempt == run.attempt and not run.finished:
            return False
        ctx.reply(AttemptOver(f"attempt {message.attempt} is over: the run is at attempt {run.attempt}"))
        return True

    def _limit(self, ctx: Context) -> str:
        run = self.state.run
        over = overrun(run.own_budget or run.budget, run, ctx.now)
        return "" if over is None else over.detail

    # --- steps -------------------------------------------------------------------------------------------------

    @on
    def keep_step(self, message: KeepStep, ctx: Context) -> None:
        """A step is on record from here on. Also while the run is being cancelled: what was done was done."""
        if self._refused(message, ctx):
            return
        begun = self._begun(message.key)
        if message.error_type:
            failed = StepFailed(
                message.key, message.name, message.digest, message.error_type, message.error, message.tries
            )
            self._record(failed, ctx)
            if begun is not None:
                self._record(record.tool_failed(begun, message.error, message.tries), ctx)
        else:
            self._record(
                StepCompleted(
                    message.key,
                    message.name,
                    message.digest,
                    message.value,
                    message.form,
                    message.duration_ms,
                    message.tries,
                    message.input_tokens,
                    message.output_tokens,
                    message.cost_usd,
                ),
                ctx,
            )
            if begun is not None:
                self._record(_effect(begun, message, ctx.node), ctx)
        self._kept(ctx)

    def _kept(self, ctx: Context) -> None:
        if self.state.run.cancelling:
            ctx.reply(AttemptOver("the run was cancelled"))
        else:
            ctx.reply(Kept(ctx.row.events, over=self._limit(ctx)))

    @on
    def begin_step(self, message: BeginStep, ctx: Context) -> None:
        """Put the start of a step with a side effect on record; begun before without an outcome, it is in doubt."""
        if self._refused(message, ctx):
            return
        run, begun = self.state.run, self._begun(message.key)
        if run.cancelling:
            ctx.reply(AttemptOver("the run was cancelled"))
        elif begun is None:
            number, step = run.calls + 1, message.step
            key = STEP_KEY + idempotency_key(ctx.address, 0, message.name, f"{message.key} {message.digest}")
            self._record(CodeCalled(message.key, number, step, message.name, message.digest), ctx)
            requested = ToolCallRequested(
                step, number, message.name, message.arguments, key, 0, tool_call_id=message.key, node=ctx.node
            )
            self._record(requested, ctx)
            ctx.reply(StepGranted(key))
        elif begun.status == "in_doubt":
            ctx.reply(StepGranted("", waits=[begun.call]))
        elif message.on_doubt == "park":
            self._doubt(begun, "it was begun, and its node died before it said what became of it", ctx)
        else:
            ctx.reply(StepGranted(begun.idempotency_key, in_doubt=message.on_doubt == "reconcile"))

    @on
    def doubt_step(self, message: DoubtStep, ctx: Context) -> None:
        if self._refused(message, ctx):
            return
        begun = self._begun(message.key)
        if begun is None:
            ctx.reply(AttemptOver(f"step {message.key} was never begun"))
        else:
            self._doubt(begun, message.detail, ctx)

    def _doubt(self, begun: Call, detail: str, ctx: Context) -> None:
        """Ask people whether a step happened."""
        name = f"{self.state.run.name}.{begun.call}"
        digest = call_digest(name, begun.tool, "in-doubt", canonical(begun.arguments))
        decision = f"{name}.doubt-{ctx.row.events + 1}"
        reason = row_text(f"in doubt: did {begun.tool} happen? {detail}")
        self._record(ToolCallInDoubt(begun.step, begun.call, begun.tool, decision, digest, reason), ctx)
        self._ask(begun, 0.0, ctx)
        ctx.reply(StepGranted("", waits=[begun.call]))

    @on
    def denied(self, message: Denied, ctx: Context) -> None:
        call = self.state.run.pending.get(int(message.call)) if message.call.isdecimal() else None
        if call is None or call.status != "in_doubt" or call.message or call.decision != message.decision:
            super().denied(message, ctx)
            return
        # A step did not happen: forgotten, so that the code does it when it comes there again, under the same key.
        by, note = row_text(message.by), said(message.reason)
        self._record(ToolCallSettled(call.step, call.call, call.tool, False, by, note, 0, ctx.node), ctx)
        self._record(record.tool_failed(call, "it did not happen, and is done again"), ctx)
        self._go_on(ctx)

    def _begun(self, key: str) -> Call | None:
        """The step of that key, if it was begun and has no outcome."""
        pending = self.state.run.pending.values()
        return next((call for call in pending if not call.message and call.tool_call_id == key), None)

    @on
    def keep_opaque(self, message: KeepOpaque, ctx: Context) -> None:
        if self._refused(message, ctx):
            return
        self._record(OpaqueKept(message.record, message.part, message.parts, message.text), ctx)
        self._kept(ctx)

    # --- calls -------------------------------------------------------------------------------------------------

    @on
    def make_calls(self, message: MakeCalls, ctx: Context) -> None:
        if self._refused(message, ctx):
            return
        run = self.state.run
        wanted = len(message.calls)
        if run.cancelling:
            ctx.reply(AttemptOver("the run was cancelled"))
        elif (over := self._over(lambda b: overrun(b, run, ctx.now) or overcalled(b, run, wanted), ctx)) is not None:
            ctx.reply(AttemptOver(over.detail))
            self._fail(over.reason, over.detail, ctx)
        else:
            asked = [RequestedCall(one.id, one.tool, one.arguments) for one in message.calls]
            calls = zip(message.calls, asked, self._judged(asked, ctx), strict=True)
            self._await([self._make(*call, message.step, ctx) for call in calls], ctx)

    def _make(self, wanted: WantedCall, asked: RequestedCall, verdict: Verdict, step: int, ctx: Context) -> int:
        number = self.state.run.calls + 1
        self._record(CodeCalled(wanted.key, number, step, wanted.tool, wanted.digest), ctx)
        self._request(asked, verdict, ctx)
        return number

    @on
    def await_calls(self, message: AwaitCalls, ctx: Context) -> None:
        if not self._refused(message, ctx):
            self._await(message.calls, ctx)

    def _await(self, calls: list[int], ctx: Context) -> None:
        self.state.asking.append(Asking(ctx.reply_to, calls))
        self._answer_asking(ctx)

    def _answer_asking(self, ctx: Context) -> None:
        """Answer whoever asked about calls of which none is under way any more."""
        pending, left = self.state.run.pending, []
        for asking in self.state.asking:
            calls = [pending[number] for number in asking.calls if number in pending]
            if any(call.status == "running" for call in calls):
                left.append(asking)
            else:
                waits = [call.call for call in calls]
                ctx.reply_later(asking.reply_to, Kept(ctx.row.events, waits, self._limit(ctx)))
        self.state.asking = left

    # --- how an attempt ends -----------------------------------------------------------------------------------

    def _ends(self, ctx: Context) -> bool:
        """Whether the message in hand answers the `RunCode` that the run waits for."""
        return bool(self.state.run.model_message) and ctx.correlation == self.state.run.model_message

    @on
    def code_waits(self, message: CodeWaits, ctx: Context) -> None:
        if self._ends(ctx):
            self._record(CodeSuspended(message.attempt, message.waits), ctx)
            self._go_on(ctx)

    @on
    def code_returned(self, message: CodeReturned, ctx: Context) -> None:
        if not self._ends(ctx):
            return
        run = self.state.run
        self._leave_calls(ctx)
        self._record(RunCompleted(message.answer, run.step, run.total_tokens, run.total_cost_usd), ctx)
        self._end("completed", ctx)

    @on
    def code_raised(self, message: CodeRaised, ctx: Context) -> None:
        if self._ends(ctx):
            self._leave_calls(ctx)
            self._fail("unrecoverable_error", f"the code of the run raised {message.error}", ctx)

    @on
    def code_stopped(self, message: CodeStopped, ctx: Context) -> None:
        if self._ends(ctx):
            self._record(CodeSuspended(message.attempt, []), ctx)
            self._go_on(ctx)

    def _leave_calls(self, ctx: Context) -> None:
        """The code has ended without waiting for all its calls: nobody will."""
        self._ask_no_more(ctx)
        for call in list(self.state.run.pending.values()):
            if call.message:
                ctx.withdraw(call.message)
            self._record(record.tool_failed(call, "the code of the run ended without waiting for it"), ctx)

    @on
    def unanswered(self, message: AskFailed, ctx: Context) -> None:
        if self._ends(ctx):
            self._fail("unrecoverable_error", row_text(f"the code got lost: {message.why}: {message.detail}"), ctx)
        else:
            super().unanswered(message, ctx)


def _effect(begun: Call, message: KeepStep, node: int) -> ToolCallCompleted:
    """A step with a side effect had it. The value itself is in the step's event."""
    return ToolCallCompleted(
        begun.step,
        begun.call,
        begun.tool,
        {"step": message.key},
        begun.idempotency_key,
        message.duration_ms,
        message.tries,
        node != begun.node,
        tool_call_id=begun.tool_call_id,
    )
