"""What every part of a run works with: its parts and state, and how it goes on and ends.

A run is one actor in six files, each a class on top of the one before: `run_base`, `run_children` (other agents),
`run_decisions` (people), `run_calls` (tools), `run_model` (the model), and `run` itself (what comes from outside).
"""

from collections.abc import Callable, Mapping

import msgspec

from ..actor import Actor
from ..context import Context, Event
from ..tracing import Span, Work
from . import spans
from .agents import tools_for
from .budget import Budget, FailureReason, Overrun, overrun, topped_up
from .events import (
    BudgetRaised,
    LLMCallRequested,
    RunCancelled,
    RunFailed,
)
from .messages import (
    CallModel,
    ChildAnswered,
    Rested,
    RunUnfinished,
)
from .prompt import prompt_hash
from .retooling import code_of, retooled, versions_of
from .rules import NO_RULES, Rules
from .state import RunState, apply
from .text import row_text
from .tool import Tool

MAX_GOAL_TOLD = 2_000
"""Characters of its goal that a run tells others."""


class Parts(msgspec.Struct, frozen=True):
    """Addresses that a run works with."""

    model: str
    tool: str
    approvals: str
    approval_seconds: float = 0.0
    """How long a decision may take; 0: for ever."""
    unfinished: str = ""
    """Which actor is told, once, of each run that ended without an answer (`RunUnfinished`), but for children, whose
    parents are; "": none."""


class Asking(msgspec.Struct):
    """Code that waits for the outcomes of calls."""

    reply_to: tuple[str, int]
    calls: list[int]


class RunSnapshot(msgspec.Struct, omit_defaults=True):
    """What a run keeps: the fold of its journal, and who waits for it."""

    run: RunState = msgspec.field(default_factory=RunState)
    waiters: list[tuple[str, int]] = []
    asker: tuple[str, int] = ("", 0)
    """The ask that this run is the answer to, where it is a child."""
    asking: list[Asking] = []
    """Of a run whose loop is somebody else's code: what that waits for."""
    work: Work | None = None
    """Its own span, where it is traced."""


class RunBase(Actor[RunSnapshot], kind="run"):
    """The middle of a run: iterate, go on, end, record."""

    def __init__(self, parts: Parts, tools: Mapping[str, Tool], rules: Rules = NO_RULES) -> None:
        self.parts = parts
        self.tools = tools
        self.rules = rules
        self._known: tuple[str, Mapping[str, Tool]] | None = None
        """Its agent, and what that may call: fixed for the life of a node."""
        self._noted: dict[str, str] | None = None
        """The versions of the tools as the state has them, once they were compared with those that there are."""

    def traced(self, span: Span) -> None:
        self.state.work = span.part_of(self.state.work)

    def _iterate(self, ctx: Context) -> None:
        """The top of an iteration: may there be another, and if so, ask for what comes next."""
        run = self.state.run
        if run.cancelling:
            self._cancelled(ctx)
        elif overrun(run.budget, run, ctx.now) is not None and (over := self._over_now(ctx)) is not None:
            self._fail(over.reason, over.detail, ctx)
        else:
            self._note_tools(ctx)
            self._ask_next(ctx)

    def _ask_next(self, ctx: Context) -> None:
        """Ask the model; whoever else says what comes next (`adapters.loop_run`) puts it here."""
        step = self.state.run.step + 1
        identifier = ctx.send(self.parts.model, self._model_call(step, ctx))
        self._record(LLMCallRequested(step, identifier, ctx.node), ctx)

    def _model_call(self, step: int, ctx: Context) -> CallModel:
        """The prompt is the conversation as far as the event that is recorded next."""
        run = self.state.run
        seconds = run.budget.max_duration_seconds
        return CallModel(
            step,
            ctx.row.events + 1,
            run.system_prompt,
            run.max_llm_attempts,
            run.agent,
            run.guardrails,
            until=0.0 if seconds is None else run.started_at + seconds,
        )

    def _note_tools(self, ctx: Context) -> None:
        """Say once in the journal that the run goes on under other tools than it had."""
        before = self.state.run.tools
        if before is None or before is self._noted:
            return
        tools, self._noted = self._toolset(), before
        if before != versions_of(tools):
            code = code_of(prompt_hash(self.state.run.system_prompt), tools, self.rules)
            changed = retooled(before, tools, code)
            if changed is not None:
                self._record(changed, ctx)

    def _over(self, look: Callable[[Budget], Overrun | None], ctx: Context) -> Overrun | None:
        """The limit that is reached. Where it is only a classifier's, it is topped up, once."""
        own, over = self.state.run.own_budget, look(self.state.run.budget)
        if over is None or own is None:
            return over
        raised = topped_up(self.state.run.budget, own)
        beyond = look(raised)
        if beyond is None:
            self._record(BudgetRaised(raised, over.detail), ctx)
        return beyond

    def _over_now(self, ctx: Context) -> Overrun | None:
        return self._over(lambda budget: overrun(budget, self.state.run, ctx.now), ctx)

    def _toolset(self) -> Mapping[str, Tool]:
        """What this run may call: the tools of its agent, and other agents."""
        agent = self.state.run.agent
        if self._known is None or self._known[0] != agent:
            self._known = agent, tools_for(agent, self.tools, self.rules)
        return self._known[1]

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
        spans.run_ended(ctx.span, self.state.work, self.state.run)
        self._tell_waiters(ctx)
        self._tell_parent(ctx)

    def _tell_parent(self, ctx: Context) -> None:
        """Answer the run whose child this is; without one, tell who looks after what is left unfinished."""
        run, asker = self.state.run, self.state.asker
        if asker[0]:
            answer = run.final_answer if run.final_answer is not None else run.failure_detail
            spent = (run.iterations, run.tool_calls, run.input_tokens, run.output_tokens, run.total_cost_usd)
            ctx.reply_later(asker, ChildAnswered(run.status, answer, *spent))
            self.state.asker = ("", 0)
        elif self.parts.unfinished and not run.parent and run.status != "completed":
            said = (run.status, run.failure_reason or "", row_text(run.failure_detail))
            ctx.send(self.parts.unfinished, RunUnfinished(ctx.address, run.goal[:MAX_GOAL_TOLD], *said))

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
