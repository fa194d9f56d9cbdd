"""Databases of measurements: theirs as long as they last, and gone afterwards."""

import pytest

from callboard.evals.fresh import fresh_databases
from callboard.mailbox.errors import CallboardError
from callboard.persistence.postgres.database import Database

pytestmark = pytest.mark.anyio


async def test_the_end_of_one_measurement_leaves_the_databases_of_another(server_dsn: str) -> None:
    async with fresh_databases(server_dsn, 1) as (kept,):
        async with fresh_databases(server_dsn, 2) as others:
            assert len({kept, *others}) == 3
        async with await Database.open(kept) as database:
            assert await database.row("SELECT 1 AS there") == {"there": 1}
        for gone in others:
            with pytest.raises(CallboardError):
                async with await Database.open(gone) as database:
                    await database.row("SELECT 1 AS there")
