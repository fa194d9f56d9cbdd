"""A node's channel to the memory store, with the ways in which a node can go wrong.

`crash`, `freeze` and `thaw` are for tests and the simulator: a crashed node's lock is free at once and its calls fail,
a frozen one keeps its lock and stops beating. Either is superseded by `take_over`; from then on it commits nothing.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio.abc
import anyio.lowlevel

from ...mailbox.envelope import Envelope
from ...mailbox.errors import StaleEpoch, StoreUnavailable
from ..port import Port, Signal
from ..rows import ActorRow, EventRow, Member, Timer
from ..store import Wake
from ..unit import CommitResult, Unit
from ..watching import changed
from . import batch
from .cluster import Node

if TYPE_CHECKING:
    from .store import MemoryStore


class MemorySession:
    """Implements `Session`; made by `MemoryStore.join`."""

    def __init__(self, store: "MemoryStore", node: Node, port: Port, group: anyio.abc.TaskGroup) -> None:
        self.number = node.number
        self.epoch = node.epoch
        self.node = node
        self._store = store
        self._port = port
        self._group = group
        self._crashed = False
        self._frozen = False
        self._connected = True
        self._back_since: float | None = None
        self._seen_locked: set[tuple[int, int]] = set()

    # -- turns

    async def commit(self, units: Sequence[Unit]) -> CommitResult:
        """See `Session.commit`."""
        await self._reach("commit")
        self._fence()
        before, dead = self._store.statuses(units), len(self._store.tables.dead)
        result = batch.write(self._store.tables, units, self._store.clock(), self.number, self.epoch)
        self._store.tell_of((one for place, one in enumerate(units) if place not in result.rejected), before, dead)
        if self._store.lost_answer(self.number):
            raise StoreUnavailable("the answer to a commit was lost; the versions tell whether it landed")
        return result

    async def ready(
        self, shards: Sequence[int], *, per_actor: int, limit: int, beyond: str = "", standing: bool = True
    ) -> tuple[list[Envelope], str]:
        """See `Session.ready`. A mailbox with fewer than `per_actor` (and `limit`) messages is given whole."""
        await self._reach("ready")
        return self._store.tables.ready(shards, per_actor, limit, beyond, self._store.clock(), standing=standing)

    async def mailbox(self, shard: int, address: str, *, limit: int) -> list[Envelope]:
        """See `Session.mailbox`."""
        await self._reach("mailbox")
        return self._store.tables.waiting(shard, address, limit, self._store.clock())

    async def backlog(self, shard: int, address: str, *, limit: int) -> int:
        """See `Session.backlog`."""
        await self._reach("backlog")
        return min(self._store.tables.count(shard, address), limit)

    async def load(self, addresses: Sequence[tuple[int, str]]) -> list[ActorRow]:
        """See `Session.load`."""
        await self._reach("load")
        return self._store.tables.load(addresses)

    async def journal(self, address: str, *, after: int = 0, limit: int = 10_000) -> list[EventRow]:
        """See `Session.journal`."""
        await self._reach("journal")
        return self._store.tables.journal(address, after, limit)

    async def due(self, shards: Sequence[int], *, within_seconds: float, limit: int) -> list[Timer]:
        """See `Session.due`."""
        await self._reach("due")
        now = self._store.clock()
        return self._store.tables.due(shards, now + within_seconds, limit, now)

    # -- ownership

    async def owned(self) -> set[int]:
        """See `Session.owned`."""
        await self._reach("owned")
        return self._store.cluster.owned(self.number) if self.node.epoch == self.epoch else set()

    async def claim(self, shards: Sequence[int] | None = None) -> set[int]:
        """See `Session.claim`."""
        await self._reach("claim")
        self._fence()
        taken = self._store.cluster.claim(self.number, shards)
        if taken:
            self._store.members_changed(self.number)
        return taken

    async def give(self, shards: Sequence[int], to: int | None) -> None:
        """See `Session.give`. Where `to` does not serve any more, the shards belong to nobody."""
        await self._reach("give")
        self._fence()
        given = self._store.cluster.give(self.number, shards, to)
        if given:
            self._store.members_changed(self.number)
        if given and to is not None:
            self._store.wake_node(to, Wake(frozenset(given), members_changed=True))

    async def publish_full(self, full: Sequence[tuple[int, str]], room: Sequence[tuple[int, str]]) -> None:
        """See `Session.publish_full`."""
        await self._reach("publish_full")
        self._fence()
        owners, known = self._store.cluster.owners, self._store.tables.full
        known.difference_update(place for place in room if owners.get(place[0]) == self.number)
        known.update(place for place in full if owners.get(place[0]) == self.number)

    async def full(self) -> set[str]:
        """See `Session.full`."""
        await self._reach("full")
        return {address for _, address in self._store.tables.full}

    async def members(self) -> list[Member]:
        """See `Session.members`."""
        await self._reach("members")
        return self._store.cluster.members(self._store.clock())

    async def watch(self, member: Member, *, seconds: float) -> bool:
        """See `Session.watch`."""
        await self._reach("watch")
        node = self._store.cluster.nodes.get(member.number)
        if node is None or node.info.boot != member.boot:
            await self._port.sleep(seconds)
            return False
        sight = (node.number, node.epoch)
        deadline = self._port.monotonic() + seconds
        changed = Signal()
        node.lock_changed.append(changed)
        try:
            while True:
                if node.locked:
                    self._seen_locked.add(sight)
                elif sight in self._seen_locked:
                    return True
                left = deadline - self._port.monotonic()
                if left <= 0 or not await self._port.wait(changed, left):
                    return False
                self._check()
        finally:
            node.lock_changed.remove(changed)

    async def take_over(self, member: Member, *, by: str) -> set[int]:
        """See `Session.take_over`. By lease only when this node has itself been in touch for two of its leases."""
        await self._reach("take_over")
        self._fence()
        if by == "lease" and self._is_fresh():
            return set()
        node = self._store.cluster.nodes.get(member.number)
        if node is None or not node.serves or node.info.boot != member.boot or node.epoch != member.epoch:
            return set()
        silent = self._store.clock() - node.beat > node.info.lease_seconds
        if node.locked if by == "lock" else not silent:
            return set()
        shards = self._store.cluster.supersede(node, self.number, self._store.clock())
        self._store.members_changed(self.number)
        self._store.tell(changed("node", node.number))
        return shards

    def _is_fresh(self) -> bool:
        # After an outage all others look silent, though they are about to come back like this node just did.
        return self._back_since is not None and (
            self._port.monotonic() - self._back_since < 2 * self.node.info.lease_seconds
        )

    # -- waking

    async def wake(self, seconds: float) -> Wake | None:
        """See `Session.wake`. After `reconnect` it says once to look at everything: wake-ups may have been lost."""
        self._check()
        if not await self._port.wait(self.node.woken, seconds):
            return None
        self._check()
        return self.node.take_wake()

    async def notify(self, recipients: Sequence[tuple[int, str]], *, echo: bool = False) -> None:
        """See `Session.notify`."""
        await self._reach("notify")
        self._store.wake_owners(recipients, but=None if echo else self.number)

    def deliver(self, delay_seconds: float, wake: Wake) -> None:
        """Be woken, now or later; for the store."""
        if delay_seconds <= 0:
            self.node.poke(wake)
        elif not self._group.cancel_scope.cancel_called:
            self._port.spawn(self._group, self._deliver_later, delay_seconds, wake, name="late wake-up")

    async def _deliver_later(self, delay_seconds: float, wake: Wake) -> None:
        await self._port.sleep(delay_seconds)
        self.node.poke(wake)

    # -- life and death

    async def start_heart(self, alive: Callable[[], bool]) -> None:
        """See `Session.start_heart`; here a task beats."""
        await self._reach("start_heart")
        self._port.spawn(self._group, self._beat, alive, name=f"heart of node {self.number}")

    async def _beat(self, alive: Callable[[], bool]) -> None:
        while self.node.epoch == self.epoch and not self._crashed:
            if alive() and self._connected and not self._frozen and not self._store.down:
                self.node.beat = self._store.clock()
            await self._port.sleep(self.node.info.beat_seconds)

    async def draining(self) -> None:
        """See `Session.draining`."""
        await self._reach("draining")
        self._fence()
        self.node.status = "draining"
        self._store.members_changed(self.number)
        self._store.tell(changed("node", self.number))

    async def reconnect(self) -> bool:
        """See `Session.reconnect`."""
        await anyio.lowlevel.checkpoint()
        if self._store.down or self._crashed:
            return False
        self._fence()
        if not self._connected:
            self._connected = True
            self._back_since = self._port.monotonic()
            self.node.beat = self._store.clock()
            self.node.set_lock(True)
            self.node.poke(Wake(None, members_changed=True))
        return True

    async def leave(self) -> None:
        """See `Session.leave`."""
        await anyio.lowlevel.checkpoint()
        if self.node.epoch != self.epoch or not self.node.serves:
            return
        self._check()
        self._store.cluster.leave(self.node, self._store.clock())
        self._store.members_changed(self.number)
        self._store.tell(changed("node", self.number))

    def crash(self) -> None:
        """The process dies: its lock is free at once, its heart stops, its calls fail. For tests and the simulator."""
        self._crashed = True
        if self.node.epoch == self.epoch:
            self.node.set_lock(False)
        self.node.woken.set()

    def freeze(self) -> None:
        """The process stops without dying: no beat, but the lock stays held. For tests and the simulator."""
        self._frozen = True

    def thaw(self) -> None:
        """A frozen process goes on, not knowing that time has passed."""
        self._frozen = False

    def disconnect(self) -> None:
        """The server does not answer: connections and locks are gone until `reconnect`."""
        self._connected = False
        self._seen_locked.clear()
        if self.node.epoch == self.epoch:
            self.node.set_lock(False)
        self.node.woken.set()

    async def _reach(self, operation: str) -> None:
        """What stands between a call and the store: the simulator's hook, then whether there is a connection."""
        await anyio.lowlevel.checkpoint()
        before = self._store.before
        if before is not None:
            await before(self.number, operation)
        self._check()

    def _check(self) -> None:
        if self._store.down:
            raise StoreUnavailable("the memory store does not answer: it is switched off")
        if self._crashed and self.node.epoch == self.epoch:
            raise StoreUnavailable(f"node {self.number} has crashed; nothing it calls is answered")
        if not self._connected and self.node.epoch == self.epoch:
            raise StoreUnavailable(f"node {self.number} lost its connections; reconnect")

    def _fence(self) -> None:
        if self.node.epoch != self.epoch or not self.node.serves:
            raise StaleEpoch(
                f"node {self.number} was superseded (epoch {self.epoch} is {self.node.status}, {self.node.epoch} is "
                "current); it must forget what it holds and join anew"
            )
