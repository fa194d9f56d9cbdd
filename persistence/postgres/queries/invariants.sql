-- The invariants, as queries that find what breaks them: no row, no breach. Columns of each: subject, detail. Which number
-- of SEMANTICS 4.17 each one is, and what rows cannot show, is in ../invariants.py.

-- name: lost_messages
-- Every message that an actor numbered is handled, waiting, or a dead letter.
SELECT a.address, format('sent %s, %s of them found', a.sent, coalesce(f.found, 0))
FROM callboard.actor a
LEFT JOIN (
    SELECT sender, count(DISTINCT sender_seq) AS found
    FROM (
        SELECT sender, sender_seq FROM callboard.turn WHERE sender_seq > 0
        UNION ALL SELECT sender, sender_seq FROM callboard.message WHERE sender_seq > 0
        UNION ALL SELECT sender, sender_seq FROM callboard.dead_letter WHERE sender_seq > 0
    ) s
    GROUP BY sender
) f ON f.sender = a.address
WHERE a.sent <> coalesce(f.found, 0)
ORDER BY a.address

-- name: doubled_messages
-- No message has ended twice.
SELECT min(t.recipient), format('message %s of shard %s ended %s times: %s', t.id, t.shard, count(*),
                                string_agg(t.outcome, ', ' ORDER BY t.outcome))
FROM callboard.turn t WHERE t.outcome NOT IN ('stashed', 'dead') GROUP BY t.shard, t.id HAVING count(*) > 1 ORDER BY 1

-- name: misplaced_messages
-- A message waits, or has ended, or is a dead letter: one of these. One that was dropped may be a dead letter.
SELECT m.recipient, format('%s %s is %s, and waits', m.type, m.id, t.outcome)
FROM callboard.message m
JOIN callboard.turn t ON t.shard = m.shard AND t.id = m.id AND t.outcome NOT IN ('stashed', 'dead')
UNION ALL
SELECT d.recipient, format('%s %s is %s, and a dead letter', d.type, d.id, t.outcome)
FROM callboard.dead_letter d
JOIN callboard.turn t ON t.shard = d.shard AND t.id = d.id AND t.outcome NOT IN ('stashed', 'dead', 'cancelled')
UNION ALL
SELECT d.recipient, format('%s %s is a dead letter, and waits', d.type, d.id)
FROM callboard.dead_letter d
JOIN callboard.message m ON m.shard = d.shard AND m.id = d.id
UNION ALL
SELECT t.recipient, format('%s %s was given up, and there is no dead letter', t.type, t.id)
FROM callboard.turn t
WHERE t.outcome = 'dead'
    AND NOT EXISTS (SELECT 1 FROM callboard.dead_letter d WHERE d.shard = t.shard AND d.id = t.id)
    AND NOT EXISTS (SELECT 1 FROM callboard.message m WHERE m.shard = t.shard AND m.id = t.id)
    AND NOT EXISTS (
        SELECT 1 FROM callboard.turn o
        WHERE o.shard = t.shard AND o.id = t.id AND o.outcome NOT IN ('stashed', 'dead'))
ORDER BY 1

-- name: versions
-- Each turn of an actor made a version of its own, none beyond the one that it has. The system lane is left out of the
-- first: what an actor only takes note of makes no version.
SELECT t.recipient, format('%s turns made version %s', count(*), t.version)
FROM callboard.turn t WHERE t.version > 0 AND t.outcome IN ('done', 'stashed') AND t.lane <> 0
GROUP BY t.recipient, t.version HAVING count(*) > 1
UNION ALL
SELECT m.recipient, format('has version %s, and a turn made %s', coalesce(a.version, 0), m.last)
FROM (
    SELECT recipient, max(version) AS last FROM callboard.turn
    WHERE version > 0 AND outcome IN ('done', 'stashed') GROUP BY recipient
) m
LEFT JOIN callboard.actor a ON a.address = m.recipient
WHERE m.last > coalesce(a.version, 0) AND coalesce(a.status, '') NOT IN ('completed', 'cancelled')
ORDER BY 1

-- name: turns_after_the_end
-- An actor that has ended has no turn beyond its version.
SELECT a.address, format('is %s with version %s, and a turn made %s', a.status, a.version, max(t.version))
FROM callboard.actor a
JOIN callboard.turn t ON t.recipient = a.address AND t.version > a.version AND t.outcome IN ('done', 'stashed')
WHERE a.status IN ('completed', 'cancelled') GROUP BY a.address, a.status, a.version ORDER BY 1

-- name: out_of_order
-- What one actor sent another in one lane was handled in the order it was sent. A stashed one counts where it was put
-- aside.
SELECT recipient, format('%s of %s handled after %s', sender_seq, sender, previous)
FROM (
    SELECT recipient, sender, sender_seq,
        lag(sender_seq) OVER (PARTITION BY sender, recipient, lane ORDER BY version, id) AS previous
    FROM (
        SELECT DISTINCT ON (shard, recipient, id) recipient, sender, lane, sender_seq, version, id
        FROM callboard.turn WHERE version > 0 AND sender_seq > 0 AND outcome IN ('done', 'stashed')
        ORDER BY shard, recipient, id, version
    ) met
) o
WHERE sender_seq <= previous ORDER BY 1

-- name: stale_turns
-- No turn was written by a node after its end, under an epoch that is none of its own.
SELECT n.number::text, format('a turn under epoch %s at %s; %s is current, %s since %s', max(t.epoch), max(t.at),
                              n.epoch, n.status, coalesce(n.ended_at, n.joined_at))
FROM callboard.node n
JOIN callboard.turn t ON t.node = n.number
WHERE t.epoch > n.epoch OR t.at > n.ended_at
    -- One that was taken over has the epoch of its end; until then its turns had the one before.
    OR n.ended_at IS NULL AND t.epoch > 0 AND t.epoch < n.epoch AND t.at > n.joined_at
GROUP BY n.number ORDER BY 1

-- name: causeless_messages
-- The cause of a message was handled, or is there still.
WITH known AS (
    SELECT id FROM callboard.turn UNION SELECT id FROM callboard.message UNION SELECT id FROM callboard.dead_letter
), caused AS (
    SELECT id, type, recipient, causation FROM callboard.turn WHERE causation <> 0
    UNION ALL SELECT id, type, recipient, causation FROM callboard.message WHERE causation <> 0
)
SELECT c.recipient, format('%s %s was caused by %s, which never was', c.type, c.id, c.causation)
FROM caused c WHERE NOT EXISTS (SELECT 1 FROM known k WHERE k.id = c.causation) ORDER BY 1

-- name: endless_asks
-- An open ask still has its time-out before it.
SELECT a.address, format('waits for the outcome of ask %s, and no time-out comes', o.ask)
FROM callboard.actor a
CROSS JOIN LATERAL json_object_keys(coalesce(a.bonds::json -> 'asks', '{}'::json)) AS o(ask)
WHERE a.status = 'active' AND a.bonds <> ''
    AND NOT EXISTS (
        SELECT 1 FROM callboard.timer t
        WHERE t.shard = a.shard AND t.address = a.address AND t.key = 'sys:ask:' || o.ask)
    AND NOT EXISTS (
        SELECT 1 FROM callboard.message m
        WHERE m.shard = a.shard AND m.recipient = a.address AND m.type = 'sys.ask_timed_out'
            AND m.body::json ->> 'ask' = o.ask)
    AND NOT EXISTS (
        SELECT 1 FROM callboard.dead_letter d
        WHERE d.recipient = a.address AND d.type = 'sys.ask_timed_out' AND d.body::json ->> 'ask' = o.ask)
ORDER BY 1

-- name: answered_twice
-- An actor that asked handled one answer, however many came.
SELECT r.recipient, format('handled %s answers to %s', count(*), r.causation)
FROM callboard.turn r
JOIN callboard.turn q ON q.id = r.causation AND q.recipient = r.sender AND q.sender = r.recipient
WHERE r.outcome = 'done' AND r.lane = 1 AND q.outcome = 'done' AND q.version > 0
GROUP BY r.recipient, r.causation HAVING count(*) > 1 ORDER BY 1

-- name: ungated_calls
-- No gated call was made, or may be made, without a released decision about it.
SELECT d.id, format('%s was handled while its decision is %s', d.tool, d.status)
FROM callboard.decision d
JOIN callboard.turn t ON t.id = d.message_id AND t.outcome = 'done'
WHERE d.kind = 'approval' AND d.status <> 'released'
UNION ALL
SELECT d.id, format('%s may be handled while its decision is %s', d.tool, d.status)
FROM callboard.decision d
JOIN callboard.message m ON m.id = d.message_id AND NOT m.held
WHERE d.kind = 'approval' AND d.status <> 'released' ORDER BY 1

-- name: doubled_calls
-- No call of a worker was done twice, in whatever shard.
SELECT min(t.recipient), format('call %s was done %s times', t.id, count(*))
FROM callboard.turn t WHERE t.version = 0 AND t.outcome = 'done' GROUP BY t.id HAVING count(*) > 1 ORDER BY 1

-- name: orphans
-- Below a supervisor that has ended, is parked or escalated no single child is active.
SELECT c.address, format('is active, and its supervisor is %s', p.status)
FROM callboard.actor p
JOIN callboard.actor c ON p.address = left(c.address, -strpos(reverse(c.address), '/'))
WHERE p.kind = 'supervisor' AND p.status IN ('completed', 'cancelled', 'stopped', 'escalated', 'parked')
    AND c.status = 'active' AND strpos(split_part(c.address, '/', -1), ':') = 0
ORDER BY 1

-- name: dead_tickers
-- A periodic timer that an active actor counts on is set.
SELECT a.address, format('timer %L is not set in generation %s', k.key, k.value #>> '{}')
FROM callboard.actor a
CROSS JOIN LATERAL json_each(coalesce(a.bonds::json -> 'tickers', '{}'::json)) AS k(key, value)
WHERE a.status = 'active' AND a.bonds <> ''
    AND NOT EXISTS (
        SELECT 1 FROM callboard.timer t
        WHERE t.shard = a.shard AND t.address = a.address AND t.key = k.key
            AND t.generation = (k.value #>> '{}')::bigint AND t.period_seconds > 0)
ORDER BY 1

-- name: mute_actors
-- Who does not move has a reason.
SELECT a.address, format('is %s without a reason', a.status)
FROM callboard.actor a WHERE a.status NOT IN ('active', 'completed') AND a.reason = '' ORDER BY 1

-- name: unordered_starts
-- By a supervisor's journal, no child was started while it was up, and each start had a higher incarnation than the one
-- before. Where the supervisor itself ended, its children were down with it. The same incarnation told again while it is
-- up is no second start: so where a program came back that knows a child which the one before did not have.
WITH told AS (
    SELECT shard, address, seq, type, body::json ->> 'child' AS child,
        (body::json ->> 'incarnation')::bigint AS incarnation,
        count(*) FILTER (WHERE type = 'sys.supervision.ended') OVER (PARTITION BY shard, address ORDER BY seq) AS life
    FROM callboard.journal
    WHERE type IN ('sys.supervision.child_started', 'sys.supervision.start_error', 'sys.supervision.child_terminated',
                   'sys.supervision.child_ended', 'sys.supervision.child_stopped', 'sys.supervision.shutdown_error',
                   'sys.supervision.instance_abandoned', 'sys.supervision.ended')
), in_order AS (
    SELECT address, child, type, incarnation,
        lag(type) OVER (PARTITION BY shard, address, child, life ORDER BY seq) AS previous,
        max(incarnation) FILTER (WHERE type = 'sys.supervision.child_started') OVER (
            PARTITION BY shard, address, child ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest
    FROM told WHERE child IS NOT NULL
)
SELECT address, format('%s was started as incarnation %s, and was up as %s', child, incarnation, highest)
FROM in_order
WHERE type = 'sys.supervision.child_started'
    AND CASE WHEN previous = type THEN incarnation <> highest ELSE incarnation <= highest END ORDER BY 1

-- name: journal_gaps
-- An actor's events are numbered from 1 without gaps, as many as it counted.
SELECT a.address, format('%s events counted, %s in the journal, the last numbered %s', a.events, j.found, j.last)
FROM callboard.actor a
JOIN LATERAL (
    SELECT count(*) AS found, coalesce(max(seq), 0) AS last FROM callboard.journal j
    WHERE j.shard = a.shard AND j.address = a.address
) j ON true
WHERE a.events <> j.found OR j.found <> j.last ORDER BY 1

-- name: unserved_messages
-- While any node serves, what may be handled lies in a shard that is served.
SELECT m.recipient, format('%s %s waits, and nobody serves shard %s', m.type, m.id, m.shard)
FROM callboard.message m
JOIN callboard.shard s ON s.id = m.shard
JOIN callboard.actor a ON a.shard = m.shard AND a.address = m.recipient
WHERE NOT m.held AND m.due_at <= callboard.clock()
    AND NOT EXISTS (SELECT 1 FROM callboard.node n WHERE n.number = s.node AND n.status IN ('up', 'draining'))
    AND EXISTS (SELECT 1 FROM callboard.node n WHERE n.status IN ('up', 'draining'))
ORDER BY m.id LIMIT 100

-- name: waiting_messages
-- At rest nothing waits but what is held for a person, or put aside.
SELECT m.recipient, format('%s %s waits since %s', m.type, m.id, m.sent_at)
FROM callboard.message m WHERE NOT m.held AND m.shard < 256 ORDER BY m.id LIMIT 100

-- name: charges
SELECT (SELECT coalesce(sum(failures), 0) FROM callboard.message)
    + (SELECT coalesce(sum(failures), 0) FROM callboard.dead_letter)

-- name: ended_actors
SELECT address, incarnation, version FROM callboard.actor WHERE status IN ('completed', 'cancelled')
