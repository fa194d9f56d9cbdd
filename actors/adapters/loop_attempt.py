"""One attempt at running the code of a hosted run: its number, what is on record, and the line to the run.

Everything an attempt says is said under its number, and is on record before the code goes on. A request is sent once:
where its answer is long in coming, the journal tells what became of it, so that none is handled twice. An attempt that
was superseded is told so at its next word, and stops.
"""

import anyio

from ...mailbox.errors import MailboxFull, StoreUnavailable
from ...mailbox.message import Message, decode_tagged
from ...mailbox.request import Request
from ..context import WorkerContext
from ..system import AskFailed
from .loop_messages import (
    AttemptOver,
    AwaitCalls,
    BeginCode,
    BeginStep,
    CodeGranted,
    DoubtStep,
    KeepOpaque,
    KeepStep,
    Kept,
    MakeCalls,
    StepGranted,
    WantedCall,
)
from .loop_replay import Replay

ASK_SECONDS = 60.0
"""How long one answer is waited for before the journal is looked at."""
AGAIN_SECONDS = 1.0
LAG_TRIES = 20
LAG_SECONDS = 0.05
MAX_PART_CHARS = 640 << 10
"""Of one part of a library's own state; a message may take 1 MiB."""


class Ended(BaseException):
    """The attempt is over, and the code with it. No `Exception`, so that code which catches those lets it through."""


class Suspended(Ended):
    """The code cannot go on before these calls are answered."""

    def __init__(self, waits: list[int]) -> None:
        super().__init__(f"waiting for people to decide on the calls {waits}")
        self.waits = waits


class Superseded(Ended):
    """Another attempt is at work, or the run has ended."""


class LineLost(Ended):
    """The run could not take what the attempt said."""


class LineBroken(Ended):
    """The store or the run cannot be reached now: the attempt is made again later, at nobody's charge."""


class OverLimit(Ended):
    """A budget forbids what comes next."""


class Diverged(Ended):
    """The code did not do what it did before."""


class Attempt:
    """The number, the record and the line."""

    def __init__(self, ctx: WorkerContext) -> None:
        self.ctx = ctx
        self.port = ctx.port
        self.replay = Replay()
        self.number = 0
        self.step = 0
        """Number of the latest batch of calls."""
        self.over = ""
        """Why nothing new may begin."""
        self._reading = anyio.Lock()

    async def begin(self) -> None:
        """Get a number, and read what is on record.

        Raises:
            Superseded: this is not the attempt that the run waits for.
        """
        granted = await self._ask(BeginCode(self.ctx.envelope.id, self.ctx.node))
        assert isinstance(granted, CodeGranted)
        self.number, self.step, self.over = granted.attempt, granted.step, granted.over
        await self.catch_up(granted.upto)

    async def catch_up(self, upto: int = 0) -> None:
        """Read what is on record, at least up to event `upto`.

        Raises:
            LineBroken: it cannot be read now.
        """
        async with self._reading:
            for _ in range(LAG_TRIES):
                try:
                    rows = await self.ctx.journal(self.ctx.caller, self.replay.seq)
                except StoreUnavailable as error:
                    raise LineBroken(f"the journal cannot be read: {error}") from error
                self.replay.feed(decode_tagged(row.type, row.body) for row in rows if row.seq > self.replay.seq)
                if self.replay.seq >= upto:
                    return
                await self.port.sleep(LAG_SECONDS)
        raise LineBroken(f"event {upto} of {self.ctx.caller} cannot be read yet")

    # --- steps -------------------------------------------------------------------------------------------------

    async def begin_step(self, request: BeginStep) -> StepGranted:
        """Put the start of a step on record."""
        answer = await self._ask(request)
        assert isinstance(answer, StepGranted)
        await self.catch_up()
        return answer

    async def doubt_step(self, key: str, detail: str) -> list[int]:
        """Have a person asked whether a step happened; the numbers of what to wait for."""
        answer = await self._ask(DoubtStep(self.number, key, detail))
        assert isinstance(answer, StepGranted)
        return answer.waits

    async def keep_step(self, request: KeepStep) -> None:
        """Have the outcome of a step on record."""
        try:
            await self._kept(request)
        except TimeoutError:
            # It is in the run's mailbox, and what was paid for will be taken from there: do not do it again.
            while request.key not in self.replay.outcomes:
                await self.port.sleep(AGAIN_SECONDS)
                await self.catch_up()

    # --- calls -------------------------------------------------------------------------------------------------

    async def calls(self, wanted: list[WantedCall]) -> list[int]:
        """Have these calls made, those that were not before; the numbers of those that wait for a person."""
        fresh = [call for call in wanted if call.key not in self.replay.called]
        waits: list[int] = []
        if fresh:
            try:
                waits = await self._kept(MakeCalls(self.number, self.step, fresh))
            except TimeoutError:
                while any(call.key not in self.replay.called for call in fresh):
                    await self.port.sleep(AGAIN_SECONDS)
                    await self.catch_up()
        while open_calls := self._open(wanted, waits):
            try:
                waits += await self._kept(AwaitCalls(self.number, open_calls))
            except TimeoutError:
                continue
        return waits

    def _open(self, wanted: list[WantedCall], waits: list[int]) -> list[int]:
        """Numbers of those without an outcome, and of which it is not known that they wait for a person."""
        replay = self.replay
        numbers = [replay.called[call.key].call for call in wanted if call.key not in replay.outcomes]
        return [number for number in numbers if number not in waits]

    # --- a library's own state ---------------------------------------------------------------------------------

    async def keep_opaque(self, text: str) -> None:
        """Have a text of any length on record."""
        record = self.port.token()
        parts = [text[at : at + MAX_PART_CHARS] for at in range(0, len(text), MAX_PART_CHARS)] or [""]
        for number, part in enumerate(parts, 1):
            try:
                await self._kept(KeepOpaque(self.number, record, number, len(parts), part))
            except TimeoutError as error:
                raise LineBroken("the run takes no messages") from error

    # --- the line ----------------------------------------------------------------------------------------------

    async def _kept(self, request: Request[Kept]) -> list[int]:
        answer = await self._say(request)
        assert isinstance(answer, Kept)
        self.over = answer.over
        await self.catch_up(answer.upto)
        return answer.waits

    async def _ask(self, request: Request[Message]) -> Message:
        """Ask what must not be asked twice: no answer ends the attempt, and the next one finds out.

        Raises:
            Superseded, LineBroken.
        """
        try:
            return await self._say(request)
        except TimeoutError as error:
            raise LineBroken(f"{self.ctx.caller} did not answer") from error

    async def _say(self, request: Request[Message]) -> Message:
        try:
            answer = await self.ctx.ask(request, seconds=ASK_SECONDS)
        except (StoreUnavailable, MailboxFull) as error:
            raise LineBroken(f"the run cannot be asked: {error}") from error
        match answer:
            case AttemptOver():
                raise Superseded(answer.why)
            case AskFailed():
                raise LineLost(f"the run could not take {type(request).__name__}: {answer.why}: {answer.detail}")
        return answer
