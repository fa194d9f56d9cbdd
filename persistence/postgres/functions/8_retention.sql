-- Retention (S22): what is old enough to go, found in bounded pages, and removed in short transactions beside working
-- nodes. What may go is judged when it is looked for, and again in the transaction that removes it.
--
-- Each kind has two functions. `old_KIND` gives a page: a row for each that may go, and one last row (`fits` is false)
-- whose key is where to go on from and whose `amount` is 1 where there is no more. It looks at _limit rows, whether
-- they fit or not. `remove_KIND` takes keys, and tells how many it removed, of how many rows and bytes.
--
-- Actors are written by their owners alone, but for this: a row that has ended is locked before it is judged, and an
-- owner that meanwhile wants to write it finds that its unit does not fit.

CREATE TYPE callboard.old_row AS (key jsonb, amount bigint, bytes bigint, record text, fits boolean);
CREATE TYPE callboard.removed AS (items bigint, amount bigint, bytes bigint);

-- The least id that a clock could make at that time (mailbox/ids.py).
CREATE FUNCTION callboard.id_at(_at timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest(0, floor(extract(epoch FROM _at) * 1000)::bigint - 1704067200000) << 22
$$;

CREATE FUNCTION callboard.from_micros(_micros bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT timestamptz 'epoch' + _micros * interval '1 microsecond'
$$;

-- An actor and all beneath it, which live in its shard.
CREATE FUNCTION callboard.family(_shard integer, _address text) RETURNS SETOF callboard.actor LANGUAGE sql STABLE AS $$
    SELECT * FROM callboard.actor WHERE shard = _shard AND address = _address
    UNION ALL
    SELECT * FROM callboard.actor WHERE shard = _shard AND address > _address || '/' AND address < _address || '0'
$$;

-- The addresses of a family that may go: all of it has ended before that time, and nothing needs it any more: no
-- message from or to it waits, no timer, no decision and no dead letter of it is open, and no fork outside of it goes
-- on from its journal. NULL: it may not. What it sent before its end and still waits has an id of before.
CREATE FUNCTION callboard.is_over(_shard integer, _address text, _before timestamptz) RETURNS text[]
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _members text[];
    _member text;
    _over boolean;
BEGIN
    SELECT array_agg(f.address), bool_and(
        (f.status IN ('completed', 'cancelled') OR (f.status = 'stopped' AND f.address <> _address))
        AND f.created_at < _before AND f.last_id < callboard.id_at(_before))
    INTO _members, _over FROM callboard.family(_shard, _address) f;
    IF _over IS NOT TRUE OR EXISTS (
        SELECT 1 FROM callboard.message m
        WHERE m.shard = _shard AND m.id < callboard.id_at(_before) AND m.sender = ANY (_members)
    ) THEN
        RETURN NULL;
    END IF;
    -- One member after the other, as a plain value: of a set, the planner would first gather whatever is open anywhere.
    -- Its collation is the caller's, and an index of another one would be of no use.
    FOREACH _member IN ARRAY _members LOOP
        IF _before <= (
                SELECT t.at FROM callboard.turn t
                WHERE t.shard = _shard AND t.recipient = _member ORDER BY t.version DESC, t.id DESC LIMIT 1)
            OR _before <= (
                SELECT j.at FROM callboard.journal j
                WHERE j.shard = _shard AND j.address = _member ORDER BY j.seq DESC LIMIT 1)
            OR EXISTS (
                SELECT 1 FROM callboard.message m WHERE m.shard = _shard AND m.recipient = _member AND NOT m.held)
            OR EXISTS (SELECT 1 FROM callboard.message m WHERE m.shard = _shard AND m.recipient = _member AND m.held)
            OR EXISTS (SELECT 1 FROM callboard.timer t WHERE t.shard = _shard AND t.address = _member)
            OR EXISTS (
                SELECT 1 FROM callboard.decision d WHERE d.run = _member AND d.status IN ('pending', 'approved'))
            OR EXISTS (SELECT 1 FROM callboard.dead_letter d WHERE d.recipient = _member AND d.settled = '')
            OR EXISTS (
                SELECT 1 FROM callboard.dead_letter d
                WHERE d.sender = _member COLLATE "default" AND d.settled = '')
            OR EXISTS (
                SELECT 1 FROM callboard.journal j
                WHERE j.type = 'run.forked'
                    AND substring(j.body FROM '"origin":"([^"]+)"') = _member COLLATE "default"
                    AND j.address <> ALL (_members))
        THEN
            RETURN NULL;
        END IF;
    END LOOP;
    RETURN _members;
END $$;

-- What is kept of families: how many rows, their bytes, and (`_records`) all of it as one JSON document each. For many
-- at once, as planning costs more than looking.
CREATE FUNCTION callboard.family_remains(_family integer[], _shard integer[], _member text[], _records boolean)
RETURNS TABLE (family integer, amount bigint, bytes bigint, record text)
LANGUAGE sql STABLE AS $$
    WITH member AS MATERIALIZED (
        SELECT unnest(_family) AS family, unnest(_shard) AS shard, unnest(_member) AS address
    ), remains AS (
        SELECT w.family, 1 AS part, a.address AS place, 0::bigint AS first, 0::bigint AS second,
            pg_column_size(a) AS bytes, CASE WHEN _records THEN to_json(a) END AS kept
        FROM member w
        CROSS JOIN LATERAL (
            SELECT * FROM callboard.actor a WHERE a.shard = w.shard AND a.address = w.address OFFSET 0
        ) a
        UNION ALL
        SELECT w.family, 2, j.address, j.seq, 0, pg_column_size(j), CASE WHEN _records THEN to_json(j) END
        FROM member w
        CROSS JOIN LATERAL (
            SELECT * FROM callboard.journal j WHERE j.shard = w.shard AND j.address = w.address OFFSET 0
        ) j
        UNION ALL
        SELECT w.family, 3, t.recipient, t.version, t.id, pg_column_size(t), CASE WHEN _records THEN to_json(t) END
        FROM member w
        CROSS JOIN LATERAL (
            SELECT * FROM callboard.turn t WHERE t.shard = w.shard AND t.recipient = w.address OFFSET 0
        ) t
        UNION ALL
        SELECT w.family, 4, '', d.number, 0, pg_column_size(d), CASE WHEN _records THEN to_json(d) END
        FROM member w
        CROSS JOIN LATERAL (
            SELECT * FROM callboard.decision d WHERE d.run = w.address OFFSET 0
        ) d
        UNION ALL
        SELECT w.family, 5, '', d.number, 0, pg_column_size(d), CASE WHEN _records THEN to_json(d) END
        FROM member w
        CROSS JOIN LATERAL (
            SELECT * FROM callboard.dead_letter d WHERE d.recipient = w.address OFFSET 0
        ) d
    )
    SELECT r.family, count(*), sum(r.bytes)::bigint, CASE WHEN _records THEN json_build_object(
        'actors', coalesce(json_agg(r.kept ORDER BY r.place) FILTER (WHERE r.part = 1), '[]'),
        'journal', coalesce(json_agg(r.kept ORDER BY r.place, r.first) FILTER (WHERE r.part = 2), '[]'),
        'turns', coalesce(json_agg(r.kept ORDER BY r.place, r.first, r.second) FILTER (WHERE r.part = 3), '[]'),
        'decisions', coalesce(json_agg(r.kept ORDER BY r.first) FILTER (WHERE r.part = 4), '[]'),
        'dead_letters', coalesce(json_agg(r.kept ORDER BY r.first) FILTER (WHERE r.part = 5), '[]')
    )::text ELSE '' END
    FROM remains r GROUP BY r.family
$$;

-- Runs ---------------------------------------------------------------------------------------------------------------

-- Families by their first actor, the one whose address has a key at its end and none before: one kind of actor after
-- the other, oldest first. A key is [shard, address, version]; the place to go on from is [kind, micros, address].
CREATE FUNCTION callboard.old_runs(_before timestamptz, _after jsonb, _limit integer, _records boolean)
RETURNS SETOF callboard.old_row LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    _kind text := _after ->> 0;
    _from timestamptz := callboard.from_micros((_after ->> 1)::bigint);
    _address text := _after ->> 2;
    _looked integer := 0;
    _keys jsonb[] := '{}';
    _of integer[] := '{}';
    _shards integer[] := '{}';
    _addresses text[] := '{}';
    _members text[];
    _row record;
BEGIN
    IF _kind IS NULL THEN
        SELECT min(k COLLATE "C") INTO _kind FROM callboard.kinds('') k;
        _from := timestamptz 'epoch' - interval '1 day';
        _address := '';
    END IF;
    FOR _row IN
        SELECT a.shard, a.address, a.version, a.status, a.created_at FROM callboard.actor a
        WHERE a.kind = _kind AND a.kind <> '' AND a.created_at < _before
            AND (a.created_at, a.address) > (_from, _address)
        ORDER BY a.kind, a.created_at, a.address LIMIT _limit
    LOOP
        _looked := _looked + 1;
        _from := _row.created_at;
        _address := _row.address;
        CONTINUE WHEN _row.status NOT IN ('completed', 'cancelled') OR _row.address !~ '^[^:]*:[^/]*$';
        _members := callboard.is_over(_row.shard, _row.address, _before);
        CONTINUE WHEN _members IS NULL;
        _keys := _keys || jsonb_build_array(_row.shard, _row.address, _row.version);
        _of := _of || array_fill(cardinality(_keys), ARRAY[cardinality(_members)]);
        _shards := _shards || array_fill(_row.shard, ARRAY[cardinality(_members)]);
        _addresses := _addresses || _members;
    END LOOP;
    RETURN QUERY
    SELECT _keys[r.family], r.amount, r.bytes, r.record, true
    FROM callboard.family_remains(_of, _shards, _addresses, _records) r ORDER BY r.family;
    IF _looked < _limit THEN
        SELECT min(k COLLATE "C") INTO _kind FROM callboard.kinds('') k WHERE k > _kind COLLATE "C";
        _from := timestamptz 'epoch' - interval '1 day';
        _address := '';
    END IF;
    RETURN NEXT (
        jsonb_build_array(_kind, callboard.micros(_from), _address), (_kind IS NULL)::integer, 0, '', false
    )::callboard.old_row;
END $$;

-- The rows of families, with all that is kept of them. One that is not as it was when it was looked at stays. Client
-- ids stay for as long as they are known (seven days), so that a repeated send is still told from a new one.
CREATE FUNCTION callboard.remove_runs(_before timestamptz, _keys jsonb) RETURNS callboard.removed
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _shards integer[] := '{}';
    _addresses text[] := '{}';
    _members text[];
    _items bigint := 0;
    _amount bigint;
    _bytes bigint;
    _key record;
BEGIN
    FOR _key IN
        SELECT (k ->> 0)::integer AS shard, k ->> 1 AS address, (k ->> 2)::bigint AS version
        FROM jsonb_array_elements(_keys) k ORDER BY 1, 2
    LOOP
        PERFORM 1 FROM callboard.actor a
        WHERE a.shard = _key.shard AND a.address = _key.address AND a.version = _key.version FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        PERFORM 1 FROM callboard.actor a
        WHERE a.shard = _key.shard AND a.address > _key.address || '/' AND a.address < _key.address || '0' FOR UPDATE;
        _members := callboard.is_over(_key.shard, _key.address, _before);
        CONTINUE WHEN _members IS NULL;
        _items := _items + 1;
        _addresses := _addresses || _members;
        _shards := _shards || array_fill(_key.shard, ARRAY[cardinality(_members)]);
    END LOOP;
    -- Rows by their places, found one by one: see commit_batch on plans. Nobody moves what has ended and is locked.
    WITH gone AS MATERIALIZED (
        SELECT unnest(_shards) AS shard, unnest(_addresses) AS address
    ), actors AS (
        DELETE FROM callboard.actor a WHERE a.ctid = ANY (ARRAY(
            SELECT f.place FROM gone g
            CROSS JOIN LATERAL (
                SELECT a.ctid AS place FROM callboard.actor a WHERE a.shard = g.shard AND a.address = g.address OFFSET 0
            ) f))
        RETURNING pg_column_size(a) AS bytes
    ), decisions AS (
        DELETE FROM callboard.decision d WHERE d.ctid = ANY (ARRAY(
            SELECT f.place FROM gone g
            CROSS JOIN LATERAL (
                SELECT d.ctid AS place FROM callboard.decision d WHERE d.run = g.address OFFSET 0
            ) f))
        RETURNING pg_column_size(d) AS bytes
    ), events AS (
        DELETE FROM callboard.journal j WHERE j.ctid = ANY (ARRAY(
            SELECT f.place FROM gone g
            CROSS JOIN LATERAL (
                SELECT j.ctid AS place FROM callboard.journal j WHERE j.shard = g.shard AND j.address = g.address OFFSET 0
            ) f))
        RETURNING pg_column_size(j) AS bytes
    ), turns AS (
        DELETE FROM callboard.turn t WHERE t.ctid = ANY (ARRAY(
            SELECT f.place FROM gone g
            CROSS JOIN LATERAL (
                SELECT t.ctid AS place FROM callboard.turn t WHERE t.shard = g.shard AND t.recipient = g.address OFFSET 0
            ) f))
        RETURNING pg_column_size(t) AS bytes
    ), dead AS (
        DELETE FROM callboard.dead_letter d WHERE d.ctid = ANY (ARRAY(
            SELECT f.place FROM gone g
            CROSS JOIN LATERAL (
                SELECT d.ctid AS place FROM callboard.dead_letter d WHERE d.recipient = g.address OFFSET 0
            ) f))
        RETURNING pg_column_size(d) AS bytes
    ), full_ones AS (
        DELETE FROM callboard.full_mailbox b WHERE b.ctid = ANY (ARRAY(
            SELECT f.place FROM gone g
            CROSS JOIN LATERAL (
                SELECT b.ctid AS place FROM callboard.full_mailbox b
                WHERE b.shard = g.shard AND b.address = g.address OFFSET 0
            ) f))
    )
    SELECT count(*), coalesce(sum(r.bytes), 0)::bigint INTO _amount, _bytes
    FROM (
        TABLE actors UNION ALL TABLE decisions UNION ALL TABLE events UNION ALL TABLE turns UNION ALL TABLE dead
    ) r;
    RETURN (_items, _amount, _bytes)::callboard.removed;
END $$;

-- Turns --------------------------------------------------------------------------------------------------------------

-- Whether the turns of this recipient, or those that this sender caused, go with the sender's or recipient's run: it is
-- an actor with a key that is still there.
CREATE FUNCTION callboard.has_run(_shard integer, _address text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT strpos(_address, ':') > 0 AND EXISTS (
        SELECT 1 FROM callboard.actor a WHERE a.shard = _shard AND a.address = _address)
$$;

-- Turns of workers, of outside askers, of actors without a key, and of actors that are gone; those of a run go with it,
-- and so do its workers'. One mailbox after the other in order of the key, within which turns are in order of time: of
-- workers by id, of actors by version. A key, and the place to go on from, is [shard, recipient, version, id].
CREATE FUNCTION callboard.old_turns(_before timestamptz, _after jsonb, _limit integer, _records boolean)
RETURNS SETOF callboard.old_row LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _shard integer := coalesce((_after ->> 0)::integer, 0);
    _recipient text := coalesce(_after ->> 1, '');
    _version bigint := coalesce((_after ->> 2)::bigint, 0);
    _id bigint := coalesce((_after ->> 3)::bigint, 0);
    _until bigint := callboard.id_at(_before);
    _looked integer := 0;
    _found boolean;
    _row callboard.turn;
BEGIN
    WHILE _looked < _limit AND _shard < 257 LOOP
        IF _recipient <> '' AND NOT callboard.has_run(_shard, _recipient) THEN
            FOR _row IN
                (SELECT * FROM callboard.turn t
                 WHERE _version = 0 AND t.shard = _shard AND t.recipient = _recipient AND t.version = 0
                    AND t.id > _id AND t.id < _until
                 ORDER BY t.shard, t.recipient, t.version, t.id LIMIT _limit - _looked)
                UNION ALL
                (SELECT * FROM callboard.turn t
                 WHERE t.shard = _shard AND t.recipient = _recipient
                    AND (t.version, t.id) > (greatest(_version, 1), CASE WHEN _version = 0 THEN 0 ELSE _id END)
                 ORDER BY t.shard, t.recipient, t.version, t.id LIMIT _limit - _looked)
            LOOP
                EXIT WHEN _row.version > 0 AND _row.at >= _before;
                _looked := _looked + 1;
                IF _row.at < _before AND NOT callboard.has_run(_shard, _row.sender) THEN
                    RETURN NEXT (
                        jsonb_build_array(_row.shard, _row.recipient, _row.version, _row.id), 1, pg_column_size(_row),
                        CASE WHEN _records THEN to_json(_row)::text ELSE '' END, true
                    )::callboard.old_row;
                END IF;
                _version := _row.version;
                _id := _row.id;
                EXIT WHEN _looked >= _limit;
            END LOOP;
            EXIT WHEN _looked >= _limit;
        END IF;
        _looked := _looked + 1;
        SELECT t.recipient INTO _recipient FROM callboard.turn t
        WHERE t.shard = _shard AND t.recipient > _recipient ORDER BY t.shard, t.recipient, t.version, t.id LIMIT 1;
        IF NOT FOUND THEN
            _shard := _shard + 1;
            _recipient := '';
        END IF;
        _version := 0;
        _id := 0;
    END LOOP;
    RETURN NEXT (
        jsonb_build_array(_shard, _recipient, _version, _id), (_shard > 256)::integer, 0, '', false
    )::callboard.old_row;
END $$;

CREATE FUNCTION callboard.remove_turns(_before timestamptz, _keys jsonb) RETURNS callboard.removed
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _gone callboard.removed;
BEGIN
    WITH wanted AS (
        SELECT (k ->> 0)::integer AS shard, k ->> 1 AS recipient, (k ->> 2)::bigint AS version, (k ->> 3)::bigint AS id
        FROM jsonb_array_elements(_keys) k
    ), gone AS (
        DELETE FROM callboard.turn t USING wanted w
        WHERE t.shard = w.shard AND t.recipient = w.recipient AND t.version = w.version AND t.id = w.id
            AND t.at < _before
        RETURNING pg_column_size(t) AS bytes
    )
    SELECT count(*), count(*), coalesce(sum(g.bytes), 0) INTO _gone FROM gone g;
    RETURN _gone;
END $$;

-- Dead letters, decisions, audit -------------------------------------------------------------------------------------

-- Those that were settled so long ago, of mailboxes that are no run's: a run's go with it.
CREATE FUNCTION callboard.old_dead_letters(_before timestamptz, _after jsonb, _limit integer, _records boolean)
RETURNS SETOF callboard.old_row LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _number bigint := coalesce((_after ->> 0)::bigint, 0);
    _looked integer := 0;
    _row callboard.dead_letter;
BEGIN
    FOR _row IN SELECT * FROM callboard.dead_letter d WHERE d.number > _number ORDER BY d.number LIMIT _limit LOOP
        EXIT WHEN _row.at >= _before;
        _looked := _looked + 1;
        _number := _row.number;
        IF _row.settled_at < _before AND NOT callboard.has_run(_row.shard, _row.recipient) THEN
            RETURN NEXT (
                jsonb_build_array(_number), 1, pg_column_size(_row),
                CASE WHEN _records THEN to_json(_row)::text ELSE '' END, true
            )::callboard.old_row;
        END IF;
    END LOOP;
    RETURN NEXT (jsonb_build_array(_number), (_looked < _limit)::integer, 0, '', false)::callboard.old_row;
END $$;

CREATE FUNCTION callboard.remove_dead_letters(_before timestamptz, _keys jsonb) RETURNS callboard.removed
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _gone callboard.removed;
BEGIN
    WITH gone AS (
        DELETE FROM callboard.dead_letter d
        USING (SELECT (k ->> 0)::bigint AS number FROM jsonb_array_elements(_keys) k) w
        WHERE d.number = w.number AND d.settled_at < _before
        RETURNING pg_column_size(d) AS bytes
    )
    SELECT count(*), count(*), coalesce(sum(g.bytes), 0) INTO _gone FROM gone g;
    RETURN _gone;
END $$;

-- Those that were closed so long ago, of actors that have no key or are gone: a run's go with it. Whether a run is
-- there takes its shard, which is asked for by kind here.
CREATE FUNCTION callboard.old_decisions(_before timestamptz, _after jsonb, _limit integer, _records boolean)
RETURNS SETOF callboard.old_row LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _number bigint := coalesce((_after ->> 0)::bigint, 0);
    _looked integer := 0;
    _row callboard.decision;
BEGIN
    FOR _row IN SELECT * FROM callboard.decision d WHERE d.number > _number ORDER BY d.number LIMIT _limit LOOP
        EXIT WHEN _row.requested_at >= _before;
        _looked := _looked + 1;
        _number := _row.number;
        IF _row.status NOT IN ('pending', 'approved') AND coalesce(_row.decided_at, _row.requested_at) < _before
            AND coalesce(_row.release_at, _row.requested_at) < _before
            AND (strpos(_row.run, ':') = 0 OR NOT EXISTS (
                SELECT 1 FROM callboard.kinds('') k(kind)
                JOIN callboard.actor a ON a.kind = k.kind AND a.kind <> '' AND a.address = _row.run))
        THEN
            RETURN NEXT (
                jsonb_build_array(_row.id, _number), 1, pg_column_size(_row),
                CASE WHEN _records THEN to_json(_row)::text ELSE '' END, true
            )::callboard.old_row;
        END IF;
    END LOOP;
    RETURN NEXT (jsonb_build_array(_number), (_looked < _limit)::integer, 0, '', false)::callboard.old_row;
END $$;

CREATE FUNCTION callboard.remove_decisions(_before timestamptz, _keys jsonb) RETURNS callboard.removed
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _gone callboard.removed;
BEGIN
    WITH gone AS (
        DELETE FROM callboard.decision d USING (SELECT k ->> 0 AS id FROM jsonb_array_elements(_keys) k) w
        WHERE d.id = w.id AND d.status NOT IN ('pending', 'approved')
            AND coalesce(d.decided_at, d.requested_at) < _before
        RETURNING pg_column_size(d) AS bytes
    )
    SELECT count(*), count(*), coalesce(sum(g.bytes), 0) INTO _gone FROM gone g;
    RETURN _gone;
END $$;

CREATE FUNCTION callboard.old_audit(_before timestamptz, _after jsonb, _limit integer, _records boolean)
RETURNS SETOF callboard.old_row LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _number bigint := coalesce((_after ->> 0)::bigint, 0);
    _looked integer := 0;
    _row callboard.audit;
BEGIN
    FOR _row IN SELECT * FROM callboard.audit d WHERE d.number > _number ORDER BY d.number LIMIT _limit LOOP
        EXIT WHEN _row.at >= _before;
        _looked := _looked + 1;
        _number := _row.number;
        RETURN NEXT (
            jsonb_build_array(_number), 1, pg_column_size(_row),
            CASE WHEN _records THEN to_json(_row)::text ELSE '' END, true
        )::callboard.old_row;
    END LOOP;
    RETURN NEXT (jsonb_build_array(_number), (_looked < _limit)::integer, 0, '', false)::callboard.old_row;
END $$;

-- The role callboard_runtime may not: what was written down is removed by the owner of the schema alone.
CREATE FUNCTION callboard.remove_audit(_before timestamptz, _keys jsonb) RETURNS callboard.removed
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _gone callboard.removed;
BEGIN
    WITH gone AS (
        DELETE FROM callboard.audit d
        USING (SELECT (k ->> 0)::bigint AS number FROM jsonb_array_elements(_keys) k) w
        WHERE d.number = w.number AND d.at < _before
        RETURNING pg_column_size(d) AS bytes
    )
    SELECT count(*), count(*), coalesce(sum(g.bytes), 0) INTO _gone FROM gone g;
    RETURN _gone;
END $$;

-- What is known for a time only: client ids for seven days, answers to requests and mailboxes of outside askers for
-- one. Whoever writes such a row removes some that have run out; this removes the rest. The keys say nothing here: none
-- is needed by anybody, and none is archived.

CREATE FUNCTION callboard.old_client_ids(_before timestamptz, _after jsonb, _limit integer, _records boolean)
RETURNS SETOF callboard.old_row LANGUAGE sql SET plan_cache_mode = force_generic_plan AS $$
    WITH page AS (
        SELECT k.recipient, k.client_id, k.at, pg_column_size(k) AS bytes FROM callboard.client_send k
        WHERE k.at < least(_before, callboard.clock() - interval '7 days')
            AND k.at >= coalesce(callboard.from_micros((_after ->> 0)::bigint), '-infinity')
            AND (k.at, k.recipient, k.client_id) > (
                coalesce(callboard.from_micros((_after ->> 0)::bigint), '-infinity'),
                coalesce(_after ->> 1, ''), coalesce(_after ->> 2, ''))
        ORDER BY k.at, k.recipient, k.client_id LIMIT _limit
    )
    SELECT jsonb_build_array(callboard.micros(p.at), p.recipient, p.client_id), 1::bigint, p.bytes::bigint, '', true
    FROM page p
    UNION ALL
    SELECT coalesce((
        SELECT jsonb_build_array(callboard.micros(l.at), l.recipient, l.client_id) FROM page l
        ORDER BY l.at DESC, l.recipient DESC, l.client_id DESC LIMIT 1), '[0]'), (count(*) < _limit)::integer, 0, '', false
    FROM page
$$;

CREATE FUNCTION callboard.remove_client_ids(_before timestamptz, _keys jsonb) RETURNS callboard.removed
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _gone callboard.removed;
    _until timestamptz := least(_before, callboard.clock() - interval '7 days');
BEGIN
    WITH gone AS (
        DELETE FROM callboard.client_send d
        USING (SELECT k ->> 1 AS recipient, k ->> 2 AS client_id FROM jsonb_array_elements(_keys) k ORDER BY 1, 2) w
        WHERE d.recipient = w.recipient AND d.client_id = w.client_id AND d.at < _until
        RETURNING pg_column_size(d) AS bytes
    )
    SELECT count(*), count(*), coalesce(sum(g.bytes), 0) INTO _gone FROM gone g;
    RETURN _gone;
END $$;

CREATE FUNCTION callboard.old_answers(_before timestamptz, _after jsonb, _limit integer, _records boolean)
RETURNS SETOF callboard.old_row LANGUAGE sql SET plan_cache_mode = force_generic_plan AS $$
    WITH page AS (
        SELECT k.principal, k.key, k.at, pg_column_size(k) AS bytes FROM callboard.answer k
        WHERE k.at < least(_before, callboard.clock() - interval '1 day')
            AND k.at >= coalesce(callboard.from_micros((_after ->> 0)::bigint), '-infinity')
            AND (k.at, k.principal, k.key) > (
                coalesce(callboard.from_micros((_after ->> 0)::bigint), '-infinity'),
                coalesce(_after ->> 1, ''), coalesce(_after ->> 2, ''))
        ORDER BY k.at, k.principal, k.key LIMIT _limit
    )
    SELECT jsonb_build_array(callboard.micros(p.at), p.principal, p.key), 1::bigint, p.bytes::bigint, '', true
    FROM page p
    UNION ALL
    SELECT coalesce((
        SELECT jsonb_build_array(callboard.micros(l.at), l.principal, l.key) FROM page l
        ORDER BY l.at DESC, l.principal DESC, l.key DESC LIMIT 1), '[0]'), (count(*) < _limit)::integer, 0, '', false
    FROM page
$$;

CREATE FUNCTION callboard.remove_answers(_before timestamptz, _keys jsonb) RETURNS callboard.removed
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _gone callboard.removed;
    _until timestamptz := least(_before, callboard.clock() - interval '1 day');
BEGIN
    WITH gone AS (
        DELETE FROM callboard.answer d
        USING (SELECT k ->> 1 AS principal, k ->> 2 AS key FROM jsonb_array_elements(_keys) k ORDER BY 1, 2) w
        WHERE d.principal = w.principal AND d.key = w.key AND d.at < _until
        RETURNING pg_column_size(d) AS bytes
    )
    SELECT count(*), count(*), coalesce(sum(g.bytes), 0) INTO _gone FROM gone g;
    RETURN _gone;
END $$;

-- What outside askers never fetched: shard 256 is theirs. As lease_number does it, each leaves its turn.
CREATE FUNCTION callboard.old_client_mailboxes(_before timestamptz, _after jsonb, _limit integer, _records boolean)
RETURNS SETOF callboard.old_row LANGUAGE sql SET plan_cache_mode = force_generic_plan AS $$
    WITH page AS (
        SELECT m.id, m.sent_at, pg_column_size(m) AS bytes FROM callboard.message m
        WHERE m.shard = 256 AND m.id > coalesce((_after ->> 0)::bigint, 0) AND m.id < callboard.id_at(_before)
        ORDER BY m.shard, m.id LIMIT _limit
    )
    SELECT jsonb_build_array(p.id), 1::bigint, p.bytes::bigint, '', true FROM page p
    WHERE p.sent_at < least(_before, callboard.clock() - interval '1 day')
    UNION ALL
    SELECT jsonb_build_array(coalesce(max(p.id), 0)), (count(*) < _limit)::integer, 0, '', false FROM page p
$$;

CREATE FUNCTION callboard.remove_client_mailboxes(_before timestamptz, _keys jsonb) RETURNS callboard.removed
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _gone callboard.removed;
    _now timestamptz := callboard.clock();
BEGIN
    WITH gone AS (
        DELETE FROM callboard.message d
        USING (SELECT (k ->> 0)::bigint AS id FROM jsonb_array_elements(_keys) k ORDER BY 1) w
        WHERE d.shard = 256 AND d.id = w.id AND d.sent_at < least(_before, _now - interval '1 day')
        RETURNING d.*
    ), noted AS (
        INSERT INTO callboard.turn (
            shard, id, recipient, sender, type, lane, sender_seq, version, outcome, causation, deliveries, node, epoch, at
        )
        SELECT
            g.shard, g.id, g.recipient, g.sender, g.type, g.lane, g.sender_seq, 0, 'cancelled', g.causation,
            g.deliveries, 0, 0, _now
        FROM gone g
    )
    SELECT count(*), count(*), coalesce(sum(pg_column_size(g)), 0) INTO _gone FROM gone g;
    RETURN _gone;
END $$;

-- All kinds ----------------------------------------------------------------------------------------------------------

CREATE FUNCTION callboard.old(_kind text, _before double precision, _after jsonb, _limit integer, _records boolean)
RETURNS SETOF callboard.old_row LANGUAGE plpgsql AS $$
DECLARE
    _until timestamptz := to_timestamp(_before);
BEGIN
    CASE _kind
        WHEN 'runs' THEN RETURN QUERY SELECT * FROM callboard.old_runs(_until, _after, _limit, _records);
        WHEN 'turns' THEN RETURN QUERY SELECT * FROM callboard.old_turns(_until, _after, _limit, _records);
        WHEN 'dead-letters' THEN RETURN QUERY SELECT * FROM callboard.old_dead_letters(_until, _after, _limit, _records);
        WHEN 'decisions' THEN RETURN QUERY SELECT * FROM callboard.old_decisions(_until, _after, _limit, _records);
        WHEN 'audit' THEN RETURN QUERY SELECT * FROM callboard.old_audit(_until, _after, _limit, _records);
        WHEN 'client-ids' THEN RETURN QUERY SELECT * FROM callboard.old_client_ids(_until, _after, _limit, _records);
        WHEN 'answers' THEN RETURN QUERY SELECT * FROM callboard.old_answers(_until, _after, _limit, _records);
        WHEN 'client-mailboxes' THEN
            RETURN QUERY SELECT * FROM callboard.old_client_mailboxes(_until, _after, _limit, _records);
    END CASE;
END $$;

-- In one transaction, with the audit row that tells of it (S13); none where nothing was removed.
CREATE FUNCTION callboard.remove_old(_kind text, _before double precision, _keys jsonb, _audits jsonb)
RETURNS callboard.removed LANGUAGE plpgsql AS $$
DECLARE
    _until timestamptz := to_timestamp(_before);
    _gone callboard.removed;
BEGIN
    CASE _kind
        WHEN 'runs' THEN _gone := callboard.remove_runs(_until, _keys);
        WHEN 'turns' THEN _gone := callboard.remove_turns(_until, _keys);
        WHEN 'dead-letters' THEN _gone := callboard.remove_dead_letters(_until, _keys);
        WHEN 'decisions' THEN _gone := callboard.remove_decisions(_until, _keys);
        WHEN 'audit' THEN _gone := callboard.remove_audit(_until, _keys);
        WHEN 'client-ids' THEN _gone := callboard.remove_client_ids(_until, _keys);
        WHEN 'answers' THEN _gone := callboard.remove_answers(_until, _keys);
        WHEN 'client-mailboxes' THEN _gone := callboard.remove_client_mailboxes(_until, _keys);
    END CASE;
    IF _gone.items > 0 THEN
        PERFORM callboard.write_audit((
            SELECT jsonb_agg(a || jsonb_build_object('after', format(
                '%s %s gone, %s rows, %s bytes', _gone.items, _kind, _gone.amount, _gone.bytes)))
            FROM jsonb_array_elements(_audits) a), callboard.clock());
    END IF;
    RETURN _gone;
END $$;
