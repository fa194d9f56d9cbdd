"""Full mailboxes: how a node learns which ones are, tells the others, and holds back its own actors' sends to them.

The owner of a mailbox counts it, at most once a second, when more came for it than is kept in memory; full ones are
published, and published again as having room when they are down to `ROOM` of the limit. All nodes read what is
published once a second. So the bound is soft: what was sent meanwhile comes on top. Nothing is dropped: a turn that
sends to a full mailbox is done again later (`failing.MailboxIsFull`), who sends from outside is told (`MailboxFull`).
"""

from collections.abc import Callable

from ..mailbox.address import shard_of
from ..persistence.port import Port
from ..persistence.store import Session
from .cells import Cells
from .pump import Pump

LOOK_SECONDS = 1.0
ROOM = 0.8
COUNT_AT_ONCE = 64
"""Mailboxes counted in one look; the others have their turn in the next ones."""


class Fullness:
    """What one node knows of full mailboxes."""

    def __init__(
        self, cells: Cells, pump: Pump, session: Session, *, owned: Callable[[], set[int]], limit: int
    ) -> None:
        self.cells = cells
        self.pump = pump
        self.session = session
        self.owned = owned
        self.limit = limit
        self.port: Port = cells.port
        self._queue: dict[str, None] = {}
        """Mailboxes of this node to be counted, in this order."""

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.port.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Count what may be full, tell, and see what the others have told."""
        known = await self.session.full()
        owned = self.owned()
        # Also those that a former owner told of: nobody else takes them back.
        mine = {address for address in known if shard_of(address) in owned}
        crowded, self.cells.crowded = self.cells.crowded, set()
        self._queue.update(dict.fromkeys(sorted(mine | crowded)))
        full: list[tuple[int, str]] = []
        room: list[tuple[int, str]] = []
        for address in list(self._queue)[:COUNT_AT_ONCE]:
            del self._queue[address]
            shard = shard_of(address)
            if shard not in owned:
                continue
            count = await self.session.backlog(shard, address, limit=self.limit)
            if count >= self.limit and address not in known:
                full.append((shard, address))
            elif count < ROOM * self.limit and address in known:
                room.append((shard, address))
        if full or room:
            await self.session.publish_full(full, room)
        self.pump.full = (known | {address for _, address in full}) - {address for _, address in room}
