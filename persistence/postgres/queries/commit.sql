-- The committer's statements; see functions/2_commit.sql.

-- name: commit_batch
-- plan: kept
SELECT callboard.commit_batch(
    %(node)s, %(epoch)s, %(ack_shard)s, %(ack_id)s, %(actor)s, %(created)s, %(message)s, %(turn)s, %(event)s,
    %(rare)s::jsonb
)

-- name: misfits
-- plan: kept
SELECT unit, reason FROM callboard.misfits(%(claims)s::jsonb)
