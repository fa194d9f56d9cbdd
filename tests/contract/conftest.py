"""Every contract test runs once on each store, with one node that owns all shards."""

import uuid
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from callboard.persistence.store import Session, Store
from tests.contract.world import MemoryWorld, World
from tests.contract.world_postgres import postgres_world


@pytest.fixture(scope="session")
def contract_dsn(server_dsn: str) -> Iterator[str]:
    """A database for all contract tests; each finds its tables empty."""
    name = f"contract_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        try:
            yield urlsplit(server_dsn)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(params=["memory", "postgres"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    async with postgres_world(request.getfixturevalue("contract_dsn")) as opened:
        yield opened


@pytest.fixture
def store(world: World) -> Store:
    return world.store


@pytest.fixture
async def node(world: World) -> AsyncIterator[Session]:
    async with world.join("boot-1", label="first") as session:
        await session.claim()
        yield session
