"""Charges: what the owner of a message does when it hears that a process ended while a handler of it ran.

The notice (`HandlerLost`) lies in the message's own mailbox, in the system lane, so whoever reads the message has read
the notice before. It is no turn of anybody: the message on disk gets one loss more, where it is still there, in a unit
that has nothing else. Its copy in memory gets it at once: a message that ends every process must not begin here first.
"""

from collections.abc import Iterable

from ..mailbox.envelope import Envelope
from ..mailbox.errors import BadMessage, BadRow, UnknownMessage
from ..mailbox.message import wire
from ..persistence.unit import Unit
from .cells import Cells
from .committer import Committer
from .outcome import Outcomes
from .pool import WorkerPool
from .system import HandlerLost

LOST = wire(HandlerLost).name


class Charges:
    """Those of one node."""

    def __init__(self, cells: Cells, pools: dict[str, WorkerPool], committer: Committer, outcomes: Outcomes) -> None:
        self.cells = cells
        self.pools = pools
        self.committer = committer
        self.outcomes = outcomes
        self._notes: dict[int, int] = {}
        """Losses of messages that are not in memory, while they are not on disk either."""

    def take(self, notice: Envelope) -> bool:
        """Take a message that was read, if it is such a notice; False where it is something else."""
        if notice.type != LOST:
            return False
        if notice.id not in self.cells.seen:
            self.cells.seen.add(notice.id)
            self._charge(notice)
        return True

    def _charge(self, notice: Envelope) -> None:
        unit = Unit(notice.shard)
        try:
            message = notice.message()
        except (BadMessage, UnknownMessage) as error:
            self.outcomes.bury(unit, notice, "unreadable", str(error))
            self._submit(unit, notice.id, 0)
            return
        assert isinstance(message, HandlerLost)
        unit.charges = [message.message]
        self.outcomes.handled(unit, notice, 0, "done")
        found = False
        for envelope in self._copies(notice.recipient, message.message):
            envelope.losses += 1
            found = True
        if not found:
            self._notes[message.message] = self._notes.get(message.message, 0) + 1
        self._submit(unit, notice.id, message.message)

    def meet(self, envelope: Envelope) -> None:
        """A message comes into memory: as read from disk, without what is not there yet."""
        if self._notes:
            envelope.losses += self._notes.pop(envelope.id, 0)

    def _copies(self, address: str, identifier: int) -> Iterable[Envelope]:
        pool, cell = self.pools.get(address), self.cells.cells.get(address)
        here: list[Envelope] = [] if pool is None else pool.envelopes()
        if cell is not None:
            here = cell.queue.envelopes() + ([] if cell.turn is None else [cell.turn.envelope])
        return [envelope for envelope in here if envelope.id == identifier]

    def _submit(self, unit: Unit, notice: int, message: int) -> None:
        def done(outcome: str | BadRow | None) -> None:
            self._notes.pop(message, None)  # on disk: who reads it from here on reads that too
            if isinstance(outcome, BadRow) and unit.charges:
                unit.charges = ()  # no message has such an id; without it the notice can go
                self._submit(unit, notice, message)
                return
            self.cells.retire([notice])

        self.committer.submit(unit, done)
