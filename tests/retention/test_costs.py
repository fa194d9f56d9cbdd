"""G10 of retention: a page and a batch cost what they have, and not what there is: the server counts pages touched."""

from collections.abc import Awaitable, Callable

import pytest

from callboard.persistence.operating import AuditEntry
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.retention import OLD_KINDS
from tests.postgres.conftest import Look
from tests.postgres.conftest import look as look  # noqa: PLC0414 - a fixture
from tests.postgres.test_plans import _NO_AUTOVACUUM
from tests.postgres.test_window_costs import _touched

pytestmark = pytest.mark.anyio

FEW, MANY = 2_000, 40_000
LIMIT = 50
ENTRY = AuditEntry("ann", "prune", "retention")

_FILL = """
INSERT INTO callboard.actor (shard, address, kind, version, incarnation, status, reason, state, state_version, last_id,
    sent, events, summary, created_at)
SELECT g % 256, '/desk/agent:' || lpad(g::text, 9, '0'), 'run', 3, 1,
    CASE WHEN g % 3 = 0 THEN 'parked' ELSE 'completed' END, 'x', repeat('x', 300)::bytea, 1, 0, 0, 3, '',
    timestamptz '2020-01-01' + g * interval '1 ms'
FROM generate_series({since}, {until}) g;
INSERT INTO callboard.message
SELECT 300, g, '/desk/office', '/desk/agent:' || g, 2, 'note', 1, '{{}}', 0, 0, 0, now(), '', '', 0, 0, false, 0, false,
    now()
FROM generate_series({since}, {until}) g;
INSERT INTO callboard.turn
SELECT g % 256, g * 4 + v, CASE v WHEN 0 THEN '/sys/tool' ELSE '/desk/agent:' || lpad(g::text, 9, '0') END,
    CASE v WHEN 0 THEN '/desk/agent:' || lpad(g::text, 9, '0') ELSE '' END, 't', 2, 1, v, 'done', 0, 1, 1, 1,
    timestamptz '2020-01-01'
FROM generate_series({since}, {until}) g, generate_series(0, 3) v;
INSERT INTO callboard.journal
SELECT g % 256, '/desk/agent:' || lpad(g::text, 9, '0'), v, 'noted', '{{}}', timestamptz '2020-01-01', 1
FROM generate_series({since}, {until}) g, generate_series(1, 3) v;
INSERT INTO callboard.decision (
    id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by, requested_at,
    expires_seconds, decided_by, note)
SELECT 'x' || g, '/desk/office', '', 0, '', 'approval', '', '{{}}', '', '', 'denied', '',
    timestamptz '2020-01-01', 0, '', ''
FROM generate_series({since}, {until}) g;
INSERT INTO callboard.dead_letter (shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries,
    failures, last_error, reply_to, correlation, causation, started, sent_by_node, reason, detail, at, settled,
    settled_at)
SELECT 1, g, '/desk/office', '/desk/agent:' || g, 2, 't', 1, '{{}}', 0, 1, 1, '', '', 0, 0, false, 0, 'failed', '',
    timestamptz '2020-01-01', CASE WHEN g % 2 = 0 THEN 'discarded' ELSE '' END,
    CASE WHEN g % 2 = 0 THEN timestamptz '2020-01-01' END
FROM generate_series({since}, {until}) g;
INSERT INTO callboard.client_send SELECT '/desk/agent:' || g, 'c', repeat('x', 32)::bytea,
    timestamptz '2020-01-01' + g * interval '1 ms', g
FROM generate_series({since}, {until}) g;
INSERT INTO callboard.audit (at, who, label, action, object, before, after, note)
SELECT timestamptz '2020-01-01', 'ann', '', 'submit', '/desk/agent:' || g, '', '', ''
FROM generate_series({since}, {until}) g;
"""
Statement = Callable[[], Awaitable[object]]


async def pages_of(store: PostgresStore, look: Look) -> dict[str, int]:
    """Pages that each look, and each removal of what it found, touches."""
    before = await store.now()
    found: dict[str, int] = {}
    await look("SELECT pg_stat_force_next_flush()")
    for kind in OLD_KINDS:
        # Of runs the first kinds of actors are passed over one by one.
        page = await store.old(kind, before=before, limit=LIMIT)
        while not page.items and not page.end:
            page = await store.old(kind, before=before, after=page.after, limit=LIMIT)
        for records in (False, True):
            counted = await _touched(store, look)
            again = await store.old(kind, before=before, limit=LIMIT, records=records)
            found[f"look at {kind}{', with records' if records else ''}"] = await _touched(store, look) - counted
            assert len(again.items) <= LIMIT
        counted = await _touched(store, look)
        await store.remove_old(kind, [item.key for item in page.items[:10]], before=before, entry=ENTRY)
        found[f"remove {kind}"] = await _touched(store, look) - counted
    return found


async def test_g10_retention_costs_the_same_among_much_as_among_little(made: str, look: Look) -> None:
    [(number,)] = await look("SELECT current_setting('server_version_num')::integer")
    if number < 150_000:
        pytest.skip("this server does not tell its statistics on demand")
    await look(_NO_AUTOVACUUM)
    async with PostgresStore(made, sessions=1) as store:
        await look(_FILL.format(since=1, until=FEW))
        await look("VACUUM ANALYZE")
        await pages_of(store, look)
        few = await pages_of(store, look)
        await look(_FILL.format(since=FEW + 1, until=MANY))
        await look("VACUUM ANALYZE")
        many = await pages_of(store, look)
    grown = {name: (few[name], pages) for name, pages in many.items() if pages > 2 * few[name] + 100}
    assert grown == {}
    assert few["look at runs"] > 100 and few["remove runs"] > 100, "something was counted"
