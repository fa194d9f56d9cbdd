-- What everybody may ask, node or not. Columns come in the order of the fields of the row classes.

-- name: now
-- plan: kept
SELECT callboard.seconds(callboard.clock())

-- name: lease_number
-- plan: kept
SELECT callboard.lease_number(%(holder)s, %(seconds)s)

-- name: accept_messages
-- plan: kept
SELECT callboard.accept_messages(%(messages)s, %(client_ids)s, %(digests)s, %(mailbox_limit)s, %(audits)s::jsonb)

-- name: receive
-- plan: kept
-- What was taken leaves its row, like all that was handled: without it an answer that was taken and one that was lost
-- would look the same.
WITH taken AS (
    DELETE FROM callboard.message WHERE shard = %(shard)s AND recipient = ANY (%(addresses)s) AND NOT held RETURNING *
), noted AS (
    INSERT INTO callboard.turn (
        shard, id, recipient, sender, type, lane, sender_seq, version, outcome, causation, deliveries, node, epoch, at
    )
    SELECT
        shard, id, recipient, sender, type, lane, sender_seq, 0, 'done', causation, deliveries, 0, 0,
        (SELECT callboard.clock())
    FROM taken
)
SELECT
    m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries, m.failures,
    greatest(callboard.seconds(m.due_at) - callboard.seconds(callboard.clock()), 0.0), m.last_error, m.reply_to,
    m.correlation, m.causation, m.started, m.sent_by_node, m.headers, m.losses, m.timeouts,
    CASE WHEN m.failing_since IS NULL THEN 0.0
        ELSE greatest(callboard.seconds(callboard.clock()) - callboard.seconds(m.failing_since), 0.0) END
FROM taken m ORDER BY m.lane, m.id

-- name: journal
-- plan: kept
SELECT shard, address, seq, type, body, callboard.seconds(at), node
FROM callboard.journal
WHERE shard = %(shard)s AND address = %(address)s AND seq > %(after)s
ORDER BY shard, address, seq LIMIT %(limit)s

-- name: actors
-- One walk over the index for each kind, so that a page costs a page whatever is asked for.
WITH RECURSIVE kinds(kind) AS (
    SELECT coalesce(
        nullif(%(kind)s, '') COLLATE "C", (SELECT f.kind FROM callboard.actor f WHERE f.kind <> '' ORDER BY f.kind, f.address LIMIT 1))
    UNION ALL
    SELECT (SELECT f.kind FROM callboard.actor f WHERE f.kind > kinds.kind AND f.kind <> '' ORDER BY f.kind, f.address LIMIT 1)
    FROM kinds WHERE kinds.kind IS NOT NULL AND %(kind)s = ''
)
SELECT
    a.shard, a.address, a.kind, a.version, a.incarnation, a.status, a.reason, a.state, a.state_version, a.last_id,
    a.sent, a.events, a.summary, a.bonds
FROM kinds
CROSS JOIN LATERAL (
    SELECT * FROM callboard.actor l
    WHERE l.kind = kinds.kind AND l.kind <> '' AND l.address > %(after)s AND l.address >= %(prefix)s
        AND l.address < %(prefix)s || chr(1114111)
    ORDER BY l.kind, l.address LIMIT %(limit)s
) a
ORDER BY a.address, a.shard LIMIT %(limit)s

-- name: turns
-- A worker's rows are in the shards of those who called it: all are looked at, by one step into the index each.
SELECT
    t.shard, t.id, t.recipient, t.sender, t.type, t.lane, t.sender_seq, t.version, t.outcome, t.causation,
    t.deliveries, t.node, t.epoch, callboard.seconds(t.at)
FROM generate_series(0, 256) AS s(shard)
CROSS JOIN LATERAL (
    SELECT * FROM callboard.turn r
    WHERE r.shard = s.shard AND r.recipient = %(address)s
    ORDER BY r.shard, r.recipient, r.version, r.id LIMIT %(limit)s
) t
ORDER BY t.version, t.at, t.id LIMIT %(limit)s

-- name: peek
SELECT
    m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries, m.failures,
    greatest(callboard.seconds(m.due_at) - callboard.seconds(callboard.clock()), 0.0), m.last_error, m.reply_to,
    m.correlation, m.causation, m.started, m.sent_by_node, m.headers, m.losses, m.timeouts,
    CASE WHEN m.failing_since IS NULL THEN 0.0
        ELSE greatest(callboard.seconds(callboard.clock()) - callboard.seconds(m.failing_since), 0.0) END,
    CASE
        WHEN m.held AND EXISTS (
            SELECT 1 FROM callboard.actor a WHERE a.shard = m.shard AND a.address = m.recipient) THEN 'stashed'
        WHEN m.held THEN 'held' WHEN m.due_at <= callboard.clock() THEN 'ready'
        WHEN m.failures > 0 OR m.last_error <> '' OR m.failing_since IS NOT NULL THEN 'retrying' ELSE 'scheduled' END,
    callboard.seconds(m.sent_at)
FROM generate_series(0, 256) AS s(shard)
CROSS JOIN LATERAL (
    (SELECT * FROM callboard.message r
     WHERE r.shard = s.shard AND r.recipient = %(address)s AND NOT r.held
     ORDER BY r.shard, r.recipient, r.lane, r.id LIMIT %(limit)s)
    UNION ALL
    (SELECT * FROM callboard.message h
     WHERE h.shard = s.shard AND h.recipient = %(address)s AND h.held
     ORDER BY h.shard, h.recipient, h.lane, h.id LIMIT %(limit)s)
) m
ORDER BY m.lane, m.id, m.shard LIMIT %(limit)s

-- name: waiting
-- No index on the type: it would cost every message for the sake of a list. The walk is bounded instead.
SELECT
    m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries, m.failures,
    greatest(callboard.seconds(m.due_at) - callboard.seconds(callboard.clock()), 0.0), m.last_error, m.reply_to,
    m.correlation, m.causation, m.started, m.sent_by_node, m.headers, m.losses, m.timeouts,
    CASE WHEN m.failing_since IS NULL THEN 0.0
        ELSE greatest(callboard.seconds(callboard.clock()) - callboard.seconds(m.failing_since), 0.0) END,
    CASE WHEN m.due_at <= callboard.clock() THEN 'ready'
        WHEN m.failures > 0 OR m.last_error <> '' OR m.failing_since IS NOT NULL THEN 'retrying' ELSE 'scheduled' END,
    callboard.seconds(m.sent_at)
FROM (SELECT * FROM callboard.message ORDER BY shard, id LIMIT 100000) m
WHERE m.type = %(type)s AND NOT m.held ORDER BY m.shard, m.id LIMIT %(limit)s

-- name: calls
-- A walk over one shard, bounded like the one above.
SELECT
    m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries, m.failures,
    greatest(callboard.seconds(m.due_at) - callboard.seconds(callboard.clock()), 0.0), m.last_error, m.reply_to,
    m.correlation, m.causation, m.started, m.sent_by_node, m.headers, m.losses, m.timeouts,
    CASE WHEN m.failing_since IS NULL THEN 0.0
        ELSE greatest(callboard.seconds(callboard.clock()) - callboard.seconds(m.failing_since), 0.0) END,
    CASE WHEN m.held THEN 'held' WHEN m.due_at <= callboard.clock() THEN 'ready'
        WHEN m.failures > 0 OR m.last_error <> '' OR m.failing_since IS NOT NULL THEN 'retrying' ELSE 'scheduled' END,
    callboard.seconds(m.sent_at)
FROM (SELECT * FROM callboard.message WHERE shard = %(shard)s ORDER BY shard, id LIMIT 100000) m
WHERE m.sender = %(address)s AND m.reply_to = %(address)s ORDER BY m.id LIMIT %(limit)s

-- name: timers
SELECT
    t.shard, t.address, t.key, t.generation, callboard.seconds(t.due_at) - callboard.seconds(callboard.clock()),
    t.type, t.version, t.body, t.lane, t.period_seconds
FROM callboard.timer t
WHERE t.shard = %(shard)s AND t.address = %(address)s ORDER BY t.due_at, t.key LIMIT %(limit)s

-- name: owner
SELECT
    n.number, n.epoch, n.boot, n.status,
    greatest(callboard.seconds(callboard.clock()) - callboard.seconds(coalesce(h.beat_at, n.ended_at)), 0.0),
    (SELECT count(*) FROM callboard.shard o WHERE o.node = n.number), n.label, n.guest,
    n.capabilities, callboard.seconds(n.joined_at)
FROM callboard.shard s
JOIN callboard.node n ON n.number = s.node
LEFT JOIN callboard.heartbeat h ON h.node = n.number
WHERE s.id = %(shard)s

-- name: decision
SELECT
    id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by,
    callboard.seconds(requested_at), expires_seconds, callboard.seconds(expires_at), decided_by,
    callboard.seconds(decided_at), note, callboard.seconds(release_at), policy, risk, needed, not_requester, hold_seconds,
    signatures, provenance, checks, replaces, diff, edited_by, hold_id
FROM callboard.decision WHERE id = %(id)s

-- name: decisions
SELECT
    id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by,
    callboard.seconds(requested_at), expires_seconds, callboard.seconds(expires_at), decided_by,
    callboard.seconds(decided_at), note, callboard.seconds(release_at), policy, risk, needed, not_requester, hold_seconds,
    signatures, provenance, checks, replaces, diff, edited_by, hold_id
FROM callboard.decision
ORDER BY number LIMIT %(limit)s

-- name: decisions_by_status
SELECT
    id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by,
    callboard.seconds(requested_at), expires_seconds, callboard.seconds(expires_at), decided_by,
    callboard.seconds(decided_at), note, callboard.seconds(release_at), policy, risk, needed, not_requester, hold_seconds,
    signatures, provenance, checks, replaces, diff, edited_by, hold_id
FROM callboard.decision
WHERE status = %(status)s ORDER BY status, number LIMIT %(limit)s

-- name: decisions_of_run
SELECT
    id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by,
    callboard.seconds(requested_at), expires_seconds, callboard.seconds(expires_at), decided_by,
    callboard.seconds(decided_at), note, callboard.seconds(release_at), policy, risk, needed, not_requester, hold_seconds,
    signatures, provenance, checks, replaces, diff, edited_by, hold_id
FROM callboard.decision
WHERE run = %(run)s AND (%(status)s = '' OR status = %(status)s) ORDER BY run, number LIMIT %(limit)s

-- name: decide
SELECT
    r.outcome, (r.d).id, (r.d).run, (r.d).call, (r.d).message_id, (r.d).approvals, (r.d).kind, (r.d).tool,
    (r.d).arguments, (r.d).digest, (r.d).reason, (r.d).status, (r.d).requested_by,
    callboard.seconds((r.d).requested_at), (r.d).expires_seconds, callboard.seconds((r.d).expires_at),
    (r.d).decided_by, callboard.seconds((r.d).decided_at), (r.d).note, callboard.seconds((r.d).release_at),
    (r.d).policy, (r.d).risk, (r.d).needed, (r.d).not_requester, (r.d).hold_seconds, (r.d).signatures,
    (r.d).provenance, (r.d).checks, (r.d).replaces, (r.d).diff, (r.d).edited_by, (r.d).hold_id
FROM callboard.decide(
    %(id)s, %(status)s, %(digest)s, %(by)s, %(note)s, %(hold_seconds)s, %(label)s, %(seen)s, %(channel)s, %(host)s,
    %(notice)s::jsonb) AS r

-- name: take_back
SELECT
    r.outcome, (r.d).id, (r.d).run, (r.d).call, (r.d).message_id, (r.d).approvals, (r.d).kind, (r.d).tool,
    (r.d).arguments, (r.d).digest, (r.d).reason, (r.d).status, (r.d).requested_by,
    callboard.seconds((r.d).requested_at), (r.d).expires_seconds, callboard.seconds((r.d).expires_at),
    (r.d).decided_by, callboard.seconds((r.d).decided_at), (r.d).note, callboard.seconds((r.d).release_at),
    (r.d).policy, (r.d).risk, (r.d).needed, (r.d).not_requester, (r.d).hold_seconds, (r.d).signatures,
    (r.d).provenance, (r.d).checks, (r.d).replaces, (r.d).diff, (r.d).edited_by, (r.d).hold_id
FROM callboard.take_back(
    %(id)s, %(hold_id)s, %(by)s, %(note)s, %(label)s, %(channel)s, %(host)s, %(notice)s::jsonb) AS r
