"""Discarding: what the owner of a message does when an operator wants it given up, though nobody has handled it.

Like a charge (`charges`), the wish (`DiscardMessage`) lies in the mailbox of the message that it names, in the system
lane, and is no turn of its actor: it is heeded whether that actor works, stands still, has ended or never was. The
message becomes a dead letter, whoever waits for its answer is told, and the wish is acknowledged, all in one unit; so
nothing is lost, and what was handled meanwhile is left as it is.

Refused, and the wish's own turn row says so: a held message (a decision releases it), one that its actor put aside, a
worker's call (whose effect may have begun: its run is cancelled instead), and what is not there any more. One that is
in a handler is waited for: it is given up only where it waits again.
"""

import logging
from collections.abc import Callable

import anyio.abc

from ..mailbox.address import shard_of
from ..mailbox.envelope import Envelope
from ..mailbox.errors import BadMessage, BadRow, StoreUnavailable, UnknownMessage
from ..mailbox.message import wire
from ..persistence.port import Port
from ..persistence.store import Store
from ..persistence.unit import Unit
from .cell import Cell
from .cells import Cells
from .committer import Committer
from .outcome import Outcomes, forget_retry, plain
from .pool import WorkerPool
from .system import DiscardMessage

log = logging.getLogger(__name__)

DISCARD = wire(DiscardMessage).name
DISCARDED, QUARANTINED = "discarded", "quarantined"
"""Reasons of the dead letter: given up for good, and settled by that; or put where it harms nobody, to be looked at."""
LOOK_SECONDS = 0.2
"""How often a message that is in a handler is looked at again."""


class Discarding:
    """That of one node."""

    def __init__(
        self,
        cells: Cells,
        pools: dict[str, WorkerPool],
        committer: Committer,
        outcomes: Outcomes,
        *,
        store: Store,
        owned: Callable[[], set[int]],
    ) -> None:
        self.cells = cells
        self.pools = pools
        self.committer = committer
        self.outcomes = outcomes
        self.store = store
        self.owned = owned
        self.port: Port = cells.port
        self.group: anyio.abc.TaskGroup | None = None

    def take(self, wish: Envelope) -> bool:
        """Take a message that was read, if it is such a wish; False where it is something else."""
        if wish.type != DISCARD:
            return False
        if wish.id not in self.cells.seen and self.group is not None:
            self.cells.seen.add(wish.id)
            self.port.spawn(self.group, self._heed, wish, name=f"discard {wish.id}")
        return True

    async def _heed(self, wish: Envelope) -> None:
        try:
            message = wish.message()
        except (BadMessage, UnknownMessage) as error:
            unit = Unit(wish.shard)
            self.outcomes.bury(unit, wish, "unreadable", str(error))
            await self._write(unit, wish)
            return
        assert isinstance(message, DiscardMessage)
        while True:
            try:
                found = await self._find(wish, message.id)
            except StoreUnavailable:
                break  # read again, and heeded then
            if not self._is_mine(wish):
                self.cells.retire([] if found is None else [found.id])
                break  # both are the next owner's
            unit = Unit(wish.shard)
            self.outcomes.handled(unit, wish, 0, "refused" if found is None else "done")
            if found is not None:
                self._give_up(unit, found, message)
            if await self._write(unit, wish, found) or found is None:
                break
        self.cells.retire([wish.id])

    def _is_mine(self, wish: Envelope) -> bool:
        return wish.shard in self.owned() and wish.shard not in self.cells.leaving

    async def _find(self, wish: Envelope, identifier: int) -> Envelope | None:
        """The message, taken out of memory, where it waits; None where it does not, or may not be given up.

        Nothing waits between the last look and its end: what is found is nobody else's to begin.
        """
        if wish.recipient in self.pools or identifier == wish.id:
            return None
        while True:
            cell = self.cells.cells.get(wish.recipient)
            queued = None if cell is None else _pull(cell, identifier)
            if queued is not None:
                return queued
            if cell is not None and identifier in cell.ids:
                await self.port.sleep(LOOK_SECONDS)  # in a handler, or on its way to disk after one
                continue
            view = await self.store.message(identifier)
            cell = self.cells.cells.get(wish.recipient)
            if cell is not None and identifier in cell.ids:
                continue  # it came into memory meanwhile
            here = view is not None and (view.envelope.shard, view.envelope.recipient) == (wish.shard, wish.recipient)
            if view is None or not here or view.state in ("held", "stashed"):
                return None
            self.cells.seen.add(identifier)
            return view.envelope

    def _give_up(self, unit: Unit, envelope: Envelope, wish: DiscardMessage) -> None:
        why = QUARANTINED if wish.quarantine else DISCARDED
        detail = f"{why} by {wish.by or 'somebody'}" + (f": {wish.reason}" if wish.reason else "")
        cell = self.cells.cells.get(envelope.recipient)
        version = cell.row.version if cell is not None and cell.row is not None else 0
        self.outcomes.bury(unit, envelope, why, detail, version)
        if not wish.quarantine:
            unit.dead[-1].settled, unit.dead[-1].settled_by = "discarded", plain(wish.by)
        if envelope.reply_to:
            unit.sends.append(self.outcomes.ask_failed(envelope, why, detail))
        if cell is not None and cell.unit is not None:
            forget_retry(cell.unit, envelope.id)

    async def _write(self, unit: Unit, wish: Envelope, found: Envelope | None = None) -> bool:
        """Whether the unit was taken; else what it was about is read again."""
        outcome = await self.committer.write(unit)
        cell = None if found is None else self.cells.cells.get(found.recipient)
        if found is not None:
            self.cells.acknowledged(cell, [found.id])
        if outcome is None:
            if cell is not None:
                self.cells.wants_turn(cell)  # what came behind it goes on
            return True
        log.info("%s: a discard was not taken (%s)", wish.recipient, outcome)
        if cell is not None and cell.shard == shard_of(cell.address):
            self.cells.reload(cell)
        if isinstance(outcome, BadRow):
            bare = Unit(wish.shard)
            self.outcomes.handled(bare, wish, 0, "refused")
            await self.committer.write(bare)
            return True
        return False


def _pull(cell: Cell, identifier: int) -> Envelope | None:
    for lane in range(3):
        found = cell.queue.pull(lane, lambda envelope: envelope.id == identifier)
        if found is not None:
            return found
    return None
