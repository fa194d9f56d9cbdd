"""A store on which nothing is changed: what `--dry-run` runs an operation on, to see what it would send.

The operation is the real one, with all its checks, so what it says it would do is what it does. It reads the real
store; what it sends is kept here, and what would change a row in another way is refused.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from ...mailbox.envelope import Envelope
from ...mailbox.errors import UsageError
from ...persistence.operating import AuditEntry
from ...persistence.store import Store

_READS = frozenset({
    "actor", "actors", "alarms", "audit", "calls", "caused", "census", "client_id", "dead_letter", "dead_letters",
    "decision", "decisions", "feed", "glances", "journal", "mailboxes", "message", "newest", "now", "owner", "peek",
    "pressing", "search", "tallies", "timers", "tokens", "trail", "trends", "turns", "waiting", "window",
})  # fmt: skip


class Rehearsal:
    """A store that only reads; `sent` and `audits` are what it was asked to write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.sent: list[Envelope] = []
        self.audits: list[AuditEntry] = []

    @property
    def store(self) -> Store:
        """This, as what it stands in for."""
        return cast("Store", self)

    def __getattr__(self, name: str) -> Any:
        if name in _READS:
            return getattr(self._store, name)
        raise UsageError(f"a dry run cannot show this: it would {name.replace('_', ' ')}, which is not a message")

    async def lease_number(self, holder: str, *, seconds: float) -> int:
        """Nobody's: ids that are made of it go nowhere."""
        return 0

    async def send(
        self, envelopes: Sequence[Envelope], client_ids: Sequence[str] = (), audits: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """Keep them here."""
        self.sent += envelopes
        self.audits += audits
        return [True] * len(envelopes)

    def document(self) -> dict[str, Any]:
        """`callboard.rehearsal/1`: what would be sent, and what the audit trail would say."""
        messages = [
            {
                "to": one.recipient,
                "type": one.type,
                "lane": one.lane,
                "body": msgspec.json.decode(one.body),
            }
            for one in self.sent
        ]
        audits = [msgspec.to_builtins(one) for one in self.audits]
        return {"schema": "callboard.rehearsal/1", "dry_run": True, "messages": messages, "audit": audits}
