"""The actors that a node has in memory, how messages get to them, and how both leave it again.

A message comes here in two ways: handed over after the commit that sent it, or read from disk. Both are the same
message; `seen` holds the ids that are in memory, so that the second way finds the first. An id may leave `seen` only
when its acknowledgement is durable *and* no read that began before that is still running, else that read would bring
it back (`retire`; the test is `test_a_read_older_than_the_acknowledgement_brings_nothing_back`).
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..mailbox.address import shard_of
from ..mailbox.envelope import Envelope
from ..mailbox.lane import Lane
from ..persistence.port import Port
from .actor import Actor
from .cell import Cell
from .clock import StoreClock
from .outcome import Undeliverable
from .spec import Child, Supervisor, Tree
from .supervisor import SupervisorActor
from .system import interrupts
from .unroutable import Unroutable

LOW_WATER = 20
"""An actor with fewer messages in memory, and more on disk, has its mailbox read."""
QUEUE_LIMIT = 1_000
"""Messages of one actor that are handed over in memory; more wait on disk to be read, so that memory stays bounded."""
STANDING_LIMIT = 20_000
"""Forgotten actors that are remembered to stand still; one that is not costs a message too many, at worst."""
_SYSTEM = int(Lane.SYSTEM)  # a plain number: it is compared for every message


class Cells:
    """Registry and hand-over for one node."""

    def __init__(self, tree: Tree, port: Port, clock: StoreClock) -> None:
        self.tree = tree
        self.port = port
        self.unroutable = Unroutable(clock)
        """Messages that this node cannot read, and since when."""
        self.cells: dict[str, Cell] = {}
        self.seen: set[int] = set()
        self.swept: set[int] = set()
        """Shards whose mailboxes were read to the end once: an actor without a cell has nothing on disk there."""
        self.crowded: set[str] = set()
        """Actors for whom more came than is kept in memory, since this was last looked at (`fullness`)."""
        self.standing: dict[str, None] = {}
        """Actors that stood still when they were forgotten (those of late): their tickers need no message more."""
        self.leaving: set[int] = set()
        """Shards that are being given away: no turn of theirs begins."""
        self.doubts = 0
        """How often all that is believed of the disk had to be read anew (`doubt`)."""
        self.reads_running = 0
        self.wants_turn: Callable[[Cell], None] = lambda cell: None
        """Called with a cell that may have a message to handle."""
        self.interrupted: Callable[[Cell, Envelope], None] = lambda cell, envelope: None
        """Called with a message that has its turn before what its actor is doing."""
        self.wants_load: Callable[[Cell], None] = lambda cell: None
        self.wants_refill: Callable[[Cell], None] = lambda cell: None
        self.refusals: Callable[[Envelope, Undeliverable], None] = lambda envelope, why: None
        self.untaken: Callable[[Envelope, Envelope], None] = lambda call, reply: None
        """Called with a call and its reply that a unit took which is not taken itself: now they are stored alone."""
        self.takes: Callable[[Envelope], bool] = lambda envelope: False
        """Takes a message that was read where it is one to the engine and not to its actor (`charges`)."""
        self.meets: Callable[[Envelope], None] = lambda envelope: None
        """Called with each message that comes into memory."""
        self._retired: list[int] = []

    # --- where messages come in --------------------------------------------------------------------------------

    def hand_over(self, envelope: Envelope, commit: int) -> None:
        """A message that this node just committed for one of its own actors."""
        cell = self._cell(envelope)
        if cell is None:
            return
        if len(cell.queue) >= QUEUE_LIMIT or envelope.lane >= cell.lanes():
            cell.complete = False
        if not cell.complete:
            # Older ones wait on disk; this one is read in its turn.
            cell.declined_at = commit
            self.crowded.add(cell.address)
            if envelope.lane == Lane.SYSTEM and interrupts(envelope.type, envelope.body):
                self.refill(cell)  # it does not wait until there is little left to do
            elif envelope.lane < cell.lanes() and not self._holds_back(cell, envelope.lane) and self._is_low(cell):
                self.refill(cell)
            return
        self._put(cell, envelope)

    def arrive(self, envelope: Envelope) -> bool:
        """A message that was read from disk; False when it was in memory already."""
        if envelope.id in self.seen:
            return False
        if envelope.lane == _SYSTEM and self._is_of_tree(envelope.recipient) and self.takes(envelope):
            return True
        cell = self._cell(envelope)
        if cell is None or cell.sealed:
            return False
        if envelope.lane >= cell.lanes() or self._holds_back(cell, envelope.lane):
            cell.complete = False  # it stands still, or waits: on disk it costs nothing
            return False
        envelope.deliveries += 1
        self._put(cell, envelope)
        return True

    def _holds_back(self, cell: Cell, lane: int) -> bool:
        """Whether an actor that was relieved of its backlog does not take a lane up yet."""
        if not cell.relieved or lane == Lane.SYSTEM:
            return False
        return cell.turn is not None or cell.queue.is_blocked(lane, self.port.monotonic())

    def _is_of_tree(self, address: str) -> bool:
        return f"{address}/".startswith(f"{self.tree.address}/")

    def _cell(self, envelope: Envelope) -> Cell | None:
        cell = self.cells.get(envelope.recipient)
        if cell is not None:
            return cell
        if not self._is_of_tree(envelope.recipient):
            # Another program's, in the same database: it stays where it is.
            return None
        spec = self.tree.find(envelope.recipient)
        if spec is None or (isinstance(spec, Child) and spec.is_worker):
            self.refusals(
                envelope, Undeliverable("no-such-actor", f"this program has no actor at {envelope.recipient}")
            )
            return None
        shard = shard_of(envelope.recipient)
        make: Callable[[], Actor[Any]]
        make = self._supervisor(spec) if isinstance(spec, Supervisor) else spec.make
        cell = Cell(envelope.recipient, shard, spec, make, complete=shard in self.swept)
        cell.used = self.port.monotonic()
        self.standing.pop(envelope.recipient, None)
        self.cells[envelope.recipient] = cell
        self.wants_load(cell)
        return cell

    def _supervisor(self, spec: Supervisor) -> Callable[[], Actor[Any]]:
        return lambda: SupervisorActor(spec, self.tree)

    def _put(self, cell: Cell, envelope: Envelope) -> None:
        self.seen.add(envelope.id)
        self.meets(envelope)
        cell.ids.add(envelope.id)
        if envelope.lane == _SYSTEM and interrupts(envelope.type, envelope.body):
            self.interrupted(cell, envelope)
        else:
            cell.queue.put(envelope, self.port.monotonic())
        self.wants_turn(cell)

    # --- leaving memory ----------------------------------------------------------------------------------------

    def acknowledged(self, cell: Cell | None, ids: Sequence[int]) -> None:
        """These acknowledgements are durable."""
        if cell is not None:
            cell.ids.difference_update(ids)
        self.retire(ids)

    def retire(self, ids: Sequence[int]) -> None:
        """Forget ids, as soon as no read that may still bring them is running."""
        if self.reads_running:
            self._retired.extend(ids)
        else:
            self.seen.difference_update(ids)

    def read_ended(self) -> None:
        """A read has been taken in whole."""
        self.reads_running -= 1
        if not self.reads_running and self._retired:
            self.seen.difference_update(self._retired)
            self._retired.clear()

    def forget(self, cell: Cell) -> None:
        """Throw a cell away; what it had not committed is on disk as before, to be read again."""
        if self.cells.get(cell.address) is cell:
            del self.cells[cell.address]
        self.seen.difference_update(cell.ids)
        cell.ids.clear()
        cell.queue.drain()
        cell.unit = None
        cell.busy = False
        if cell.span is not None or cell.spans:
            cell.end_spans("given_back")
        if cell.turn is not None:
            cell.turn.scope.cancel()
            cell.turn = None

    def reload(
        self, cell: Cell, *, solo: bool = False, poison: dict[int, BaseException] | None = None, load: bool = True
    ) -> Cell | None:
        """Forget a cell and read it again, with its mailbox.

        `solo` or `poison` follow a batch that the database refused (see `Cell`). The fresh cell, which takes no turn
        before it is loaded; None where `cell` was forgotten already.
        """
        if self.cells.get(cell.address) is not cell:
            return None
        self.forget(cell)
        for call, reply in cell.answers:
            self.untaken(call, reply)
        cell.answers = []
        fresh = Cell(cell.address, cell.shard, cell.spec, cell.make, complete=False)
        fresh.solo = solo
        fresh.poison.update(poison or {})
        fresh.refill = fresh.sealed = True
        self.cells[cell.address] = fresh
        if load:
            self.wants_load(fresh)
        self.wants_refill(fresh)
        return fresh

    def waits(self, address: str, lane: int, identifier: int) -> bool:
        """Whether a message is known to wait for its actor still; or would, as that takes none of this lane now."""
        cell = self.cells.get(address)
        if cell is None:
            return lane > Lane.SYSTEM and address in self.standing
        return identifier in cell.ids or lane >= cell.lanes()

    def doubt(self, commit: int) -> None:
        """There may be older messages on disk for any actor here: hand nothing over before that was read.

        So after shards came in (their senders wrote to actors of ours under their former owner), and after a commit
        whose answer was lost (what it sent was not handed over).
        """
        self.doubts += 1
        self.swept.clear()
        for cell in self.cells.values():
            cell.complete = False
            cell.declined_at = commit

    def forget_shards(self, shards: set[int]) -> None:
        """These shards are another node's now."""
        for cell in [cell for cell in self.cells.values() if cell.shard in shards]:
            self.forget(cell)
        self.unroutable.forget_shards(shards)
        self.standing = {address: None for address in self.standing if shard_of(address) not in shards}
        self.swept -= shards
        self.leaving -= shards

    def passivate(self, seconds: float) -> None:
        """Forget the cells that have been idle for so long."""
        since = self.port.monotonic() - seconds
        for cell in [cell for cell in self.cells.values() if cell.used <= since and cell.idle()]:
            self._passivate(cell)

    def _passivate(self, cell: Cell) -> None:
        if cell.lanes() < 3:
            self.standing[cell.address] = None
            if len(self.standing) > STANDING_LIMIT:
                del self.standing[next(iter(self.standing))]
        self.forget(cell)

    def shrink(self, keep: int) -> None:
        """Bound memory: forget the idle cells that were used longest ago, down to `keep` cells."""
        excess = len(self.cells) - keep
        if excess <= 0:
            return
        idle = sorted((cell for cell in self.cells.values() if cell.idle()), key=lambda cell: cell.used)
        for cell in idle[:excess]:
            self._passivate(cell)

    def refill_when_low(self, cell: Cell) -> None:
        """Have its mailbox read if there is little left in memory, and it goes on."""
        if cell.relieved:
            if any(self._holds_back(cell, lane) for lane in (Lane.REPLY, Lane.NORMAL)):
                return
            cell.relieved = False
        if self._is_low(cell):
            self.refill(cell)

    @staticmethod
    def _is_low(cell: Cell) -> bool:
        return len(cell.queue) < LOW_WATER

    def relieve(self) -> bool:
        """Memory is full: leave on disk what waits behind a message in back-off, or for a handler that waits.

        Else as many messages as memory may hold could wait like this for an hour, and nothing new would be read for
        anybody meanwhile. Whether that has freed any.
        """
        now, freed = self.port.monotonic(), False
        for cell in self.cells.values():
            cut: list[Envelope] = []
            for lane in (Lane.REPLY, Lane.NORMAL):
                if cell.turn is not None:
                    cut += cell.queue.cut(lane, 0)
                elif cell.queue.is_blocked(lane, now):
                    cut += cell.queue.cut(lane, 1)
            if not cut:
                continue
            freed = True
            cell.relieved = cell.stood = True
            cell.complete = False
            identifiers = [envelope.id for envelope in cut]
            cell.ids.difference_update(identifiers)
            self.seen.difference_update(identifiers)
        return freed

    def refill(self, cell: Cell) -> None:
        """Have its mailbox read."""
        if not cell.refill:
            cell.refill = True
            self.wants_refill(cell)

    def shed(self, cell: Cell) -> None:
        """It stands still: what it does not take stays on disk only, however long that lasts."""
        cell.stood, cell.complete = True, False
        shed = [envelope.id for envelope in cell.queue.drain(cell.lanes())]
        cell.ids.difference_update(shed)
        self.seen.difference_update(shed)
