-- A batch of turns: one call, one transaction, one fsync for many turns.
--
-- The call is optimistic: it writes, counts what it hit, and gives everything up (CB002) when a unit did not fit. Only
-- then does the caller ask `misfits` which units those are, and commits the others. Checking first would look up every
-- row twice in the case that always happens, for the sake of the one that almost never does.
--
-- What every turn has comes as arrays, which cost least by far; what few have (retries, timers, decisions, …) as JSON.
-- Sections that are empty are skipped.

CREATE FUNCTION callboard.commit_batch(
    _node integer, _epoch bigint,
    _ack_shard bigint[], _ack_id bigint[],
    _created bigint, _actor_expected bigint[],
    _actor_shard bigint[], _actor_address text[], _actor_kind text[], _actor_version bigint[],
    _actor_incarnation bigint[], _actor_status text[], _actor_reason text[], _actor_state bytea[],
    _actor_state_version bigint[], _actor_last_id bigint[], _actor_sent bigint[], _actor_events bigint[],
    _actor_summary text[],
    _message_id bigint[], _message_shard bigint[], _message_recipient text[], _message_sender text[],
    _message_lane bigint[], _message_type text[], _message_version bigint[], _message_body text[],
    _message_sender_seq bigint[], _message_deliveries bigint[], _message_failures bigint[],
    _message_delay_seconds double precision[], _message_last_error text[], _message_reply_to text[],
    _message_correlation bigint[], _message_causation bigint[], _message_started boolean[],
    _message_sent_by_node bigint[], _message_held boolean[],
    _turn_shard bigint[], _turn_id bigint[], _turn_recipient text[], _turn_sender text[], _turn_type text[],
    _turn_lane bigint[], _turn_sender_seq bigint[], _turn_version bigint[], _turn_outcome text[],
    _turn_causation bigint[], _turn_deliveries bigint[], _turn_node bigint[], _turn_epoch bigint[],
    _event_shard bigint[], _event_address text[], _event_seq bigint[], _event_type text[], _event_body text[],
    _event_node bigint[],
    _rare jsonb
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz;
    _hit bigint;
BEGIN
    PERFORM callboard.fence(_node, _epoch);
    _now := callboard.clock();

    IF cardinality(_ack_id) > 0 THEN
        DELETE FROM callboard.message m
        USING unnest(_ack_shard, _ack_id) AS a(shard, id)
        WHERE m.shard = a.shard AND m.id = a.id AND NOT m.held;
        GET DIAGNOSTICS _hit = ROW_COUNT;
        PERFORM callboard.must_hit('acknowledged messages', _hit, cardinality(_ack_id));
    END IF;

    IF cardinality(_actor_expected) > _created THEN
        UPDATE callboard.actor SET
            kind = a.kind, version = a.version, incarnation = a.incarnation, status = a.status, reason = a.reason,
            state = a.state, state_version = a.state_version, last_id = a.last_id, sent = a.sent, events = a.events,
            summary = a.summary
        FROM unnest(
            _actor_expected, _actor_shard, _actor_address, _actor_kind, _actor_version, _actor_incarnation,
            _actor_status, _actor_reason, _actor_state, _actor_state_version, _actor_last_id, _actor_sent,
            _actor_events, _actor_summary
        ) AS a(expected, shard, address, kind, version, incarnation, status, reason, state, state_version, last_id,
            sent, events, summary)
        WHERE actor.shard = a.shard AND actor.address = a.address AND actor.version = a.expected AND a.expected > 0;
        GET DIAGNOSTICS _hit = ROW_COUNT;
        PERFORM callboard.must_hit('actors', _hit, cardinality(_actor_expected) - _created);
    END IF;

    IF _created > 0 THEN
        INSERT INTO callboard.actor (
            shard, address, kind, version, incarnation, status, reason, state, state_version, last_id, sent, events,
            summary
        )
        SELECT
            a.shard, a.address, a.kind, a.version, a.incarnation, a.status, a.reason, a.state, a.state_version,
            a.last_id, a.sent, a.events, a.summary
        FROM unnest(
            _actor_expected, _actor_shard, _actor_address, _actor_kind, _actor_version, _actor_incarnation,
            _actor_status, _actor_reason, _actor_state, _actor_state_version, _actor_last_id, _actor_sent,
            _actor_events, _actor_summary
        ) AS a(expected, shard, address, kind, version, incarnation, status, reason, state, state_version, last_id,
            sent, events, summary)
        WHERE a.expected = 0
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS _hit = ROW_COUNT;
        PERFORM callboard.must_hit('new actors', _hit, _created);
    END IF;

    IF _rare IS NOT NULL THEN
        PERFORM callboard.commit_rare(_node, _rare, _now);
    END IF;

    IF cardinality(_message_id) > 0 THEN
        INSERT INTO callboard.message (
            id, shard, recipient, sender, lane, type, version, body, sender_seq, deliveries, failures, due_at,
            last_error, reply_to, correlation, causation, started, sent_by_node, held, sent_at
        )
        SELECT
            m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries,
            m.failures, CASE m.delay_seconds WHEN 0 THEN _now ELSE _now + make_interval(secs => m.delay_seconds) END,
            m.last_error, m.reply_to, m.correlation, m.causation, m.started, m.sent_by_node, m.held, _now
        FROM unnest(
            _message_id, _message_shard, _message_recipient, _message_sender, _message_lane, _message_type,
            _message_version, _message_body, _message_sender_seq, _message_deliveries, _message_failures,
            _message_delay_seconds, _message_last_error, _message_reply_to, _message_correlation, _message_causation,
            _message_started, _message_sent_by_node, _message_held
        ) AS m(id, shard, recipient, sender, lane, type, version, body, sender_seq, deliveries, failures,
            delay_seconds, last_error, reply_to, correlation, causation, started, sent_by_node, held);
    END IF;

    IF cardinality(_turn_id) > 0 THEN
        INSERT INTO callboard.turn (
            shard, id, recipient, sender, type, lane, sender_seq, version, outcome, causation, deliveries, node, epoch,
            at
        )
        SELECT t.*, _now
        FROM unnest(
            _turn_shard, _turn_id, _turn_recipient, _turn_sender, _turn_type, _turn_lane, _turn_sender_seq,
            _turn_version, _turn_outcome, _turn_causation, _turn_deliveries, _turn_node, _turn_epoch
        ) AS t(shard, id, recipient, sender, type, lane, sender_seq, version, outcome, causation, deliveries, node,
            epoch);
    END IF;

    IF cardinality(_event_seq) > 0 THEN
        PERFORM callboard.check_gaps(_event_shard, _event_address, _event_seq);
        INSERT INTO callboard.journal (shard, address, seq, type, body, at, node)
        SELECT e.shard, e.address, e.seq, e.type, e.body, _now, e.node
        FROM unnest(_event_shard, _event_address, _event_seq, _event_type, _event_body, _event_node)
            AS e(shard, address, seq, type, body, node);
    END IF;
END $$;

CREATE FUNCTION callboard.must_hit(_what text, _hit bigint, _wanted bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF _hit <> _wanted THEN
        RAISE EXCEPTION 'of % %, only % are as expected', _wanted, _what, _hit USING ERRCODE = 'CB002';
    END IF;
END $$;

-- S9: an actor's events are numbered from 1 without gaps. Repeats are refused by the key.
CREATE FUNCTION callboard.check_gaps(_shard bigint[], _address text[], _seq bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    _gap record;
BEGIN
    SELECT e.address, e.first INTO _gap
    FROM (
        SELECT n.shard, n.address, min(n.seq) AS first, max(n.seq) AS last, count(*) AS amount
        FROM unnest(_shard, _address, _seq) AS n(shard, address, seq)
        GROUP BY n.shard, n.address
    ) e
    WHERE e.last - e.first + 1 <> e.amount OR e.first <> 1 + coalesce(
        (SELECT j.seq FROM callboard.journal j
         WHERE j.shard = e.shard AND j.address = e.address ORDER BY j.seq DESC LIMIT 1), 0)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'event % of % does not follow the last one', _gap.first, _gap.address USING ERRCODE = '23514';
    END IF;
END $$;

-- The rare sections. Within a batch a fire comes before a cancel and a cancel before a setting: a timer that one unit
-- fires and another one sets anew has fired.
CREATE FUNCTION callboard.commit_rare(_node integer, _rare jsonb, _now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF _rare ?| ARRAY['retries', 'releases', 'drops', 'dead'] THEN
        PERFORM callboard.commit_rare_messages(_rare, _now);
    END IF;
    IF _rare ?| ARRAY['fires', 'cancels', 'timers'] THEN
        PERFORM callboard.commit_rare_timers(_rare, _now);
    END IF;
    IF _rare ?| ARRAY['moves', 'decisions'] THEN
        PERFORM callboard.commit_rare_decisions(_node, _rare, _now);
    END IF;
END $$;

CREATE FUNCTION callboard.commit_rare_messages(_rare jsonb, _now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _hit bigint;
BEGIN
    UPDATE callboard.message m SET
        due_at = _now + make_interval(secs => r.delay_seconds), deliveries = r.deliveries, failures = r.failures,
        last_error = r.last_error, started = r.started
    FROM jsonb_to_recordset(_rare -> 'retries') AS r(
        shard integer, id bigint, delay_seconds double precision, deliveries integer, failures integer,
        last_error text, started boolean)
    WHERE m.shard = r.shard AND m.id = r.id AND NOT m.held;
    GET DIAGNOSTICS _hit = ROW_COUNT;
    PERFORM callboard.must_hit('retried messages', _hit, coalesce(jsonb_array_length(_rare -> 'retries'), 0));

    UPDATE callboard.message m SET held = false
    FROM jsonb_to_recordset(_rare -> 'releases') AS r(shard integer, id bigint)
    WHERE m.shard = r.shard AND m.id = r.id AND m.held;
    GET DIAGNOSTICS _hit = ROW_COUNT;
    PERFORM callboard.must_hit('released messages', _hit, coalesce(jsonb_array_length(_rare -> 'releases'), 0));

    DELETE FROM callboard.message m
    USING jsonb_to_recordset(_rare -> 'drops') AS r(shard integer, id bigint)
    WHERE m.shard = r.shard AND m.id = r.id AND m.held;
    GET DIAGNOSTICS _hit = ROW_COUNT;
    PERFORM callboard.must_hit('dropped messages', _hit, coalesce(jsonb_array_length(_rare -> 'drops'), 0));

    INSERT INTO callboard.dead_letter (
        shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries, failures, last_error,
        reply_to, correlation, causation, started, sent_by_node, reason, detail, at
    )
    SELECT
        shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries, failures, last_error,
        reply_to, correlation, causation, started, sent_by_node, reason, detail, _now
    FROM jsonb_to_recordset(_rare -> 'dead') AS d(
        shard integer, id bigint, recipient text, sender text, lane smallint, type text, version integer, body text,
        sender_seq bigint, deliveries integer, failures integer, last_error text, reply_to text, correlation bigint,
        causation bigint, started boolean, sent_by_node integer, reason text, detail text);
END $$;

CREATE FUNCTION callboard.commit_rare_timers(_rare jsonb, _now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _hit bigint;
BEGIN
    -- The next due time is one period after the last one (no drift), past those that were missed; a timer without a
    -- period is gone. Both count as fired.
    WITH fired AS (
        SELECT t.shard, t.address, t.key, t.period_seconds
        FROM callboard.timer t
        JOIN jsonb_to_recordset(_rare -> 'fires') AS f(shard integer, address text, key text, generation bigint)
            ON t.shard = f.shard AND t.address = f.address AND t.key = f.key
            AND t.generation = f.generation AND t.due_at <= _now + interval '1 millisecond'
    ), gone AS (
        DELETE FROM callboard.timer t USING fired f
        WHERE t.shard = f.shard AND t.address = f.address AND t.key = f.key AND f.period_seconds = 0
        RETURNING 1
    ), advanced AS (
        UPDATE callboard.timer t
        SET due_at = t.due_at + make_interval(secs => t.period_seconds * greatest(
            1, floor(callboard.seconds(_now) / t.period_seconds - callboard.seconds(t.due_at) / t.period_seconds) + 1))
        FROM fired f
        WHERE t.shard = f.shard AND t.address = f.address AND t.key = f.key AND f.period_seconds > 0
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM advanced) INTO _hit;
    PERFORM callboard.must_hit('timers', _hit, coalesce(jsonb_array_length(_rare -> 'fires'), 0));

    DELETE FROM callboard.timer t
    USING jsonb_to_recordset(_rare -> 'cancels') AS c(shard integer, address text, key text)
    WHERE t.shard = c.shard AND t.address = c.address AND t.key = c.key;

    INSERT INTO callboard.timer (shard, address, key, generation, due_at, type, version, body, lane, period_seconds)
    SELECT
        shard, address, key, generation, _now + make_interval(secs => delay_seconds), type, version, body, lane,
        period_seconds
    FROM jsonb_to_recordset(_rare -> 'timers') AS t(
        shard integer, address text, key text, generation bigint, delay_seconds double precision, type text,
        version integer, body text, lane smallint, period_seconds double precision)
    ON CONFLICT (shard, address, key) DO UPDATE SET
        generation = excluded.generation, due_at = excluded.due_at, type = excluded.type, version = excluded.version,
        body = excluded.body, lane = excluded.lane, period_seconds = excluded.period_seconds;
END $$;

CREATE FUNCTION callboard.commit_rare_decisions(_node integer, _rare jsonb, _now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    _hit bigint;
BEGIN
    WITH moved AS (
        UPDATE callboard.decision d
        SET status = m.after, note = coalesce(nullif(m.note, ''), d.note)
        FROM jsonb_to_recordset(_rare -> 'moves') AS m(decision text, before text, after text, note text)
        WHERE d.id = m.decision AND d.status = m.before
        RETURNING d.id, m.before, m.after, m.note
    ), noted AS (
        INSERT INTO callboard.audit (at, who, label, action, object, before, after, note)
        SELECT _now, 'node ' || _node, '', 'move', id, before, after, note FROM moved
    )
    SELECT count(*) INTO _hit FROM moved;
    PERFORM callboard.must_hit('decisions', _hit, coalesce(jsonb_array_length(_rare -> 'moves'), 0));

    INSERT INTO callboard.decision (
        id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by,
        requested_at, expires_seconds, expires_at, decided_by, decided_at, note, release_at
    )
    SELECT
        id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by,
        _now, CASE WHEN expires_seconds < 0 THEN 0 ELSE expires_seconds END,
        CASE WHEN expires_seconds > 0 THEN _now + make_interval(secs => expires_seconds) END,
        decided_by, CASE WHEN decided_at > 0 THEN to_timestamp(decided_at) WHEN status <> 'pending' THEN _now END,
        note, CASE WHEN release_at > 0 THEN to_timestamp(release_at) END
    FROM jsonb_to_recordset(_rare -> 'decisions') AS d(
        id text, run text, call text, message_id bigint, approvals text, kind text, tool text, arguments text,
        digest text, reason text, status text, requested_by text, expires_seconds double precision, decided_by text,
        decided_at double precision, note text, release_at double precision);
END $$;

-- Which units of a batch do not fit what is stored, and why; asked only after CB002. Reads without locks: a unit that
-- did not fit at this moment may be left out, and what is left is checked again by the commit itself.
CREATE FUNCTION callboard.misfits(_claims jsonb) RETURNS TABLE (unit integer, reason text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT c.unit, format('%s: version %s was expected, %s is there', c.address, c.expected,
                          coalesce(a.version::text, 'none'))
    FROM jsonb_to_recordset(_claims -> 'actors') AS c(unit integer, shard integer, address text, expected bigint)
    LEFT JOIN callboard.actor a ON a.shard = c.shard AND a.address = c.address
    WHERE coalesce(a.version, 0) <> c.expected
    UNION ALL
    SELECT c.unit, format('message %s of shard %s is not %s there', c.id, c.shard,
                          CASE WHEN c.held THEN 'held' ELSE 'waiting' END)
    FROM jsonb_to_recordset(_claims -> 'messages') AS c(unit integer, shard integer, id bigint, held boolean)
    LEFT JOIN callboard.message m ON m.shard = c.shard AND m.id = c.id
    WHERE m.held IS DISTINCT FROM c.held
    UNION ALL
    SELECT c.unit, CASE
        WHEN t.generation IS DISTINCT FROM c.generation
            THEN format('timer %L of %s was cancelled or set anew', c.key, c.address)
        ELSE format('timer %L of %s is due at %s, not yet', c.key, c.address, t.due_at) END
    FROM jsonb_to_recordset(_claims -> 'fires')
        AS c(unit integer, shard integer, address text, key text, generation bigint)
    LEFT JOIN callboard.timer t
        ON t.shard = c.shard AND t.address = c.address AND t.key = c.key
    WHERE t.generation IS DISTINCT FROM c.generation
        OR t.due_at > (SELECT callboard.clock()) + interval '1 millisecond'
    UNION ALL
    SELECT c.unit, format('decision %s is %s, not %s', c.decision, coalesce(d.status, 'not there'), c.before)
    FROM jsonb_to_recordset(_claims -> 'moves') AS c(unit integer, decision text, before text)
    LEFT JOIN callboard.decision d ON d.id = c.decision
    WHERE d.status IS DISTINCT FROM c.before;
END $$;
