-- Making and checking the schema. Key -1 of our class of advisory locks: one migration at a time.

-- name: lock_schema
SELECT pg_advisory_xact_lock(1128352844, -1)

-- name: server
SELECT current_setting('server_version_num')::integer, current_setting('server_encoding')

-- name: find_schema
SELECT to_regclass('callboard.schema_version') IS NOT NULL

-- name: version
SELECT coalesce(max(version), 0) FROM callboard.schema_version

-- name: functions
SELECT p.oid::regprocedure::text FROM pg_proc p
WHERE p.pronamespace = 'callboard'::regnamespace AND p.prorettype <> 'trigger'::regtype

-- name: note_version
INSERT INTO callboard.schema_version (version, applied_at) VALUES (%(version)s, clock_timestamp())
ON CONFLICT DO NOTHING
