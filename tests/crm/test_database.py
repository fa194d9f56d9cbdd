"""The application's pool: rows, transactions, roles, and what a lost connection costs."""

import anyio
import pytest

from callboard.persistence.postgres.database import Database, DatabaseRefused, DatabaseUnavailable

pytestmark = pytest.mark.anyio

# And wait until it has ended: until then it would answer.
CUT = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'victim'"


async def test_rows_are_dicts_and_execute_counts(owner: Database) -> None:
    await owner.execute("CREATE TABLE thing (n integer PRIMARY KEY)")
    assert await owner.execute("INSERT INTO thing VALUES (%s), (%s)", (1, 2)) == 2
    assert await owner.rows("SELECT n FROM thing ORDER BY n") == [{"n": 1}, {"n": 2}]
    assert await owner.row("SELECT n FROM thing WHERE n = %(n)s", {"n": 3}) is None


async def test_a_failing_block_leaves_nothing(owner: Database) -> None:
    await owner.execute("CREATE TABLE thing (n integer PRIMARY KEY)")

    async def insert_twice() -> None:
        async with owner.transaction() as session:
            await session.execute("INSERT INTO thing VALUES (1)")
            await session.execute("INSERT INTO thing VALUES (1)")

    with pytest.raises(DatabaseRefused) as refusal:
        await insert_twice()
    assert refusal.value.sqlstate == "23505"
    assert await owner.rows("SELECT n FROM thing") == []


async def test_a_cancelled_block_leaves_nothing_and_gives_its_connection_back(dsn: str) -> None:
    async with await Database.open(dsn, size=1) as database:
        await database.execute("CREATE TABLE thing (n integer PRIMARY KEY)")
        with anyio.CancelScope() as scope:
            async with database.transaction() as session:
                await session.execute("INSERT INTO thing VALUES (1)")
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        assert await database.rows("SELECT n FROM thing") == []


async def test_g8_a_statement_after_a_lost_connection_just_works(dsn: str, owner: Database) -> None:
    async with await Database.open(dsn, size=1, application_name="victim") as database:
        await database.execute("SELECT 1")
        await owner.rows(CUT)
        assert await database.row("SELECT 1 AS one") == {"one": 1}


async def test_a_connection_lost_inside_a_block_is_unavailable_and_the_pool_recovers(dsn: str, owner: Database) -> None:
    async with await Database.open(dsn, size=1, application_name="victim") as database:

        async def lose_it() -> None:
            async with database.transaction() as session:
                await session.execute("SELECT 1")
                await owner.rows(CUT)
                await session.execute("SELECT 1")

        with pytest.raises(DatabaseUnavailable):
            await lose_it()
        assert await database.row("SELECT 1 AS one") == {"one": 1}


async def test_sessions_are_named_and_notice_lost_clients(dsn: str) -> None:
    async with await Database.open(dsn, application_name="the-desk") as database:
        row = await database.row(
            "SELECT current_setting('application_name') AS name,"
            " current_setting('client_connection_check_interval') AS check"
        )
    assert row == {"name": "the-desk", "check": "2s"}


async def test_no_server_is_unavailable_and_an_unknown_role_is_refused(dsn: str) -> None:
    with pytest.raises(DatabaseUnavailable):
        await Database.open("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(DatabaseRefused, match="no_such_role"):
        await Database.open(dsn, role="no_such_role")
