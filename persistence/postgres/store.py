"""`PostgresStore`: what everybody may ask of a PostgreSQL database, node or not.

Outside calls borrow a session of a small pool for one statement each; a session that was cut is replaced when it is
borrowed. Nodes do not use the pool: see `session`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Any, Self

import anyio
import msgspec
from psycopg import AsyncConnection
from psycopg import Error as PsycopgError

from ...mailbox.address import CLIENT_SHARD, shard_of
from ...mailbox.envelope import Envelope
from ...mailbox.errors import StoreUnavailable, UsageError
from ..operating import AuditEntry, require_named
from ..port import Port
from ..rows import ActorRow, Decision, DecisionStatus, EventRow, Member, MessageView, TakeBack, Timer, TurnRow, Verdict
from ..store import NodeInfo
from ..verdicts import missing, refusal, require_somebody, take_back_refusal
from .arrays import byte_strings, integers, texts
from .auditing import PostgresAuditing
from .commit import message_columns, to_json
from .connect import STATEMENT_SECONDS, Row, check, configure, connect, conninfo, make_dsn_safe, run
from .errors import translated
from .inspecting import PostgresInspecting
from .listener import Listener
from .retention import PostgresRetention
from .schema import check_schema
from .session import PostgresSession, joined, wake_arguments
from .shared_statement import Loan, Pool, SharedStatement
from .watching import PostgresWatching
from .whispers import PostgresEar, PostgresWhispers

BORROW_SECONDS = 5.0
"""For how long an outside call waits for a session, and the pool tries for one before it begins anew with the next
call: its own delays double, and after a long outage they would be minutes."""
RECEIVE_POLL_SECONDS = 0.25
RECEIVE_POLL_CAP_SECONDS = 1.0
"""How long an outside asker trusts that it would be woken (S11), at first and after a while."""

SEND_BYTES = 1 << 20
"""Messages of many senders share a statement up to so much in all."""
MESSAGE_BYTES = 500
"""What a message takes besides its body, about."""

_Connection = AsyncConnection[Row]
_Sending = tuple[Sequence[Envelope], Sequence[str]]
"""Messages, and a client id for each or for none."""


class PostgresStore(PostgresAuditing, PostgresInspecting, PostgresRetention, PostgresWatching):
    """Implements `Store` on PostgreSQL 14 or newer. Cheap to make; opened by `async with`, or by `connect`."""

    def __init__(self, dsn: str, *, mailbox_limit: int = 10_000, sessions: int = 4) -> None:
        """`mailbox_limit`: messages a mailbox takes from outside. `sessions`: how many outside calls at once."""
        self._dsn = dsn
        self._mailbox_limit = mailbox_limit
        self._sessions = sessions
        self._pool: Pool | None = None
        self._listener = Listener(dsn)
        self._whispers = PostgresWhispers(dsn)
        self._nodes: list[PostgresSession] = []
        """Those that this process is."""
        self._sends = SharedStatement(self._lend, self._accept, weigh=_bytes, limit=SEND_BYTES)
        self._wakes = SharedStatement(self._lend, _wake_all)
        self._receives = SharedStatement(self._lend, _receive_all)
        self._looks = SharedStatement(self._lend, _look_all)

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
        self._pool = Pool(
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

    async def _lend(self) -> Loan:
        pool = self._opened()
        with translated():
            return pool, await self._borrow(pool)

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

    def _opened(self) -> Pool:
        # Held by the caller from beginning to end: the store may be closed while a statement is under way.
        if self._pool is None:
            raise StoreUnavailable("the store is not open; use it in `async with`")
        return self._pool

    async def _borrow(self, pool: Pool) -> AsyncConnection[Row]:
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
        return self._join(info, port)

    @asynccontextmanager
    async def _join(self, info: NodeInfo, port: Port) -> AsyncIterator[PostgresSession]:
        async with joined(self._dsn, info, port, self._listener.takes) as session:
            self._nodes.append(session)
            try:
                yield session
            finally:
                self._nodes.remove(session)

    async def now(self) -> float:
        """See `Store.now`."""
        [(seconds,)] = await self._run("now")
        return float(seconds)

    async def lease_number(self, holder: str, *, seconds: float) -> int:
        """See `Store.lease_number`."""
        [(number,)] = await self._run("lease_number", {"holder": holder, "seconds": seconds})
        self._listener.lives_here(int(number), seconds)
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
        if audits:
            require_named(audits)
            with translated():
                wanted = self._accept_arguments([(envelopes, client_ids)], audits)
            [(answer,)] = await self._run("accept_messages", wanted)
            accepted = list(answer)
        else:
            accepted = await self._sends.ask((envelopes, client_ids))
        await self._wake([e for e, new in zip(envelopes, accepted, strict=True) if new])
        return accepted

    async def _accept(self, connection: _Connection, sendings: list[_Sending]) -> list[list[bool]]:
        with translated():
            wanted = self._accept_arguments(sendings, ())
        [(accepted,)] = await run(connection, "accept_messages", wanted, STATEMENT_SECONDS)
        ends = list(accumulate((len(envelopes) for envelopes, _ in sendings), initial=0))
        return [accepted[start:end] for start, end in pairwise(ends)]

    def _accept_arguments(self, sendings: list[_Sending], audits: Sequence[AuditEntry]) -> dict[str, Any]:
        envelopes = [envelope for each, _ in sendings for envelope in each]
        client_ids = [name for each, names in sendings for name in names or [""] * len(each)]
        named = any(client_ids)
        digests = [_digest(e) if name else b"" for e, name in zip(envelopes, client_ids, strict=True)] if named else []
        return {
            "audits": to_json([msgspec.structs.asdict(entry) for entry in audits]) if audits else None,
            "messages": message_columns(envelopes),
            "client_ids": texts(client_ids) if named else None,
            "digests": byte_strings(digests) if named else None,
            "mailbox_limit": self._mailbox_limit,
        }

    async def _wake(self, envelopes: Sequence[Envelope]) -> None:
        if envelopes:
            with suppress(StoreUnavailable):  # the message is accepted; its owner also looks by itself (S11)
                others = [(e.shard, e.recipient) for e in envelopes if not self._tell(e)]
                if others:
                    await self._wakes.ask(others)

    def _tell(self, envelope: Envelope) -> bool:
        """Tell whoever serves a mailbox within this process; False where that is not known to be here."""
        if envelope.shard == CLIENT_SHARD:
            return self._listener.takes(envelope.recipient)
        here = [node for node in self._nodes if envelope.shard in node.serves]
        for node in here:
            node.tell({envelope.shard})
        return bool(here)

    async def receive(self, address: str, *, seconds: float, port: Port, fresh: bool = False) -> list[Envelope]:
        """See `Store.receive`."""
        deadline = port.monotonic() + seconds
        poll_seconds = RECEIVE_POLL_SECONDS
        attention = await self._listener.attend(address)
        try:
            if fresh and not attention.news:
                await self._listener.wait(attention, min(seconds, poll_seconds), port)
            while True:
                found = await self._receives.ask(address)
                left = deadline - port.monotonic()
                if found or left <= 0:
                    return found
                await self._listener.wait(attention, min(left, poll_seconds), port)
                poll_seconds = min(2 * poll_seconds, RECEIVE_POLL_CAP_SECONDS)
        finally:
            self._listener.forget(address, attention)

    # -- looking

    async def actor(self, address: str) -> ActorRow | None:
        """See `Store.actor`."""
        return await self._looks.ask(address)

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


async def _wake_all(connection: _Connection, calls: list[Sequence[tuple[int, str]]]) -> list[None]:
    wanted = wake_arguments([place for places in calls for place in places], None)
    await run(connection, "wake_owners", wanted, STATEMENT_SECONDS)
    return [None] * len(calls)


async def _receive_all(connection: _Connection, addresses: list[str]) -> list[list[Envelope]]:
    wanted = {"shard": CLIENT_SHARD, "addresses": texts(list(set(addresses)))}
    found: dict[str, list[Envelope]] = {}
    for row in await run(connection, "receive", wanted, STATEMENT_SECONDS):
        envelope = Envelope(*row)
        found.setdefault(envelope.recipient, []).append(envelope)
    return [found.pop(address, []) for address in addresses]  # where two ask for one mailbox, the first has it


async def _look_all(connection: _Connection, addresses: list[str]) -> list[ActorRow | None]:
    wanted = {"shards": integers([shard_of(address) for address in addresses]), "addresses": texts(addresses)}
    rows = [ActorRow(*row) for row in await run(connection, "load", wanted, STATEMENT_SECONDS)]
    found = {row.address: row for row in rows}
    return [found.get(address) for address in addresses]


def _bytes(sending: _Sending) -> int:
    return sum(MESSAGE_BYTES + len(envelope.body) for envelope in sending[0])


def _one(envelope: Envelope) -> str:
    with translated():
        return to_json([msgspec.structs.asdict(envelope)])


def _digest(envelope: Envelope) -> bytes:
    """What tells two messages apart that came under one client id."""
    return sha256(f"{envelope.type} {envelope.version} {envelope.body}".encode()).digest()
