"""Version 5: when actors of an older database were made is told by their journals or first turns, if any."""

import pytest

from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore, create_schema
from callboard.persistence.postgres.schema import migrations
from tests.postgres.conftest import Look

pytestmark = pytest.mark.anyio

_ACTOR = "INSERT INTO callboard.actor VALUES (%s, %s, 'run', 3, 1, 'active', '', '', 1, 0, 0, 0, '')"
_EVENT = "INSERT INTO callboard.journal VALUES (%s, %s, %s, 't', '{}', to_timestamp(%s), 1)"
_TURN = "INSERT INTO callboard.turn VALUES (%s, 7, %s, '', 't', 2, 1, %s, 'done', 0, 1, 1, 1, to_timestamp(%s))"


async def test_an_older_databases_actors_keep_their_order_of_time(dsn: str, look: Look) -> None:
    for _, text in migrations()[:4]:
        await look(text)
    await look("INSERT INTO callboard.schema_version VALUES (4, now())")
    for address in ("/r:told", "/r:turned", "/r:silent", "/r:late"):
        await look(_ACTOR, 1, address)
    await look(_EVENT, 1, "/r:told", 1, 1_000_000.5)
    await look(_EVENT, 1, "/r:told", 2, 3_000_000.0)
    await look(_TURN, 1, "/r:told", 1, 2_000_000.0)
    await look(_TURN, 1, "/r:turned", 1, 2_000_000.0)
    await look(_TURN, 1, "/r:turned", 2, 5_000_000.0)
    await look(_EVENT, 1, "/r:late", 2, 4_000_000.0)  # its first one is pruned
    await create_schema(dsn)
    async with PostgresStore(dsn) as store:
        found = [(one.address, one.created_at) for one in await store.newest(kind="run")]
    assert found == [
        ("/r:turned", 2_000_000.0), ("/r:told", 1_000_000.5), ("/r:silent", 0.0), ("/r:late", 0.0)
    ]  # fmt: skip


async def test_a_migrated_database_tells_of_changes(dsn: str, look: Look) -> None:
    for _, text in migrations()[:4]:
        await look(text)
    await look("INSERT INTO callboard.schema_version VALUES (4, now())")
    await create_schema(dsn)
    await create_schema(dsn)
    async with PostgresStore(dsn) as store, store.changes() as ear:
        await look(_ACTOR, 1, "/r:1")
        await look("UPDATE callboard.actor SET status = 'parked'")
        assert await ear.next(60.0, RealPort()) == "actor /r:1"
