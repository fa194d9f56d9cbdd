"""How sessions with the database are opened, and one such session with its statements (`Link`).

Every session commits each statement by itself and holds nothing between two of them. Its settings are part of the
design: read committed, because functions rely on a fresh snapshot a statement; plans of index scans and nested loops
only, made for each call from the sizes of that moment, because a queue that was empty while a plan was made is full a
second later; client_connection_check_interval, so that the statement of a process that died does not hold its locks.

What runs for each message or look at a mailbox costs less than its planning, and is written so that one plan only is
possible (see commit_batch on plans). Such statements are marked in the SQL, and a session changes to keeping plans when
it is asked for one of them; statements of the two kinds seldom meet in one session.

Statements are shielded from cancellation and bounded by a time instead: anyio repeats a cancellation until it is
obeyed, which interrupts psycopg's own cancelling of the statement and leaves the session unusable.
"""

import select
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Self

import anyio
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool

from ...mailbox.errors import StoreUnavailable
from . import arrays
from .errors import translated
from .exchange import NotPlain, ask
from .inbox import Inbox
from .sql import keeps_plan, statement

CONNECT_SECONDS = 5
STATEMENT_SECONDS = 30.0

Row = tuple[Any, ...]

_CONNECTION = {
    "connect_timeout": str(CONNECT_SECONDS),
    # A peer that is gone without a word is noticed within seconds (these have no effect on local sockets).
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "5000",
}

_SESSION = {
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": "15s",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "jit": "off",
    "plan_cache_mode": "force_custom_plan",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
}
_SET = b"SELECT set_config(s.name, s.value, false) FROM unnest(%s::text[], %s::text[]) AS s(name, value)"
_CHECK = b"SET client_connection_check_interval = '500ms'"


def is_dsn(dsn: str) -> bool:
    """Whether `dsn` can be read at all; says nothing of whether a server is there."""
    try:
        conninfo_to_dict(dsn)
    except psycopg.Error:
        return False
    return True


def make_dsn_safe(dsn: str) -> str:
    """The DSN as it may be shown: without the password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "(not a PostgreSQL DSN)"
    return make_conninfo("", **{key: "***" if key in ("password", "sslpassword") else parts[key] for key in parts})


def conninfo(dsn: str, name: str) -> str:
    """What to connect with: the user's own settings win over ours.

    Raises:
        StoreUnavailable: `dsn` cannot be read.
    """
    try:
        given = conninfo_to_dict(dsn)
        return make_conninfo(dsn, **{**_CONNECTION, **{k: v for k, v in given.items() if v}, "application_name": name})
    except psycopg.Error:
        # libpq quotes the part that it could not read, which may be the password.
        raise StoreUnavailable(
            "this is not a PostgreSQL DSN; it looks like postgresql://user:password@host:5432/database"
        ) from None


def configure_sync(connection: psycopg.Connection[Any]) -> None:
    """`configure` for the heart's thread."""
    arrays.register(connection)
    connection.execute(_SET, (list(_SESSION), list(_SESSION.values())))
    try:
        connection.execute(_CHECK)
    except (psycopg.DataError, psycopg.NotSupportedError, psycopg.ProgrammingError):
        return  # refused by servers on systems that cannot tell; it speeds things up, nothing relies on it


async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
    """Give a new session its settings."""
    arrays.register(connection)
    await connection.execute(_SET, (list(_SESSION), list(_SESSION.values())))
    try:
        await connection.execute(_CHECK)
    except (psycopg.DataError, psycopg.NotSupportedError, psycopg.ProgrammingError):
        return


async def connect(dsn: str, name: str) -> psycopg.AsyncConnection[Row]:
    """A configured session.

    Raises:
        StoreUnavailable: within about five seconds, in one line.
    """
    target = conninfo(dsn, name)
    with translated(), anyio.move_on_after(CONNECT_SECONDS) as scope:
        connection = await psycopg.AsyncConnection.connect(target, autocommit=True)
        try:
            await configure(connection)
        except BaseException:
            await connection.close()
            raise
        return connection
    assert scope.cancelled_caught
    raise StoreUnavailable(f"no answer within {CONNECT_SECONDS} s from {make_dsn_safe(dsn)}")


async def check(connection: psycopg.AsyncConnection[Row]) -> None:
    """Raise where a session that was idle has been cut.

    An idle session has nothing to read unless it was ended (or a setting of the server changed): only then is the
    server asked, as the question costs each borrowing a round trip.
    """
    if not connection.closed:
        waiting = select.poll()
        waiting.register(connection.fileno(), select.POLLIN)
        if not waiting.poll(0):
            return
    await AsyncConnectionPool.check_connection(connection)


async def run(
    connection: psycopg.AsyncConnection[Row], query: str, params: dict[str, Any] | None, seconds: float
) -> list[Row]:
    """Run a named statement and give back its rows. A connection that does not answer in time is closed.

    Raises:
        CallboardError: see `errors.translate`.
    """
    text, names = statement(query)
    values = [params[name] for name in names] if params else []
    try:
        with translated(), anyio.CancelScope(shield=True):
            try:
                return await ask(connection, query, text, values, keeps_plan=keeps_plan(query), seconds=seconds)
            except NotPlain:
                return await _run_by_cursor(connection, text, values, seconds)
    except TimeoutError:
        await connection.close()
    raise StoreUnavailable(f"the database did not answer {query!r} within {seconds:g} s; the connection was given up")


async def _run_by_cursor(
    connection: psycopg.AsyncConnection[Row], text: bytes, values: list[Any], seconds: float
) -> list[Row]:
    with anyio.fail_after(seconds):
        cursor = psycopg.AsyncRawCursor(connection)
        await cursor.execute(text, values or None, prepare=True, binary=True)
        return await cursor.fetchall()


class Link:
    """One of a node's sessions, for one purpose."""

    def __init__(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, dsn: str, name: str) -> Self:
        """Connect; see `connect`."""
        return cls(await connect(dsn, name))

    @property
    def busy(self) -> bool:
        """Whether a statement or a wait for notifications is under way."""
        return self._connection.lock.locked()

    async def run(
        self, query: str, params: dict[str, Any] | None = None, *, seconds: float = STATEMENT_SECONDS
    ) -> list[Row]:
        """Run a named statement; see `run`."""
        return await run(self._connection, query, params, seconds)

    async def listen(self, channel: str) -> None:
        """Receive what is sent to `channel` from now on."""
        with translated(), anyio.CancelScope(shield=True):
            await self._connection.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))

    def hear(self, told: Callable[[str], None], lost: Callable[[], None]) -> "Inbox":
        """Pass on what is told from now on; see `Inbox`. Not together with `notifications`."""
        return Inbox(self._connection, told, lost)

    @property
    def closed(self) -> bool:
        """Whether the session has ended."""
        return bool(self._connection.closed)

    async def notifications(self, seconds: float) -> AsyncIterator[str]:
        """Payloads that arrive within `seconds`; ends after the first packet of them."""
        with translated():
            async with aclosing(self._connection.notifies(timeout=seconds, stop_after=1)) as found:
                async for notification in found:
                    yield notification.payload

    async def works(self) -> bool:
        """Whether the session still answers; one that is waiting for notifications would have noticed itself."""
        if self._connection.closed:
            return False
        if self.busy:
            return True
        try:
            await self.run("now", seconds=CONNECT_SECONDS)
        except StoreUnavailable:
            return False
        return True

    async def close(self) -> None:
        """End the session; whatever it held is free."""
        with anyio.CancelScope(shield=True):
            await self._connection.close()
