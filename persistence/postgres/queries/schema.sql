-- Making and checking the schema. Key -1 of our class of advisory locks: one migration at a time.

-- name: lock_schema
SELECT pg_advisory_xact_lock(1128352844, -1)

-- name: server
SELECT current_setting('server_version_num')::integer, convert_to(current_setting('server_encoding'), 'UTF8')

-- name: find_schema
SELECT to_regclass('callboard.schema_version') IS NOT NULL

-- name: version
SELECT coalesce(max(version), 0) FROM callboard.schema_version

-- name: drop_functions
-- Statements that drop all that functions/ makes: functions first, then the types of their arguments. What triggers use
-- belongs to the tables.
SELECT drops.statement FROM (
    SELECT 1 AS step, format('DROP FUNCTION %s', p.oid::regprocedure) AS statement
    FROM pg_proc p
    WHERE p.pronamespace = 'callboard'::regnamespace AND p.prorettype <> 'trigger'::regtype
    UNION ALL
    SELECT 2, format('DROP TYPE callboard.%I', c.relname)
    FROM pg_class c
    WHERE c.relnamespace = 'callboard'::regnamespace AND c.relkind = 'c'
) drops ORDER BY drops.step

-- name: note_version
SELECT callboard.note_version(%(version)s)
