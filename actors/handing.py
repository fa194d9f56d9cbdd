"""Shards that leave a node: given to a poorer one, to one that can read what this one cannot, or to all when it goes.

A shard leaves in good order: none of its turns or calls is under way, all that was done is on disk, and what it had in
memory is forgotten with the same step. What this node stops in the middle (when its time to drain is over) was not
done, as far as the disk knows, and nothing is charged for it.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from ..mailbox.envelope import Envelope
from ..mailbox.errors import StoreUnavailable
from ..persistence.port import Port, Signal
from ..persistence.rows import Member
from ..persistence.unit import Unit
from .cells import Cells
from .committer import Committer
from .journal import JournalTail
from .outcome import Undeliverable, retry_of
from .ownership import Ownership
from .pool import WorkerPool
from .pump import Pump
from .schemas import can, place_name
from .unroutable import Unread

log = logging.getLogger(__name__)

KEEP_SECONDS = 5.0
"""A shard that came in is not given away for what this node cannot read before this time is over: two nodes of which
each can read a part of a mailbox would else throw it to and fro."""
LOOK_SECONDS = 1.0
GIVE_SECONDS = 2.0
"""How long a leaving node that may wait no more tries to give its shards away in good order."""


class Handing:
    """Gives shards of one node away."""

    def __init__(
        self,
        cells: Cells,
        *,
        pump: Pump,
        pools: dict[str, WorkerPool],
        committer: Committer,
        ownership: Ownership,
        journal: JournalTail,
    ) -> None:
        self.cells = cells
        self.pump = pump
        self.pools = pools
        self.committer = committer
        self.session = committer.session
        self.ownership = ownership
        self.journal = journal
        self.port: Port = cells.port
        self.refuse: Callable[[Envelope, Undeliverable], None] = lambda envelope, why: None
        """Called with a message to an address that no node knows."""
        self._gained_at: dict[int, float] = {}
        self._strangers: dict[int, tuple[Envelope, Undeliverable]] = {}
        """Messages to addresses that this program does not have, until it is known whether another one has them."""
        self._work = Signal()

    def gained(self, shards: Iterable[int]) -> None:
        """These shards came in."""
        now = self.port.monotonic()
        self._gained_at.update(dict.fromkeys(shards, now))
        if self.ownership.draining:
            self.cells.leaving.update(shards)  # taken over from a node that died: nothing of theirs begins here

    # --- giving ------------------------------------------------------------------------------------------------

    async def hand_out(self, to: int | None, count: int) -> None:
        """Give up to `count` shards that have nothing in hand to another node; those first that were here longest."""
        idle = self.ownership.owned - self._busy()
        shards = set(sorted(idle, key=lambda shard: (self._gained_at.get(shard, 0.0), shard))[:count])
        if shards:
            await self._give(shards, to)

    def _busy(self) -> set[int]:
        busy = {cell.shard for cell in self.cells.cells.values() if cell.busy}
        for pool in self.pools.values():
            busy |= pool.busy_shards()
        return busy

    async def _give(self, shards: set[int], to: int | None) -> None:
        self.cells.leaving |= shards

        async def give() -> None:
            # From here on no commit of ours names these shards; the new owner reads what we committed.
            await self.session.give(sorted(shards), to)

        try:
            await self.committer.between(give)
        finally:
            # Also when the answer was lost: what is ours after all is seen in the list of members, and gained anew.
            self.ownership.owned -= shards
            addresses = [cell.address for cell in self.cells.cells.values() if cell.shard in shards]
            self.journal.forget(addresses)
            for pool in self.pools.values():
                pool.forget_shards(shards)
            self.cells.forget_shards(shards)
        log.info("gave %d shards to %s", len(shards), to if to is not None else "nobody")

    # --- leaving -----------------------------------------------------------------------------------------------

    async def drain(self, seconds: float, steadily: Callable[[Callable[[], Awaitable[None]]], Awaitable[bool]]) -> bool:
        """Stop taking, finish within `seconds` or give back, hand the shards to the others, each as soon as it can be.

        Also where the store is away it takes no longer than that and `GIVE_SECONDS`; whoever waits for this node's lock
        has the shards then. Whether everything that was in hand was finished.
        """
        self.ownership.draining = True
        finished = False
        with suppress(TimeoutError), self.port.deadline(seconds):
            while not await steadily(self.session.draining):
                continue
            self.cells.leaving |= self.ownership.owned
            for pool in self.pools.values():
                pool.stop()
            while not await steadily(self._give_what_is_done):
                continue
            await self._ended(turns=True)
            await self.committer.flushed()
            finished = True
        # Whoever gets the shards begins these calls anew: none of them may still run by then.
        for pool in self.pools.values():
            pool.cancel_running()
        await self._ended(turns=False)
        with suppress(TimeoutError, StoreUnavailable), self.port.deadline(GIVE_SECONDS):
            async with self.ownership.changing:
                await self._give_all(self.ownership.owned)
        return finished and not self.ownership.owned

    async def _give_what_is_done(self) -> None:
        """Give the shards of which nothing is under way, until there are no others: a slow call keeps but its own."""
        while True:
            async with self.ownership.changing:
                # Another node that leaves may have given some to this one, before it knew.
                strays = await self.session.owned() - self.ownership.owned if self._has_strays() else set()
                await self._give_all(strays | (self.ownership.owned - self._busy()))
            if not self.ownership.owned and not self.pump.waiting:
                return
            await self.port.sleep(0.02)

    def _has_strays(self) -> bool:
        me = next((member for member in self.ownership.members if member.number == self.session.number), None)
        return me is not None and me.shards > len(self.ownership.owned)

    async def _ended(self, *, turns: bool) -> None:
        while any(pool.running for pool in self.pools.values()) or (turns and self.pump.waiting):
            await self.port.sleep(0.02)

    async def _give_all(self, shards: set[int]) -> None:
        heirs = [member.number for member in self._others()]
        given = sorted(shards)
        for index, heir in enumerate(heirs):
            if share := set(given[index :: len(heirs)]):
                await self._give(share, heir)
        if not heirs and given:
            await self._give(set(given), None)

    def _others(self) -> list[Member]:
        me = self.session.number
        return [m for m in self.ownership.members if m.status == "up" and not m.guest and m.number != me]

    # --- what this program cannot read -------------------------------------------------------------------------

    def stranger(self, envelope: Envelope, why: Undeliverable) -> None:
        """A message to an address that this program does not have; a newer one may."""
        self._strangers[envelope.id] = (envelope, why)
        self._work.set()

    async def run(self) -> None:
        """See that what cannot be read here gets to a node that can, for ever."""
        while True:
            await self.port.wait(self._work, LOOK_SECONDS)
            if self._strangers:
                await self._tell_strangers()
            wanted = self.cells.unroutable.wanted()
            if wanted and not (self.ownership.draining or self.ownership.info.guest):
                await self._hand_to_the_capable(wanted)
            for unread in self.cells.unroutable.overdue():
                self._alert(unread)

    async def _tell_strangers(self) -> None:
        async with self.ownership.changing:
            # Not those of the last look: who sent the message may have joined since.
            members = await self.session.members()
            self.ownership.members = members
        strangers, self._strangers = self._strangers, {}
        others = self._others()
        for envelope, why in strangers.values():
            if envelope.shard not in self.ownership.owned or envelope.id in self.cells.seen:
                continue
            name = place_name(envelope.recipient)
            if any(can(member.capabilities, name) for member in others):
                self.cells.unroutable.note(envelope, name, 1, why.detail)
            else:
                self.refuse(envelope, why)

    async def _hand_to_the_capable(self, wanted: dict[int, set[tuple[str, int]]]) -> None:
        now = self.port.monotonic()
        mine = self.ownership.info.capabilities
        async with self.ownership.changing:
            for shard, needs in wanted.items():
                # What this node could read as well as any (an upcast that is missing, say) is no reason.
                needs = {need for need in needs if not can(mine, *need)}  # noqa: PLW2901
                heir = self._most_capable(needs)
                fresh = now - self._gained_at.get(shard, float("-inf")) < KEEP_SECONDS
                # Asked for each: while one was given, a call may have begun in the next.
                if heir is not None and not fresh and shard in self.ownership.owned - self._busy():
                    log.info("shard %d goes to node %d, which knows %s", shard, heir, sorted(needs))
                    await self._give({shard}, heir)
                    self.cells.unroutable.forget_shards({shard})

    def _most_capable(self, needs: set[tuple[str, int]]) -> int | None:
        """The node that can read most of it; None where none can read any."""
        lease = self.ownership.info.lease_seconds
        found = [
            (sum(can(member.capabilities, *need) for need in needs), -member.shards, member.number)
            for member in self._others()
            if member.beat_age_seconds <= lease
        ]
        best = max(found, default=(0, 0, 0))
        return best[2] if best[0] else None

    def _alert(self, unread: Unread) -> None:
        reason = f"unroutable: no node that runs can read it: {unread.why}"
        envelope = unread.envelope
        log.warning("%s: message %d is %s", envelope.recipient, envelope.id, reason)
        envelope.last_error = reason
        note = retry_of(envelope)
        # Nothing has failed: this is no delivery.
        note.delay_seconds, note.deliveries = 0.0, max(0, envelope.deliveries - 1)
        self.committer.submit(Unit(envelope.shard, retries=[note]))
