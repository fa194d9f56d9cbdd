-- What `callboard doctor` asks a database, and what a shell's completion does. Plain reads; they work as any role.

-- name: probe_server
SELECT
    current_setting('server_version'), current_setting('server_version_num')::integer,
    convert_to(current_setting('server_encoding'), 'UTF8'), current_user::text, current_database()::text,
    pg_is_in_recovery(), current_setting('fsync') = 'on', current_setting('max_connections')::integer,
    (SELECT count(*) FROM pg_stat_activity a WHERE a.backend_type = 'client backend'),
    has_database_privilege(current_database(), 'CREATE')

-- name: probe_session
SELECT pg_backend_pid()

-- name: probe_notify
-- On a channel of this session alone: nobody else is woken.
SELECT pg_notify('callboard_doctor_' || pg_backend_pid(), '')

-- name: probe_time
SELECT extract(epoch FROM clock_timestamp())::double precision

-- name: probe_rights
-- No row where there is no schema.
SELECT
    pg_has_role(n.nspowner, 'MEMBER'), pg_get_userbyid(n.nspowner)::text, has_schema_privilege(n.oid, 'USAGE'),
    coalesce(array_agg(c.relname::text ORDER BY c.relname) FILTER (WHERE NOT has_table_privilege(c.oid, 'SELECT')),
        '{}'),
    coalesce(array_agg(c.relname::text ORDER BY c.relname) FILTER (WHERE NOT has_table_privilege(c.oid, 'INSERT')),
        '{}')
FROM pg_namespace n
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r'
WHERE n.nspname = 'callboard'
GROUP BY n.oid, n.nspowner

-- name: probe_nodes
-- Nodes that serve and beat, those that serve by their row only, and shards that none of the first owns.
WITH members AS (
    SELECT n.number, coalesce(h.beat_at > callboard.clock() - make_interval(secs => n.lease_seconds), false) AS beats
    FROM callboard.node n
    LEFT JOIN callboard.heartbeat h ON h.node = n.number
    WHERE n.status IN ('up', 'draining')
)
SELECT
    (SELECT count(*) FROM members m WHERE m.beats), (SELECT count(*) FROM members m WHERE NOT m.beats),
    (SELECT count(*) FROM callboard.shard s WHERE NOT EXISTS (
        SELECT FROM members m WHERE m.number = s.node AND m.beats
    ))

-- name: complete_runs
SELECT split_part(a.address, ':', -1) FROM callboard.actor a
WHERE a.kind = 'run' AND starts_with(split_part(a.address, ':', -1), %(beginning)s) LIMIT %(limit)s

-- name: complete_approvals
SELECT d.id FROM callboard.decision d
WHERE d.status = %(status)s AND starts_with(d.id, %(beginning)s) ORDER BY d.number DESC LIMIT %(limit)s

-- name: complete_actors
SELECT a.address FROM callboard.actor a WHERE starts_with(a.address, %(beginning)s) LIMIT %(limit)s
