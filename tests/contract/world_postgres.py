"""The PostgreSQL store under test: its clock is the database's one function of time, moved by replacing it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import psycopg
from psycopg.abc import Query

from callboard.persistence.port import RealPort
from callboard.persistence.postgres import (
    PostgresSession,
    PostgresStore,
    create_schema,
    invariants,
)
from callboard.persistence.postgres.database import Database
from callboard.persistence.store import NodeInfo, Session
from tests.contract.world import LEASE_SECONDS, World
from tests.patience import patience

_WIPE = """
DO $$
DECLARE _name text;
BEGIN
    FOR _name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'callboard' AND tablename NOT IN ('schema_version', 'shard')
    LOOP
        EXECUTE format('DELETE FROM callboard.%I', _name);
    END LOOP;
    UPDATE callboard.shard SET node = NULL WHERE node IS NOT NULL;
END $$
"""

# Read from a table, so that moving it changes no function: that would make every plan of every session anew.
_MOVABLE_CLOCK = """
CREATE TABLE IF NOT EXISTS public.moved (seconds double precision NOT NULL);
DELETE FROM public.moved;
INSERT INTO public.moved VALUES (0);
CREATE OR REPLACE FUNCTION callboard.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT clock_timestamp() + make_interval(secs => (SELECT seconds FROM public.moved))
$$;
"""
_EMPTY = """
DELETE FROM callboard.actor; DELETE FROM callboard.message; DELETE FROM callboard.turn; DELETE FROM callboard.journal;
DELETE FROM callboard.timer; DELETE FROM callboard.dead_letter; DELETE FROM callboard.decision;
DELETE FROM callboard.audit; DELETE FROM callboard.client_send; DELETE FROM callboard.full_mailbox;
"""


class PostgresWorld:
    """One database."""

    def __init__(self, dsn: str, store: PostgresStore, connection: psycopg.AsyncConnection[Any]) -> None:
        self.store = store
        self.port = RealPort()
        self._dsn = dsn
        self._connection = connection
        self._real_clock: str | None = None

    @asynccontextmanager
    async def join(self, boot: str = "boot-1", *, guest: bool = False, label: str = "") -> AsyncIterator[Session]:
        info = NodeInfo(boot, label=label, lease_seconds=LEASE_SECONDS, beat_seconds=0.02, guest=guest)
        async with self.store.join(info, self.port) as session:
            yield session

    async def pass_time(self, seconds: float) -> None:
        if self._real_clock is None:
            self._real_clock = await self._execute("SELECT pg_get_functiondef('callboard.clock'::regproc)")
            await self._execute(_MOVABLE_CLOCK)
        moved = psycopg.sql.SQL("UPDATE public.moved SET seconds = seconds + {}")
        await self._execute(moved.format(seconds))

    async def cut(self) -> None:
        ended = await self._execute(
            "SELECT array_agg(pid) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'callboard node %'"
        )
        await self._until_gone(psycopg.sql.SQL("pid = ANY ({})").format([*map(int, ended.strip("[]").split(","))]))

    async def restore_clock(self) -> None:
        """Time is real again, for the next test on this database."""
        if self._real_clock is not None:
            await self._execute(self._real_clock.encode())

    async def wipe(self) -> None:
        """Empty every table. Much faster than a new database for each test."""
        await self._execute(_WIPE)

    async def empty(self) -> None:
        """Empty every table but those of nodes, which stay who they are and own what they own."""
        await self._execute(_EMPTY)

    async def _execute(self, sql: Query) -> str:
        cursor = await self._connection.execute(sql)
        row = await cursor.fetchone() if cursor.description else None
        return "" if row is None else str(row[0])

    async def outlast_leases(self) -> None:
        # A server younger than two leases takes nobody for silent: wait in it until it is older (once in a test run).
        youth = "pg_postmaster_start_time() + make_interval(secs => {}) - clock_timestamp()"
        wait = psycopg.sql.SQL(f"SELECT pg_sleep(extract(epoch FROM {youth}))")
        await self._execute(wait.format(2 * LEASE_SECONDS + 0.1))
        await self.pass_time(LEASE_SECONDS + 1)

    async def violations(self) -> list[str]:
        async with await Database.open(self._dsn, size=1) as database:
            found = await invariants.breaches(database)
        # The contract's worlds are never at rest: something waits in most of them.
        return [f"{b.number} {b.subject} {b.detail}" for b in found if b.invariant != "waiting_messages"]

    async def charges(self) -> int:
        async with await Database.open(self._dsn, size=1) as database:
            return await invariants.charges(database)

    async def ended(self) -> dict[str, tuple[int, int]]:
        async with await Database.open(self._dsn, size=1) as database:
            return await invariants.ended(database)

    async def audit(self, decision: str) -> list[tuple[str, str, str, str, str, str]]:
        wanted = (
            "SELECT who, label, action, before, after, note FROM callboard.audit "
            "WHERE object = %s AND action <> 'move' ORDER BY number"
        )
        return [tuple(row) for row in await (await self._connection.execute(wanted, (decision,))).fetchall()]

    async def end_earlier(self, session: Session) -> None:
        back = "UPDATE callboard.node SET ended_at = ended_at - interval '1 hour' WHERE number = {}"
        await self._execute(psycopg.sql.SQL(back).format(session.number))

    async def crash(self, session: Session) -> None:
        assert isinstance(session, PostgresSession)
        await session.crash()
        named = psycopg.sql.SQL("datname = current_database() AND application_name LIKE {}")
        await self._until_gone(named.format(f"callboard node {session.number} epoch {session.epoch} %"))

    async def _until_gone(self, whose: psycopg.sql.Composed) -> None:
        """The server frees what a session has locked when it notices the end, a little after whoever ended it."""
        left = psycopg.sql.SQL("SELECT count(*) FROM pg_stat_activity WHERE {}").format(whose)
        with anyio.fail_after(60):
            while await self._execute(left) != "0":  # noqa: ASYNC110 - only the server knows, and it tells nobody
                await anyio.sleep(0.005)


@asynccontextmanager
async def postgres_world(dsn: str) -> AsyncIterator[World]:
    """The store of a database, whose schema is made here if it has none."""
    with patience():
        await create_schema(dsn)
        raw = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        async with raw, PostgresStore(dsn) as store:
            world = PostgresWorld(dsn, store, raw)
            await world.wipe()
            try:
                yield world
            finally:
                await world.restore_clock()
