"""A few databases for all of a process's cases; each case has a root of its own there."""

import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from callboard.persistence.postgres import PostgresStore
from tests.conformance.databases import databases
from tests.conformance.everywhere import LANES


@pytest.fixture(scope="package")
async def stores(server_dsn: str) -> AsyncIterator[list[PostgresStore]]:
    async with databases(server_dsn, LANES) as opened:
        yield opened


@pytest.fixture(autouse=True)
def without_tracebacks() -> Iterator[None]:
    """Hundreds of children crash here on purpose, and writing down where from would cost more than the rest."""
    log = logging.getLogger("callboard")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)
