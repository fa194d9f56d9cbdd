"""The inspector's part of the PostgreSQL store: mailboxes, messages and dead letters (S14, S18), and the census.

Neighbours: `queries/inspecting.sql` and `functions/6_inspecting.sql` have the statements. What walks further than an
index step runs under a timeout of the server's own: looking must not cost those who work.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from ...mailbox.address import shard_of
from ...mailbox.envelope import DeadLetter, Envelope
from ...mailbox.errors import Conflict, NotFound, StoreUnavailable
from ...mailbox.ids import id_at, milliseconds_of
from ..operating import AuditEntry, Census, MailboxOrder, MailboxSummary, MessageSearch, Trail
from ..rows import Member, MessageView
from .auditing import audit_json
from .commit import to_json
from .connect import Row
from .errors import translated

CENSUS_SECONDS = 2.0
WALK_SECONDS = 5.0
STEP_SECONDS = 1.0
"""How long one stretch of the turns may be looked through."""
SKEW_SECONDS = 60.0
"""How far the clocks of two nodes may be apart, for a message to be found by its time."""
STRETCHES = (10.0, 600.0, 86_400.0)
"""How much time is looked through for what a message became: seconds, where all goes well, else a day."""
_LAST = (1 << 63) - 1


class PostgresInspecting(ABC):
    """Looks at the tables, and settles dead letters."""

    _mailbox_limit: int

    @abstractmethod
    async def _run(self, query: str, params: dict[str, Any] | None = None) -> list[Row]: ...

    @abstractmethod
    async def _run_within(self, seconds: float, query: str, params: dict[str, Any] | None = None) -> list[Row]: ...

    @abstractmethod
    async def _wake(self, envelopes: Sequence[Envelope]) -> None: ...

    # -- mailboxes and messages

    async def mailboxes(
        self, *, prefix: str = "", order: MailboxOrder = "depth", limit: int = 100
    ) -> list[MailboxSummary]:
        """See `OperatingStore.mailboxes`. Counts a million messages, and looks at ten thousand of each mailbox."""
        wanted = {"prefix": prefix, "order": order, "limit": max(0, limit)}
        return [MailboxSummary(*row) for row in await self._run_within(WALK_SECONDS, "mailboxes", wanted)]

    async def message(self, id: int) -> MessageView | None:
        """See `OperatingStore.message`."""
        rows = await self._run("message", {"id": _bigint(id)})
        return _view(rows[0]) if rows else None

    async def search(self, wanted: MessageSearch, *, limit: int = 100) -> list[MessageView]:
        """See `OperatingStore.search`. Looks at a hundred thousand messages."""
        asked = {**msgspec.structs.asdict(wanted), "limit": max(0, limit)}
        asked["causation"], asked["correlation"] = _bigint(wanted.causation), _bigint(wanted.correlation)
        return [_view(row) for row in await self._run_within(WALK_SECONDS, "search", asked)]

    async def client_id(self, recipient: str, id: int) -> str:
        """See `OperatingStore.client_id`."""
        rows = await self._run("client_id", {"recipient": recipient, "id": _bigint(id)})
        return str(rows[0][0]) if rows else ""

    async def handled(self, address: str, *, seconds: float, limit: int = 10_000) -> list[tuple[int, float]]:
        """See `OperatingStore.handled`."""
        wanted = {"shard": shard_of(address), "address": address, "seconds": seconds, "limit": max(0, limit)}
        return [(row[0], row[1]) for row in await self._run_within(WALK_SECONDS, "handled", wanted)]

    async def trail(self, id: int, *, recipient: str = "") -> Trail | None:
        """See `OperatingStore.trail`. Without its recipient, within a day of when it was sent."""
        waiting = await self.message(id)
        if waiting is not None:
            return _waits(waiting)
        if recipient:
            rows = await self._run("turn_of", {"recipient": recipient, "id": _bigint(id)})
            return Trail(*rows[0]) if rows else None
        sent_at = milliseconds_of(id) / 1000.0
        for stretch in STRETCHES:
            wanted = {
                "from": sent_at - min(stretch, SKEW_SECONDS),
                "until": sent_at + stretch,
                "id": _bigint(id),
                "causation": 0,
                "limit": 1,
            }
            rows = await self._run_within(STEP_SECONDS, "turns_between", wanted)
            if rows:
                return Trail(*rows[0])
        return None

    async def caused(self, id: int, *, limit: int = 100) -> list[Trail]:
        """See `OperatingStore.caused`. What waits is looked for among ids of the same time, what was handled within a
        day of it, or less where that is too much to look through."""
        sent_at = milliseconds_of(id) / 1000.0
        wanted = {
            "causation": _bigint(id),
            "from_id": id_at(sent_at - SKEW_SECONDS),
            "until_id": _LAST,
            "limit": max(0, limit),
        }
        waiting = [_view(row) for row in await self._run_within(WALK_SECONDS, "waiting_causes", wanted)]
        found = {trail.id: trail for trail in await self._handled(id, sent_at, max(0, limit))}
        found |= {view.envelope.id: _waits(view) for view in waiting}
        return [found[key] for key in sorted(found)][: max(0, limit)]

    async def _handled(self, causation: int, sent_at: float, limit: int) -> list[Trail]:
        for stretch in reversed(STRETCHES):
            wanted = {
                "from": sent_at - min(stretch, SKEW_SECONDS),
                "until": sent_at + stretch,
                "id": 0,
                "causation": _bigint(causation),
                "limit": 2 * limit,  # one that was put aside and taken up again has two
            }
            try:
                rows = await self._run_within(STEP_SECONDS, "turns_between", wanted)
            except StoreUnavailable:
                if stretch == STRETCHES[0]:
                    raise
                continue  # too much happened in that time: less of it
            latest: dict[int, Trail] = {}
            for row in rows:
                latest.setdefault(row[0], Trail(*row))
            return list(latest.values())
        return []

    # -- dead letters

    async def dead_letters(
        self, *, recipient: str = "", open_only: bool = False, before: int = 0, limit: int = 100
    ) -> list[DeadLetter]:
        """See `Store.dead_letters`."""
        query = "dead_letters_of" if recipient else "dead_letters_open" if open_only else "dead_letters"
        wanted = {
            "recipient": recipient,
            "open_only": open_only,
            "before": _bigint(before) if before > 0 else _LAST,
            "limit": max(0, limit),
        }
        return [_letter(row) for row in await self._run(query, wanted)]

    async def dead_letter(self, number: int) -> DeadLetter | None:
        """See `OperatingStore.dead_letter`."""
        rows = await self._run("dead_letter", {"number": _bigint(number)})
        return _letter(rows[0]) if rows else None

    async def requeue(self, number: int, envelope: Envelope, entry: AuditEntry) -> DeadLetter:
        """See `OperatingStore.requeue`."""
        with translated():
            message = to_json([msgspec.structs.asdict(envelope)])
        settled = await self._settle(number, "requeued", message, entry)
        await self._wake([envelope])
        return settled

    async def discard(self, number: int, entry: AuditEntry) -> DeadLetter:
        """See `OperatingStore.discard`."""
        return await self._settle(number, "discarded", None, entry)

    async def _settle(self, number: int, how: str, message: str | None, entry: AuditEntry) -> DeadLetter:
        wanted = {
            "number": _bigint(number),
            "how": how,
            "who": entry.who,
            "message": message,
            "mailbox_limit": self._mailbox_limit,
            "audits": audit_json([entry]),
        }
        [(outcome, *row)] = await self._run("settle", wanted)
        if outcome == "missing":
            raise NotFound(f"no dead letter {number}; `callboard dead` lists them")
        letter = _letter(row)
        if outcome == "settled":
            raise Conflict(f"dead letter {number} was {letter.settled} by {letter.settled_by} before; nothing was done")
        return letter

    # -- everything at once

    async def census(self) -> Census:
        """See `OperatingStore.census`."""
        [row] = await self._run_within(CENSUS_SECONDS, "census")
        at, actors, messages, depths, oldest_ready, dead, pending, approved, *more = row
        oldest_pending, next_expiry, unowned, schema_version, server_version = more
        return Census(
            at=at,
            actors=msgspec.json.decode(actors, type=dict[str, dict[str, int]]),
            messages=msgspec.json.decode(messages, type=dict[str, int]),
            depths=msgspec.json.decode(depths, type=dict[str, int]),
            oldest_ready_at=oldest_ready,
            dead=dead,
            decisions={"pending": pending, "approved": approved},
            oldest_pending_at=oldest_pending,
            next_expiry_at=next_expiry,
            shards_unowned=unowned,
            schema_version=schema_version,
            server_version=server_version,
            members=[Member(*row) for row in await self._run("members")],
        )


def _bigint(number: int) -> int:
    """A number that the database can compare; what does not fit is the number of nothing."""
    return number if -_LAST <= number <= _LAST else -1


def _view(row: Row) -> MessageView:
    return MessageView(Envelope(*row[:-2]), row[-2], row[-1])


def _letter(row: Sequence[Any]) -> DeadLetter:
    return DeadLetter(Envelope(*row[:22]), *row[22:])


def _waits(view: MessageView) -> Trail:
    envelope = view.envelope
    return Trail(
        envelope.id, envelope.type, envelope.sender, envelope.recipient, view.state, envelope.causation, view.sent_at
    )
