-- The invariants of a database at rest, as queries that find what breaks them: no row, no breach.
-- Columns of each: subject, detail.

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
-- No message was handled twice.
SELECT t.id::text, format('%s handled %s times by %s', min(t.type), count(*), min(t.recipient))
FROM callboard.turn t WHERE t.outcome = 'done' GROUP BY t.shard, t.id HAVING count(*) > 1 ORDER BY 1

-- name: out_of_order
-- What one actor sent another in one lane was handled in the order it was sent.
SELECT recipient, format('%s of %s handled after %s', sender_seq, sender, previous)
FROM (
    SELECT recipient, sender, sender_seq,
        lag(sender_seq) OVER (PARTITION BY sender, recipient, lane ORDER BY version, id) AS previous
    FROM callboard.turn WHERE version > 0 AND sender_seq > 0 AND outcome = 'done'
) o
WHERE sender_seq <= previous ORDER BY 1

-- name: ungated_calls
-- No gated call was made without a released decision about it.
SELECT d.id, format('%s was handled while its decision is %s', d.tool, d.status)
FROM callboard.decision d
JOIN callboard.turn t ON t.id = d.message_id AND t.outcome = 'done'
WHERE d.kind = 'approval' AND d.status <> 'released' ORDER BY 1

-- name: journal_gaps
-- An actor's events are numbered from 1 without gaps, as many as it counted.
SELECT a.address, format('%s events counted, %s in the journal, the last numbered %s', a.events, j.found, j.last)
FROM callboard.actor a
JOIN LATERAL (
    SELECT count(*) AS found, coalesce(max(seq), 0) AS last FROM callboard.journal j
    WHERE j.shard = a.shard AND j.address = a.address
) j ON true
WHERE a.events <> j.found OR j.found <> j.last ORDER BY 1

-- name: stale_turns
-- No turn was written under an epoch after its node was superseded.
SELECT n.number::text, format('a turn at %s, after its end at %s', max(t.at), n.ended_at)
FROM callboard.node n JOIN callboard.turn t ON t.node = n.number AND t.epoch < n.epoch
WHERE n.status = 'dead' AND t.at > n.ended_at GROUP BY n.number, n.ended_at

-- name: waiting_messages
-- At rest nothing waits but what is held for a person.
SELECT m.recipient, format('%s %s waits since %s', m.type, m.id, m.sent_at)
FROM callboard.message m WHERE NOT m.held AND m.shard < 256 ORDER BY m.id LIMIT 100
