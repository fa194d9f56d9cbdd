"""Whole databases on a server: one is made for a demonstration or a bench, and dropped when nobody uses it."""

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ...mailbox.errors import StoreError, StoreUnavailable
from .connect import make_dsn_safe

_IDLE = """
SELECT d.datname FROM pg_database d
WHERE starts_with(d.datname, %s) AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = d.datname)
"""


def database_on(dsn: str, name: str) -> str:
    """The DSN of another database on the server of `dsn`."""
    return make_conninfo(dsn, dbname=name)


def user_on(dsn: str, user: str) -> str:
    """The DSN of another user of the same database, who has no password."""
    return make_conninfo(dsn, user=user, password=None)


async def create_database(dsn: str, name: str) -> str:
    """Make a database beside the one of `dsn`; its DSN.

    Raises:
        StoreUnavailable: the server does not answer. StoreError: it refuses (a missing right, the name is taken).
    """
    async with await _connect(dsn) as connection:
        try:
            await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        except psycopg.Error as error:
            raise StoreError(f"cannot create database {name!r}: {error.diag.message_primary or error}") from error
    return database_on(dsn, name)


async def drop_idle_databases(dsn: str, prefix: str) -> int:
    """Drop the databases whose name begins with `prefix` and that nobody is connected to; how many."""
    dropped = 0
    async with await _connect(dsn) as connection:
        for (name,) in await (await connection.execute(_IDLE, [prefix])).fetchall():
            try:
                await connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))
                dropped += 1
            except psycopg.errors.ObjectInUse:
                continue  # somebody came in between: it is in use, so it stays
    return dropped


async def _connect(dsn: str) -> psycopg.AsyncConnection[tuple[str, ...]]:
    try:
        return await psycopg.AsyncConnection.connect(dsn, autocommit=True, connect_timeout=5)
    except psycopg.Error as error:
        raise StoreUnavailable(f"no database at {make_dsn_safe(dsn)}: {error}") from error
