"""A database with the schema and its roles, and the desk's tables beside it."""

from collections.abc import AsyncIterator

import pytest

from callboard.crm.load import load
from callboard.crm.schema import install
from callboard.crm.small_desk import read_small_desk
from callboard.persistence.postgres import create_roles
from callboard.persistence.postgres.database import Database


@pytest.fixture
async def owner(made: str) -> AsyncIterator[Database]:
    """The database, as the owner of everything in it."""
    await create_roles(made)
    async with await Database.open(made) as database:
        await install(database)
        await load(database, read_small_desk())
        yield database


async def tables(owner: Database) -> list[str]:
    """Every table of the runtime's schema."""
    rows = await owner.rows(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'callboard'::regnamespace AND c.relkind IN ('r', 'p')"
    )
    return sorted(row["relname"] for row in rows)
