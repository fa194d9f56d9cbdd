"""The tables, as plain dicts beside the orders in which they are read.

Rows are copied on the way in and on the way out, so that nobody outside holds a reference to what is stored; texts
and bytes are shared. Nothing here checks anything: `batch` and `store` do, before they write.

Invariant: a message is in `messages` and in exactly one of its mailbox's orders (`ready` or `held`); a recipient is in
`recipients` while something is ready for it; a mailbox without messages is not kept.
"""

from collections.abc import Iterable
from copy import copy
from heapq import merge
from itertools import islice

import msgspec

from ...mailbox.address import shard_of
from ...mailbox.envelope import DeadLetter, Envelope
from ..operating import AuditEntry, AuditRow
from ..rows import (
    STANDING,
    UNREADABLE,
    ActorRow,
    Decision,
    DecisionStatus,
    EventRow,
    MessageView,
    Timer,
    TurnRow,
)
from .ordered import Ordered


class Stored(msgspec.Struct, gc=False):
    """A message in a mailbox."""

    envelope: Envelope
    due: float
    sent_at: float
    held: bool
    failing_since: float | None = None
    """When it was tried again for the first time."""


class StoredTimer(msgspec.Struct, gc=False):
    """A timer with its due time instead of its delay."""

    timer: Timer
    due: float


GONE = EventRow(0, "", 0, "", "")


class Mailbox:
    """The orders of one mailbox: what may be handled, and what is held."""

    __slots__ = ("held", "ready")

    def __init__(self) -> None:
        self.ready: Ordered[tuple[int, int]] = Ordered()
        self.held: Ordered[tuple[int, int]] = Ordered()


class Tables:
    """All rows of a store."""

    def __init__(self) -> None:
        self.actors: dict[tuple[int, str], ActorRow] = {}
        self.created: dict[tuple[int, str], float] = {}
        """When each of them was made."""
        self.messages: dict[tuple[int, int], Stored] = {}
        self.mailboxes: dict[tuple[int, str], Mailbox] = {}
        self.recipients: dict[int, Ordered[str]] = {}
        self.events: dict[str, list[EventRow]] = {}
        self.feed: list[EventRow] = []
        """The events of all actors, as they came; GONE in the places of those that retention removed."""
        self.turns: dict[str, list[TurnRow]] = {}
        self.timers: dict[tuple[int, str, str], StoredTimer] = {}
        self.timer_order: dict[int, Ordered[tuple[float, str, str]]] = {}
        self.dead: list[DeadLetter] = []
        self.buried = 0
        """How many there ever were."""
        self.decisions: dict[str, Decision] = {}
        self.audit: list[AuditRow] = []
        self.audited = 0
        """How many there ever were: retention removes some."""
        self.full: set[tuple[int, str]] = set()
        """Mailboxes (shard, address) that take no more from other actors, as their owners told."""

    def note(self, entry: AuditEntry, now: float) -> None:
        """Write down what was done."""
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
        self.audited += 1
        self.audit.append(AuditRow(number=self.audited, at=now, **fields))

    # -- messages

    def put(self, envelope: Envelope, now: float, *, held: bool = False) -> None:
        """Add a message to its mailbox."""
        new = copy(envelope)
        # What happens to a message is told by retries; a new one begins without.
        new.losses = new.timeouts = 0
        new.failing_seconds = 0.0
        stored = Stored(new, now + envelope.delay_seconds, now, held)
        self.messages[envelope.shard, envelope.id] = stored
        place = (envelope.shard, envelope.recipient)
        mailbox = self.mailboxes.get(place)
        if mailbox is None:
            mailbox = self.mailboxes[place] = Mailbox()
        if held:
            mailbox.held.add((int(envelope.lane), envelope.id))
        else:
            self._make_ready(mailbox, envelope)

    def _make_ready(self, mailbox: Mailbox, envelope: Envelope) -> None:
        if not mailbox.ready:
            names = self.recipients.get(envelope.shard)
            if names is None:
                names = self.recipients[envelope.shard] = Ordered()
            names.add(envelope.recipient)
        mailbox.ready.add((int(envelope.lane), envelope.id))

    def _leave_ready(self, mailbox: Mailbox, envelope: Envelope) -> None:
        mailbox.ready.remove((int(envelope.lane), envelope.id))
        if not mailbox.ready:
            self.recipients[envelope.shard].remove(envelope.recipient)

    def delete(self, shard: int, identifier: int) -> Envelope:
        """Take a message out of the store."""
        stored = self.messages.pop((shard, identifier))
        envelope = stored.envelope
        mailbox = self.mailboxes[shard, envelope.recipient]
        if stored.held:
            mailbox.held.remove((int(envelope.lane), identifier))
        else:
            self._leave_ready(mailbox, envelope)
        if not mailbox.ready and not mailbox.held:
            del self.mailboxes[shard, envelope.recipient]
        return envelope

    def release(self, shard: int, identifier: int) -> None:
        """Let a held message go."""
        stored = self.messages[shard, identifier]
        stored.held = False
        mailbox = self.mailboxes[shard, stored.envelope.recipient]
        mailbox.held.remove((int(stored.envelope.lane), identifier))
        self._make_ready(mailbox, stored.envelope)

    def stash(self, shard: int, identifier: int) -> None:
        """Hold a message that waits."""
        stored = self.messages[shard, identifier]
        stored.held = True
        mailbox = self.mailboxes[shard, stored.envelope.recipient]
        self._leave_ready(mailbox, stored.envelope)
        mailbox.held.add((int(stored.envelope.lane), identifier))

    def charge(self, shard: int, identifier: int) -> None:
        """One loss more for a message, where it is still there."""
        stored = self.messages.get((shard, identifier))
        if stored is not None:
            stored.envelope.losses += 1

    def held(self, shard: int, recipient: str) -> list[int]:
        """Ids of what is held for a recipient in one shard."""
        mailbox = self.mailboxes.get((shard, recipient))
        return [] if mailbox is None else [identifier for _, identifier in mailbox.held]

    def waiting(self, shard: int, recipient: str, limit: int, now: float) -> list[Envelope]:
        """The first messages of one mailbox that are not held."""
        mailbox = self.mailboxes.get((shard, recipient))
        if mailbox is None:
            return []
        return [_out(self.messages[shard, identifier], now) for _, identifier in mailbox.ready.first(limit)]

    def ready(
        self, shards: Iterable[int], per_actor: int, limit: int, beyond: str, now: float, *, standing: bool = True
    ) -> tuple[list[Envelope], str]:
        """Windows of all mailboxes with something ready; a mailbox's window is never cut by the end of a page."""
        window = min(per_actor, limit)
        number, _, rest = beyond.partition("/")
        first_shard, last_name = (int(number), "/" + rest) if beyond else (-1, "")
        found: list[Envelope] = []
        cursor = beyond
        for shard in sorted(set(shards)):
            names = self.recipients.get(shard)
            if names is None or shard < first_shard:
                continue
            for name in names.after(last_name if shard == first_shard else ""):
                room = limit - len(found)
                if room < window and len(self.mailboxes[shard, name].ready) > room:
                    return found, cursor
                messages = self.waiting(shard, name, window, now)
                if not standing and self._stands(shard, name):
                    messages = [envelope for envelope in messages if envelope.lane == 0]
                found += messages
                cursor = f"{shard}{name}"
        return found, ""

    def _stands(self, shard: int, name: str) -> bool:
        row = self.actors.get((shard, name))
        return row is not None and row.status in STANDING and not row.reason.startswith(UNREADABLE)

    def peek(self, address: str, limit: int, now: float) -> list[MessageView]:
        """All messages of a mailbox, in whatever shards they are, held ones included."""
        places = [(shard, box) for (shard, name), box in self.mailboxes.items() if name == address]
        keys = sorted(
            (lane, identifier, shard) for shard, box in places for lane, identifier in (*box.ready, *box.held)
        )
        return [self.view(self.messages[shard, identifier], now) for _, identifier, shard in keys[:limit]]

    def waiting_of_type(self, type: str, limit: int, now: float) -> list[MessageView]:
        """Messages of one type in any mailbox, held ones left out, in order of shard and id."""
        keys = sorted(
            (shard, identifier)
            for (shard, _), box in self.mailboxes.items()
            for _, identifier in box.ready
            if self.messages[shard, identifier].envelope.type == type
        )
        return [self.view(self.messages[key], now) for key in keys[:limit]]

    def view(self, stored: Stored, now: float) -> MessageView:
        """A message as the inspector shows it."""
        envelope = _out(stored, now)
        if stored.held:
            # A gated call is for a worker, which has no row.
            stashed = (envelope.shard, envelope.recipient) in self.actors
            return MessageView(envelope, "stashed" if stashed else "held", stored.sent_at)
        if envelope.delay_seconds <= 0:
            return MessageView(envelope, "ready", stored.sent_at)
        failed = envelope.failures or envelope.last_error or stored.failing_since is not None
        return MessageView(envelope, "retrying" if failed else "scheduled", stored.sent_at)

    def calls_of(self, address: str, limit: int, now: float) -> list[MessageView]:
        """What an actor has asked of workers, and of others in its shard, and has no outcome yet, in order of id."""
        shard = shard_of(address)
        keys = sorted(
            key
            for key, stored in self.messages.items()
            if key[0] == shard and stored.envelope.reply_to == stored.envelope.sender == address
        )
        return [self.view(self.messages[key], now) for key in keys[:limit]]

    def count(self, shard: int, recipient: str) -> int:
        """How many messages a mailbox holds."""
        mailbox = self.mailboxes.get((shard, recipient))
        return 0 if mailbox is None else len(mailbox.ready) + len(mailbox.held)

    # -- actors and what they left

    def load(self, places: Iterable[tuple[int, str]]) -> list[ActorRow]:
        """The rows of these actors (shard, address) that exist."""
        return [copy(row) for place in places if (row := self.actors.get(place)) is not None]

    def list_actors(self, kind: str, prefix: str, limit: int, after: str) -> list[ActorRow]:
        """Actors by kind and start of address, in order of address."""
        rows = sorted(
            (
                row
                for row in self.actors.values()
                if row.address > after and row.address.startswith(prefix) and kind in ("", row.kind)
            ),
            key=lambda row: row.address,
        )
        return [copy(row) for row in rows[:limit]]

    def journal(self, address: str, after: int, limit: int) -> list[EventRow]:
        """Events of an actor with seq > `after`, in order."""
        start = max(0, after)
        return [copy(event) for event in self.events.get(address, ())[start : start + limit]]

    def list_decisions(self, status: DecisionStatus | None, run: str, limit: int) -> list[Decision]:
        """Decisions, oldest first."""
        found = (
            decision
            for decision in self.decisions.values()
            if status in (None, decision.status) and run in ("", decision.run)
        )
        return [copy(decision) for decision in islice(found, limit)]

    # -- timers

    def set_timer(self, timer: Timer, due: float) -> None:
        """Set a timer, in place of the one with its key."""
        self.cancel_timer(timer.shard, timer.address, timer.key)
        self.timers[timer.shard, timer.address, timer.key] = StoredTimer(copy(timer), due)
        self.timer_order.setdefault(timer.shard, Ordered()).add((due, timer.address, timer.key))

    def cancel_timer(self, shard: int, address: str, key: str) -> None:
        """Forget a timer, if there is one."""
        stored = self.timers.pop((shard, address, key), None)
        if stored is not None:
            self.timer_order[shard].remove((stored.due, address, key))

    def fire_timer(self, shard: int, address: str, key: str, periods: int) -> None:
        """Move a timer that was due on by so many of its periods; or delete it where it has none."""
        stored = self.timers[shard, address, key]
        period = stored.timer.period_seconds
        if period <= 0:
            self.cancel_timer(shard, address, key)
            return
        self.set_timer(stored.timer, stored.due + periods * period)

    def due(self, shards: Iterable[int], until: float, limit: int, now: float) -> list[Timer]:
        """Timers due until then, soonest first."""
        found: list[Timer] = []
        orders = [
            # A list: a generator would look `shard` up when it runs, and find the last one.
            [(due, shard, address, key) for due, address, key in self.timer_order[shard]]
            for shard in set(shards)
            if shard in self.timer_order
        ]
        for due, shard, address, key in islice(merge(*orders), limit):
            if due > until:
                break
            timer = copy(self.timers[shard, address, key].timer)
            timer.delay_seconds = due - now
            found.append(timer)
        return found


def _out(stored: Stored, now: float) -> Envelope:
    envelope = copy(stored.envelope)
    envelope.delay_seconds = max(0.0, stored.due - now)
    if stored.failing_since is not None:
        envelope.failing_seconds = max(0.0, now - stored.failing_since)
    return envelope
