-- What operators read and leave behind. Columns come in the order of the fields of the row classes.

-- name: note
SELECT callboard.write_audit(%(audits)s::jsonb, callboard.clock())

-- name: audit
SELECT number, callboard.seconds(at), who, label, channel, host, action, object, before, after, note
FROM (
    SELECT * FROM callboard.audit a WHERE %(before)s = 0 OR a.number < %(before)s ORDER BY a.number DESC LIMIT 100000
) recent
WHERE (%(who)s = '' OR who = %(who)s) AND (%(action)s = '' OR action = %(action)s)
ORDER BY number DESC LIMIT %(limit)s

-- name: audit_of
SELECT number, callboard.seconds(at), who, label, channel, host, action, object, before, after, note
FROM callboard.audit
WHERE object >= %(object)s AND object < %(object)s || chr(1114111)
    AND (%(before)s = 0 OR number < %(before)s)
    AND (%(who)s = '' OR who = %(who)s) AND (%(action)s = '' OR action = %(action)s)
ORDER BY number DESC LIMIT %(limit)s

-- name: add_token
SELECT callboard.add_token(
    %(name)s, %(secret_hash)s, %(principal)s, %(scopes)s, %(created_by)s, %(expires_at)s, %(audits)s::jsonb)

-- name: token
SELECT
    name, principal, scopes, callboard.seconds(created_at), created_by, callboard.seconds(expires_at),
    callboard.seconds(last_used_at), callboard.seconds(revoked_at)
FROM callboard.use_token(%(secret_hash)s)

-- name: tokens
SELECT
    name, principal, scopes, callboard.seconds(created_at), created_by, callboard.seconds(expires_at),
    callboard.seconds(last_used_at), callboard.seconds(revoked_at)
FROM callboard.token ORDER BY name

-- name: revoke_token
SELECT
    name, principal, scopes, callboard.seconds(created_at), created_by, callboard.seconds(expires_at),
    callboard.seconds(last_used_at), callboard.seconds(revoked_at)
FROM callboard.revoke_token(%(name)s, %(audits)s::jsonb)

-- name: begin_answer
SELECT status, body FROM callboard.begin_answer(%(principal)s, %(key)s, %(request)s)

-- name: keep_answer
UPDATE callboard.answer SET status = %(status)s, body = %(body)s, at = callboard.clock()
WHERE principal = %(principal)s AND key = %(key)s RETURNING 1

-- name: forget_answer
DELETE FROM callboard.answer WHERE principal = %(principal)s AND key = %(key)s AND status = 0 RETURNING 1

-- name: feed_now
SELECT callboard.micros(callboard.settled_until())

-- name: feed
SELECT shard, address, seq, type, body, at, node, micros
FROM callboard.feed(%(after)s, %(shard)s, %(address)s, %(seq)s, %(limit)s)

-- name: event_is_kept
SELECT EXISTS (
    SELECT 1 FROM callboard.journal WHERE shard = %(shard)s AND address = %(address)s AND seq = %(seq)s)

-- name: hold_instance
-- Two numbers: the first keeps clear of whatever else takes advisory locks in this database.
SELECT pg_try_advisory_lock(0x63616c6c, hashtext(%(name)s))

-- name: release_instance
SELECT pg_advisory_unlock(0x63616c6c, hashtext(%(name)s))

-- name: note_instance
INSERT INTO callboard.instance (name, holder, since_at) VALUES (%(name)s, %(holder)s, callboard.clock())
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, since_at = excluded.since_at RETURNING 1

-- name: instance
SELECT holder, callboard.seconds(since_at) FROM callboard.instance WHERE name = %(name)s
