"""The worker that runs the code of hosted runs: one call of it is one attempt, from the code's beginning.

A crash leaves the call in the mailbox, and whoever serves the run makes it again. Nothing of the code is kept between
attempts; what it has done is in the journal.
"""

import logging

import anyio

from ...mailbox import codec
from ...mailbox.message import Message
from ..actor import Worker, on
from ..agent.foreign import contained
from ..agent.result import normalise
from ..agent.text import error_line, well_formed
from ..context import WorkerContext
from ..directives import Transient
from .loop import Code, Loop
from .loop_attempt import Attempt, Diverged, Ended, LineBroken, LineLost, OverLimit, Superseded, Suspended
from .loop_messages import CodeRaised, CodeReturned, CodeStopped, CodeWaits, RunCode

log = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
MAX_ANSWER_CHARS = 80_000
"""Of an answer that is text."""


class CodeWorker(Worker, kind="code"):
    """Runs one code for all its runs."""

    concurrency = 256

    def __init__(self, code: Code) -> None:
        self.code = code

    @on
    async def run(self, message: RunCode, ctx: WorkerContext) -> Message:
        attempt = Attempt(ctx)
        try:
            await attempt.begin()
        except Superseded:
            return CodeStopped(attempt.number)
        except LineLost as lost:
            return CodeRaised(attempt.number, str(lost))
        except LineBroken as broken:
            raise Transient(str(broken), after_seconds=AGAIN_SECONDS) from None
        loop = Loop(attempt, self.code)
        answer, raised = "", None
        try:
            answer = _text(await contained(self.code.function(loop, loop.goal)))
            if loop.ended is None:
                loop.finished()
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            loop.ended = loop.ended or _ended_in(error)
            if loop.ended is None and not isinstance(error, Exception):
                raise  # an interrupt of this process
            raised = error
        return self._ended(attempt, loop, answer, raised)

    def _ended(self, attempt: Attempt, loop: Loop, answer: str, raised: BaseException | None) -> Message:
        match loop.ended:
            case None if isinstance(raised, Transient):
                raise raised
            case None if raised is not None:
                log.info("the code of run %s raised", loop.id, exc_info=raised)
                return CodeRaised(attempt.number, error_line(raised))
            case None:
                return CodeReturned(attempt.number, answer)
            case Suspended(waits=waits):
                return CodeWaits(attempt.number, waits)
            case LineBroken() as ended:
                raise Transient(str(ended), after_seconds=AGAIN_SECONDS)
            case Diverged() | LineLost() as ended:
                return CodeRaised(attempt.number, f"{type(ended).__name__}: {ended}")
            case ended:
                return CodeStopped(attempt.number, isinstance(ended, OverLimit))

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        return CodeRaised(0, error)


def _ended_in(error: BaseException) -> Ended | None:
    """How the attempt has ended, where that came out of the code, perhaps among other things."""
    if isinstance(error, BaseExceptionGroup):
        return next((ended for one in error.exceptions if (ended := _ended_in(one)) is not None), None)
    return error if isinstance(error, Ended) else None


def _text(value: object) -> str:
    """What the code returned, as the answer of its run."""
    if isinstance(value, str):
        return well_formed(value[:MAX_ANSWER_CHARS])
    return "" if value is None else codec.encode(normalise(value))
