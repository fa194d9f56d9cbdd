"""The PostgreSQL store's audit trail, tokens, kept answers, feed and instances (S13, S15, S16, S17, S19)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from ...mailbox.errors import NotFound
from ..feed_cursor import FeedPlace, read_place, write_place
from ..operating import AuditEntry, AuditRow, FeedPage, KeptAnswer, Token, require_named
from ..port import Port
from ..rows import EventRow
from .commit import to_json
from .connect import Row
from .errors import translated
from .instance import held_instance


class PostgresAuditing(ABC):
    """What operators leave behind."""

    _dsn: str

    @abstractmethod
    async def _run(self, query: str, params: dict[str, Any] | None = None) -> list[Row]: ...

    # -- audit

    async def note(self, entry: AuditEntry) -> None:
        """See `OperatingStore.note`."""
        await self._run("note", {"audits": audit_json([entry])})

    async def audit(
        self, *, object: str = "", who: str = "", action: str = "", before: int = 0, limit: int = 100
    ) -> list[AuditRow]:
        """See `OperatingStore.audit`."""
        wanted = {"object": object, "who": who, "action": action, "before": before, "limit": max(0, limit)}
        return [AuditRow(*row) for row in await self._run("audit_of" if object else "audit", wanted)]

    # -- tokens

    async def add_token(self, token: Token, secret_hash: bytes, entry: AuditEntry) -> None:
        """See `OperatingStore.add_token`."""
        wanted = {
            "name": token.name,
            "secret_hash": secret_hash,
            "principal": token.principal,
            "scopes": token.scopes,
            "created_by": entry.who,
            "expires_at": token.expires_at,
            "audits": audit_json([entry]),
        }
        await self._run("add_token", wanted)

    async def token(self, secret_hash: bytes) -> Token | None:
        """See `OperatingStore.token`."""
        rows = await self._run("token", {"secret_hash": secret_hash})
        return Token(*rows[0]) if rows else None

    async def tokens(self) -> list[Token]:
        """See `OperatingStore.tokens`."""
        return [Token(*row) for row in await self._run("tokens")]

    async def revoke_token(self, name: str, entry: AuditEntry) -> Token:
        """See `OperatingStore.revoke_token`."""
        rows = await self._run("revoke_token", {"name": name, "audits": audit_json([entry])})
        if not rows:
            raise NotFound(f"no token {name[:80]!r}")
        return Token(*rows[0])

    # -- idempotency

    async def begin_answer(self, principal: str, key: str, request: bytes) -> KeptAnswer | None:
        """See `OperatingStore.begin_answer`."""
        rows = await self._run("begin_answer", {"principal": principal, "key": key, "request": request})
        return KeptAnswer(*rows[0]) if rows else None

    async def keep_answer(self, principal: str, key: str, answer: KeptAnswer) -> None:
        """See `OperatingStore.keep_answer`."""
        wanted = {"principal": principal, "key": key, "status": answer.status, "body": answer.body}
        await self._run("keep_answer", wanted)

    async def forget_answer(self, principal: str, key: str) -> None:
        """See `OperatingStore.forget_answer`."""
        await self._run("forget_answer", {"principal": principal, "key": key})

    # -- the feed

    async def feed(self, after: str | None, *, limit: int = 500) -> FeedPage:
        """See `OperatingStore.feed`."""
        if after is None:
            [(micros,)] = await self._run("feed_now")
            return FeedPage([], write_place(FeedPlace(micros)), [])
        place = read_place(after)
        wanted = {
            "after": place.micros,
            "shard": place.shard,
            "address": place.address,
            "seq": place.seq,
            "limit": max(0, limit),
        }
        if place.address:
            [(kept,)] = await self._run("event_is_kept", wanted)
            if not kept:
                raise NotFound("the event of this cursor is not kept any more; begin anew without one")
        rows = await self._run("feed", wanted)
        events = [EventRow(*row[:-1]) for row in rows]
        cursors = [write_place(FeedPlace(row[-1], row[0], row[1], row[2])) for row in rows]
        return FeedPage(events, cursors[-1] if cursors else after, cursors)

    # -- one of a kind

    def instance(self, name: str, holder: str, port: Port) -> AbstractAsyncContextManager[None]:
        """See `OperatingStore.instance`."""
        return held_instance(self._dsn, name, holder, port)


def audit_json(entries: Sequence[AuditEntry]) -> str:
    """Audit rows as `callboard.write_audit` takes them.

    Raises:
        UsageError: one names nobody. BadRow: a text that cannot be stored.
    """
    require_named(entries)
    with translated():
        return to_json([msgspec.structs.asdict(entry) for entry in entries])
