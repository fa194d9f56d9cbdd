"""A small connection pool for an application's own tables: what tools and desks use, never the runtime's store.

Neighbours: the store in this folder commits turns over its own connections; `crm/` keeps its tables through this class,
often in the same server and under another database role. Applications see rows as dicts and two errors, so that
psycopg stays inside this folder.

Invariant: a connection is borrowed for one statement or one `transaction()` block and is idle otherwise. Never await
anything but the database inside such a block: its row locks would wait for the outside world. Statements are shielded
from cancellation, because a cancelled task must not leave a half-answered connection behind; the wait for a free
connection is not shielded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Self, TypeAlias

import anyio
import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from callboard.mailbox.errors import StoreError, StoreUnavailable

Params: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
Connection: TypeAlias = psycopg.AsyncConnection[DictRow]

CONNECT_SECONDS = 10
BORROW_SECONDS = 30.0
_SETTINGS = {
    "lock_timeout": "10s",
    "statement_timeout": "60s",
    # A process frozen inside a block must not keep its row locks: the server ends the session, the block rolls back.
    "idle_in_transaction_session_timeout": "15s",
    # Notices within two seconds that the client of a long statement is gone. Refused by servers on some systems.
    "client_connection_check_interval": "2s",
}


class DatabaseUnavailable(StoreUnavailable):
    """The database did not answer, or gave up on a lock: the same statement may succeed later.

    Whether the statement took effect is unknown; repeat it only under an idempotency key.
    """


class DatabaseRefused(StoreError):
    """The database answered no: a broken constraint, a missing right, a wrong statement. Repeating does not help."""

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        """The five characters of the SQL standard's error code, where the server sent one."""


class Session:
    """The statements of one borrowed connection. SQL takes `%s` or `%(name)s`; values never enter the text."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def rows(self, sql: str, params: Params = None) -> list[dict[str, Any]]:
        """Run a query and return every row as a dict of column name to value."""
        with _statement():
            cursor = await self._connection.execute(sql.encode(), params)
            return await cursor.fetchall()

    async def row(self, sql: str, params: Params = None) -> dict[str, Any] | None:
        """Run a query and return its first row, or None where there is none."""
        with _statement():
            cursor = await self._connection.execute(sql.encode(), params)
            return await cursor.fetchone()

    async def execute(self, sql: str, params: Params = None) -> int:
        """Run a statement and return the number of rows it touched (0 where that has no meaning)."""
        with _statement():
            cursor = await self._connection.execute(sql.encode(), params)
            return max(cursor.rowcount, 0)

    async def copy_rows(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
        """Insert many rows by COPY into `table` (`schema.name`) and return their number. All of them or none."""
        target = psycopg.sql.SQL("COPY {} ({}) FROM STDIN").format(
            psycopg.sql.Identifier(*table.split(".")),
            psycopg.sql.SQL(", ").join(psycopg.sql.Identifier(column) for column in columns),
        )
        written = 0
        with _statement():
            async with self._connection.cursor() as cursor, cursor.copy(target) as copy:
                for row in rows:
                    await copy.write_row(row)
                    written += 1
        return written


class Database:
    """A pool of autocommitting connections to one database, all under one role. Broken connections are replaced."""

    def __init__(self, pool: AsyncConnectionPool[Connection]) -> None:
        self._pool = pool

    @classmethod
    async def open(
        cls, dsn: str, *, role: str | None = None, size: int = 4, application_name: str = "callboard-application"
    ) -> Self:
        """Connect to `dsn` with at most `size` connections, each under `role` if one is given (SET ROLE).

        Raises DatabaseUnavailable where no server answers, DatabaseRefused where it refuses the user or the role.
        """
        conninfo = make_conninfo(dsn, application_name=application_name, connect_timeout=CONNECT_SECONDS)

        async def configure(connection: Connection) -> None:
            await _configure(connection, role)

        # One plain connection first: the pool would retry a wrong password in silence and report only "timeout".
        with _translated():
            async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True, row_factory=dict_row) as probe:
                await configure(probe)
        pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            conninfo,
            kwargs={"autocommit": True, "row_factory": dict_row},
            min_size=1,
            max_size=size,
            timeout=BORROW_SECONDS,
            configure=configure,
            check=AsyncConnectionPool.check_connection,  # a restarted server costs no statement
            name=application_name,
            open=False,
        )
        await pool.open()
        return cls(pool)

    async def close(self) -> None:
        """Close every connection. Borrowed ones close when they come back; later calls raise DatabaseUnavailable."""
        with anyio.CancelScope(shield=True):
            await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def rows(self, sql: str, params: Params = None) -> list[dict[str, Any]]:
        """Run one query in its own transaction; see `Session.rows`."""
        async with self._session() as session:
            return await session.rows(sql, params)

    async def row(self, sql: str, params: Params = None) -> dict[str, Any] | None:
        """Run one query in its own transaction; see `Session.row`."""
        async with self._session() as session:
            return await session.row(sql, params)

    async def execute(self, sql: str, params: Params = None) -> int:
        """Run one statement in its own transaction; see `Session.execute`."""
        async with self._session() as session:
            return await session.execute(sql, params)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Run the statements of the block in one transaction; any exception, cancellation too, rolls it back."""
        async with self._session() as session:
            await session.execute("BEGIN")
            try:
                yield session
            except BaseException:
                # A connection that died has rolled back by itself, and the first error is the one to report.
                with suppress(DatabaseUnavailable, DatabaseRefused):
                    await session.execute("ROLLBACK")
                raise
            await session.execute("COMMIT")

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        with _translated():
            connection = await self._pool.getconn()
        try:
            yield Session(connection)
        finally:
            with anyio.CancelScope(shield=True):
                await self._pool.putconn(connection)


async def _configure(connection: Connection, role: str | None) -> None:
    # Settings before the role: what the connecting user may set, the role may not always.
    for name, value in _SETTINGS.items():
        try:
            await connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        except (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError):
            # An older server does not know the setting, or its system cannot do it. Neither is needed to be right.
            continue
    if role is not None:
        await connection.execute("SELECT set_config('role', %s, false)", (role,))


@contextmanager
def _statement() -> Iterator[None]:
    """Shield a statement from cancellation and turn psycopg's errors into ours."""
    with _translated(), anyio.CancelScope(shield=True):
        yield


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (PoolTimeout, PoolClosed, TooManyRequests, psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise DatabaseUnavailable(
            f"the database did not complete the call ({_first_line(error)}); try again"
        ) from error
    except psycopg.Error as error:
        raise DatabaseRefused(f"the database refused: {_first_line(error)}", error.sqlstate) from error


def _first_line(error: Exception) -> str:
    # Later lines carry DETAIL, which quotes row values: not for logs.
    return (str(error).splitlines() or [type(error).__name__])[0]
