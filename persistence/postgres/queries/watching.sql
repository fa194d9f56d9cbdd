-- What screens watch. Columns come in the order of the fields of the row classes.

-- name: window
SELECT
    g.address, g.kind, g.status, g.reason, g.summary, g.created_at, g.shard, g.bonds, g.turned_at, g.waiting, g.free,
    g.ready, g.oldest_at, g.next_due_at, g.first, g.losses, g.calls, g.served, g.failing, g.pending, g.held, g.dead,
    g.dead_reason, g.dead_recipient
FROM (
    SELECT array_agg(p.shard) AS shards, array_agg(p.address) AS addresses
    FROM callboard.places(
        %(prefix)s, %(kind)s, %(statuses)s, %(after)s, %(before)s, %(back)s, %(without)s, %(limit)s) AS p
) w
CROSS JOIN LATERAL callboard.glances(w.shards, w.addresses) AS g
ORDER BY g.address

-- name: glances
SELECT
    g.address, g.kind, g.status, g.reason, g.summary, g.created_at, g.shard, g.bonds, g.turned_at, g.waiting, g.free,
    g.ready, g.oldest_at, g.next_due_at, g.first, g.losses, g.calls, g.served, g.failing, g.pending, g.held, g.dead,
    g.dead_reason, g.dead_recipient
FROM callboard.glances(%(shards)s::bigint[]::integer[], %(addresses)s) AS g

-- name: pressing
SELECT address FROM callboard.pressing(%(limit)s)

-- name: newest
SELECT a.address, a.kind, a.status, a.reason, a.summary, callboard.seconds(a.created_at)
FROM callboard.actor a
WHERE a.kind = %(kind)s AND a.kind <> ''
    AND (a.created_at, a.address) < (to_timestamp(%(at)s), %(address)s)
ORDER BY a.kind DESC, a.created_at DESC, a.address DESC LIMIT %(limit)s

-- name: oldest
SELECT a.address, a.kind, a.status, a.reason, a.summary, callboard.seconds(a.created_at)
FROM callboard.actor a
WHERE a.kind = %(kind)s AND a.kind <> ''
    AND (a.created_at, a.address) > (to_timestamp(%(at)s), %(address)s)
ORDER BY a.kind, a.created_at, a.address LIMIT %(limit)s

-- name: trends
SELECT t.address, t.depths
FROM callboard.trends(
    %(shards)s::bigint[]::integer[], %(addresses)s, %(seconds)s, %(steps)s, %(turns)s, %(waiting)s) AS t

-- name: asking
-- Decisions are kept for good, so that one which was decided since still says where it stood.
SELECT d.id, hashtextextended(d.checks, 0) # hashtextextended(d.signatures, 1)
FROM callboard.decision d
WHERE d.status = 'pending'
    AND d.number > CASE WHEN %(after)s = '' THEN 0
        ELSE (SELECT a.number FROM callboard.decision a WHERE a.id = %(after)s) END
ORDER BY d.status, d.number LIMIT %(limit)s

-- name: decisions_of
SELECT
    id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by,
    callboard.seconds(requested_at), expires_seconds, callboard.seconds(expires_at), decided_by,
    callboard.seconds(decided_at), note, callboard.seconds(release_at), policy, risk, needed, not_requester, hold_seconds,
    signatures, provenance, checks, replaces, diff, edited_by, hold_id
FROM callboard.decision WHERE id = ANY (%(ids)s)

-- name: tallies
SELECT place, keyed, kind, status, actors, busy FROM callboard.tallies()

-- name: alarms
SELECT at, oldest, to_decide, held, dead, failing, failed, escalated, parked, paused
FROM callboard.alarms(%(shown)s, %(limit)s)
