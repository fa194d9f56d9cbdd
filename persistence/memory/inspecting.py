"""The inspector's part of the memory store: mailboxes, messages and dead letters (S14, S18), and the census.

Neighbours: `tables` holds the rows; `intake` knows client ids and what a mailbox has room for. Only `requeue` and
`discard` change anything.
"""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from copy import copy
from itertools import islice
from operator import attrgetter

from ...mailbox.address import CLIENT_SHARD, SHARDS
from ...mailbox.envelope import DeadLetter, Envelope
from ...mailbox.errors import Conflict, NotFound
from ..operating import (
    AuditEntry,
    Census,
    MailboxOrder,
    MailboxSummary,
    MessageSearch,
    Trail,
    require_named,
)
from ..rows import STANDING, DecisionStatus, MessageView, TurnRow
from ..watching import changed
from .cluster import Cluster
from .intake import Intake
from .tables import Mailbox, Stored, Tables
from .values import check


class MemoryInspecting(ABC):
    """Looks at the tables, and settles dead letters."""

    tables: Tables
    cluster: Cluster
    _intake: Intake

    @abstractmethod
    async def _reach(self) -> None: ...

    @abstractmethod
    def clock(self) -> float:
        """The store's clock."""

    @abstractmethod
    def wake_owners(self, recipients: Iterable[tuple[int, str]], *, but: int | None = None) -> None:
        """Wake whoever serves these mailboxes."""

    @abstractmethod
    def tell(self, *news: str) -> None:
        """Say what has changed."""

    # -- mailboxes and messages

    async def mailboxes(
        self, *, prefix: str = "", order: MailboxOrder = "depth", limit: int = 100
    ) -> list[MailboxSummary]:
        """See `OperatingStore.mailboxes`."""
        await self._reach()
        found = [
            self._summary(shard, address, box)
            for (shard, address), box in self.tables.mailboxes.items()
            if address.startswith(prefix)
        ]
        orders: dict[str, Callable[[MailboxSummary], tuple[object, ...]]] = {
            "depth": lambda box: (-box.depth, box.address, box.shard),
            "age": lambda box: (box.oldest_at, box.address, box.shard),
            "address": lambda box: (box.address, box.shard),
        }
        return sorted(found, key=orders[order])[: max(0, limit)]

    def _summary(self, shard: int, address: str, box: Mailbox) -> MailboxSummary:
        rows = [self.tables.messages[shard, identifier] for _, identifier in (*box.ready, *box.held)]
        states = Counter(self.tables.view(row, self.clock()).state for row in rows)
        return MailboxSummary(
            address=address,
            shard=shard,
            depth=len(rows),
            ready=states["ready"],
            scheduled=states["scheduled"],
            retrying=states["retrying"],
            held=states["held"],
            stashed=states["stashed"],
            oldest_at=min(row.sent_at for row in rows),
            failures=max(row.envelope.failures for row in rows),
        )

    async def message(self, id: int) -> MessageView | None:
        """See `OperatingStore.message`."""
        await self._reach()
        return next((self._view(stored) for stored in self._all() if stored.envelope.id == id), None)

    async def search(self, wanted: MessageSearch, *, limit: int = 100) -> list[MessageView]:
        """See `OperatingStore.search`."""
        await self._reach()
        found = (view for stored in self._all() if self._fits(view := self._view(stored), wanted))
        return sorted(found, key=lambda view: view.envelope.id)[: max(0, limit)]

    def _all(self) -> list[Stored]:
        return list(self.tables.messages.values())

    def _view(self, stored: Stored) -> MessageView:
        return self.tables.view(stored, self.clock())

    def _fits(self, view: MessageView, wanted: MessageSearch) -> bool:
        envelope = view.envelope
        return (
            wanted.text in envelope.body
            and wanted.type in ("", envelope.type)
            and envelope.recipient.startswith(wanted.recipient)
            and envelope.sender.startswith(wanted.sender)
            and wanted.state in ("", view.state)
            and wanted.causation in (0, envelope.causation)
            and wanted.correlation in (0, envelope.correlation)
            and wanted.client_id in ("", self._intake.client_id(envelope.recipient, envelope.id))
        )

    async def client_id(self, recipient: str, id: int) -> str:
        """See `OperatingStore.client_id`."""
        await self._reach()
        return self._intake.client_id(recipient, id)

    async def handled(self, address: str, *, seconds: float, limit: int = 10_000) -> list[tuple[int, float]]:
        """See `OperatingStore.handled`."""
        await self._reach()
        since = self.clock() - seconds
        newest = reversed(self.tables.turns.get(address, ()))
        found = ((turn.id, turn.at) for turn in newest if turn.at >= since and turn.outcome != "stashed")
        return list(islice(found, max(0, limit)))

    async def trail(self, id: int, *, recipient: str = "") -> Trail | None:
        """See `OperatingStore.trail`."""
        await self._reach()
        waiting = next((stored for stored in self._all() if stored.envelope.id == id), None)
        if waiting is not None:
            return self._waits(waiting)
        turns = [turn for turn in self._turns(recipient) if turn.id == id]
        return _was(max(turns, key=attrgetter("at", "version"))) if turns else None

    async def caused(self, id: int, *, limit: int = 100) -> list[Trail]:
        """See `OperatingStore.caused`."""
        await self._reach()
        found = {turn.id: _was(turn) for turn in self._turns("") if turn.causation == id}
        found |= {s.envelope.id: self._waits(s) for s in self._all() if s.envelope.causation == id}
        return [found[key] for key in sorted(found)][: max(0, limit)]

    def _turns(self, recipient: str) -> list[TurnRow]:
        if recipient:
            return self.tables.turns.get(recipient, [])
        return [turn for turns in self.tables.turns.values() for turn in turns]

    def _waits(self, stored: Stored) -> Trail:
        view, envelope = self._view(stored), stored.envelope
        return Trail(
            envelope.id,
            envelope.type,
            envelope.sender,
            envelope.recipient,
            view.state,
            envelope.causation,
            stored.sent_at,
        )

    # -- dead letters

    async def dead_letters(
        self, *, recipient: str = "", open_only: bool = False, before: int = 0, limit: int = 100
    ) -> list[DeadLetter]:
        """See `Store.dead_letters`."""
        await self._reach()
        found = (
            letter
            for letter in reversed(self.tables.dead)
            if recipient in ("", letter.envelope.recipient)
            and not (open_only and letter.settled)
            and (not before or letter.number < before)
        )
        return [_copied(letter) for letter in islice(found, max(0, limit))]

    async def dead_letter(self, number: int) -> DeadLetter | None:
        """See `OperatingStore.dead_letter`."""
        await self._reach()
        found = self._letter(number)
        return None if found is None else _copied(found)

    def _letter(self, number: int) -> DeadLetter | None:
        return next((letter for letter in self.tables.dead if letter.number == number), None)

    async def requeue(self, number: int, envelope: Envelope, entry: AuditEntry) -> DeadLetter:
        """See `OperatingStore.requeue`."""
        await self._reach()
        check(envelope)
        letter = self._open_letter(number, entry)
        self._intake.check([envelope])
        now = self.clock()
        self.tables.put(envelope, now)
        letter.settled, letter.settled_at, letter.settled_by = "requeued", now, entry.who
        self.tables.note(entry, now)
        self.wake_owners([(envelope.shard, envelope.recipient)])
        self.tell(changed("dead", number))
        return _copied(letter)

    async def discard(self, number: int, entry: AuditEntry) -> DeadLetter:
        """See `OperatingStore.discard`."""
        await self._reach()
        letter = self._open_letter(number, entry)
        now = self.clock()
        letter.settled, letter.settled_at, letter.settled_by = "discarded", now, entry.who
        self.tables.note(entry, now)
        self.tell(changed("dead", number))
        return _copied(letter)

    def _open_letter(self, number: int, entry: AuditEntry) -> DeadLetter:
        require_named([entry])
        check(entry)
        letter = self._letter(number)
        if letter is None:
            raise NotFound(f"no dead letter {number}; `callboard dead` lists them")
        if letter.settled:
            raise Conflict(f"dead letter {number} was {letter.settled} by {letter.settled_by} before; nothing was done")
        return letter

    # -- everything at once

    async def census(self) -> Census:
        """See `OperatingStore.census`."""
        await self._reach()
        now = self.clock()
        actors: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for row in self.tables.actors.values():
            actors[row.kind][row.status] += 1
        views = [self._view(stored) for stored in self._all()]
        ready = [
            view.sent_at
            for view in views
            if view.state == "ready" and view.envelope.shard < CLIENT_SHARD and not self._stands(view.envelope)
        ]
        decisions: Counter[DecisionStatus] = Counter(row.status for row in self.tables.decisions.values())
        pending = [row for row in self.tables.decisions.values() if row.status == "pending"]
        serving = {node.number for node in self.cluster.nodes.values() if node.serves}
        return Census(
            at=now,
            actors={kind: dict(statuses) for kind, statuses in actors.items()},
            messages=dict(Counter(view.state for view in views)),
            depths=dict(Counter(self._kind(view.envelope) for view in views)),
            oldest_ready_at=min(ready, default=0.0),
            dead=sum(not letter.settled for letter in self.tables.dead),
            decisions={status: decisions[status] for status in ("pending", "approved")},
            oldest_pending_at=min((row.requested_at for row in pending), default=0.0),
            next_expiry_at=min((row.expires_at for row in pending if row.expires_at), default=0.0),
            shards_unowned=sum(self.cluster.owners.get(shard) not in serving for shard in range(SHARDS)),
            schema_version=0,
            server_version="memory",
            members=self.cluster.members(now),
        )

    def _stands(self, envelope: Envelope) -> bool:
        row = self.tables.actors.get((envelope.shard, envelope.recipient))
        return row is not None and envelope.lane > 0 and row.status in {*STANDING, "failed"}

    def _kind(self, envelope: Envelope) -> str:
        row = self.tables.actors.get((envelope.shard, envelope.recipient))
        if row is not None:
            return row.kind
        return "client" if envelope.shard == CLIENT_SHARD else envelope.recipient.partition(":")[0]


def _copied(letter: DeadLetter) -> DeadLetter:
    found = copy(letter)
    found.envelope = copy(letter.envelope)
    return found


def _was(turn: TurnRow) -> Trail:
    return Trail(turn.id, turn.type, turn.sender, turn.recipient, turn.outcome, turn.causation, turn.at)
