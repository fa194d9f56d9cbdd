"""The runtime with tracing on: a node that has somebody to record spans is put together from these classes instead.

So a node without tracing runs none of this. Each class adds to one of the runtime's that, around what it does, a span
is begun and ended; none decides anything. A turn's span lasts until its commit: the unit takes it along, and what was
not taken says so, for its turn is done again, as another span. An attempt at a call ends with its handler, for the work
was done whatever becomes of its outcome.

What is not a turn has no span: a message that this process cannot read, one that is tried in quarantine, a reply whose
turn could not begin at once (it has its turn when it was stored).
"""

from collections.abc import Awaitable
from typing import Any

import anyio

from ..mailbox.envelope import Envelope, traceparent_of
from ..mailbox.errors import BadRow, UnknownMessage
from ..mailbox.message import Message
from .actor import Actor, Handler
from .aftermath import Aftermath
from .bonds import CLOCK
from .cell import Cell
from .committer import Committer, Entry
from .context import Context, WorkerContext
from .directives import Transient, directive_of
from .failing import Failures
from .outcome import Outcomes, Undeliverable, Void, answer_headers
from .pool import WorkerPool
from .quarantine import TrialOverran, TrialUndecided
from .tracing import NO_SPAN, Span, Tracing
from .turn import TurnRunner


class TracedOutcomes(Outcomes):
    """Answers that carry on the trace: of the call that was made, else of what is answered."""

    carried: dict[int, str]

    def answer(self, envelope: Envelope, message: Message) -> Envelope:
        answer = super().answer(envelope, message)
        traceparent = self.carried.get(envelope.id) or traceparent_of(envelope)
        answer.headers = answer_headers(traceparent, ask=bool(answer.headers))
        return answer


class TracedTurns(TurnRunner):
    """Turns, each with a span."""

    def __init__(self, *args: Any, tracing: Tracing) -> None:
        super().__init__(*args)
        self.tracing = tracing
        self.outcomes = TracedOutcomes(self.ids, self.clock, self.node)
        self.outcomes.carried = {}
        self.failures = TracedFailures(self.tree, self.port, self.outcomes)
        self.failures.tracing = tracing
        self._waits: dict[str, Span] = {}
        """By actor: of a turn whose handler waits."""

    def begin(self, cell: Cell, envelope: Envelope) -> tuple[Context, Awaitable[None] | None]:
        waited = self._waits.pop(cell.address, None)
        if cell.span is not None:
            # Nobody has ended it: a turn that was interrupted, or a reply that could not be taken at once.
            if cell.span is waited:
                cell.span.end("interrupted")
            else:
                cell.span.drop()
        span = cell.span = self.tracing.turn(envelope, self.node)
        try:
            with span.current():
                ctx, rest = super().begin(cell, envelope)
        except UnknownMessage:
            span.drop()
            cell.span = None
            raise
        if rest is not None:
            self._waits[cell.address] = span
        return ctx, rest

    def _arrive(self, cell: Cell, actor: Actor[Any], message: Message, ctx: Context) -> Message:
        span = ctx.span = cell.span or NO_SPAN
        actor.traced(span)
        if ctx.envelope.sender == CLOCK:
            span.link(ctx.bonds.cause(ctx.envelope.correlation))
        span.begin()
        counts = ctx.envelope.correlation or ctx.envelope.headers
        return super()._arrive(cell, actor, message, ctx) if counts else message

    def succeed(self, cell: Cell, envelope: Envelope, ctx: Context, call: Envelope | None = None) -> None:
        super().succeed(cell, envelope, ctx, call)
        self._waits.pop(cell.address, None)
        if cell.span is not None:
            cell.spans.append(cell.span)
            cell.span = None


class TracedFailures(Failures):
    """Turns that fail, which their spans say."""

    tracing: Tracing

    def fail(self, cell: Cell, envelope: Envelope, error: BaseException) -> float | None:
        # None where it failed before it could begin: its trial has, say.
        span = cell.span or self.tracing.turn(envelope, self.outcomes.node)
        cell.span = None
        with span.current():
            delay = super().fail(cell, envelope, error)
        if isinstance(error, Void):
            span.end(error.outcome)
            return delay
        span.fail(error.why if isinstance(error, Undeliverable) else type(error).__name__)
        parked = delay == 0.0 and cell.row is not None and cell.row.status == "parked"
        span.end("dead" if delay is None else "parked" if parked else "again")
        return delay


class TracedPool(WorkerPool):
    """Calls, each attempt with a span."""

    def __init__(self, *args: Any, tracing: Tracing, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tracing = tracing
        outcomes = self.outcomes
        assert isinstance(outcomes, TracedOutcomes)
        self._carried = outcomes.carried

    async def _call(self, envelope: Envelope) -> None:
        try:
            await super()._call(envelope)
        finally:
            self._carried.pop(envelope.id, None)

    async def _make(self, envelope: Envelope, handler: Handler, message: Message, ctx: WorkerContext) -> Any:
        span = ctx.span = self.tracing.call(envelope, ctx.node, remote=self.worker.remote)
        self._carried[envelope.id] = span.traceparent
        try:
            with span.current():
                reply = await super()._make(envelope, handler, message, ctx)
        except BaseException as error:
            self._ended(span, error)
            raise
        span.end("done")
        return reply

    @staticmethod
    def _ended(span: Span, error: BaseException) -> None:
        if isinstance(error, anyio.get_cancelled_exc_class()):
            span.fail("cancelled")
            span.end("cancelled")
            return
        span.fail(type(error).__name__)
        again = isinstance(error, TrialUndecided | TrialOverran) or (
            isinstance(error, Exception) and isinstance(directive_of(error), Transient)
        )
        span.end("again" if again else "failed")


def trace_commits(committer: Committer, aftermath: Aftermath) -> None:
    """Have the spans of turns end with what became of their commit.

    Of one whose answer was lost nobody knows, until it is sent again: what does not fit then has landed the first time.
    """
    lost: set[Entry] = set()

    def landed(entry: Entry) -> None:
        lost.discard(entry)
        for span in entry.spans:
            span.end("done")

    def committed(entry: Entry) -> None:
        landed(entry)
        aftermath.committed(entry)

    def rejected(entry: Entry, reason: str) -> None:
        if entry in lost:
            landed(entry)
        else:
            _not_taken(entry, "not_taken")
        aftermath.rejected(entry, reason)

    def refused(entry: Entry, error: BadRow) -> None:
        lost.discard(entry)
        _not_taken(entry, "refused_by_database")
        aftermath.refused(entry, error)

    def unanswered(batch: list[Entry]) -> None:
        lost.update(entry for entry in batch if entry.spans)
        for entry in batch:
            for span in entry.spans:
                span.note({"callboard.commit.answer_lost": True})

    def superseded(batch: list[Entry]) -> None:
        for entry in batch:
            _not_taken(entry, "superseded")

    committer.committed, committer.rejected, committer.refused = committed, rejected, refused
    committer.superseded, committer.unanswered = superseded, unanswered


def _not_taken(entry: Entry, why: str) -> None:
    for span in entry.spans:
        span.fail(why)
        span.end(why)
