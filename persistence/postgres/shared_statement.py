"""One statement for the calls of many tasks.

Tasks of this process that ask the same at the same time share a statement and its commit: while one is under way the
next one fills, as in the committer. There is no timer and no task of its own: who comes first runs a statement for all
who wait by then, and of those who came meanwhile one runs the next. Somebody who is alone waits for nobody.

What one of them is refused for does the others no harm: the calls of a statement that failed are made by halves, until
the one to blame stands alone. Where the database does not answer, all of them are told so.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import anyio
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from ...mailbox.errors import StoreUnavailable
from .connect import Row

Q = TypeVar("Q")
A = TypeVar("A")

Pool = AsyncConnectionPool[AsyncConnection[Row]]
Loan = tuple[Pool, AsyncConnection[Row]]
"""A session, and the pool that it goes back to."""

CALLS = 256
"""So many calls share a statement at most, where nothing else is said."""


class _Call(Generic[Q, A]):
    """A question, and what came of it."""

    __slots__ = ("answer", "error", "question", "told")

    def __init__(self, question: Q) -> None:
        self.question = question
        self.answer: A | None = None
        self.error: BaseException | None = None
        self.told: anyio.Event | None = None
        """Set once there is an outcome, or once it is this call's turn to run a statement."""


class SharedStatement(Generic[Q, A]):
    """Calls of one kind, answered by one statement after the other."""

    def __init__(
        self,
        borrow: Callable[[], Awaitable[Loan]],
        run: Callable[[AsyncConnection[Row], list[Q]], Awaitable[Sequence[A]]],
        *,
        weigh: Callable[[Q], int] = lambda question: 1,
        limit: int = CALLS,
    ) -> None:
        """`run` has one answer for each question, in order, and lets nobody cancel it. Calls share a statement up to a
        weight of `limit` in all."""
        self._borrow = borrow
        self._run = run
        self._weigh = weigh
        self._limit = limit
        self._waiting: list[_Call[Q, A]] = []
        self._under_way = False
        """Whether somebody has a connection, or is about to."""

    async def ask(self, question: Q) -> A:
        """The answer. Who is cancelled meanwhile may or may not have been served, as with any statement.

        Raises:
            CallboardError: what its own statement would have raised.
        """
        call: _Call[Q, A] = _Call(question)
        self._waiting.append(call)
        if self._under_way:
            await self._turn(call)
        if call in self._waiting:  # else somebody has served it
            self._under_way = True
            await self._serve(call)
        if isinstance(call.error, StoreUnavailable):
            # All of a statement have the same one; what is raised is written to.
            raise StoreUnavailable(*call.error.args) from call.error
        if call.error is not None:
            raise call.error
        return call.answer  # type: ignore[return-value]  # an answer of type A, where there is no error

    async def _turn(self, call: _Call[Q, A]) -> None:
        call.told = anyio.Event()
        try:
            await call.told.wait()
        except BaseException:
            if call in self._waiting:
                self._waiting.remove(call)
                if call.told.is_set():
                    self._pass_on()
            raise

    async def _serve(self, mine: _Call[Q, A]) -> None:
        """Run a statement for `mine` and for whoever else waits once there is a connection."""
        try:
            pool, connection = await self._borrow()
        except StoreUnavailable as error:
            # All have waited for it: one after the other would each wait as long again.
            batch, self._waiting = self._waiting, []
            self._tell(batch, error)
            self._pass_on()
            return
        except BaseException:
            self._waiting.remove(mine)
            self._pass_on()
            raise
        batch = self._take(mine)
        try:
            await self._answer(connection, batch)
        except BaseException as error:
            self._tell(batch, StoreUnavailable(f"a statement was interrupted ({type(error).__name__}); try again"))
            raise
        finally:
            self._tell(batch)
            try:
                with anyio.CancelScope(shield=True):
                    await pool.putconn(connection)
            finally:
                self._pass_on()

    def _take(self, mine: _Call[Q, A]) -> list[_Call[Q, A]]:
        # `mine` is the oldest, but for those who were told to run a statement and were cancelled.
        weight = count = 0
        for call in self._waiting:
            weight += self._weigh(call.question)
            if count and weight > self._limit:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        assert mine in batch
        return batch

    async def _answer(self, connection: AsyncConnection[Row], batch: list[_Call[Q, A]]) -> None:
        try:
            answers = await self._run(connection, [call.question for call in batch])
        except StoreUnavailable as error:
            for call in batch:
                call.error = error
        except Exception as error:  # noqa: BLE001 - raised again where it was asked for
            if len(batch) == 1:
                batch[0].error = error
                return
            middle = len(batch) // 2
            await self._answer(connection, batch[:middle])
            await self._answer(connection, batch[middle:])
        else:
            for call, answer in zip(batch, answers, strict=True):
                call.answer = answer

    @staticmethod
    def _tell(batch: list[_Call[Q, A]], error: BaseException | None = None) -> None:
        for call in batch:
            if error is not None and call.error is None and call.answer is None:
                call.error = error
            if call.told is not None:
                call.told.set()

    def _pass_on(self) -> None:
        self._under_way = bool(self._waiting)
        if self._waiting and (told := self._waiting[0].told) is not None:
            told.set()
