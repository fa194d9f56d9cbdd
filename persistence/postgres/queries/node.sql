-- What a node's session asks. Messages come in the order of the fields of Envelope, timers and actors likewise. All of
-- them keep their plans: to make those anew cost a node three times as much as to run them.

-- name: join_node
-- plan: kept
SELECT number, epoch FROM callboard.join_node(%(boot)s, %(label)s, %(lease_seconds)s, %(guest)s, %(capabilities)s)

-- name: name_session
-- plan: kept
SELECT set_config('application_name', %(name)s, false)

-- name: hold_lock
-- plan: kept
SELECT pg_advisory_lock_shared(callboard.lock_class(), %(number)s)

-- name: try_hold_lock
-- plan: kept
-- False while somebody waits for the lock exclusively: the heart tries again with its next beat.
SELECT pg_try_advisory_lock_shared(callboard.lock_class(), %(number)s)

-- name: lock_held
-- plan: kept
SELECT callboard.lock_held(%(number)s)

-- name: await_lock
-- plan: kept
SELECT callboard.await_lock(%(number)s, %(milliseconds)s)

-- name: beat
-- plan: kept
UPDATE callboard.heartbeat SET beat_at = callboard.clock() WHERE node = %(node)s AND epoch = %(epoch)s

-- name: is_current
-- plan: kept
SELECT 1 FROM callboard.node
WHERE number = %(node)s AND epoch = %(epoch)s AND status IN ('up', 'draining')

-- name: owned
-- plan: kept
SELECT s.id FROM callboard.shard s
JOIN callboard.node n ON n.number = s.node
WHERE n.number = %(node)s AND n.epoch = %(epoch)s

-- name: claim
-- plan: kept
SELECT callboard.claim_shards(%(node)s, %(epoch)s, %(shards)s)

-- name: give
-- plan: kept
SELECT callboard.give_shards(%(node)s, %(epoch)s, %(shards)s, %(to)s)

-- name: members
-- plan: kept
SELECT
    n.number, n.epoch, n.boot, n.status,
    greatest(callboard.seconds(callboard.clock()) - callboard.seconds(coalesce(h.beat_at, n.ended_at)), 0.0),
    (SELECT count(*) FROM callboard.shard s WHERE s.node = n.number), n.label, n.guest,
    n.capabilities, callboard.seconds(n.joined_at)
FROM callboard.node n
LEFT JOIN callboard.heartbeat h ON h.node = n.number
WHERE n.status IN ('up', 'draining') OR EXISTS (SELECT 1 FROM callboard.shard s WHERE s.node = n.number)
ORDER BY n.number

-- name: take_over
-- plan: kept
SELECT callboard.take_over(%(me)s, %(my_epoch)s, %(number)s, %(epoch)s, %(by)s)

-- name: drain_node
-- plan: kept
SELECT callboard.drain_node(%(node)s, %(epoch)s)

-- name: leave_node
-- plan: kept
SELECT callboard.leave_node(%(node)s, %(epoch)s)

-- name: wake_owners
-- plan: kept
SELECT callboard.wake_owners(%(shards)s, %(recipients)s, %(but)s)

-- name: ready
-- plan: kept
-- For each shard, jump from recipient to recipient over the index and take the head of each mailbox: the cost is that
-- of what is returned, however much waits. LIMIT ends the jumping, so nothing here may sort.
SELECT
    m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries, m.failures,
    greatest(callboard.seconds(m.due_at) - callboard.seconds(callboard.clock()), 0.0), m.last_error, m.reply_to,
    m.correlation, m.causation, m.started, m.sent_by_node, m.headers, m.losses, m.timeouts,
    CASE WHEN m.failing_since IS NULL THEN 0.0
        ELSE greatest(callboard.seconds(callboard.clock()) - callboard.seconds(m.failing_since), 0.0) END
FROM unnest(%(shards)s::bigint[]) AS s(shard)
CROSS JOIN LATERAL (
    WITH RECURSIVE found(recipient) AS (
        (SELECT f.recipient FROM callboard.message f
         WHERE f.shard = s.shard AND NOT f.held
            AND f.recipient > CASE WHEN s.shard = %(first_shard)s THEN %(beyond)s ELSE '' END
         ORDER BY f.shard, f.recipient LIMIT 1)
        UNION ALL
        SELECT (
            SELECT f.recipient FROM callboard.message f
            WHERE f.shard = s.shard AND NOT f.held AND f.recipient > found.recipient
            ORDER BY f.shard, f.recipient LIMIT 1)
        FROM found WHERE found.recipient IS NOT NULL
    )
    SELECT recipient FROM found WHERE recipient IS NOT NULL
) box
CROSS JOIN LATERAL (
    -- OFFSET 0: once for each mailbox, not once for each of its messages.
    SELECT CASE WHEN NOT %(standing)s AND EXISTS (
        SELECT 1 FROM callboard.actor a
        WHERE a.shard = s.shard AND a.address = box.recipient
            AND a.status IN ('parked', 'paused', 'stopped', 'escalated') AND NOT starts_with(a.reason, 'schema:')
    ) THEN 1 ELSE 3 END AS lanes
    OFFSET 0
) takes
CROSS JOIN LATERAL (
    SELECT * FROM callboard.message w
    WHERE w.shard = s.shard AND w.recipient = box.recipient AND w.lane < takes.lanes AND NOT w.held
    ORDER BY w.shard, w.recipient, w.lane, w.id LIMIT %(per_actor)s
) m
LIMIT %(limit)s

-- name: mailbox
-- plan: kept
SELECT
    m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries, m.failures,
    greatest(callboard.seconds(m.due_at) - callboard.seconds(callboard.clock()), 0.0), m.last_error, m.reply_to,
    m.correlation, m.causation, m.started, m.sent_by_node, m.headers, m.losses, m.timeouts,
    CASE WHEN m.failing_since IS NULL THEN 0.0
        ELSE greatest(callboard.seconds(callboard.clock()) - callboard.seconds(m.failing_since), 0.0) END
FROM callboard.message m
WHERE m.shard = %(shard)s AND m.recipient = %(address)s AND NOT m.held
ORDER BY m.shard, m.recipient, m.lane, m.id LIMIT %(limit)s

-- name: backlog
-- plan: kept
SELECT least(count(*), %(limit)s) FROM (
    (SELECT 1 FROM callboard.message m
     WHERE m.shard = %(shard)s AND m.recipient = %(address)s AND NOT m.held LIMIT %(limit)s)
    UNION ALL
    (SELECT 1 FROM callboard.message m
     WHERE m.shard = %(shard)s AND m.recipient = %(address)s AND m.held LIMIT %(limit)s)
) counted

-- name: publish_full
-- plan: kept
SELECT callboard.publish_full(
    %(node)s, %(epoch)s, %(full_shards)s, %(full)s, %(room_shards)s, %(room)s)

-- name: full
-- plan: kept
SELECT f.address FROM callboard.full_mailbox f

-- name: load
-- plan: kept
SELECT
    a.shard, a.address, a.kind, a.version, a.incarnation, a.status, a.reason, a.state, a.state_version, a.last_id,
    a.sent, a.events, a.summary, a.bonds
FROM unnest(%(shards)s::bigint[], %(addresses)s::text[]) AS wanted(shard, address)
JOIN callboard.actor a ON a.shard = wanted.shard AND a.address = wanted.address

-- name: due
-- plan: kept
-- The soonest of each shard, then the soonest of these. Where a shard had more than `per_shard`, only what is no later
-- than its last one is certain to be in order: the rest is left to another call. The last column tells that.
WITH heads AS (
    SELECT t.*
    FROM unnest(%(shards)s::bigint[]) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT * FROM callboard.timer d
        WHERE d.shard = s.shard
            AND d.due_at <= (SELECT callboard.clock()) + make_interval(secs => %(within_seconds)s)
        ORDER BY d.shard, d.due_at LIMIT %(per_shard)s
    ) t
), cut AS (
    SELECT min(full_shard.last) AS at
    FROM (SELECT max(due_at) AS last FROM heads GROUP BY shard HAVING count(*) >= %(per_shard)s) full_shard
)
SELECT
    t.shard, t.address, t.key, t.generation, callboard.seconds(t.due_at) - callboard.seconds(callboard.clock()),
    t.type, t.version, t.body, t.lane, t.period_seconds, cut.at IS NOT NULL
FROM heads t CROSS JOIN cut
WHERE cut.at IS NULL OR t.due_at <= cut.at
ORDER BY t.due_at, t.shard, t.address, t.key LIMIT %(limit)s
