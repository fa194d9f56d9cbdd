"""The reader: brings from disk what is not in memory. One task, one read at a time, on the session's read connection.

Three kinds of reads: rows of actors that have a message waiting (`load`), mailboxes whose window ran low (`refill`),
and sweeps of whole shards: after a take-over, when woken, and every `POLL_SECONDS` as the guarantee, since wake-ups may
be lost. Reading is by status and id order, never "greater than the last id": a commit may be late with a smaller one.
Memory is bounded: a sweep pauses while `HIGH_WATER` messages are in memory.
"""

import logging
from collections.abc import Callable

from ..mailbox.envelope import Envelope
from ..mailbox.ids import IdClock
from ..persistence.port import Port, Signal
from ..persistence.store import Session
from .cell import Cell
from .cells import Cells
from .committer import Committer
from .measuring import UNMEASURED, Measures
from .pool import WorkerPool

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""A message whose wake-up was lost is found after this at the latest."""
WINDOW = 200
"""Messages of one mailbox that are read at a time."""
PAGE = 2_000
"""Messages that one sweep reads at a time."""
HIGH_WATER = 20_000
"""Messages in memory above which no sweep reads more."""


class Reader:
    """Reads for one node."""

    def __init__(
        self,
        session: Session,
        cells: Cells,
        committer: Committer,
        pools: dict[str, WorkerPool],
        *,
        ids: IdClock,
        owned: Callable[[], set[int]],
    ) -> None:
        self.session = session
        self.cells = cells
        self.committer = committer
        self.pools = pools
        self.ids = ids
        self.port: Port = cells.port
        self.owned = owned
        self.measures: Measures = UNMEASURED
        self._loads: dict[str, Cell] = {}
        self._refills: dict[str, Cell] = {}
        self._sweeps: set[int] = set()
        self._round: set[int] = set()
        """Shards of the sweep under way."""
        self._cursor = ""
        """How far it has come; "" between two rounds."""
        self._doubts = 0
        self._work = Signal()

    # --- asking ------------------------------------------------------------------------------------------------

    def load(self, cell: Cell) -> None:
        """This cell's row is wanted."""
        self._loads[cell.address] = cell
        self._work.set()

    def refill(self, cell: Cell) -> None:
        """This cell's mailbox wants reading."""
        self._refills[cell.address] = cell
        self._work.set()

    def sweep(self, shards: set[int]) -> None:
        """Look for messages in these shards."""
        self._sweeps |= shards
        self._work.set()

    # --- reading -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read for ever."""
        polled = self.port.monotonic()
        every = POLL_SECONDS
        while True:
            await self.port.wait(self._work, max(0.0, polled + every - self.port.monotonic()))
            polling = self.port.monotonic() >= polled + every
            if polling:
                self._sweeps |= self.owned()
            began = self.port.monotonic()
            while self._loads or self._refills or self._sweeps or self._cursor:
                # Some of each in turn: under load there is always a cell to be read, and sweeps must get on too.
                if self._loads:
                    await self._load()
                for _ in range(len(self._refills)):
                    await self._refill()
                if not (self._sweeps or self._cursor):
                    continue
                # What waits to be due does not count: it does nothing until then, and all others wait for this read.
                if len(self.cells.seen) - sum(pool.delayed() for pool in self.pools.values()) < HIGH_WATER:
                    await self._sweep()
                elif not self.cells.relieve() and not (self._loads or self._refills):
                    break
            if polling:
                polled = self.port.monotonic()
                # Under load a poll reads much that is in memory already: it may take a twentieth of the time.
                every = max(POLL_SECONDS, 20 * (polled - began))

    async def _load(self) -> None:
        cells = list(self._loads.values())
        rows = {row.address: row for row in await self.session.load([(c.shard, c.address) for c in cells])}
        for cell in cells:
            if self._loads.get(cell.address) is cell:
                del self._loads[cell.address]
            if self.cells.cells.get(cell.address) is not cell:
                continue
            row = rows.get(cell.address)
            cell.load(row)
            if row is not None:
                self.ids.advance(row.last_id)
            self.cells.wants_turn(cell)

    async def _refill(self) -> None:
        address, cell = next(iter(self._refills.items()))
        if self.cells.cells.get(address) is not cell:
            del self._refills[address]
            return
        began = self.committer.commits
        limit = len(cell.ids) + WINDOW
        self.cells.reads_running += 1
        try:
            envelopes = await self.session.mailbox(cell.shard, address, limit=limit)
            if self._refills.get(address) is cell:
                del self._refills[address]
            cell.refill = cell.sealed = False
            if self.cells.cells.get(address) is not cell:
                return
            for envelope in envelopes:
                self.cells.arrive(envelope)
            if len(envelopes) >= limit:
                self.cells.crowded.add(address)
            elif cell.lanes() == 3 and not cell.relieved:
                if cell.declined_at <= began:
                    cell.complete, cell.stood = True, False
                else:
                    # Something was committed for it while this read was under way: it is on disk, and not in here.
                    cell.refill = True
                    self._refills[address] = cell
            self.cells.wants_turn(cell)
        finally:
            self.cells.read_ended()

    async def _sweep(self) -> None:
        """Read the next page of what waits in the shards that were asked for; those asked for meanwhile come after."""
        if not self._cursor:
            self._round, self._sweeps = self._sweeps, set()
            self._doubts = self.cells.doubts
        shards = self._round & self.owned()
        # Once all of it; later what stands still costs nothing, however much waits there (`test_polls_pass_over…`).
        standing = not shards <= self.cells.swept
        began, doubts = self.committer.commits, self.cells.doubts
        self.cells.reads_running += 1
        try:
            page, self._cursor = await self.session.ready(
                sorted(shards), per_actor=WINDOW, limit=PAGE, beyond=self._cursor, standing=standing
            )
            if self.cells.doubts == doubts:
                self._take(page, began, cut=bool(self._cursor))
            # Else shards came in meanwhile, perhaps ones that were here before: what was read may be handled already.
        finally:
            self.cells.read_ended()
        if not self._cursor and self._doubts == self.cells.doubts:
            self.cells.swept |= shards & self.owned()
            self.measures.swept(shards)

    def _take(self, page: list[Envelope], began: int, *, cut: bool) -> None:
        counts: dict[tuple[int, str], int] = {}
        owned = self.owned()
        for envelope in page:
            if envelope.shard not in owned:
                # Given away while this read was under way (`test_g3_a_late_read_begins_nothing_of_a_shard_that_left`).
                continue
            place = (envelope.shard, envelope.recipient)
            counts[place] = counts.get(place, 0) + 1
            pool = self.pools.get(envelope.recipient)
            if pool is None:
                self.cells.arrive(envelope)
            elif envelope.id not in self.cells.seen:
                envelope.deliveries += 1
                pool.deliver(envelope)
        last = page[-1].recipient if page and cut else ""
        for (shard, recipient), count in counts.items():
            pool = self.pools.get(recipient)
            cell = self.cells.cells.get(recipient)
            if pool is not None:
                if count >= WINDOW:
                    pool.backlog.add(shard)
            elif cell is None or cell.sealed:
                continue
            elif count >= WINDOW:
                self.cells.crowded.add(recipient)
                cell.complete = False
                cell.declined_at = max(cell.declined_at, began)
                if cell.lanes() == 3:
                    self.cells.refill_when_low(cell)
            elif cell.declined_at <= began and recipient != last and cell.lanes() == 3 and not cell.stood:
                cell.complete = True
