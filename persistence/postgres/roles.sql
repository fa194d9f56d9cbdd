-- Who may do what with the schema: two roles that nobody logs in as, to be granted to those who do. The whole file can be
-- run again. It is run by the owner of the schema, who alone may change it.
--
--   callboard_runtime   daemons, commands, the HTTP API: everything but changing the schema and rewriting what was
--                       written down for good
--   callboard_reader    looks: dashboards, `callboard runs`, questions in SQL; writes nothing, and sees no token's hash
--
-- Everybody else (an application's tools above all) has nothing here, and nothing is granted to PUBLIC.

DO $$
DECLARE
    _role text;
BEGIN
    FOREACH _role IN ARRAY ARRAY['callboard_runtime', 'callboard_reader'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = _role) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', _role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;  -- roles are shared by all databases of a server: somebody else made it in this moment
            END;
        END IF;
    END LOOP;
END $$;

REVOKE ALL ON SCHEMA callboard FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA callboard FROM PUBLIC;

GRANT USAGE ON SCHEMA callboard TO callboard_runtime, callboard_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA callboard TO callboard_runtime;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA callboard TO callboard_runtime;
REVOKE UPDATE, DELETE ON callboard.audit FROM callboard_runtime;
REVOKE INSERT, UPDATE, DELETE ON callboard.schema_version FROM callboard_runtime;

GRANT SELECT ON ALL TABLES IN SCHEMA callboard TO callboard_reader;
REVOKE SELECT ON callboard.token FROM callboard_reader;
GRANT SELECT (name, principal, scopes, created_at, created_by, expires_at, last_used_at, revoked_at)
    ON callboard.token TO callboard_reader;
