"""`PostgresStore`: what everybody may ask of a PostgreSQL database, node or not.

Outside calls borrow a session of a small pool for one statement each; a session that was cut is replaced when it is
borrowed. Nodes do not use the pool: see `session`.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from hashlib import sha256
from typing import Any, Self

import anyio
import msgspec
from psycopg import AsyncConnection
from psycopg import Error as PsycopgError
from psycopg_pool import AsyncConnectionPool

from ...mailbox.address import shard_of
from ...mailbox.envelope import Envelope
from ...mailbox.errors import StoreUnavailable, UsageError
from ..operating import AuditEntry, require_named
from ..port import Port
from ..rows import ActorRow, Decision, DecisionStatus, EventRow, Member, MessageView, TakeBack, Timer, TurnRow, Verdict
from ..store import NodeInfo
from ..verdicts import missing, refusal, require_somebody, take_back_refusal
from .arrays import byte_strings, texts
from .auditing import PostgresAuditing
from .commit import message_columns, to_json
from .connect import STATEMENT_SECONDS, Row, check, configure, connect, conninfo, make_dsn_safe, run
from .errors import translated
from .inspecting import PostgresInspecting
from .listener import Listener
from .schema import check_schema
from .session import PostgresSession, joined, wake_arguments
from .watching import PostgresWatching
from .whispers import PostgresEar, PostgresWhispers

BORROW_SECONDS = 5.0
"""For how long an outside call waits for a session, and the pool tries for one before it begins anew with the next
call: its own delays double, and after a long outage they would be minutes."""
RECEIVE_POLL_SECONDS = 0.25
RECEIVE_POLL_CAP_SECONDS = 1.0
"""How long an outside asker trusts that it would be woken (S11), at first and after a while."""

_Pool = AsyncConnectionPool[AsyncConnection[Row]]


class PostgresStore(PostgresAuditing, PostgresInspecting, PostgresWatching):
    """Implements `Store` on PostgreSQL 14 or newer. Cheap to make; opened by `async with`, or by `connect`."""

    def __init__(self, dsn: str, *, mailbox_limit: int = 10_000, sessions: int = 4) -> None:
        """`mailbox_limit`: messages a mailbox takes from outside. `sessions`: how many outside calls at once."""
        self._dsn = dsn
        self._mailbox_limit = mailbox_limit
        self._sessions = sessions
        self._pool: _Pool | None = None
        self._listener = Listener(dsn)
        self._whispers = PostgresWhispers(dsn)

    def __repr__(self) -> str:
        return f"PostgresStore({make_dsn_safe(self._dsn)!r})"

    @classmethod
    async def connect(cls, dsn: str) -> Self:
        """A store that is open already; end it with `close`.

        Raises:
            StoreUnavailable, SchemaMismatch: see `__aenter__`.
        """
        return await cls(dsn).__aenter__()

    async def __aenter__(self) -> Self:
        """Connect and check the schema. Harmless when open.

        Raises:
            StoreUnavailable: the database does not answer within about five seconds, or the DSN is none.
            SchemaMismatch: the schema is missing, older or newer.
        """
        if self._pool is not None:
            return self
        # One plain session first: a pool retries a wrong password in silence and reports no more than "timeout".
        probe = await connect(self._dsn, "callboard client")
        try:
            await check_schema(probe)
        finally:
            await probe.close()
        self._pool = _Pool(
            conninfo(self._dsn, "callboard client"),
            kwargs={"autocommit": True},
            min_size=1,
            max_size=self._sessions,
            timeout=BORROW_SECONDS,
            reconnect_timeout=BORROW_SECONDS,
            configure=configure,
            open=False,
        )
        await self._pool.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all sessions. Harmless when closed."""
        pool, self._pool = self._pool, None
        with anyio.CancelScope(shield=True):
            await self._listener.close()
            await self._whispers.close()
            if pool is not None:
                await pool.close()

    async def _run(self, query: str, params: dict[str, Any] | None = None) -> list[Row]:
        pool = self._opened()
        with translated():
            connection = await self._borrow(pool)
        try:
            return await run(connection, query, params, STATEMENT_SECONDS)
        finally:
            with anyio.CancelScope(shield=True):
                await pool.putconn(connection)

    async def _run_within(self, seconds: float, query: str, params: dict[str, Any] | None = None) -> list[Row]:
        """As `_run`, but the server itself gives it up after so long: for what walks, and nobody waits for."""
        pool = self._opened()
        with translated():
            connection = await self._borrow(pool)
        rows: list[Row] = []
        try:
            with translated(), anyio.CancelScope(shield=True):
                async with connection.transaction():
                    await run(connection, "limit_statements", {"limit": f"{round(seconds * 1000)}"}, STATEMENT_SECONDS)
                    rows = await run(connection, query, params, STATEMENT_SECONDS)
        finally:
            with anyio.CancelScope(shield=True):
                await pool.putconn(connection)
        return rows

    def _opened(self) -> _Pool:
        # Held by the caller from beginning to end: the store may be closed while a statement is under way.
        if self._pool is None:
            raise StoreUnavailable("the store is not open; use it in `async with`")
        return self._pool

    async def _borrow(self, pool: _Pool) -> AsyncConnection[Row]:
        # Not by the pool's own `check`, which waits a second, then two, after each session that was cut: when the
        # server was restarted, all are.
        for _ in range(self._sessions):
            connection = await pool.getconn()
            try:
                with anyio.CancelScope(shield=True):
                    await check(connection)
                    return connection
            except PsycopgError:
                await pool.putconn(connection)  # closed, so it is replaced
        return await pool.getconn()

    # -- nodes

    def join(self, info: NodeInfo, port: Port) -> AbstractAsyncContextManager[PostgresSession]:
        """See `Store.join`."""
        return joined(self._dsn, info, port)

    async def now(self) -> float:
        """See `Store.now`."""
        [(seconds,)] = await self._run("now")
        return float(seconds)

    async def lease_number(self, holder: str, *, seconds: float) -> int:
        """See `Store.lease_number`."""
        [(number,)] = await self._run("lease_number", {"holder": holder, "seconds": seconds})
        return int(number)

    # -- whispers

    async def whisper(self, topic: str, text: str) -> None:
        """See `Store.whisper`."""
        await self._whispers.whisper(topic, text)

    def overhear(self, topic: str) -> AbstractAsyncContextManager[PostgresEar]:
        """See `Store.overhear`."""
        return self._whispers.overhear(topic)

    # -- messages from outside

    async def send(
        self, envelopes: Sequence[Envelope], client_ids: Sequence[str] = (), audits: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """See `Store.send`. The bound counts all of a mailbox's messages and holds for the normal lane only."""
        if client_ids and len(client_ids) != len(envelopes):
            raise UsageError(f"{len(client_ids)} client ids for {len(envelopes)} messages; give one for each, or none")
        if not envelopes:
            return []
        require_named(audits)
        with translated():
            wanted = {
                "audits": to_json([msgspec.structs.asdict(entry) for entry in audits]) if audits else None,
                "messages": message_columns(envelopes),
                "client_ids": texts(list(client_ids)) if client_ids else None,
                "digests": byte_strings([_digest(envelope) for envelope in envelopes]) if client_ids else None,
                "mailbox_limit": self._mailbox_limit,
            }
        [(accepted,)] = await self._run("accept_messages", wanted)
        await self._wake([e for e, new in zip(envelopes, accepted, strict=True) if new])
        return list(accepted)

    async def _wake(self, envelopes: Sequence[Envelope]) -> None:
        if envelopes:
            with suppress(StoreUnavailable):  # the message is accepted; its owner also looks by itself (S11)
                await self._run("wake_owners", wake_arguments([(e.shard, e.recipient) for e in envelopes], None))

    async def receive(self, address: str, *, seconds: float, port: Port) -> list[Envelope]:
        """See `Store.receive`."""
        wanted = {"shard": shard_of(address), "address": address}
        deadline = port.monotonic() + seconds
        poll_seconds = RECEIVE_POLL_SECONDS
        attention = await self._listener.attend(address)
        try:
            while True:
                rows = await self._run("receive", wanted)
                left = deadline - port.monotonic()
                if rows or left <= 0:
                    return [Envelope(*row) for row in rows]
                await self._listener.wait(attention, min(left, poll_seconds), port)
                poll_seconds = min(2 * poll_seconds, RECEIVE_POLL_CAP_SECONDS)
        finally:
            self._listener.forget(address, attention)

    # -- looking

    async def actor(self, address: str) -> ActorRow | None:
        """See `Store.actor`."""
        rows = await self._run("actor", {"shard": shard_of(address), "address": address})
        return ActorRow(*rows[0]) if rows else None

    async def actors(self, *, kind: str = "", prefix: str = "", limit: int = 100, after: str = "") -> list[ActorRow]:
        """See `Store.actors`."""
        rows = await self._run("actors", {"kind": kind, "prefix": prefix, "limit": max(0, limit), "after": after})
        return [ActorRow(*row) for row in rows]

    async def journal(self, address: str, *, after: int = 0, limit: int = 10_000) -> list[EventRow]:
        """See `Store.journal`."""
        wanted = {"shard": shard_of(address), "address": address, "after": after, "limit": max(0, limit)}
        return [EventRow(*row) for row in await self._run("journal", wanted)]

    async def turns(self, address: str, *, limit: int = 1_000) -> list[TurnRow]:
        """See `Store.turns`."""
        return [TurnRow(*row) for row in await self._run("turns", {"address": address, "limit": max(0, limit)})]

    async def peek(self, address: str, *, limit: int = 100) -> list[MessageView]:
        """See `Store.peek`."""
        rows = await self._run("peek", {"address": address, "limit": max(0, limit)})
        return [MessageView(Envelope(*row[:-2]), row[-2], row[-1]) for row in rows]

    async def waiting(self, type: str, *, limit: int = 100) -> list[MessageView]:
        """See `Store.waiting`."""
        rows = await self._run("waiting", {"type": type, "limit": max(0, limit)})
        return [MessageView(Envelope(*row[:-2]), row[-2], row[-1]) for row in rows]

    async def calls(self, address: str, *, limit: int = 100) -> list[MessageView]:
        """See `Store.calls`."""
        rows = await self._run("calls", {"shard": shard_of(address), "address": address, "limit": max(0, limit)})
        return [MessageView(Envelope(*row[:-2]), row[-2], row[-1]) for row in rows]

    async def timers(self, address: str, *, limit: int = 100) -> list[Timer]:
        """See `Store.timers`."""
        rows = await self._run("timers", {"shard": shard_of(address), "address": address, "limit": max(0, limit)})
        return [Timer(*row) for row in rows]

    async def owner(self, shard: int) -> Member | None:
        """See `Store.owner`."""
        rows = await self._run("owner", {"shard": shard})
        return Member(*rows[0]) if rows else None

    # -- decisions

    async def decision(self, id: str) -> Decision | None:
        """See `Store.decision`."""
        rows = await self._run("decision", {"id": id})
        return Decision(*rows[0]) if rows else None

    async def decisions(
        self, *, status: DecisionStatus | None = None, run: str = "", limit: int = 100
    ) -> list[Decision]:
        """See `Store.decisions`."""
        query = "decisions_of_run" if run else "decisions_by_status" if status else "decisions"
        rows = await self._run(query, {"status": status or "", "run": run, "limit": max(0, limit)})
        return [Decision(*row) for row in rows]

    async def decide(self, verdict: Verdict, notice: Envelope) -> Decision:
        """See `Store.decide`."""
        require_somebody(verdict.by)
        wanted = {
            "id": verdict.decision,
            "status": verdict.status,
            "digest": verdict.digest,
            "by": verdict.by,
            "note": verdict.note,
            "hold_seconds": verdict.hold_seconds,
            "label": verdict.label,
            "seen": verdict.seen,
            "channel": verdict.channel,
            "host": verdict.host,
            "notice": _one(notice),
        }
        [(outcome, *row)] = await self._run("decide", wanted)
        if outcome == "missing":
            raise missing(verdict.decision)
        decision = Decision(*row)
        if outcome not in ("decided", "signed"):
            raise refusal(outcome, decision, verdict)
        if outcome == "decided":
            await self._wake([notice])
        return decision

    async def take_back(self, wish: TakeBack, notice: Envelope) -> Decision:
        """See `Store.take_back`."""
        require_somebody(wish.by)
        wanted = {**msgspec.structs.asdict(wish), "id": wish.decision, "notice": _one(notice)}
        [(outcome, *row)] = await self._run("take_back", wanted)
        if outcome == "missing":
            raise missing(wish.decision)
        decision = Decision(*row)
        if outcome != "taken back":
            raise take_back_refusal(outcome, decision, wish)
        await self._wake([notice])
        return decision


def _one(envelope: Envelope) -> str:
    with translated():
        return to_json([msgspec.structs.asdict(envelope)])


def _digest(envelope: Envelope) -> bytes:
    """What tells two messages apart that came under one client id."""
    return sha256(f"{envelope.type} {envelope.version} {envelope.body}".encode()).digest()
