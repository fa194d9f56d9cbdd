"""A database with the schema in it, a store on it, and a look at it from outside."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import psycopg
import pytest

from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore
from tests.patience import patient as patient  # noqa: PLC0414 - a fixture

Look = Callable[..., Awaitable[list[tuple[Any, ...]]]]


@pytest.fixture
async def store(made: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(made) as opened:
        yield opened


@pytest.fixture
def port() -> RealPort:
    return RealPort()


@pytest.fixture
async def look(dsn: str) -> AsyncIterator[Look]:
    """Run SQL beside the store, over a session of its own that commits by itself."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, application_name="test") as connection:

        async def run(sql: str, *params: Any) -> list[tuple[Any, ...]]:
            cursor = await connection.execute(sql.encode(), params or None)
            return await cursor.fetchall() if cursor.description else []

        yield run


async def lock_is_free(look: Look, number: int) -> bool:
    """Whether no session holds the lock of a node any more; the server frees it a little after the session's end."""
    return await look("SELECT callboard.lock_held(%s)", number) == [(False,)]


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Wait for a condition that only the server knows."""
    with anyio.fail_after(seconds):
        while not await condition():  # noqa: ASYNC110 - only the server knows, and it tells nobody
            await anyio.sleep(0.01)
