"""Connecting: one clear line within seconds, no password in it, and sessions that were cut are replaced."""

from contextlib import AsyncExitStack
from functools import partial

import anyio
import pytest
from psycopg.conninfo import make_conninfo

from callboard.mailbox.errors import StoreUnavailable
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore, make_dsn_safe
from callboard.persistence.store import NodeInfo
from tests.postgres.conftest import Look, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://someone:s3cret@127.0.0.1:1/nowhere",
        "host=/nonexistent dbname=nowhere user=someone password=s3cret",
        "postgresql://someone:s3%zzcret@127.0.0.1/nowhere",
        "s3cret is not a dsn",
        "postgresql://someone:s3cret@127.0.0.1/x?unknown_option=1",
    ],
)
async def test_what_cannot_be_reached_is_said_in_one_line_without_the_password(dsn: str) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        await PostgresStore.connect(dsn)
    text = str(caught.value)
    assert "\n" not in text
    assert "s3cret" not in text + repr(PostgresStore(dsn)) + make_dsn_safe(dsn)


async def test_a_wrong_database_is_named(dsn: str) -> None:
    with pytest.raises(StoreUnavailable, match='"nowhere" does not exist'):
        await PostgresStore.connect(make_conninfo(dsn, dbname="nowhere"))


async def test_a_closed_store_says_so(made: str) -> None:
    with pytest.raises(StoreUnavailable, match="not open"):
        await PostgresStore(made).now()


async def test_opening_and_closing_twice_is_harmless(made: str) -> None:
    store = await PostgresStore.connect(made)
    async with store:
        assert await store.now() > 0
    await store.close()


async def test_a_statement_that_is_under_way_when_the_store_closes_still_has_its_answer(made: str, look: Look) -> None:
    store = PostgresStore(made)
    answers: list[object] = []

    async def ask() -> None:
        answers.append(await store.actor("/x"))

    async def asked() -> bool:
        return bool(await look("SELECT 1 FROM pg_locks WHERE NOT granted"))

    await look("BEGIN")
    await look("LOCK TABLE callboard.actor IN ACCESS EXCLUSIVE MODE")
    async with anyio.create_task_group() as group:
        async with store:
            group.start_soon(ask)
            await until(asked)
        await look("COMMIT")
    assert len(answers) == 1


async def test_outside_calls_go_on_when_their_sessions_were_ended(
    store: PostgresStore, port: RealPort, look: Look
) -> None:
    took: list[float] = []
    # A pool that waits for its next try waits a second, every time; a busy machine does not.
    while not took or (min(took) >= 0.9 and len(took) < 30):
        assert store._pool is not None
        async with AsyncExitStack() as borrowed:
            for _ in range(3):
                await borrowed.enter_async_context(store._pool.connection())
        pids = await look(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name LIKE 'callboard client%%' AND pg_terminate_backend(pid)"
        )
        assert len(pids) >= 3
        await until(partial(_are_gone, look, [pid for (pid,) in pids]))
        started = port.monotonic()
        assert await store.now() > 0
        took.append(port.monotonic() - started)
    assert min(took) < 0.9


async def _are_gone(look: Look, pids: list[int]) -> bool:
    return not await look("SELECT 1 FROM pg_stat_activity WHERE pid = ANY (%s)", pids)


async def test_every_session_has_the_settings_that_the_design_relies_on(
    store: PostgresStore, port: RealPort, look: Look
) -> None:
    await look("ALTER ROLE current_user SET default_transaction_isolation = 'serializable'")
    try:
        async with store.join(NodeInfo(boot="b"), port) as node:
            await node.start_heart(lambda: True)
            names = await look(
                "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name LIKE 'callboard node 1 epoch 1 %%' ORDER BY 1"
            )
            assert [name.rsplit(" ", 1)[1] for (name,) in names] == [
                "commit", "control", "heart", "listen", "read", "watch",
            ]  # fmt: skip
            rows = await node._links["read"]._connection.execute("SHOW transaction_isolation")
            assert await rows.fetchone() == ("read committed",)
    finally:
        await look("ALTER ROLE current_user RESET default_transaction_isolation")
