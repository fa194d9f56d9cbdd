"""The watchers' part of the memory store: windows, what needs attention, and changes (S20, S21).

Neighbours: `tables` holds the rows; `session` and `store` say after each of their writes what it changed. A process
holds no more actors than fit its memory, so that looking through all of them is well here; the PostgreSQL store is the
one whose windows must not.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from itertools import islice

import msgspec

from ...mailbox.address import CLIENT_SHARD, shard_of
from ...mailbox.envelope import DeadLetter, Envelope
from ...mailbox.ids import milliseconds_of
from ..rows import ActorRow, ActorStatus, Decision
from ..unit import Unit
from ..watching import (
    CHANGES,
    COUNTED,
    PRESSING,
    STANDING_WORDS,
    TREND_SECONDS,
    TREND_STEPS,
    TREND_TURNS,
    WAITING_COUNTED,
    Alarms,
    Asked,
    Asking,
    Failing,
    Glance,
    Listed,
    Pending,
    Tally,
    changed,
    is_call,
    place_of,
)
from ..whispers import Ear, Whispers
from .cluster import Cluster
from .tables import Stored, Tables

SAID_CHARS = 500
BODY_BYTES = 2_000
ARGUMENTS_BYTES = 8_000
BONDS_BYTES = 8_000
SILENT_SECONDS = 10.0
"""A node that was not heard of for so long does not serve."""


class MemoryWatching(ABC):
    """Looks at the tables, and tells what has changed."""

    tables: Tables
    cluster: Cluster
    _whispers: Whispers

    @abstractmethod
    async def _reach(self) -> None: ...

    @abstractmethod
    def clock(self) -> float:
        """The store's clock."""

    @abstractmethod
    def overhear(self, topic: str) -> AbstractAsyncContextManager[Ear]:
        """See `Store.overhear`."""

    # -- windows

    async def window(
        self,
        *,
        prefix: str = "",
        kind: str = "",
        statuses: Sequence[ActorStatus] = (),
        after: str = "",
        before: str = "",
        last: bool = False,
        without: Sequence[str] = (),
        limit: int = 100,
    ) -> list[Glance]:
        """See `WatchingStore.window`."""
        await self._reach()
        left_out = set(without)
        rows = [
            row
            for row in self.tables.actors.values()
            if row.address.startswith(prefix)
            and kind in ("", row.kind)
            and (not statuses or row.status in statuses)
            and row.address > after
            and (not before or row.address < before)
            and row.address not in left_out
        ]
        rows.sort(key=lambda row: row.address)
        return self._looked_at(_cut(rows, max(0, limit), from_end=last or bool(before)))

    async def glances(self, addresses: Sequence[str]) -> list[Glance]:
        """See `WatchingStore.glances`."""
        await self._reach()
        places = dict.fromkeys((shard_of(address), address) for address in addresses)
        known = (self.tables.actors.get(place) or _no_actor(*place) for place in places if place[0] != CLIENT_SHARD)
        return self._looked_at(list(known))

    async def pressing(self, *, limit: int = PRESSING) -> list[str]:
        """See `WatchingStore.pressing`."""
        await self._reach()
        found = dict.fromkeys(self._pressing())
        return [address for address in found if shard_of(address) != CLIENT_SHARD][: max(0, limit)]

    def _pressing(self) -> Iterable[str]:
        decisions = self.tables.decisions.values()
        yield from (row.run for row in decisions if row.status == "pending")
        yield from (self._whose(letter.envelope) for letter in reversed(self.tables.dead) if not letter.settled)
        yield from self._with_status("failed", "escalated")
        yield from (self._whose(stored.envelope) for stored in self._failing())
        yield from (
            self._whose(stored.envelope)
            for stored in self.tables.messages.values()
            if not stored.held and not self._is_served(stored.envelope.shard)
        )
        yield from self._with_status("parked", "paused")
        yield from (row.run for row in decisions if row.status == "approved" and row.hold_id)

    def _with_status(self, *statuses: ActorStatus) -> Iterable[str]:
        for status in statuses:
            yield from sorted(row.address for row in self.tables.actors.values() if row.status == status)

    def _failing(self) -> list[Stored]:
        waiting = self.tables.messages.values()
        return [stored for stored in waiting if stored.failing_since is not None and not stored.held]

    def _whose(self, envelope: Envelope) -> str:
        """The actor that a message keeps waiting: its recipient, or whoever called a worker."""
        shard, actors = envelope.shard, self.tables.actors
        calls = is_call(envelope) and (shard, envelope.recipient) not in actors and (shard, envelope.sender) in actors
        return envelope.sender if calls else envelope.recipient

    async def newest(
        self,
        *,
        kind: str,
        after: tuple[float, str] | None = None,
        before: tuple[float, str] | None = None,
        last: bool = False,
        limit: int = 100,
    ) -> list[Listed]:
        """See `WatchingStore.newest`."""
        await self._reach()
        found = {
            (self.tables.created.get(place, 0.0), row.address): row
            for place, row in self.tables.actors.items()
            if row.kind == kind
        }
        rows = [
            found[place]
            for place in sorted(found, reverse=True)
            if (after is None or place < after) and (before is None or place > before)
        ]
        return [self._listed(row) for row in _cut(rows, max(0, limit), from_end=last or before is not None)]

    async def trends(self, addresses: Sequence[str]) -> dict[str, list[int]]:
        """See `WatchingStore.trends`."""
        await self._reach()
        now = self.clock()
        edges = [now - TREND_SECONDS * (TREND_STEPS - 1 - step) / TREND_STEPS for step in range(TREND_STEPS)]
        found = {}
        for address in dict.fromkeys(addresses):
            newest = islice(reversed(self.tables.turns.get(address, ())), TREND_TURNS)
            turns = [turn for turn in newest if turn.at >= now - TREND_SECONDS]
            stays = [(milliseconds_of(turn.id) / 1000.0, turn.at) for turn in turns if _ended(turn.outcome)]
            stays += [(stored.sent_at, float("inf")) for stored in self._box(shard_of(address), address)]
            found[address] = [sum(sent <= edge < left for sent, left in stays) for edge in edges]
        return found

    async def asking(self, *, after: str = "", limit: int = 1_000) -> list[Asking]:
        """See `WatchingStore.asking`."""
        await self._reach()
        rows = list(self.tables.decisions.values())
        if after:
            place = next((number for number, row in enumerate(rows) if row.id == after), len(rows))
            rows = rows[place + 1 :]
        waiting = (row for row in rows if row.status == "pending")
        return [Asking(row.id, hash((row.checks, row.signatures))) for row in islice(waiting, max(0, limit))]

    async def decisions_of(self, ids: Sequence[str]) -> list[Decision]:
        """See `WatchingStore.decisions_of`."""
        await self._reach()
        found = (self.tables.decisions.get(one) for one in dict.fromkeys(ids))
        return [copy(row) for row in found if row is not None]

    # -- counts

    async def tallies(self) -> list[Tally]:
        """See `WatchingStore.tallies`."""
        await self._reach()
        active = {self._whose(stored.envelope): True for stored in self.tables.messages.values() if not stored.held}
        counts: Counter[tuple[str, bool, str, ActorStatus]] = Counter()
        busy: Counter[tuple[str, bool, str, ActorStatus]] = Counter()
        for row in self.tables.actors.values():
            key = (*place_of(row.address), row.kind, row.status)
            counts[key] += 1
            busy[key] += row.status == "active" and row.address in active
        return [Tally(*key, counts[key], busy[key]) for key in sorted(counts)]

    async def alarms(self) -> Alarms:
        """See `WatchingStore.alarms`."""
        await self._reach()
        now = self.clock()
        pending = [row for row in self.tables.decisions.values() if row.status == "pending"]
        statuses = Counter(row.status for row in self.tables.actors.values())
        return Alarms(
            at=now,
            pending=[Pending(row.id, row.requested_at, row.expires_at) for row in pending[:PRESSING]],
            to_decide=min(len(pending), COUNTED),
            held=sum(row.status == "approved" and bool(row.hold_id) for row in self.tables.decisions.values()),
            dead=min(sum(not letter.settled for letter in self.tables.dead), COUNTED),
            failing=min(len(self._failing()), COUNTED),
            **{status: min(statuses[status], COUNTED) for status in STANDING_WORDS},
            members=self.cluster.members(now),
        )

    # -- one line of everything

    def _looked_at(self, rows: Sequence[ActorRow]) -> list[Glance]:
        """Glances at these actors: what all of them share is looked up once. Of one that is none (`_no_actor`), only
        where there is something for it."""
        failing: dict[str, Stored] = {}
        for stored in sorted(self._failing(), key=lambda one: (-one.due, -one.envelope.id)):
            failing[self._whose(stored.envelope)] = stored  # the one that is due first stays
        pending: dict[str, Decision] = {}
        held: dict[str, Decision] = {}
        for decision in self.tables.decisions.values():
            if decision.status == "pending":
                pending.setdefault(decision.run, decision)
            elif decision.status == "approved" and decision.hold_id:
                other = held.get(decision.run)
                if other is None or decision.release_at < other.release_at:
                    held[decision.run] = decision
        dead: dict[str, list[DeadLetter]] = {}
        for letter in self.tables.dead:
            if not letter.settled:
                dead.setdefault(self._whose(letter.envelope), []).append(letter)
        found = [
            msgspec.structs.replace(
                self._glance(row, dead.get(row.address, [])),
                failing=_failure(failing.get(row.address)),
                pending=_asked(pending.get(row.address)),
                held=_asked(held.get(row.address)),
            )
            for row in rows
        ]
        return [one for one in found if one.row.kind or one.waiting or one.dead]

    def _glance(self, row: ActorRow, dead: Sequence[DeadLetter]) -> Glance:
        now = self.clock()
        box = self._box(row.shard, row.address)
        free = [stored for stored in box if not stored.held]
        served = self._is_served(row.shard)
        newest = reversed(self.tables.turns.get(row.address, ()))
        return Glance(
            row=self._listed(row),
            shard=row.shard,
            bonds=row.bonds if len(row.bonds) <= BONDS_BYTES else "",
            turned_at=next((turn.at for turn in islice(newest, 10) if turn.version == row.version > 0), 0.0),
            waiting=len(box),
            waiting_free=len(free),
            ready=sum(stored.due <= now for stored in free),
            oldest_at=min((stored.sent_at for stored in box), default=0.0),
            next_due_at=min((stored.due for stored in free if stored.due > now), default=0.0),
            first=free[0].envelope.type if free else "",
            losses=free[0].envelope.losses if free else 0,
            calls=0 if served else self._calls_of(row),
            served=served,
            dead=min(len(dead), WAITING_COUNTED),
            dead_reason=f"{dead[-1].reason}: {dead[-1].detail}"[:SAID_CHARS] if dead else "",
            dead_recipient=dead[-1].envelope.recipient if dead else "",
        )

    def _listed(self, row: ActorRow) -> Listed:
        created = self.tables.created.get((row.shard, row.address), 0.0)
        return Listed(row.address, row.kind, row.status if row.kind else None, row.reason, row.summary, created)

    def _box(self, shard: int, address: str) -> list[Stored]:
        box = self.tables.mailboxes.get((shard, address))
        if box is None:
            return []
        keys = [*box.ready.first(WAITING_COUNTED), *box.held.first(WAITING_COUNTED)][:WAITING_COUNTED]
        return [self.tables.messages[shard, identifier] for _, identifier in keys]

    def _calls_of(self, row: ActorRow) -> int:
        calls = (
            stored.envelope.sender == row.address and self._whose(stored.envelope) == row.address
            for (shard, _), stored in self.tables.messages.items()
            if shard == row.shard and not stored.held and stored.envelope.recipient != row.address
        )
        return min(sum(calls), WAITING_COUNTED)

    def _is_served(self, shard: int) -> bool:
        node = self.cluster.nodes.get(self.cluster.owners.get(shard, 0))
        return node is not None and node.serves and self.clock() - node.beat < SILENT_SECONDS

    # -- changes

    def changes(self) -> AbstractAsyncContextManager[Ear]:
        """See `WatchingStore.changes`."""
        return self.overhear(CHANGES)

    @property
    def is_watched(self) -> bool:
        """Whether anybody listens to changes."""
        return CHANGES in self._whispers.topics

    def tell(self, *news: str) -> None:
        """Say what has changed."""
        for one in dict.fromkeys(news):
            self._whispers.whisper(CHANGES, one)

    def statuses(self, units: Sequence[Unit]) -> dict[str, ActorStatus]:
        """The statuses of these units' actors as they are now, for `told_by`; empty where nobody listens."""
        if not self.is_watched:
            return {}
        rows = [unit.actor for unit in units if unit.actor is not None]
        known = ((row.address, self.tables.actors.get((row.shard, row.address))) for row in rows)
        return {address: found.status for address, found in known if found is not None}

    def tell_of(self, units: Iterable[Unit], before: dict[str, ActorStatus], dead: int) -> None:
        """Say what these units, which are written, have changed. `dead`: how many dead letters there were before."""
        if not self.is_watched:
            return
        news: list[str] = []
        for unit in units:
            if unit.actor is not None and before.get(unit.actor.address, unit.actor.status) != unit.actor.status:
                news.append(changed("actor", unit.actor.address))
            news += [changed("decision", decision.id) for decision in unit.decisions]
            news += [changed("decision", move.decision) for move in unit.moves]
        news += [changed("dead", letter.number) for letter in self.tables.dead[dead:]]
        self.tell(*news)


def _no_actor(shard: int, address: str) -> ActorRow:
    """In place of a row that is not there: no actor is of no kind."""
    return ActorRow(shard, address, "", 0)


def _cut(rows: Sequence[ActorRow], limit: int, *, from_end: bool) -> Sequence[ActorRow]:
    return rows[max(0, len(rows) - limit) :] if from_end else rows[:limit]


def _ended(outcome: str) -> bool:
    return outcome != "stashed"


def _failure(stored: Stored | None) -> Failing | None:
    if stored is None:
        return None
    envelope = stored.envelope
    return Failing(
        envelope.type,
        envelope.recipient,
        envelope.failures,
        envelope.deliveries,
        envelope.last_error[:SAID_CHARS],
        stored.due,
        envelope.body if len(envelope.body.encode()) <= BODY_BYTES else "",
    )


def _asked(row: Decision | None) -> Asked | None:
    if row is None:
        return None
    short = max(len(text.encode()) for text in (row.arguments, row.provenance)) <= ARGUMENTS_BYTES
    return Asked(
        row.id,
        row.kind,
        "pending" if row.status == "pending" else "approved",
        row.tool,
        row.arguments if short else "",
        row.requested_at,
        row.release_at,
        row.decided_by,
        row.provenance if short else "",
    )
