"""Statements without a cursor: they say the same as one, and leave no session with half an answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from callboard.persistence.postgres.arrays import integers, texts
from callboard.persistence.postgres.connect import Row, connect
from callboard.persistence.postgres.exchange import NotPlain, ask
from tests.postgres.conftest import until

pytestmark = pytest.mark.anyio

Connection = psycopg.AsyncConnection[Row]
LONG = 600.0
"""Seconds that no statement here takes."""

_EVERYTHING = b"SELECT $1::text, $2::bigint, $3::float8, $4::boolean, $5::bytea, $6::text, $7::jsonb::text"
_VALUES: list[Any] = ["ä 'x' \\ \ue000", -(2**63), 1e-300, True, b"\0\xff", None, '{"a": [1]}']


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Connection]:
    connection = await connect(dsn, "test of exchange")
    yield connection
    await connection.close()


async def say(session: Connection, text: bytes, *values: Any, kept: bool = False, name: str = "it") -> list[Row]:
    return await ask(session, name, text, values, keeps_plan=kept, seconds=LONG)


async def test_s10_values_and_rows_are_those_of_a_cursor(session: Connection) -> None:
    cursor = psycopg.AsyncRawCursor(session)
    await cursor.execute(_EVERYTHING, _VALUES, prepare=True, binary=True)
    expected = await cursor.fetchall()
    for _ in range(2):  # when it is prepared, and when it is known
        assert await say(session, _EVERYTHING, *_VALUES) == expected
    array = b"SELECT * FROM unnest($1::bigint[], $2::text[])"
    assert await say(session, array, integers([1, 2]), texts(["a", None]), name="arrays") == [(1, "a"), (2, None)]


async def test_s10_a_text_is_never_cut_at_its_nul(session: Connection) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        await say(session, b"SELECT $1::text", "a\0b")


async def test_another_type_is_refused_before_anything_is_sent(session: Connection) -> None:
    with pytest.raises(NotPlain, match="list"):
        await say(session, b"no statement at all", [1])


async def test_a_refusal_of_the_server_leaves_the_session_as_it_was(session: Connection) -> None:
    for text in (b"SELECT 1 / $1::integer", b"no statement at all"):
        with pytest.raises(psycopg.Error):
            await say(session, text, 0, name=text.decode())
    assert await say(session, b"SELECT $1::integer", 1) == [(1,)]


async def test_a_session_that_does_not_answer_in_time_is_closed(session: Connection) -> None:
    with pytest.raises(TimeoutError):
        await ask(session, "sleep", b"SELECT pg_sleep($1)", [LONG], keeps_plan=False, seconds=0.05)
    assert session.closed


async def test_g2_a_session_whose_statement_was_interrupted_is_closed(session: Connection) -> None:
    # Its answer would be taken for that of the next statement.
    statement = asyncio.create_task(say(session, b"SELECT pg_sleep($1)", LONG))

    async def under_way() -> bool:
        return session.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE

    await until(under_way)
    statement.cancel()
    with pytest.raises(asyncio.CancelledError):
        await statement
    assert session.closed


async def test_plans_are_kept_for_marked_statements_only(session: Connection) -> None:
    mode = b"SELECT current_setting('plan_cache_mode')"
    for kept, expected in ((False, "custom"), (True, "generic"), (True, "generic"), (False, "custom")):
        assert await say(session, mode, kept=kept) == [(f"force_{expected}_plan",)]
    await say(session, mode, kept=True)
    async with session.transaction():  # its end may undo what is set in it
        assert await say(session, mode, kept=False) == [("force_generic_plan",)]
    assert await say(session, mode, kept=False) == [("force_custom_plan",)]


async def test_what_was_notified_meanwhile_is_not_lost(session: Connection) -> None:
    heard: list[str] = []
    session.add_notify_handler(lambda notification: heard.append(notification.payload))
    await say(session, b"LISTEN exchange_test", name="listen")
    await say(session, b"SELECT pg_notify('exchange_test', $1)", "here", name="notify")
    await say(session, b"SELECT 1", name="one")
    assert heard == ["here"]
