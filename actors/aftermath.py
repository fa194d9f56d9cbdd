"""After a commit: what was acknowledged leaves memory, what was sent is handed over, what was not taken begins anew.

Only here does anything get out of a turn. A unit that the store left out (its row was read too early, or is another
node's by now) or that the database refused has not happened: its actor is read again, and so are its messages.
"""

import logging

import anyio.abc

from ..mailbox.envelope import Envelope
from ..mailbox.errors import BadRow
from ..persistence.port import Port, Signal
from .cell import Cell
from .committer import Committer, Entry
from .directives import Transient
from .journal import JournalTail
from .measuring import UNMEASURED, Measures
from .outcome import Undeliverable
from .pool import WorkerPool
from .pump import Pump
from .reader import Reader
from .rebirth import refuse as refused_unit
from .timers import Timers

log = logging.getLogger(__name__)

REJECTED_FIRST_SECONDS = 0.05
REJECTED_CAP_SECONDS = 30.0
"""A turn that the store would not take is done again after a delay that grows from the one to the other."""
REJECTED_TIMES = 8
"""So often in a row a turn may be left out before that is said of its message, which has failed then."""


class Aftermath:
    """What follows one node's commits."""

    def __init__(
        self,
        pump: Pump,
        pools: dict[str, WorkerPool],
        committer: Committer,
        *,
        reader: Reader,
        timers: Timers,
        journal: JournalTail,
    ) -> None:
        self.pump = pump
        self.cells = pump.cells
        self.pools = pools
        self.committer = committer
        self.session = committer.session
        self.reader = reader
        self.owned = reader.owned
        self.timers = timers
        self.journal = journal
        self.port: Port = pump.port
        self.group: anyio.abc.TaskGroup | None = None
        self.measures: Measures = UNMEASURED
        self._elsewhere: set[tuple[int, str]] = set()
        self._echo = False
        self._notify = Signal()
        self._rejections: dict[str, int] = {}
        """Times in a row that an actor's unit was left out."""

    def committed(self, entry: Entry) -> None:
        """A unit is on disk."""
        unit, commit = entry.unit, self.committer.commits
        self.measures.committed(unit)
        if entry.cell is not None:
            self.cells.acknowledged(entry.cell, unit.acks)
            if unit.stashes:
                self.cells.acknowledged(entry.cell, unit.stashes)
            if self._rejections and unit.turns:  # not for the note that one of them has failed
                self._rejections.pop(entry.cell.address, None)
            if entry.cell.solo and not entry.cell.queue:
                entry.cell.solo = False
            if unit.unstash:
                self.cells.reload(entry.cell)
            else:
                self.pump.schedule(entry.cell)
        for timer in unit.timers:
            self.timers.committed(timer)
        if unit.events:
            self.journal.committed(unit.events)
        if unit.sends:
            self._hand_over(unit.sends, commit)
        for identifier in unit.withdraws:
            for pool in self.pools.values():
                pool.cancel(identifier)
        if unit.withdraws:
            self.cells.retire(unit.withdraws)
        if unit.releases:
            self.reader.sweep({unit.shard})

    def _hand_over(self, sends: list[Envelope], commit: int) -> None:
        owned = self.owned()
        for envelope in sends:
            if envelope.shard in owned:
                pool = self.pools.get(envelope.recipient)
                if pool is not None:
                    pool.deliver(envelope)
                else:
                    self.cells.hand_over(envelope, commit)

    def elsewhere(self, recipients: list[tuple[int, str]]) -> None:
        """Messages went to mailboxes (shard, address) that other nodes serve."""
        self._elsewhere.update(recipients)
        self._notify.set()

    def echo(self, shard: int) -> None:
        """Wake this node, which serves the shard, by way of the store (`echo`)."""
        self._echo = True
        self.elsewhere([(shard, "")])

    def rejected(self, entry: Entry, reason: str) -> None:
        """A unit did not fit what is on disk, and was left out."""
        cell = entry.cell
        if cell is None:
            return
        for call, reply in entry.answers:
            self.untaken(call, reply)
        log.info("%s: its turn was not taken (%s), reading it again", cell.address, reason)
        times = self._rejections.get(cell.address, 0)
        self._rejections[cell.address] = times + 1
        # The first time at once: the row was simply read too early. Then ever later: it waits for somebody else.
        delay = 0.0 if not times else min(REJECTED_CAP_SECONDS, REJECTED_FIRST_SECONDS * 2.0 ** min(times, 20))
        turns = [turn.id for turn in entry.unit.turns]
        why: dict[int, BaseException] = {}
        if times >= REJECTED_TIMES and len(turns) == 1:
            # It lets go of what it does not hold, say: nobody would ever know why this actor does not move.
            why[turns[0]] = Transient(f"the store does not take its turn: {reason}")
        # Alone from the second time on: which of them it is, and the others need not wait for it.
        fresh = self.cells.reload(cell, solo=times > 0, poison=why, load=not delay)
        if fresh is not None and delay and self.group is not None:
            self.port.spawn(self.group, self._load_later, fresh, delay, name=f"reload {cell.address}")

    async def _load_later(self, cell: Cell, seconds: float) -> None:
        await self.port.sleep(seconds)
        self.reader.load(cell)

    def refused(self, entry: Entry, error: BadRow) -> None:
        """A unit holds what the database does not take."""
        cell = entry.cell
        if cell is None:
            return
        for call, reply in entry.answers:
            self.untaken(call, reply)
        turns = [turn.id for turn in entry.unit.turns]
        log.warning("%s: the database refused what turn %s wrote: %s", cell.address, turns, error)
        if len(turns) == 1:
            self.cells.reload(cell, poison={turns[0]: error})
        else:
            self.cells.reload(cell, solo=True)

    def calls_of(self, address: str) -> list[int]:
        """Ids of the calls in memory that an actor made."""
        pools = self.pools.values()
        return [call.id for pool in pools for call in pool.envelopes() if call.sender == address]

    def untaken(self, call: Envelope, reply: Envelope) -> None:
        """The outcome of a call whose reply was to be handled in the same unit, which was not taken."""
        self.pools[call.recipient].store_outcome(call, reply)

    def refuse(self, envelope: Envelope, why: Undeliverable) -> None:
        """A message to an address that this program's tree does not have."""
        unit = refused_unit(self.pump.runner.outcomes, envelope, why)
        self.cells.seen.add(envelope.id)
        self.committer.submit(unit, lambda _: self.cells.retire([envelope.id]))

    async def run_notify(self) -> None:
        """Wake whoever serves them, for ever."""
        while True:
            await self._notify.wait()
            recipients, self._elsewhere = self._elsewhere, set()
            echo, self._echo = self._echo, False
            if recipients:
                await self.session.notify(sorted(recipients), echo=echo)
