"""PostgreSQL for the cases: the server that TEST_DATABASE_URL names, or an embedded one, and databases on it."""

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from callboard.persistence.embedded import ensure, release
from callboard.persistence.postgres import PostgresStore, create_schema
from tests.server_folder import SETTINGS, server_folder


@contextmanager
def server() -> Iterator[str]:
    """The URI of a server that is there for as long as this lasts."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        yield given
        return
    with server_folder("callboard-cases-") as root:
        try:
            yield ensure(root, durable=False, timeout_seconds=240, settings=SETTINGS)
        finally:
            release(root)


@asynccontextmanager
async def database(server_dsn: str) -> AsyncIterator[PostgresStore]:
    """An open store on a database of its own, which is dropped afterwards."""
    name = f"cases_{uuid.uuid4().hex[:12]}"
    async with await psycopg.AsyncConnection.connect(server_dsn, autocommit=True) as connection:
        await connection.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        try:
            dsn = urlsplit(server_dsn)._replace(path=f"/{name}").geturl()
            await create_schema(dsn)
            async with PostgresStore(dsn) as store:
                yield store
        finally:
            await connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@asynccontextmanager
async def databases(server_dsn: str, count: int) -> AsyncIterator[list[PostgresStore]]:
    """So many of them."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(database(server_dsn)) for _ in range(count)]
