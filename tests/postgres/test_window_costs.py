"""S20, G10: a window costs what it has, and not what there is: the server counts the pages that were touched.

And S21: what is told of in floods is told of seldom.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.store import NodeInfo
from tests.contract.build import actor, dead, message, turn, unit, work, write
from tests.postgres.conftest import Look, until
from tests.postgres.test_plans import _NO_AUTOVACUUM

pytestmark = pytest.mark.anyio

ROWS = 60_000
FEW = 2_000
SLACK = 2.0
"""So much more a look may touch among so many more rows: an index is a page deeper then."""

_FILL = """
INSERT INTO callboard.actor (shard, address, kind, version, incarnation, status, reason, state, state_version, last_id,
    sent, events, summary, created_at)
SELECT 1, '/desk/agent:' || lpad(g::text, 9, '0'), 'run', 1, 1,
    CASE WHEN g % 3 = 0 THEN 'completed' ELSE 'active' END, '', repeat('x', 300)::bytea, 1, 0, 0, 0, '',
    timestamptz '2026-01-01' + g * interval '1 ms'
FROM generate_series({since}, {until}) g;
INSERT INTO callboard.message
SELECT 1, g, '/desk/agent:' || lpad((g % 10 * 100 + 70)::text, 9, '0'), '', 2, 'note', 1, '{{}}', 0, 0, 0, now(), '',
    '', 0, 0, false, 0, false, now()
FROM generate_series({since}, {until}) g;
INSERT INTO callboard.turn
SELECT 1, g, '/desk/agent:' || lpad((g % 1000)::text, 9, '0'), '', 't', 2, 1, g, 'done', 0, 1, 1, 1, now()
FROM generate_series({since}, {until}) g;
INSERT INTO callboard.decision (
    id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by, requested_at,
    expires_seconds, decided_by, note)
SELECT 'x' || g, '/desk/agent:000000007', '', 0, '', 'approval', '', '{{}}', '', '', 'denied', '', now(), 0, '', ''
FROM generate_series({since}, {until}) g;
INSERT INTO callboard.dead_letter (shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries,
    failures, last_error, reply_to, correlation, causation, started, sent_by_node, reason, detail, at, settled,
    settled_at)
SELECT 1, g, '/desk/agent:000000007', '', 2, 't', 1, '{{}}', 0, 1, 1, '', '', 0, 0, false, 0, 'failed', '', now(),
    'discarded', now()
FROM generate_series({since}, {until}) g;
"""
_ATTENTION = """
UPDATE callboard.actor SET status = 'parked' WHERE address IN ('/desk/agent:000000500', '/desk/agent:000001700');
UPDATE callboard.message SET failing_since = now() WHERE id IN (17, 18);
UPDATE callboard.decision SET status = 'pending' WHERE id = 'x77';
UPDATE callboard.dead_letter SET settled = '', settled_at = NULL WHERE id = 99;
INSERT INTO callboard.dead_letter (shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries,
    failures, last_error, reply_to, correlation, causation, started, sent_by_node, reason, detail, at)
SELECT 1, 0, '/desk/mailer:1', '', 2, 't', 1, '{}', 0, 1, 1, '', '', 0, 0, false, 0, 'failed', '', now();
UPDATE callboard.shard SET node = 1;
INSERT INTO callboard.node VALUES (1, 1, 'b', '', 'up', 3600, false, now(), NULL);
INSERT INTO callboard.heartbeat VALUES (1, 1, now() + interval '1 hour');
"""
Statement = Callable[[], Awaitable[object]]


def looks(store: PostgresStore, near: str, at: float) -> dict[str, Statement]:
    shown = [f"/desk/agent:{number:09}" for number in range(500, 600)]
    return {
        "first window": lambda: store.window(limit=100),
        "window beyond": lambda: store.window(after=near, limit=100),
        "window before": lambda: store.window(before=near, limit=100),
        "last window": lambda: store.window(last=True, limit=100),
        "of a status": lambda: store.window(statuses=["parked"], limit=100),
        "of a kind": lambda: store.window(kind="run", after=near, limit=100),
        "without some": lambda: store.window(after=near, without=shown, limit=100),
        "glances": lambda: store.glances(shown),
        "one that is not there yet": lambda: store.glances(["/desk/mailer:1"]),
        "one with a long past": lambda: store.glances(["/desk/agent:000000007"]),
        "pressing": store.pressing,
        "alarms": store.alarms,
        "newest": lambda: store.newest(kind="run", limit=100),
        "newest beyond": lambda: store.newest(kind="run", after=(at, near), limit=100),
        "oldest": lambda: store.newest(kind="run", last=True, limit=100),
        "trends": lambda: store.trends(shown),
    }


async def pages_of(store: PostgresStore, look: Look, near: str) -> dict[str, int]:
    [(at,)] = await look("SELECT extract(epoch FROM created_at) FROM callboard.actor WHERE address = %s", near)
    found: dict[str, int] = {}
    statements = looks(store, near, float(at))
    for run in statements.values():
        await run()  # whatever a session reads once is read
    # Else what vacuuming has touched would be told of at any time later.
    await look("SELECT pg_stat_force_next_flush()")
    before = await _touched(store, look)
    for name, run in statements.items():
        await run()
        after = await _touched(store, look)
        found[name], before = after - before, after
    return found


async def _touched(store: PostgresStore, look: Look) -> int:
    assert store._pool is not None
    async with store._pool.connection() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
    [(pages,)] = await look(
        "SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0)) "
        "FROM pg_statio_user_tables WHERE schemaname = 'callboard'"
    )
    return int(pages)


async def test_s20_a_look_costs_the_same_among_many_actors_as_among_few(made: str, look: Look) -> None:
    [(number,)] = await look("SELECT current_setting('server_version_num')::integer")
    if number < 150_000:
        pytest.skip("this server does not tell its statistics on demand")
    await look(_NO_AUTOVACUUM)
    async with PostgresStore(made, sessions=1) as store:
        await look(_FILL.format(since=1, until=FEW) + _ATTENTION)
        await look("VACUUM ANALYZE")
        few = await pages_of(store, look, "/desk/agent:000001000")
        await look(_FILL.format(since=FEW + 1, until=ROWS))
        await look("VACUUM ANALYZE")
        many = await pages_of(store, look, "/desk/agent:000001000")
        assert set(await store.pressing()) == {
            "/desk/agent:000000007", "/desk/agent:000000770", "/desk/agent:000000870", "/desk/agent:000000500",
            "/desk/agent:000001700", "/desk/mailer:1",
        }  # fmt: skip
    grown = {name: (few[name], pages) for name, pages in many.items() if pages > few[name] * SLACK + 50}
    assert grown == {}
    assert max(few.values()) > 100, "something was counted"


async def test_s21_a_flood_of_dead_letters_is_told_of_seldom(made: str, store: PostgresStore) -> None:
    port = RealPort()
    async with store.join(NodeInfo(boot="b"), port) as node, store.changes() as ear:
        lost = [message() for _ in range(200)]
        await write(node, work(sends=lost))
        began = port.monotonic()
        for one in lost:
            await write(node, work(acks=[one.id], turns=[turn(one, 0, "dead")], dead=[dead(one)]))
        took_seconds = port.monotonic() - began
        heard: list[Any] = []
        while (said := await ear.next(0.5 if heard else 60.0, port)) is not None:
            heard.append(said)
        told = sum(said.startswith("dead ") for said in heard)
        assert 1 <= told <= took_seconds / 0.05 + 2, "a notification makes commits wait for each other"


async def test_s21_an_update_of_an_actor_that_changes_no_status_touches_no_index(
    made: str, store: PostgresStore, look: Look
) -> None:
    """Updates of each turn stay HOT, whatever is indexed for those who look."""
    await look(_NO_AUTOVACUUM)
    async with store.join(NodeInfo(boot="b"), RealPort()) as node:
        await write(node, unit())
        for version in range(1, 6):
            one = unit(expected=version)
            assert one.actor is not None
            one.actor = actor(version=version + 1, state=b"x" * version, summary=f'{{"step":{version}}}')
            await write(node, one)
    counts: list[tuple[Any, ...]] = []

    async def counted() -> bool:  # a session reports what it did when it ends
        counts[:] = await look("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'actor'")
        return bool(counts[0][0] == 5)

    await until(counted)
    assert counts == [(5, 5)]
