"""A node's own channel to the database: six sessions, each for one purpose, because none may wait for another.

    commit    the batches, one after the other; holds the node's lock
    read      mailboxes, actors, members
    control   changes of ownership, which may wait for a commit of another node, and wake-ups for others, which
              serialise with all of their kind
    listen    wake-ups
    watch     waits for the lock of another node
    heart     beats, in a thread; holds the node's lock too

Their names carry the node's number and epoch: by these a successor ends them. Invariant: after `reconnect` returned
True the node still has its epoch, and whatever was or was not committed can be read.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel

from ...mailbox.address import shard_of
from ...mailbox.envelope import Envelope
from ...mailbox.errors import StaleEpoch, StoreUnavailable
from ..port import Port, Signal
from ..rows import ActorRow, EventRow, Member, Timer
from ..store import NodeInfo, Wake
from ..unit import CommitResult, Unit
from .arrays import integers, texts
from .commit import claims, flatten, overlaps
from .connect import Link, conninfo
from .errors import Misfit, translated
from .heart import Heart
from .inbox import Inbox

COMMIT_SECONDS = 20.0
COMMIT_ROUNDS = 8
"""How often a batch is tried whose units stop fitting while it is being looked at."""

WATCH_SLICE_SECONDS = 0.25
"""How long one wait for a lock lasts: it holds a snapshot, and a node that comes back queues for its lock behind it."""

FAREWELL_SECONDS = 1.0
"""How long a take-over waits for the sessions it ended to be gone."""


class PostgresSession:
    """Implements `Session`; made by `PostgresStore.join`."""

    def __init__(
        self, dsn: str, info: NodeInfo, port: Port, takes: Callable[[str], bool] = lambda address: False
    ) -> None:
        """`takes`: tells of a mailbox within this process, and whether that is enough."""
        self.number = 0
        self.epoch = 0
        self._dsn = dsn
        self._info = info
        self._port = port
        self._links: dict[str, Link] = {}
        self._heart: Heart | None = None
        self._seen_held: set[tuple[int, int]] = set()
        self._look_everywhere = False
        self._crashed = False
        self._takes = takes
        self.serves: set[int] = set()
        """The shards that it owns, as far as it knows: what the store has said last."""
        self._inbox: Inbox | None = None
        self._heard: set[str] = set()
        """Words of wake-ups: a shard's number, "m" for members, "" for everything."""
        self._came = Signal()
        self._deaf = False
        self._back_since: float | None = None

    async def enter(self) -> None:
        """Register, lock, and open the sessions.

        Raises:
            StoreUnavailable, SchemaMismatch.
        """
        link = self._links["commit"] = await Link.open(self._dsn, "callboard node commit")
        info = self._info
        [(self.number, self.epoch)] = await link.run(
            "join_node",
            {
                "boot": info.boot,
                "label": info.label,
                "lease_seconds": info.lease_seconds,
                "guest": info.guest,
                "capabilities": info.capabilities,
            },
        )
        await link.run("name_session", {"name": self._name("commit")})
        await self._prepare(link, "commit")
        for purpose in ("read", "control", "listen", "watch"):
            await self._open(purpose)

    async def crash(self) -> None:
        """End heart and sessions without a word, as the death of the process does. For tests."""
        self._crashed = True
        with anyio.CancelScope(shield=True):
            if self._heart is not None:
                await self._heart.stop(self._port)
            if self._inbox is not None:
                self._inbox.close()
            for link in self._links.values():
                await link.close()

    async def exit(self) -> None:
        """Stop the heart, leave, and close the sessions."""
        with anyio.CancelScope(shield=True):
            if self._heart is not None:
                await self._heart.stop(self._port)
            with suppress(StoreUnavailable):  # then closing the sessions frees the lock, and others take over
                if self.number and not self._crashed:
                    await self.leave()
        await self.crash()

    def _name(self, purpose: str) -> str:
        return f"callboard node {self.number} epoch {self.epoch} {purpose}"

    async def _open(self, purpose: str) -> None:
        if purpose == "listen" and self._inbox is not None:
            self._inbox.close()
        if purpose in self._links:
            await self._links[purpose].close()
        link = self._links[purpose] = await Link.open(self._dsn, self._name(purpose))
        await self._prepare(link, purpose)

    async def _prepare(self, link: Link, purpose: str) -> None:
        if purpose == "commit":
            await link.run("hold_lock", {"number": self.number})
        elif purpose == "listen":
            await link.listen(f"callboard_node_{self.number}")
            self._deaf = False
            self._inbox = link.hear(self._hear, self._hear_no_more)
        elif purpose == "watch":
            self._seen_held.clear()

    def _mine(self, **more: Any) -> dict[str, Any]:
        return {"node": self.number, "epoch": self.epoch, **more}

    # -- turns

    async def commit(self, units: Sequence[Unit]) -> CommitResult:
        """See `Session.commit`."""
        rejected: dict[int, str] = {}
        for _ in range(COMMIT_ROUNDS):
            places = [index for index in range(len(units)) if index not in rejected]
            batch = [units[index] for index in places] if rejected else units
            try:
                with translated():
                    arguments = flatten(batch, self.number, self.epoch)
                await self._links["commit"].run("commit_batch", arguments, seconds=COMMIT_SECONDS)
            except Misfit:
                rejected |= {places[index]: reason for index, reason in (await self._misfits(batch)).items()}
            else:
                return CommitResult(rejected=rejected)
        raise StoreUnavailable(f"{len(units)} units stopped fitting {COMMIT_ROUNDS} times while they were looked at")

    async def _misfits(self, units: Sequence[Unit]) -> dict[int, str]:
        rows = await self._links["commit"].run("misfits", {"claims": claims(units)})
        found: dict[int, str] = {}
        for index, reason in rows:
            found.setdefault(index, reason)
        rest = [index for index in range(len(units)) if index not in found]
        for index in overlaps([units[index] for index in rest]):
            found[rest[index]] = "a row of it is touched twice in this batch"
        return found

    async def ready(
        self, shards: Sequence[int], *, per_actor: int, limit: int, beyond: str = "", standing: bool = True
    ) -> tuple[list[Envelope], str]:
        """See `Session.ready`. A mailbox with fewer than `per_actor` (and `limit`) messages is given whole."""
        first, _, recipient = beyond.partition("|")
        first_shard = int(first) if beyond else -1
        rows = await self._links["read"].run(
            "ready",
            {
                "shards": integers(sorted({shard for shard in shards if shard >= first_shard})),
                "first_shard": first_shard,
                "beyond": recipient,
                "per_actor": min(per_actor, limit),
                "limit": limit + 1,  # one more tells whether that was all
                "standing": standing,
            },
        )
        found = [Envelope(*row) for row in rows]
        if len(found) <= limit:
            return found, ""
        beginning = found[limit]
        kept = [e for e in found[:limit] if (e.shard, e.recipient) != (beginning.shard, beginning.recipient)]
        return kept, f"{kept[-1].shard}|{kept[-1].recipient}"

    async def mailbox(self, shard: int, address: str, *, limit: int) -> list[Envelope]:
        """See `Session.mailbox`."""
        rows = await self._links["read"].run("mailbox", {"shard": shard, "address": address, "limit": limit})
        return [Envelope(*row) for row in rows]

    async def backlog(self, shard: int, address: str, *, limit: int) -> int:
        """See `Session.backlog`."""
        wanted = {"shard": shard, "address": address, "limit": limit}
        [(amount,)] = await self._links["read"].run("backlog", wanted)
        return int(amount)

    async def load(self, addresses: Sequence[tuple[int, str]]) -> list[ActorRow]:
        """See `Session.load`."""
        wanted = {
            "shards": integers([shard for shard, _ in addresses]),
            "addresses": texts([address for _, address in addresses]),
        }
        return [ActorRow(*row) for row in await self._links["read"].run("load", wanted)]

    async def journal(self, address: str, *, after: int = 0, limit: int = 10_000) -> list[EventRow]:
        """See `Session.journal`."""
        wanted = {"shard": shard_of(address), "address": address, "after": after, "limit": limit}
        return [EventRow(*row) for row in await self._links["read"].run("journal", wanted)]

    async def due(self, shards: Sequence[int], *, within_seconds: float, limit: int) -> list[Timer]:
        """See `Session.due`."""
        each = set(shards)
        wanted = {"shards": integers(list(each)), "within_seconds": within_seconds, "limit": limit}
        # Due timers are mostly spread evenly: twice a shard's share is read first, and all only where that left gaps.
        share = min(limit, 2 * limit // max(1, len(each)) + 8)
        rows = await self._links["read"].run("due", wanted | {"per_shard": share})
        if share < limit and len(rows) < limit and rows and rows[0][-1]:
            rows = await self._links["read"].run("due", wanted | {"per_shard": limit})
        return [Timer(*row[:-1]) for row in rows]

    # -- ownership

    async def owned(self) -> set[int]:
        """See `Session.owned`."""
        self.serves = {row[0] for row in await self._links["read"].run("owned", self._mine())}
        return set(self.serves)

    async def claim(self, shards: Sequence[int] | None = None) -> set[int]:
        """See `Session.claim`."""
        wanted = self._mine(shards=None if shards is None else integers(list(shards)))
        claimed = {row[0] for row in await self._links["control"].run("claim", wanted)}
        self.serves |= claimed
        return claimed

    async def give(self, shards: Sequence[int], to: int | None) -> None:
        """See `Session.give`. Where `to` does not serve any more, the shards belong to nobody."""
        self.serves.difference_update(shards)
        await self._links["control"].run("give", self._mine(shards=integers(list(shards)), to=to))

    async def publish_full(self, full: Sequence[tuple[int, str]], room: Sequence[tuple[int, str]]) -> None:
        """See `Session.publish_full`."""
        wanted = self._mine(
            full_shards=integers([shard for shard, _ in full]),
            full=texts([address for _, address in full]),
            room_shards=integers([shard for shard, _ in room]),
            room=texts([address for _, address in room]),
        )
        await self._links["control"].run("publish_full", wanted)

    async def full(self) -> set[str]:
        """See `Session.full`."""
        return {row[0] for row in await self._links["read"].run("full")}

    async def members(self) -> list[Member]:
        """See `Session.members`."""
        return [Member(*row) for row in await self._links["read"].run("members")]

    async def watch(self, member: Member, *, seconds: float) -> bool:
        """See `Session.watch`."""
        link, deadline = self._links["watch"], self._port.monotonic() + seconds
        sight = (member.number, member.epoch)
        if sight not in self._seen_held:
            [(held,)] = await link.run("lock_held", {"number": member.number})
            if not held:
                await self._port.sleep(seconds)
                return False
            self._seen_held.add(sight)
        while (left := deadline - self._port.monotonic()) > 0:
            wait = {"number": member.number, "milliseconds": int(1000 * min(left, WATCH_SLICE_SECONDS)) + 1}
            [(free,)] = await link.run("await_lock", wait)
            if free:
                return True
            await anyio.lowlevel.checkpoint()  # statements are shielded: here a cancelled watch ends
        return False

    async def take_over(self, member: Member, *, by: str) -> set[int]:
        """See `Session.take_over`. By lease only when this node has itself been in touch for two of its leases."""
        if by == "lease" and self._is_fresh():
            return set()
        wanted = {"me": self.number, "my_epoch": self.epoch, "number": member.number, "epoch": member.epoch, "by": by}
        taken = {row[0] for row in await self._links["control"].run("take_over", wanted)}
        self.serves |= taken
        if taken:
            await self._wait_for_farewell(member)
        return taken

    def _is_fresh(self) -> bool:
        # After an outage all others look silent, though they are about to come back like this node just did.
        return self._back_since is not None and (
            self._port.monotonic() - self._back_since < 2 * self._info.lease_seconds
        )

    async def _wait_for_farewell(self, member: Member) -> None:
        # Not for safety, which is the epoch's: so that the member's statements are over before its successor reads.
        deadline = self._port.monotonic() + FAREWELL_SECONDS
        while self._port.monotonic() < deadline:
            [(held,)] = await self._links["read"].run("lock_held", {"number": member.number})
            if not held:
                return
            await self._port.sleep(0.01)

    # -- waking

    async def wake(self, seconds: float) -> Wake | None:
        """See `Session.wake`. After `reconnect` it says once to look at everything: wake-ups may have been lost."""
        if self._look_everywhere:
            self._look_everywhere = False
            await anyio.lowlevel.checkpoint()
            return Wake(None, members_changed=True)
        await anyio.lowlevel.checkpoint()
        if self._inbox is not None:
            self._inbox.look()
        deadline = self._port.monotonic() + seconds
        while not (self._heard or self._deaf) and (left := deadline - self._port.monotonic()) > 0:
            await self._port.wait(self._came, left)
        if self._deaf:
            raise StoreUnavailable("the session that listens for wake-ups was cut")
        words, self._heard = self._heard, set()
        if not words:
            return None
        shards = frozenset(int(word) for word in words if word.isdecimal())
        return Wake(None if "" in words else shards, members_changed="m" in words)

    def _hear(self, payload: str) -> None:
        self._heard.update(payload.split(","))
        self._came.set()

    def _hear_no_more(self) -> None:
        self._deaf = True
        self._came.set()

    def tell(self, shards: set[int]) -> None:
        """Wake this node from within its process."""
        self._heard.update(map(str, shards))
        self._came.set()

    async def notify(self, recipients: Sequence[tuple[int, str]], *, echo: bool = False) -> None:
        """See `Session.notify`."""
        others = [place for place in recipients if not self._takes(place[1])]
        if others:
            await self._links["control"].run("wake_owners", wake_arguments(others, None if echo else self.number))

    # -- life and death

    async def start_heart(self, alive: Callable[[], bool]) -> None:
        """See `Session.start_heart`."""
        target = conninfo(self._dsn, self._name("heart"))
        self._heart = Heart(target, self.number, self.epoch, self._info.beat_seconds, alive)
        await self._heart.start(self._port)

    async def draining(self) -> None:
        """See `Session.draining`."""
        await self._links["control"].run("drain_node", self._mine())

    async def reconnect(self) -> bool:
        """See `Session.reconnect`."""
        broken = [purpose for purpose, link in self._links.items() if not await link.works()]
        try:
            for purpose in broken:
                await self._open(purpose)
            current = await self._links["read"].run("is_current", self._mine())
        except StoreUnavailable:
            return False
        if not current:
            raise StaleEpoch(
                f"node {self.number} was superseded (epoch {self.epoch} is not current); "
                "it must forget what it holds and join anew"
            )
        if broken:
            self._look_everywhere = True
            self._back_since = self._port.monotonic()
        return True

    async def leave(self) -> None:
        """See `Session.leave`. On a new connection where the old one was cut, as a successor does."""
        if "control" not in self._links or not await self._links["control"].works():
            await self._open("control")
        await self._links["control"].run("leave_node", self._mine())


def wake_arguments(recipients: Sequence[tuple[int, str]], but: int | None) -> dict[str, Any]:
    """The arguments of `wake_owners`."""
    unique = set(recipients)
    return {
        "shards": integers(list({shard for shard, _ in unique})),
        "recipients": texts([address for _, address in unique]),
        "but": but,
    }


@asynccontextmanager
async def joined(dsn: str, info: NodeInfo, port: Port, takes: Callable[[str], bool]) -> AsyncIterator[PostgresSession]:
    """A node's session for the time of a block."""
    session = PostgresSession(dsn, info, port, takes)
    try:
        await session.enter()
        yield session
    finally:
        await session.exit()
