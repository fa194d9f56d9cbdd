-- What operators leave behind: tokens, kept answers; and the feed of all journals.

-- S15: a token, unless its name is or was taken.
CREATE FUNCTION callboard.add_token(
    _name text, _secret_hash bytea, _principal text, _scopes text, _created_by text, _expires_at double precision,
    _audits jsonb
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := callboard.clock();
BEGIN
    INSERT INTO callboard.token (name, secret_hash, principal, scopes, created_at, created_by, expires_at)
    VALUES (_name, _secret_hash, _principal, _scopes, _now, _created_by,
            CASE WHEN _expires_at > 0 THEN to_timestamp(_expires_at) END)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is (or was) a token %; names are used once', quote_literal(_name) USING ERRCODE = 'CB003';
    END IF;
    PERFORM callboard.write_audit(_audits, _now);
END $$;

-- S15: the token of a secret while it opens something. That it was used is noted once a minute, not with each request.
CREATE FUNCTION callboard.use_token(_secret_hash bytea) RETURNS SETOF callboard.token LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := callboard.clock();
BEGIN
    UPDATE callboard.token t SET last_used_at = _now
    WHERE t.secret_hash = _secret_hash AND t.revoked_at IS NULL
        AND (t.last_used_at IS NULL OR t.last_used_at < _now - interval '1 minute');
    RETURN QUERY SELECT t.* FROM callboard.token t
    WHERE t.secret_hash = _secret_hash AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > _now);
END $$;

CREATE FUNCTION callboard.revoke_token(_name text, _audits jsonb) RETURNS SETOF callboard.token LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := callboard.clock();
BEGIN
    UPDATE callboard.token t SET revoked_at = _now WHERE t.name = _name AND t.revoked_at IS NULL;
    IF FOUND THEN
        PERFORM callboard.write_audit(_audits, _now);
    END IF;
    RETURN QUERY SELECT t.* FROM callboard.token t WHERE t.name = _name;
END $$;

-- S16: no row: the request is the caller's to answer. A request whose answer was begun a minute ago and never kept was
-- begun by a process that died; requests are bounded well below that.
CREATE FUNCTION callboard.begin_answer(_principal text, _key text, _request bytea)
RETURNS TABLE (status integer, body text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := callboard.clock();
    _known callboard.answer;
BEGIN
    DELETE FROM callboard.answer WHERE ctid = ANY (ARRAY(
        SELECT old.ctid FROM callboard.answer old
        WHERE old.at < _now - interval '1 day' ORDER BY old.at LIMIT 100 FOR UPDATE SKIP LOCKED));
    INSERT INTO callboard.answer AS known (principal, key, request, status, body, at)
    VALUES (_principal, _key, _request, 0, '', _now)
    ON CONFLICT (principal, key) DO UPDATE
    SET request = excluded.request, status = 0, body = '', at = excluded.at
    WHERE known.at < _now - interval '1 day'
        OR (known.status = 0 AND known.request = excluded.request AND known.at < _now - interval '1 minute');
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT k.* INTO _known FROM callboard.answer k WHERE k.principal = _principal AND k.key = _key;
    IF _known.request <> _request THEN
        RAISE EXCEPTION 'the idempotency key % was used for another request; take a new one', quote_literal(_key)
            USING ERRCODE = 'CB003';
    END IF;
    RETURN QUERY SELECT _known.status, _known.body WHERE _known.key IS NOT NULL;
END $$;

-- S17: no event that shows later is earlier than this. Nodes write journals in single statements, whose events are of
-- a time after their start: it is the start of the oldest that still runs. What of it this role may not see (sessions of
-- another role, without pg_read_all_stats) may have run for as long as a statement may.
CREATE FUNCTION callboard.settled_until() RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := callboard.clock();
    _age interval;
BEGIN
    -- Times are compared as ages, as the clock may be another one than the server's.
    SELECT max(clock_timestamp() - coalesce(a.xact_start, clock_timestamp() - interval '30 seconds')) INTO _age
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.application_name LIKE 'callboard node %'
        AND (a.xact_start IS NOT NULL OR a.state IS NULL);
    RETURN _now - greatest(coalesce(_age, interval '0'), interval '0');
END $$;

CREATE FUNCTION callboard.micros(_at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM _at) * 1000000)::bigint
$$;

-- S17: events after a place in the order of (time, shard, address, seq), oldest first. The edge is found by a statement
-- of its own and before: whatever ends in between is then visible to the one that reads.
CREATE FUNCTION callboard.feed(_after bigint, _shard integer, _address text, _seq bigint, _limit integer)
RETURNS TABLE (shard integer, address text, seq bigint, type text, body text, at double precision, node integer, micros bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    _edge timestamptz := callboard.settled_until();
    _from timestamptz := timestamptz 'epoch' + _after * interval '1 microsecond';
BEGIN
    RETURN QUERY
    SELECT
        j.shard, j.address, j.seq, j.type, j.body, callboard.seconds(j.at), j.node, callboard.micros(j.at)
    FROM callboard.journal j
    WHERE j.at >= _from AND j.at < _edge
        AND (j.at > _from OR (j.shard, j.address, j.seq) > (_shard, _address, _seq))
    ORDER BY j.at, j.shard, j.address, j.seq LIMIT _limit;
END $$;
