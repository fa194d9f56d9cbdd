"""The memory store's audit trail, tokens, kept answers, feed and instances (S13, S15, S16, S17, S19)."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from itertools import islice

import msgspec

from ...mailbox.errors import BadRow, Conflict, NotFound
from ..feed_cursor import FeedPlace, read_place, write_place
from ..operating import AuditEntry, AuditRow, FeedPage, KeptAnswer, Token, require_named
from ..port import Port
from .tables import GONE, Tables
from .values import check, check_text

DAY_SECONDS = 86_400.0
BEGUN_SECONDS = 60.0
"""A request whose answer was begun so long ago and never kept was begun by a process that died."""
USED_SECONDS = 60.0


class _Answer(msgspec.Struct):
    request: bytes
    status: int
    body: str
    at: float


MemoryAnswers = dict[tuple[str, str], _Answer]


class MemoryAuditing(ABC):
    """What operators leave behind."""

    tables: Tables

    def __init__(self) -> None:
        self._tokens: dict[bytes, Token] = {}
        self._answers: MemoryAnswers = {}
        self._instances: dict[str, str] = {}

    @abstractmethod
    async def _reach(self) -> None: ...

    @abstractmethod
    def clock(self) -> float:
        """The store's clock."""

    # -- audit

    def _write_down(self, entry: AuditEntry) -> None:
        require_named([entry])
        check(entry)
        self.tables.note(entry, self.clock())

    async def note(self, entry: AuditEntry) -> None:
        """See `OperatingStore.note`."""
        await self._reach()
        self._write_down(entry)

    async def audit(
        self, *, object: str = "", who: str = "", action: str = "", before: int = 0, limit: int = 100
    ) -> list[AuditRow]:
        """See `OperatingStore.audit`."""
        await self._reach()
        found = [
            row
            for row in reversed(self.tables.audit)
            if row.object.startswith(object)
            and who in ("", row.who)
            and action in ("", row.action)
            and (not before or row.number < before)
        ]
        return found[: max(0, limit)]

    # -- tokens

    async def add_token(self, token: Token, secret_hash: bytes, entry: AuditEntry) -> None:
        """See `OperatingStore.add_token`."""
        await self._reach()
        check(token)
        if not token.name or not token.principal or len(secret_hash) != 32:
            raise BadRow("a token has a name, a principal and the SHA-256 of its secret")
        if secret_hash in self._tokens or any(one.name == token.name for one in self._tokens.values()):
            raise Conflict(f"there is (or was) a token {token.name!r}; names are used once")
        self._write_down(entry)
        self._tokens[secret_hash] = msgspec.structs.replace(
            token, created_at=self.clock(), created_by=entry.who, last_used_at=0.0, revoked_at=0.0
        )

    async def token(self, secret_hash: bytes) -> Token | None:
        """See `OperatingStore.token`."""
        await self._reach()
        found, now = self._tokens.get(secret_hash), self.clock()
        if found is None or found.revoked_at:
            return None
        if not found.last_used_at or found.last_used_at < now - USED_SECONDS:
            found = self._tokens[secret_hash] = msgspec.structs.replace(found, last_used_at=now)
        return None if 0 < found.expires_at <= now else found

    async def tokens(self) -> list[Token]:
        """See `OperatingStore.tokens`."""
        await self._reach()
        return sorted(self._tokens.values(), key=lambda token: token.name)

    async def revoke_token(self, name: str, entry: AuditEntry) -> Token:
        """See `OperatingStore.revoke_token`."""
        await self._reach()
        found = next((key for key, token in self._tokens.items() if token.name == name), None)
        if found is None:
            raise NotFound(f"no token {name[:80]!r}")
        if not self._tokens[found].revoked_at:
            self._write_down(entry)
            self._tokens[found] = msgspec.structs.replace(self._tokens[found], revoked_at=self.clock())
        return self._tokens[found]

    # -- idempotency

    async def begin_answer(self, principal: str, key: str, request: bytes) -> KeptAnswer | None:
        """See `OperatingStore.begin_answer`."""
        await self._reach()
        check_text("principal", principal)
        check_text("idempotency key", key)
        if not key or len(request) != 32:
            raise BadRow("an idempotency key is not empty, and comes with the SHA-256 of its request")
        now, known = self.clock(), self._answers.get((principal, key))
        if known is None or self._is_over(known, request, now):
            self._answers[principal, key] = _Answer(request, 0, "", now)
            return None
        if known.request != request:
            raise Conflict(f"the idempotency key {key!r} was used for another request; take a new one")
        return KeptAnswer(known.status, known.body)

    def _is_over(self, known: _Answer, request: bytes, now: float) -> bool:
        died = known.status == 0 and known.request == request and known.at < now - BEGUN_SECONDS
        return died or known.at < now - DAY_SECONDS

    async def keep_answer(self, principal: str, key: str, answer: KeptAnswer) -> None:
        """See `OperatingStore.keep_answer`."""
        await self._reach()
        check(answer)
        known = self._answers.get((principal, key))
        if known is not None:
            known.status, known.body, known.at = answer.status, answer.body, self.clock()

    async def forget_answer(self, principal: str, key: str) -> None:
        """See `OperatingStore.forget_answer`."""
        await self._reach()
        known = self._answers.get((principal, key))
        if known is not None and known.status == 0:
            del self._answers[principal, key]

    # -- the feed

    async def feed(self, after: str | None, *, limit: int = 500) -> FeedPage:
        """See `OperatingStore.feed`. Commits are not interrupted here: the order they came in is exact."""
        await self._reach()
        events = self.tables.feed
        if after is None:
            return FeedPage([], write_place(FeedPlace(len(events))), [])
        start = read_place(after).micros
        if start > len(events):
            raise NotFound("the event of this cursor is not kept any more; begin anew without one")
        kept = ((index, event) for index, event in enumerate(events[start:], start + 1) if event is not GONE)
        found = list(islice(kept, max(0, limit)))
        cursors = [write_place(FeedPlace(index)) for index, _ in found]
        return FeedPage([copy(event) for _, event in found], cursors[-1] if cursors else after, cursors)

    # -- one of a kind

    def instance(self, name: str, holder: str, port: Port) -> AbstractAsyncContextManager[None]:
        """See `OperatingStore.instance`."""
        return self._instance(name, holder)

    @asynccontextmanager
    async def _instance(self, name: str, holder: str) -> AsyncIterator[None]:
        await self._reach()
        if name in self._instances:
            raise Conflict(f"an instance {name!r} runs already: {self._instances[name]}; end it, or take another name")
        self._instances[name] = holder
        try:
            yield
        finally:
            del self._instances[name]
