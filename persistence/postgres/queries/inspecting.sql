-- What the inspector asks. Columns come in the order of the fields of the row classes.

-- name: limit_statements
SELECT set_config('statement_timeout', %(limit)s, true)

-- name: mailboxes
SELECT address, shard, depth, ready, scheduled, retrying, held, stashed, oldest_at, failures
FROM callboard.mailboxes(%(prefix)s, %(order)s, %(limit)s)

-- name: message
-- In whatever shard it is, by one step into the index of each.
SELECT
    m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries, m.failures,
    greatest(callboard.seconds(m.due_at) - callboard.seconds(callboard.clock()), 0.0), m.last_error, m.reply_to,
    m.correlation, m.causation, m.started, m.sent_by_node, m.headers, m.losses, m.timeouts,
    CASE WHEN m.failing_since IS NULL THEN 0.0
        ELSE greatest(callboard.seconds(callboard.clock()) - callboard.seconds(m.failing_since), 0.0) END,
    callboard.message_state(m, callboard.clock()), callboard.seconds(m.sent_at)
FROM generate_series(0, 256) AS s(shard)
CROSS JOIN LATERAL (SELECT * FROM callboard.message w WHERE w.shard = s.shard AND w.id = %(id)s OFFSET 0) found
JOIN callboard.message m ON m.shard = found.shard AND m.id = found.id

-- name: search
SELECT
    m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries, m.failures,
    greatest(callboard.seconds(m.due_at) - callboard.seconds(callboard.clock()), 0.0), m.last_error, m.reply_to,
    m.correlation, m.causation, m.started, m.sent_by_node, m.headers, m.losses, m.timeouts,
    CASE WHEN m.failing_since IS NULL THEN 0.0
        ELSE greatest(callboard.seconds(callboard.clock()) - callboard.seconds(m.failing_since), 0.0) END,
    callboard.message_state(m, callboard.clock()), callboard.seconds(m.sent_at)
FROM callboard.search_messages(
    %(text)s, %(type)s, %(recipient)s, %(sender)s, %(state)s, %(causation)s, %(correlation)s, %(client_id)s, %(limit)s) AS m

-- name: client_id
SELECT k.client_id FROM callboard.client_send k WHERE k.recipient = %(recipient)s AND k.message_id = %(id)s LIMIT 1

-- name: turn_of
-- A worker's turns are in the shards of those who called it. The id is in the key: no row is looked at in vain.
SELECT
    t.id, t.type, t.sender, t.recipient, t.outcome, t.causation, callboard.seconds(t.at)
FROM generate_series(0, 256) AS s(shard)
CROSS JOIN LATERAL (
    SELECT * FROM callboard.turn r WHERE r.shard = s.shard AND r.recipient = %(recipient)s AND r.id = %(id)s OFFSET 0
) t
ORDER BY t.at DESC, t.version DESC LIMIT 1

-- name: turns_between
SELECT
    t.id, t.type, t.sender, t.recipient, t.outcome, t.causation, callboard.seconds(t.at)
FROM callboard.turns_between(
    to_timestamp(%(from)s), to_timestamp(%(until)s), %(id)s, %(causation)s, %(limit)s) AS t

-- name: waiting_causes
SELECT
    m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries, m.failures,
    greatest(callboard.seconds(m.due_at) - callboard.seconds(callboard.clock()), 0.0), m.last_error, m.reply_to,
    m.correlation, m.causation, m.started, m.sent_by_node, m.headers, m.losses, m.timeouts,
    CASE WHEN m.failing_since IS NULL THEN 0.0
        ELSE greatest(callboard.seconds(callboard.clock()) - callboard.seconds(m.failing_since), 0.0) END,
    callboard.message_state(m, callboard.clock()), callboard.seconds(m.sent_at)
FROM callboard.waiting_causes(%(causation)s, %(from_id)s, %(until_id)s, %(limit)s) AS m

-- name: dead_letters
SELECT
    f.id, f.shard, f.recipient, f.sender, f.lane, f.type, f.version, f.body, f.sender_seq, f.deliveries,
    f.failures, 0.0::float8, f.last_error, f.reply_to, f.correlation, f.causation, f.started, f.sent_by_node,
    f.headers, f.losses, f.timeouts, 0.0::float8, f.reason, f.detail, callboard.seconds(f.at), f.number,
    f.settled, callboard.seconds(f.settled_at), f.settled_by
FROM callboard.dead_letter f WHERE f.number < %(before)s ORDER BY f.number DESC LIMIT %(limit)s

-- name: dead_letters_open
SELECT
    f.id, f.shard, f.recipient, f.sender, f.lane, f.type, f.version, f.body, f.sender_seq, f.deliveries,
    f.failures, 0.0::float8, f.last_error, f.reply_to, f.correlation, f.causation, f.started, f.sent_by_node,
    f.headers, f.losses, f.timeouts, 0.0::float8, f.reason, f.detail, callboard.seconds(f.at), f.number,
    f.settled, callboard.seconds(f.settled_at), f.settled_by
FROM callboard.dead_letter f WHERE f.settled = '' AND f.number < %(before)s ORDER BY f.number DESC LIMIT %(limit)s

-- name: dead_letters_of
SELECT
    f.id, f.shard, f.recipient, f.sender, f.lane, f.type, f.version, f.body, f.sender_seq, f.deliveries,
    f.failures, 0.0::float8, f.last_error, f.reply_to, f.correlation, f.causation, f.started, f.sent_by_node,
    f.headers, f.losses, f.timeouts, 0.0::float8, f.reason, f.detail, callboard.seconds(f.at), f.number,
    f.settled, callboard.seconds(f.settled_at), f.settled_by
FROM callboard.dead_letter f
WHERE f.recipient = %(recipient)s AND f.number < %(before)s AND (NOT %(open_only)s OR f.settled = '')
ORDER BY f.recipient, f.number DESC LIMIT %(limit)s

-- name: dead_letter
SELECT
    f.id, f.shard, f.recipient, f.sender, f.lane, f.type, f.version, f.body, f.sender_seq, f.deliveries,
    f.failures, 0.0::float8, f.last_error, f.reply_to, f.correlation, f.causation, f.started, f.sent_by_node,
    f.headers, f.losses, f.timeouts, 0.0::float8, f.reason, f.detail, callboard.seconds(f.at), f.number,
    f.settled, callboard.seconds(f.settled_at), f.settled_by
FROM callboard.dead_letter f WHERE f.number = %(number)s

-- name: settle
SELECT
    r.outcome,
    (r.d).id, (r.d).shard, (r.d).recipient, (r.d).sender, (r.d).lane, (r.d).type, (r.d).version, (r.d).body, (r.d).sender_seq, (r.d).deliveries,
    (r.d).failures, 0.0::float8, (r.d).last_error, (r.d).reply_to, (r.d).correlation, (r.d).causation, (r.d).started, (r.d).sent_by_node,
    (r.d).headers, (r.d).losses, (r.d).timeouts, 0.0::float8, (r.d).reason, (r.d).detail, callboard.seconds((r.d).at), (r.d).number,
    (r.d).settled, callboard.seconds((r.d).settled_at), (r.d).settled_by
FROM callboard.settle(
    %(number)s, %(how)s, %(who)s, %(message)s::jsonb, %(mailbox_limit)s, %(audits)s::jsonb) AS r

-- name: census
SELECT
    at, actors::text, messages::text, depths::text, oldest_ready, dead, pending, approved, oldest_pending, next_expiry,
    unowned, schema_version, server_version
FROM callboard.census()

-- name: handled
-- An actor's versions only rise: its newest turns are the last of its part of the key.
SELECT t.id, callboard.seconds(t.at)
FROM (
    SELECT r.id, r.at, r.outcome FROM callboard.turn r
    WHERE r.shard = %(shard)s AND r.recipient = %(address)s
    ORDER BY r.shard DESC, r.recipient DESC, r.version DESC, r.id DESC LIMIT %(limit)s
) t
WHERE t.at >= callboard.clock() - make_interval(secs => %(seconds)s) AND t.outcome <> 'stashed'
