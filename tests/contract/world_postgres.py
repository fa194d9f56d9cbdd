"""The PostgreSQL store under test: its clock is the database's one function of time, moved by replacing it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from psycopg.abc import Query

from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresSession, PostgresStore, create_schema
from callboard.persistence.store import NodeInfo, Session
from tests.contract.world import LEASE_SECONDS, World

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


class PostgresWorld:
    """One database."""

    def __init__(self, dsn: str, store: PostgresStore) -> None:
        self.store = store
        self.port = RealPort()
        self._dsn = dsn
        self._moved_seconds = 0.0
        self._real_clock: str | None = None

    @asynccontextmanager
    async def join(self, boot: str = "boot-1", *, guest: bool = False, label: str = "") -> AsyncIterator[Session]:
        info = NodeInfo(boot, label=label, lease_seconds=LEASE_SECONDS, beat_seconds=0.02, guest=guest)
        async with self.store.join(info, self.port) as session:
            yield session

    async def pass_time(self, seconds: float) -> None:
        if self._real_clock is None:
            self._real_clock = await self._execute("SELECT pg_get_functiondef('callboard.clock'::regproc)")
        self._moved_seconds += seconds
        moved = psycopg.sql.SQL(
            "CREATE OR REPLACE FUNCTION callboard.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE "
            "AS $$ SELECT clock_timestamp() + make_interval(secs => {}) $$"
        ).format(self._moved_seconds)
        await self._execute(moved)

    async def cut(self) -> None:
        await self._execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'callboard node %'"
        )

    async def restore_clock(self) -> None:
        """Time is real again, for the next test on this database."""
        if self._real_clock is not None:
            await self._execute(self._real_clock.encode())

    async def wipe(self) -> None:
        """Empty every table. Much faster than a new database for each test."""
        await self._execute(_WIPE)

    async def _execute(self, sql: Query) -> str:
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
            cursor = await connection.execute(sql)
            row = await cursor.fetchone() if cursor.description else None
            return "" if row is None else str(row[0])

    async def outlast_leases(self) -> None:
        # A server younger than two leases takes nobody for silent: wait in it until it is older (once in a test run).
        youth = "pg_postmaster_start_time() + make_interval(secs => {}) - clock_timestamp()"
        wait = psycopg.sql.SQL(f"SELECT pg_sleep(extract(epoch FROM {youth}))")
        await self._execute(wait.format(2 * LEASE_SECONDS + 0.1))
        await self.pass_time(LEASE_SECONDS + 1)

    async def crash(self, session: Session) -> None:
        assert isinstance(session, PostgresSession)
        await session.crash()


@asynccontextmanager
async def postgres_world(dsn: str) -> AsyncIterator[World]:
    """The store of a database, whose schema is made here if it has none."""
    await create_schema(dsn)
    async with PostgresStore(dsn) as store:
        world = PostgresWorld(dsn, store)
        await world.wipe()
        try:
            yield world
        finally:
            await world.restore_clock()
