-- Retention (S22). The keys and places are JSON, and nobody else's to read.

-- name: old
SELECT key::text, amount, bytes, record, fits
FROM callboard.old(%(kind)s, %(before)s, %(after)s::jsonb, %(limit)s, %(records)s)

-- name: remove_old
SELECT items, amount, bytes FROM callboard.remove_old(%(kind)s, %(before)s, %(keys)s::jsonb, %(audits)s::jsonb)
