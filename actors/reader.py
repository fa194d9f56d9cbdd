"""The reader: brings from disk what is not in memory. One task, one read at a time, on the session's read connection.

Three kinds of reads: rows of actors that have a message waiting (`load`), mailboxes whose window ran low (`refill`),
and sweeps of whole shards: after a take-over, when woken, and every `POLL_SECONDS` as the guarantee, since wake-ups may
be lost. Reading is by status and id order, never "greater than the last id": a commit may be late with a smaller one.
Memory is bounded: a sweep pauses while `HIGH_WATER` messages are in memory.
"""

import logging
from collections.abc import Callable

import msgspec

from ..mailbox.envelope import Envelope
from ..mailbox.ids import IdClock
from ..persistence.port import Port, Signal
from ..persistence.rows import ActorRow
from ..persistence.store import Session
from .cell import Cell
from .cells import Cells
from .committer import Committer
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
        ids: IdClock,
        port: Port,
        owned: Callable[[], set[int]],
    ) -> None:
        self.session = session
        self.cells = cells
        self.committer = committer
        self.pools = pools
        self.ids = ids
        self.port = port
        self.owned = owned
        self.unreadable: Callable[[Cell, ActorRow, str], None] = lambda cell, row, error: None
        self._loads: dict[str, Cell] = {}
        self._refills: dict[str, Cell] = {}
        self._sweeps: set[int] = set()
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
            while self._loads or self._refills or self._sweeps:
                if self._loads:
                    await self._load()
                elif self._refills:
                    await self._refill()
                elif len(self.cells.seen) < HIGH_WATER:
                    await self._sweep()
                else:
                    break
            if polling:
                polled = self.port.monotonic()
                # Under load a poll reads much that is in memory already: it may take a twentieth of the time.
                every = max(POLL_SECONDS, 20 * (polled - began))

    async def _load(self) -> None:
        cells, self._loads = list(self._loads.values()), {}
        rows = {row.address: row for row in await self.session.load([(c.shard, c.address) for c in cells])}
        for cell in cells:
            if self.cells.cells.get(cell.address) is not cell:
                continue
            row = rows.get(cell.address)
            try:
                cell.load(row)
            except msgspec.MsgspecError as error:
                assert row is not None
                self.unreadable(cell, row, str(error))
                continue
            if row is not None:
                self.ids.advance(row.last_id)
            self.cells.schedule(cell)

    async def _refill(self) -> None:
        _, cell = self._refills.popitem()
        if self.cells.cells.get(cell.address) is not cell:
            return
        began = self.committer.commits
        self.cells.reads_running += 1
        try:
            envelopes = await self.session.mailbox(cell.shard, cell.address, limit=len(cell.ids) + WINDOW)
            cell.refill = False
            for envelope in envelopes:
                self.cells.arrive(envelope)
            whole = len(envelopes) < len(cell.ids) + WINDOW
            if whole and cell.declined_at <= began:
                cell.complete = True
            elif whole:
                # Something was committed for it while this read was under way: it is on disk, and not in here.
                self._refills[cell.address] = cell
                cell.refill = True
            self.cells.schedule(cell)
        finally:
            self.cells.read_ended()

    async def _sweep(self) -> None:
        """Read all that waits in the shards that were asked for, page by page."""
        shards, self._sweeps = self._sweeps & self.owned(), set()
        cursor = ""
        while shards:
            began = self.committer.commits
            self.cells.reads_running += 1
            try:
                page, cursor = await self.session.ready(sorted(shards), per_actor=WINDOW, limit=PAGE, beyond=cursor)
                self._take(page, began, cut=bool(cursor))
            finally:
                self.cells.read_ended()
            if not cursor:
                self.cells.swept |= shards & self.owned()
                return
            if len(self.cells.seen) >= HIGH_WATER or self._loads or self._refills:
                # The rest of the page run is asked for again; the pump makes room meanwhile.
                self._sweeps |= shards
                if self._loads:
                    await self._load()
                return

    def _take(self, page: list[Envelope], began: int, *, cut: bool) -> None:
        counts: dict[tuple[int, str], int] = {}
        for envelope in page:
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
            elif cell is None:
                continue
            elif count >= WINDOW:
                cell.complete = False
                cell.declined_at = max(cell.declined_at, began)
                self.cells.refill_when_low(cell)
            elif cell.declined_at <= began and recipient != last:
                cell.complete = True
