"""What keeps the screen true: news where they are heard, and a look every second where they are not.

Three loops that never wait for one another:

    pulse   asks the store for its time, again and again: the one that knows whether the database is there
    line    reads the attention line, every second or when something was heard
    pane    reads what is shown, when something was heard, and every five seconds

Invariants. No loop has two reads under way. A statement that has begun is never cut short (its session would be lost
with it): a question that hangs stays out, and its late answer counts like any other. While the database is lost, no
loop but the pulse asks for anything, and the first answer makes the other two look at once, so that nothing is missed;
what they read is the whole, so that nothing is doubled. Reading takes no more than a quarter of the time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from callboard.mailbox.errors import CallboardError, StoreUnavailable
from callboard.persistence.port import Signal

from .gateway import Gateway

PULSE_SECONDS = 0.8
"""Between an answer and the next question. With `ANSWER_SECONDS` it bounds how late a loss is told: 2 s."""
ANSWER_SECONDS = 1.0
LINE_SECONDS = 1.0
PANE_SECONDS = 5.0
ASKED_SECONDS = 0.1
"""Between two reads that a person asks for, at least: a key that is held asks thirty times a second."""
GATHER_SECONDS = 0.3
LINE_GATHER_SECONDS = 0.5
"""News that come this close together are one; so the pane is read no more than three times a second for them, and the
attention line, whose counts nobody reads faster, twice."""
REST_SHARE = 3.0
REST_CAP_SECONDS = 2.0
"""After a read it rests for so many times what the read took, and no longer."""
FIRST_RETRY_SECONDS = 0.5
CAP_RETRY_SECONDS = 15.0
MAX_QUESTIONS = 2
"""Out at once: where a session hangs, the next one may answer."""

Link = Literal["starting", "live", "lost"]


@dataclass
class State:
    """What is known of the database. Moments are on the port's own clock that only grows, unless said otherwise."""

    link: Link = "starting"
    answered_at: float = 0.0
    """When it last answered."""
    latency_seconds: float = 0.0
    lost_at: float = 0.0
    """Since when there has been no answer."""
    tries: int = 0
    """How often it was asked since."""
    next_try_at: float = 0.0
    problem: str = ""
    """What it says, where it says something."""
    store_ahead: float = 0.0
    """The store's clock less the port's."""
    looked_at: float = 0.0
    """When the attention line was last read."""


@dataclass
class _Loop:
    """A read that is done again and again."""

    read: Callable[[], Awaitable[None]]
    seconds: float
    gather_seconds: float
    due: Signal = field(default_factory=Signal)
    asked: Signal = field(default_factory=Signal)
    """Set beside `due` by a person, who does not wait for news to gather."""

    def ask(self) -> None:
        """Read as soon as it has rested."""
        self.asked.set()
        self.due.set()


class Live:
    """Keeps asking. `line` and `pane` read and show; `changed` is told that `state` says something else."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        line: Callable[[], Awaitable[None]],
        pane: Callable[[], Awaitable[None]],
        changed: Callable[[], None],
        trouble: Callable[[CallboardError], None],
    ) -> None:
        self._gateway, self._port = gateway, gateway.port
        self._changed, self._trouble = changed, trouble
        self._line = _Loop(line, LINE_SECONDS, LINE_GATHER_SECONDS)
        self._pane = _Loop(pane, PANE_SECONDS, GATHER_SECONDS)
        self._retry = Signal()
        self._back = asyncio.Event()
        self._questions: set[asyncio.Task[float]] = set()
        self.state = State()

    # -- what the frame asks for

    def look_now(self) -> None:
        """Do not wait for the next time."""
        self._retry.set()
        self._line.ask()
        self._pane.ask()

    def look_at_pane(self) -> None:
        """Another pane is shown."""
        self._pane.ask()

    @property
    def lost(self) -> bool:
        """Whether the database is away."""
        return self.state.link == "lost"

    def now(self) -> float:
        """The store's clock."""
        ahead = self.state.store_ahead
        return self._port.monotonic() + ahead if ahead else self._port.wall()

    async def run(self) -> None:
        """For ever; with it end the questions that are out."""
        try:
            await asyncio.gather(
                self._pulse(), self._hear(), self._keep_reading(self._line), self._keep_reading(self._pane)
            )
        finally:
            for question in self._questions:
                question.add_done_callback(lambda one: one.cancelled() or one.exception())  # nobody else asks for it
                question.cancel()

    # -- the pulse

    async def _pulse(self) -> None:
        while True:
            if await self._is_answered():
                self._found()
                await self._port.wait(self._retry, PULSE_SECONDS)
            else:
                self._missed()
                await self._wait_for_retry()

    async def _is_answered(self) -> bool:
        """Ask; whether any question has an answer in time, this one or one that is out."""
        if len(self._questions) < MAX_QUESTIONS:
            self._questions.add(asyncio.create_task(self._ask()))
        until = self._port.monotonic() + ANSWER_SECONDS
        while self._questions and (left := until - self._port.monotonic()) > 0:
            done, self._questions = await asyncio.wait(
                self._questions, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            if sum(self._is_good(one) for one in done):  # each of them is asked for its error
                return True
        return False

    async def _ask(self) -> float:
        began = self._port.monotonic()
        now = await self._gateway.store.now()
        self.state.latency_seconds = self._port.monotonic() - began
        self.state.store_ahead = now - self._port.monotonic()
        return now

    def _is_good(self, question: "asyncio.Task[float]") -> bool:
        error = question.exception()
        if error is None:
            return True
        if not isinstance(error, CallboardError):
            raise error
        self.state.problem = str(error)
        return False

    def _found(self) -> None:
        state = self.state
        was, state.link = state.link, "live"
        state.answered_at = self._port.monotonic()
        state.tries, state.problem, state.lost_at = 0, "", 0.0
        self._back.set()
        if was != "live":
            self._line.due.set()
            self._pane.due.set()
            self._changed()

    def _missed(self) -> None:
        state, now = self.state, self._port.monotonic()
        self._back.clear()
        if state.link != "lost":
            state.link, state.lost_at = "lost", state.answered_at or now - ANSWER_SECONDS
        state.tries += 1
        most = min(FIRST_RETRY_SECONDS * 2 ** min(state.tries - 1, 10), CAP_RETRY_SECONDS)
        # Not all terminals at once: whatever comes back after an outage is asked by everybody.
        state.next_try_at = now + most * (0.75 + self._port.random() / 4)
        self._changed()

    async def _wait_for_retry(self) -> None:
        """Until the next try is due, or somebody wants it now, or a question that is out has its answer."""
        wanted = asyncio.create_task(
            self._port.wait(self._retry, max(self.state.next_try_at - self._port.monotonic(), 0.0))
        )
        try:
            await asyncio.wait({wanted, *self._questions}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wanted.cancel()

    # -- the reads

    async def _keep_reading(self, loop: _Loop) -> None:
        while True:
            await self._back.wait()
            began = self._port.monotonic()
            try:
                await loop.read()
            except StoreUnavailable:
                self._retry.set()  # the pulse finds out whether that is so
            except CallboardError as error:
                self._trouble(error)
            took = self._port.monotonic() - began
            rest = min(max(took * REST_SHARE, ASKED_SECONDS), REST_CAP_SECONDS)
            if await self._port.wait(loop.due, loop.seconds):
                await self._port.sleep(rest)
                await self._port.wait(loop.asked, max(loop.gather_seconds - rest, 0.0))

    async def _hear(self) -> None:
        while True:
            await self._back.wait()
            try:
                async with self._gateway.watching.changes() as hearing:
                    while True:
                        if await hearing.next(PANE_SECONDS, self._port) is not None:
                            self._line.due.set()
                            self._pane.due.set()
            except CallboardError:
                await self._port.sleep(LINE_SECONDS)  # the poll goes on, and finds out what is wrong
