"""S17 on PostgreSQL: what a slow commit holds back, and what a page of a long journal costs."""

import psycopg
import pytest

from callboard.persistence.feed_cursor import read_place
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.rows import EventRow
from callboard.persistence.store import NodeInfo
from tests.contract.build import AGENT, OTHER, SHARD, event, unit, write
from tests.postgres.conftest import Look
from tests.postgres.test_plans import _NO_AUTOVACUUM

pytestmark = pytest.mark.anyio

_INSERT = """
INSERT INTO callboard.journal (shard, address, seq, type, body, at, node)
VALUES ({shard}, '{address}', 1, 'noted', '{{}}', callboard.clock(), 9)
"""


def _names(events: list[EventRow]) -> list[tuple[str, int]]:
    return [(one.address, one.seq) for one in events]


async def test_s17_what_was_written_before_and_shows_later_is_waited_for(store: PostgresStore, made: str) -> None:
    begin = (await store.feed(None)).cursor
    slow = await psycopg.AsyncConnection.connect(made, application_name="callboard node 9 commit")
    async with slow, store.join(NodeInfo(boot="b"), RealPort()) as node:
        await node.claim()
        await slow.execute(_INSERT.format(shard=SHARD, address="/desk/agent:slow").encode())
        await write(node, unit(events=[event(1)]))
        held = await store.feed(begin)
        assert held.events == []  # one that began before is still under way, and may be of an earlier time
        await slow.commit()
        page = await store.feed(held.cursor)
        assert _names(page.events) == [("/desk/agent:slow", 1), (AGENT, 1)]
        await write(node, unit(OTHER, events=[event(1, OTHER)]))
        assert _names((await store.feed(page.cursor)).events) == [(OTHER, 1)]


async def test_s17_a_commit_that_is_given_up_holds_nothing_back_for_long(store: PostgresStore, made: str) -> None:
    begin = (await store.feed(None)).cursor
    slow = await psycopg.AsyncConnection.connect(made, application_name="callboard node 9 commit")
    async with slow, store.join(NodeInfo(boot="b"), RealPort()) as node:
        await node.claim()
        await slow.execute(_INSERT.format(shard=SHARD, address="/desk/agent:slow").encode())
        await write(node, unit(events=[event(1)]))
        await slow.rollback()
        assert _names((await store.feed(begin)).events) == [(AGENT, 1)]


async def test_s17_a_page_costs_a_page_however_long_the_journals_are(store: PostgresStore, look: Look) -> None:
    await look(_NO_AUTOVACUUM)
    await look("""
        INSERT INTO callboard.journal (shard, address, seq, type, body, at, node)
        SELECT 0, '/desk/agent:full', g, 'noted', repeat('x', 200), callboard.clock() - (200000 - g) * interval '1 s', 1
        FROM generate_series(1, 200000) g
    """)
    cursor, found = "", 0
    for _ in range(3):
        page = await store.feed(cursor, limit=100)
        cursor, found = page.cursor, found + len(page.events)
    assert found == 300
    for after in (0, 0, read_place(cursor).micros):  # the first also reads the catalogue
        [(plan,)] = await look(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM callboard.feed(%s, -1, '', 0, 100)", after
        )
        root = plan[0]["Plan"]
        assert root["Actual Rows"] == 100
        touched = root["Shared Hit Blocks"] + root["Shared Read Blocks"]
    assert touched < 400  # the journal has some 7,000
