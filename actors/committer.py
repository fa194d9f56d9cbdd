"""The committer: one connection, one batch at a time, and what happens after each commit.

While a batch is under way the next one fills, so batches adapt to the load by themselves: there is no timer, and an
idle system commits at once. Only here does anything leave a turn: hand-over in memory, wake-ups elsewhere, callbacks.

When the answer to a commit is lost, nobody knows whether it landed. The same batch is sent again once the store
answers: units that landed fail their check now (their messages are gone, their versions moved), which does no harm,
and those that did not land commit. What the landed ones sent is on disk and was not handed over: `doubt` sees to it
that nothing sent later overtakes it. A unit whose values the database refuses is found by bisection.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from ..mailbox.address import CLIENT_SHARD
from ..mailbox.envelope import Envelope
from ..mailbox.errors import BadRow, SchemaMismatch, StaleEpoch, StoreError, StoreUnavailable
from ..persistence.port import Port, Signal
from ..persistence.store import Session
from ..persistence.unit import CommitResult, Unit
from .cell import Answer, Cell
from .tracing import Span

log = logging.getLogger(__name__)

T = TypeVar("T")

BATCH_UNITS = 1024
"""Units in one batch at most."""
LOST_FIRST_SECONDS = 0.1
LOST_CAP_SECONDS = 5.0
"""A batch whose answer is lost again and again is sent after a delay that grows from the one to the other."""
LOST_WHOLE, LOST_ALONE = 4, 8
"""So often a batch is sent in whole; after that by halves, as it may be too slow for the server; and so often one unit
of it alone, before the others go on without it."""
PENDING_UNITS = 2 * BATCH_UNITS
"""Units that may wait; beyond it the pump pauses."""

Done = Callable[[str | BadRow | None], None]
"""Told when a loose unit was committed (None), left out (the reason), or refused by the database (BadRow)."""


class Entry:
    """A unit in a batch, and whose it is."""

    __slots__ = ("answers", "cell", "done", "spans", "unit")

    def __init__(self, unit: Unit, cell: Cell | None, done: Done | None, answers: list[Answer] | None = None) -> None:
        self.unit = unit
        self.cell = cell
        self.done = done
        self.answers = answers or []
        """What a cell's unit takes straight from workers: to be stored alone where the unit is not taken."""
        self.spans: list[Span] = []
        """Of the turns in it, where turns are traced."""
        if cell is not None and cell.spans:
            self.spans, cell.spans = cell.spans, []


class Committer:
    """Takes units, commits them in batches, and reports."""

    def __init__(self, session: Session, port: Port) -> None:
        self.session = session
        self.port = port
        self.commits = 0
        """Batches that were committed; orders hand-overs against reads."""
        self.committed: Callable[[Entry], None] = lambda entry: None
        self.rejected: Callable[[Entry, str], None] = lambda entry, reason: None
        self.refused: Callable[[Entry, BadRow], None] = lambda entry, error: None
        self.unanswered: Callable[[list[Entry]], None] = lambda batch: None
        """The answer to a batch was lost: what of it is left out when it is sent again has landed, most likely."""
        self.superseded: Callable[[list[Entry]], None] = lambda batch: None
        """None of a batch is taken: this node is another one's past."""
        self.elsewhere: Callable[[list[tuple[int, str]]], None] = lambda recipients: None
        self.recover: Callable[[], Awaitable[None]]
        """Returns when the store answers again under the same epoch; raises StaleEpoch when it was superseded."""
        self.doubt: Callable[[], None] = lambda: None
        """There may be messages on disk that were not handed over."""
        self.after: Callable[[], None] = lambda: None
        self.is_mine: Callable[[int], bool] = lambda shard: False
        self._interrupted: list[tuple[list[Entry], int]] = []
        """Batches without an answer, and how often they were sent: whoever sent them had no more time to wait."""
        self._left_out: set[str] = set()
        """Actors whose last unit was left out without an answer."""
        self._cells: dict[str, Cell] = {}
        self._loose: list[Entry] = []
        self._work = Signal()
        self._idle = anyio.Event()
        self._idle.set()
        self._lock = anyio.Lock()

    # --- filling -----------------------------------------------------------------------------------------------

    def take_cell(self, cell: Cell) -> None:
        """A cell has an open unit that wants committing."""
        # By identity: a cell that was thrown away may still stand there in the place of the fresh one.
        if cell.unit is not None and self._cells.get(cell.address) is not cell:
            self._cells[cell.address] = cell
            self._wake()

    def submit(self, unit: Unit, done: Done | None = None) -> None:
        """A unit of no cell: a worker's outcome, a timer's fire."""
        self._loose.append(Entry(unit, None, done))
        self._wake()

    async def write(self, unit: Unit) -> str | BadRow | None:
        """Submit a loose unit and wait for what became of it: None when it is committed."""
        outcome: list[str | BadRow | None] = []
        ready = anyio.Event()

        def done(what: str | BadRow | None) -> None:
            outcome.append(what)
            ready.set()

        self.submit(unit, done)
        await ready.wait()
        return outcome[0]

    def _wake(self) -> None:
        if self._idle.is_set():
            self._idle = anyio.Event()
        self._work.set()

    def pending(self) -> int:
        """How many units wait for the next batch."""
        return len(self._cells) + len(self._loose)

    def has_room(self) -> bool:
        """Whether more turns may be run."""
        return self.pending() < PENDING_UNITS

    # --- committing --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Commit for ever.

        Raises:
            StaleEpoch: this node was superseded.
        """
        while True:
            await self._work.wait()
            async with self._lock:
                await self._commit_all()

    async def _commit_all(self) -> None:
        while self._interrupted:
            batch, lost = self._interrupted.pop(0)
            await self._commit(batch, lost)
        while batch := self._take():
            await self._commit(batch)
        self._idle.set()

    async def flushed(self) -> None:
        """Return when nothing waits and nothing is under way."""
        await self._idle.wait()

    async def between(self, action: Callable[[], Awaitable[T]]) -> T:
        """Run `action` while no batch is under way, after all that waits now was committed."""
        async with self._lock:
            await self._commit_all()
            return await action()

    def _take(self) -> list[Entry]:
        batch = self._loose[:BATCH_UNITS]
        del self._loose[:BATCH_UNITS]
        for address in list(self._cells)[: BATCH_UNITS - len(batch)]:
            cell = self._cells.pop(address)
            if cell.unit is not None:
                unit, answers = cell.close_unit()
                batch.append(Entry(unit, cell, None, answers))
        for entry in batch:
            for envelope in entry.unit.sends:
                # Born delivered: it is handed over right after the commit, and that may be the last we hear of it.
                envelope.deliveries = int(self.is_mine(envelope.shard))
        return batch

    async def _commit(self, batch: list[Entry], lost: int = 0) -> None:
        while True:
            try:
                # A cancelled commit would be an unknown one; it is bounded by the store's own timeouts.
                with anyio.CancelScope(shield=True):
                    result = await self.session.commit([entry.unit for entry in batch])
            except StoreUnavailable as error:
                log.warning("a commit of %d units got no answer: %s", len(batch), error)
                self.unanswered(batch)
                await self._patiently(self.recover(), batch, lost)
                if lost >= LOST_ALONE and len(batch) == 1 and self._leaves_out(batch[0], str(error)):
                    return
                if lost >= LOST_WHOLE and len(batch) > 1:
                    self.doubt()
                    await self._halves(batch)
                    self.doubt()  # what has landed late, in between
                    return
                if lost:
                    # It does answer, but not to this: a batch that is too slow for the server, say.
                    delay = min(LOST_FIRST_SECONDS * 2.0**lost, LOST_CAP_SECONDS)
                    await self._patiently(self.port.sleep(delay), batch, lost)
                lost += 1
            except BadRow as error:
                if lost:
                    self.doubt()
                await self._bisect(batch, error)
                return
            except (StaleEpoch, SchemaMismatch):
                self.superseded(batch)
                raise
            except StoreError as error:
                # It can do nothing with it (it is too large for its memory, say): whoever wrote it has to know.
                if lost:
                    self.doubt()
                await self._bisect(batch, BadRow(str(error)))
                return
            else:
                if lost:
                    self.doubt()
                self._landed(batch, result)
                return

    async def _patiently(self, wait: Awaitable[None], batch: list[Entry], lost: int) -> None:
        """Wait; who has no more time for that leaves the batch to whoever comes next.

        So a drain whose time is over while the store is away. A call whose outcome was dropped here would be made again
        (`test_g1_a_batch_whose_sender_has_no_more_time_is_written_by_the_next`).
        """
        try:
            await wait
        except anyio.get_cancelled_exc_class():
            self._leave((batch, lost + 1))
            raise

    def _leave(self, interrupted: tuple[list[Entry], int]) -> None:
        self._interrupted.append(interrupted)
        self._work.set()

    async def _bisect(self, batch: list[Entry], error: BadRow) -> None:
        if len(batch) == 1:
            entry = batch[0]
            if entry.cell is not None:
                entry.cell.in_flight -= 1
            self.refused(entry, error)
            if entry.done is not None:
                entry.done(error)
            return
        await self._halves(batch)

    def _leaves_out(self, entry: Entry, reason: str) -> bool:
        """Give up a unit that has had no answer for long, so that the others get on; its turns are done again.

        Not the outcome of a worker: its call would be made again.
        """
        if entry.cell is None or entry.answers or entry.done is not None:
            return False
        self.doubt()
        self._left_out.add(entry.cell.address)
        entry.cell.in_flight -= 1
        self.rejected(entry, reason)
        return True

    def _hear_of(self, address: str, reason: str | None) -> None:
        """The next unit of an actor whose last one was left out without an answer: where it does not fit, that one has
        landed after all, and nobody has handed over what it sent."""
        self._left_out.discard(address)
        if reason is not None:
            self.doubt()

    async def _halves(self, batch: list[Entry]) -> None:
        middle = len(batch) // 2
        try:
            await self._commit(batch[:middle])
        except anyio.get_cancelled_exc_class():
            self._leave((batch[middle:], 1))
            raise
        await self._commit(batch[middle:])

    def _landed(self, batch: Sequence[Entry], result: CommitResult) -> None:
        self.commits += 1
        elsewhere: list[tuple[int, str]] = []
        for index, entry in enumerate(batch):
            if entry.cell is not None:
                entry.cell.in_flight -= 1
            reason = result.rejected.get(index)
            if self._left_out and entry.cell is not None and entry.cell.address in self._left_out:
                self._hear_of(entry.cell.address, reason)
            if reason is None:
                self.committed(entry)
            else:
                self.rejected(entry, reason)
            if entry.done is not None:
                entry.done(reason)
        for index, entry in enumerate(batch):
            if index not in result.rejected:
                elsewhere.extend(self._leaves(entry.unit.sends))
        if elsewhere:
            self.elsewhere(elsewhere)
        self.after()

    def _leaves(self, sends: list[Envelope]) -> list[tuple[int, str]]:
        return [(e.shard, e.recipient) for e in sends if e.shard == CLIENT_SHARD or not self.is_mine(e.shard)]
