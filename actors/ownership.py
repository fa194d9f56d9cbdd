"""Who owns which shards, and what happens when a node dies. Here the database decides; a node's clock only looks.

    join       take what nobody owns; the richest give up their surplus one shard at a time, in good order
    watch      each node waits on the lock of its predecessor in the ring of numbers: when that process dies the kernel
               closes its sockets, the lock is free within milliseconds, and the shards are taken over
    lease      a node that holds its lock but has not beaten for a lease (frozen, cut off, its loop stuck) is taken over
               by its successor all the same: its connections are ended first, and its epoch is raised
    leave      give everything to the others and go

Every take-over raises the victim's epoch and every commit names its epoch, so a victim that was not dead after all
writes nothing any more. What bounds each wait: `watch` one `WATCH_SECONDS`, membership one beat.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio

from ..mailbox.address import SHARDS
from ..persistence.port import Port, Signal
from ..persistence.rows import Member
from ..persistence.store import NodeInfo, Session
from .measuring import UNMEASURED, Measures

log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
"""How long one wait for a lock may last before the ring is looked at again (and its snapshot let go)."""


def predecessor(number: int, members: Sequence[Member]) -> Member | None:
    """The member whose death this node watches for: the next lower number that is up, around the ring."""
    others = [member for member in members if member.number != number and member.status in ("up", "draining")]
    lower = [member for member in others if member.number < number]
    return max(lower or others, key=lambda member: member.number, default=None)


def is_successor(number: int, of: Member, members: Sequence[Member], lease_seconds: float) -> bool:
    """Whether this node is the one to take `of` over: the next higher number that beats, around the ring."""
    beating = [m.number for m in members if m.status in ("up", "draining") and m.beat_age_seconds <= lease_seconds]
    beating = sorted({*beating, number} - {of.number})
    higher = [other for other in beating if other > of.number]
    return (higher or beating)[0] == number


def surplus(number: int, owned: int, members: Sequence[Member], lease_seconds: float) -> tuple[int, int] | None:
    """(to whom, how many) this node should give so that all have their share; None when it is not too rich."""
    takers = [m for m in members if m.status == "up" and not m.guest and m.beat_age_seconds <= lease_seconds]
    others = [member for member in takers if member.number != number]
    if not others:
        return None
    poorest = min(others, key=lambda member: (member.shards, member.number))
    keeps = any(member.number == number for member in takers)
    target = -(-SHARDS // len(takers)) if keeps else 0
    fair = SHARDS // max(1, len(takers))
    count = min(owned - target, max(fair - poorest.shards, 0)) if keeps else owned
    return (poorest.number, count) if count > 0 else None


class Ownership:
    """Membership and shards of one node."""

    def __init__(self, session: Session, info: NodeInfo, port: Port, serves: frozenset[int] | None) -> None:
        self.session = session
        self.info = info
        self.port = port
        self.serves = serves
        """The shards a guest takes; None for an ordinary node, which takes what there is."""
        self.owned: set[int] = set()
        self.members: list[Member] = []
        self.gained: Callable[[set[int]], None] = lambda shards: None
        self.hand_out: Callable[[int, int], Awaitable[None]]
        """Give so many shards to that node, in good order."""
        self.taken_over: list[tuple[int, str, float]] = []
        """(number, by, when) of each take-over by this node."""
        self.draining = False
        self.measures: Measures = UNMEASURED
        self._patient_until = float("-inf")
        self._look = Signal()
        self.changing = anyio.Lock()
        """Held by whoever asks the store to change or tell what this node owns, until the answer is acted upon. Without
        it a late answer would bring back shards that were given away meanwhile
        (`test_g3_a_late_answer_brings_no_shard_back`)."""

    def look(self) -> None:
        """Membership may have changed."""
        self._look.set()

    def reconnected(self) -> None:
        """The store is back after an outage, in which nobody could beat: give the others time to."""
        self._patient_until = self.port.monotonic() + 2 * self.info.lease_seconds
        self._look.set()

    async def start(self) -> None:
        """Take what is free before anything else runs."""
        async with self.changing:
            self.members = await self.session.members()
            self._await_signs_of_life()
            await self._silent()
            await self._claim()

    def _await_signs_of_life(self) -> None:
        """Where no other node has beaten lately, perhaps none could: the store was away, and is just back.

        They get the time of a lease to do so; one that is dead does not (`reconnected` is the same for a node that was
        here before).
        """
        others = [m for m in self.members if m.status in ("up", "draining") and m.number != self.session.number]
        if others and all(member.beat_age_seconds > self.info.lease_seconds for member in others):
            self._patient_until = self.port.monotonic() + self.info.lease_seconds

    async def run(self) -> None:
        """Look after membership for ever."""
        while True:
            await self.port.wait(self._look, self.info.beat_seconds)
            async with self.changing:
                self.members = await self.session.members()
                await self._silent()
                if not self.draining:
                    await self._given()
                    await self._claim()
                    await self._share()

    async def run_watch(self) -> None:
        """Wait for the death of the predecessor, for ever."""
        while True:
            member = predecessor(self.session.number, self.members)
            if member is None:
                await self.port.sleep(self.info.beat_seconds)
                continue
            if await self.session.watch(member, seconds=WATCH_SECONDS):
                async with self.changing:
                    await self._take_over(member, "lock")

    async def _given(self) -> None:
        """Shards that others gave to this node, or that it has by a take-over whose answer was lost."""
        me = next((member for member in self.members if member.number == self.session.number), None)
        if me is None or me.shards != len(self.owned):
            self._gain(await self.session.owned())

    async def _silent(self) -> None:
        lease = self.info.lease_seconds
        if self.port.monotonic() < self._patient_until:
            return
        for member in self.members:
            silent = member.number != self.session.number and member.beat_age_seconds > lease
            serves = member.status in ("up", "draining")
            if silent and serves and is_successor(self.session.number, member, self.members, lease):
                await self._take_over(member, "lease")

    async def _take_over(self, member: Member, by: str) -> None:
        noticed = self.port.monotonic()
        shards = await self.session.take_over(member, by=by)
        if shards or by == "lock":
            log.warning("took over %d shards of node %d (%s)", len(shards), member.number, by)
        if shards:
            self.taken_over.append((member.number, by, self.port.wall()))
            self.measures.took_over(shards, noticed)
            self._gain(shards)
        if shards or by == "lock":  # else it was refused, and would be asked for again and again within this beat
            self._look.set()

    async def _claim(self) -> None:
        if self.info.guest:
            wanted = sorted((self.serves or frozenset()) - self.owned)
            if wanted:
                self._gain(await self.session.claim(wanted))
            return
        held = sum(member.shards for member in self.members if member.status in ("up", "draining"))
        if held < SHARDS:
            self._gain(await self.session.claim())

    async def _share(self) -> None:
        if self.info.guest:
            return
        gift = surplus(self.session.number, len(self.owned), self.members, self.info.lease_seconds)
        if gift is not None:
            await self.hand_out(*gift)

    def _gain(self, shards: set[int]) -> None:
        new = shards - self.owned
        if new:
            self.owned |= new
            self.gained(new)
