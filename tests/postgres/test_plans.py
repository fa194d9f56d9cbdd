"""No statement reads a whole table, whatever the tables held when its plan was made.

The server counts the pages of indexes and tables that were touched. Plans are made while everything is empty and
vacuumed, which is when the planner knows least; then one shard is filled, and every statement runs again.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresSession, PostgresStore
from callboard.persistence.rows import EventRow, Timer
from callboard.persistence.store import NodeInfo
from callboard.persistence.unit import Fire, Move, Retry
from tests.contract.build import (
    SHARD,
    actor,
    dead,
    decision,
    message,
    next_id,
    timer,
    turn,
    unit,
    waiting,
    work,
)
from tests.postgres.conftest import Look, until

pytestmark = pytest.mark.anyio

ROWS = 60_000
PAGES = 150
"""What one statement may touch: an index is three pages deep; a whole table here is more than 500."""

_FILL_MESSAGES = """
INSERT INTO callboard.message
SELECT
    {shard}, g, '/desk/agent:full', '', 2, 'note', 1, '{{}}', 0, 0, 0, now(), '', '', 0, 0, false, 0, g % 2 = 0, now()
FROM generate_series(1, {rows}) g;
"""
# It would count among those who touch pages.
_NO_AUTOVACUUM = """
DO $$
DECLARE _name text;
BEGIN
    FOR _name IN SELECT tablename FROM pg_tables WHERE schemaname = 'callboard' LOOP
        EXECUTE format('ALTER TABLE callboard.%I SET (autovacuum_enabled = off)', _name);
    END LOOP;
END $$
"""
_FILL_THE_REST = """
INSERT INTO callboard.actor
SELECT {shard}, '/desk/agent:' || g, 'agent', 1, 1, 'active', '', '', 1, 0, 0, 0, ''
FROM generate_series(1000, {rows} + 1000) g;
INSERT INTO callboard.timer
SELECT {shard}, '/desk/agent:' || g, 'k', 1, now() + interval '1 hour', 't', 1, '{{}}', 2, 0
FROM generate_series(1000, {rows} + 1000) g;
INSERT INTO callboard.journal
SELECT {shard}, '/desk/agent:' || g % 100, g, 't', '{{}}', now() - ({rows} - g) * interval '1 ms', 1
FROM generate_series(1000, {rows} + 1000) g;
INSERT INTO callboard.turn
SELECT {shard}, g, '/desk/agent:' || g % 100, '', 't', 2, 1, g, 'done', 0, 1, 1, 1, now()
FROM generate_series(1000, {rows} + 1000) g;
INSERT INTO callboard.client_send
SELECT '/desk/agent:1', g::text, sha256('x'), now() FROM generate_series(1, {rows}) g;
INSERT INTO callboard.audit (at, who, label, action, object, before, after, note)
SELECT now(), 'ann', '', 'tell', '/r:' || g, '', '', '' FROM generate_series(1, {rows}) g;
INSERT INTO callboard.answer
SELECT 'ann', g::text, sha256('x'), 200, '', now() FROM generate_series(1, {rows}) g;
INSERT INTO callboard.decision (
    id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by, requested_at,
    expires_seconds, decided_by, note)
SELECT 'x' || g, '/r:' || g, '', 0, '', 'approval', '', '{{}}', '', '', 'denied', '', now(), 0, '', ''
FROM generate_series(1, {rows}) g;
"""

Statement = Callable[[], Awaitable[object]]


def commits(node: PostgresSession, agent: str) -> dict[str, Statement]:
    """One of everything that a batch can write, in an order in which each finds what it needs."""
    first, second, kept, dropped, gone = (message(agent, shard=SHARD) for _ in range(5))
    name = f"d{next_id()}"
    row = actor(agent)
    row.shard = SHARD

    def own(seq: int) -> EventRow:
        return EventRow(SHARD, agent, seq, "noted", "{}")

    def own_timer(key: str) -> Timer:
        row = timer(key, address=agent)
        row.shard = SHARD
        return row

    async def write(expected: int | None = None, **rows: Any) -> None:
        if expected is None:
            units = [work(**rows)]
        else:
            units = [unit(agent, expected=expected, **rows)]
            units[0].shard = SHARD
            assert units[0].actor is not None
            units[0].actor.shard = SHARD
        assert (await node.commit(units)).rejected == {}

    async def misfit() -> None:
        stale = unit(agent, expected=77, moves=[Move("x1", "pending", "expired")])
        assert set((await node.commit([stale, work(acks=[1, 2]), work(fires=[Fire(agent, "no", 1)])])).rejected) == {
            0,
            1,
            2,
        }

    return {
        "create": lambda: write(0, sends=[first, second], events=[own(1)]),
        "hold": lambda: write(1, holds=[kept, dropped], decisions=[decision(name)]),
        "set timers": lambda: write(2, timers=[own_timer("a"), own_timer("b")]),
        "handle": lambda: write(3, acks=[first.id], turns=[turn(first, 4)], events=[own(2)], timers_cancelled=["b"]),
        "retry": lambda: write(retries=[Retry(second.id, 0.0, 1, 1, "it broke")]),
        "fire": lambda: write(fires=[Fire(agent, "a", 1)], sends=[gone]),
        "release": lambda: write(releases=[kept.id], drops=[dropped.id], moves=[Move(name, "pending", "superseded")]),
        "stash": lambda: write(4, stashes=[second.id], turns=[turn(second, 5, "stashed")]),
        "unstash": lambda: write(5, unstash=True),
        "withdraw": lambda: write(withdraws=[kept.id]),
        "give up": lambda: write(6, acks=[second.id], dead=[dead(second)]),
        "misfit": misfit,
    }


def reads(node: PostgresSession, store: PostgresStore, agent: str) -> dict[str, Statement]:
    return {
        "ready": lambda: node.ready([SHARD], per_actor=8, limit=16),
        "mailbox": lambda: waiting(node, "/desk/agent:full", 8),
        "backlog": lambda: node.backlog(SHARD, "/desk/agent:full", limit=8),
        "full": node.full,
        "load": lambda: node.load([(SHARD, agent), (SHARD, "/desk/agent:2000")]),
        "due": lambda: node.due([SHARD], within_seconds=1, limit=8),
        "send": lambda: store.send([message(agent)], [str(next_id())]),
        "journal": lambda: store.journal("/desk/agent:7", limit=8),
        "actor": lambda: store.actor("/desk/agent:2000"),
        "actors": lambda: store.actors(kind="agent", prefix="/desk/agent:77", limit=8),
        "all actors": lambda: store.actors(limit=8, after="/desk/agent:5"),
        "decision": lambda: store.decision("x5"),
        "decisions": lambda: store.decisions(status="pending", limit=8),
        "decisions of a run": lambda: store.decisions(run="/r:7", limit=8),
        "dead letters": lambda: store.dead_letters(limit=8),
        "open dead letters": lambda: store.dead_letters(limit=8, open_only=True),
        "dead letters of one": lambda: store.dead_letters(recipient=agent, limit=8),
        "audit": lambda: store.audit(limit=8),
        "audit of one": lambda: store.audit(object="/r:77", limit=8),
        "feed": lambda: store.feed("", limit=8),
        "feed now": lambda: store.feed(None),
        "token": lambda: store.token(b"t" * 32),
        "answer": lambda: store.begin_answer("ann", str(next_id()), b"r" * 32),
        "client id": lambda: store.client_id(agent, 7),
    }


async def pages_of(
    node: PostgresSession, store: PostgresStore, look: Look, statements: dict[str, Statement]
) -> dict[str, int]:
    """Pages touched by each statement. The sessions report what they did when they are told to."""
    found: dict[str, int] = {}
    # Else what vacuuming has touched would be told of at any time later.
    await look("SELECT pg_stat_force_next_flush()")
    before = await _touched(node, store, look)
    for name, run in statements.items():
        await run()
        after = await _touched(node, store, look)
        found[name], before = after - before, after
    return found


async def _touched(node: PostgresSession, store: PostgresStore, look: Look) -> int:
    flush = "SELECT pg_stat_force_next_flush()"
    for purpose in ("commit", "read"):
        await node._links[purpose]._connection.execute(flush)
    assert store._pool is not None
    async with store._pool.connection() as connection:
        await connection.execute(flush)
    [(pages,)] = await look(
        "SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0)) "
        "FROM pg_statio_user_tables WHERE schemaname = 'callboard'"
    )
    return int(pages)


async def test_g10_a_statement_costs_the_same_on_full_tables_as_on_empty_ones(
    made: str, port: RealPort, look: Look
) -> None:
    [(number,)] = await look("SELECT current_setting('server_version_num')::integer")
    if number < 150_000:
        pytest.skip("this server does not tell its statistics on demand")
    await look("VACUUM ANALYZE")
    await look(_NO_AUTOVACUUM)
    async with PostgresStore(made, sessions=1) as store, store.join(NodeInfo(boot="b"), port) as node:
        for agent in ("/desk/agent:1", "/desk/agent:2"):
            for statement in (commits(node, agent) | reads(node, store, agent)).values():
                await statement()
        await look((_FILL_MESSAGES + _FILL_THE_REST).format(shard=SHARD, rows=ROWS))
        for agent in ("/desk/agent:301", "/desk/agent:302"):
            pages = await pages_of(node, store, look, commits(node, agent) | reads(node, store, agent))
            assert {name: count for name, count in pages.items() if count > PAGES} == {}


async def test_s5_a_million_waiting_messages_do_not_slow_down_reading(
    store: PostgresStore, port: RealPort, look: Look
) -> None:
    async with store.join(NodeInfo(boot="b"), port) as node:
        await look(_FILL_MESSAGES.format(shard=SHARD, rows=ROWS))

        async def quick() -> bool:
            started = port.monotonic()
            found, _ = await node.ready(range(256), per_actor=64, limit=1000)
            assert len(found) == 64
            return port.monotonic() - started < 0.05

        await until(quick)
