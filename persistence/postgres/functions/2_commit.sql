-- A batch of turns: one call, one transaction, one fsync for many turns.
--
-- The call is optimistic: it writes, counts what it hit, and gives everything up (CB002) when a unit did not fit. Only
-- then does the caller ask `misfits` which units those are, and commits the others. Checking first would look up every
-- row twice in the case that always happens, for the sake of the one that almost never does.
--
-- What every turn has comes as arrays, which cost least by far; what few have (retries, timers, decisions, …) as JSON.
-- Sections that are empty are skipped.

-- Columns of many rows: one array for each field of the row class. As fields of a few composite arguments, not as
-- arguments of their own: plpgsql copies every array argument into a memory context of its own, which cost a batch of
-- one turn more than all its statements. A section without rows is NULL.
CREATE TYPE callboard.actor_columns AS (
    shard bigint[], address text[], kind text[], version bigint[], incarnation bigint[], status text[], reason text[],
    state bytea[], state_version bigint[], last_id bigint[], sent bigint[], events bigint[], summary text[],
    bonds text[], expected bigint[]
);
CREATE TYPE callboard.message_columns AS (
    id bigint[], shard bigint[], recipient text[], sender text[], lane bigint[], type text[], version bigint[],
    body text[], sender_seq bigint[], deliveries bigint[], failures bigint[], delay_seconds double precision[],
    last_error text[], reply_to text[], correlation bigint[], causation bigint[], started boolean[],
    sent_by_node bigint[], headers text[], held boolean[]
);
CREATE TYPE callboard.turn_columns AS (
    shard bigint[], id bigint[], recipient text[], sender text[], type text[], lane bigint[], sender_seq bigint[],
    version bigint[], outcome text[], causation bigint[], deliveries bigint[], node bigint[]
);
CREATE TYPE callboard.event_columns AS (
    shard bigint[], address text[], seq bigint[], type text[], body text[], node bigint[]
);

-- Plans. This session keeps generic plans, which may have been made while the tables were empty, when every way to a row
-- costs the same to the planner. So there must be one way only: rows are first found by a subquery that cannot be
-- turned around (LATERAL, OFFSET 0) and whose conditions fit one index (`held::integer = 0` does not fit the partial
-- ones), then written by their place. A row that moved in between is missed, which counts as a unit that does not fit.
-- What is rare is planned anew each time. tests/postgres/test_plans.py fails where a whole table is read.
--
-- unnest stands in the select list, where it hands over row by row; in FROM, each array would go through a table of its
-- own first (a fifth of the time of a batch of 256).
CREATE FUNCTION callboard.commit_batch(
    _node integer, _epoch bigint, _ack_shard bigint[], _ack_id bigint[],
    _actor callboard.actor_columns, _created bigint, _message callboard.message_columns, _turn callboard.turn_columns,
    _event callboard.event_columns, _rare jsonb
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz;
    _hit bigint;
BEGIN
    -- The fence, as in callboard.fence.
    PERFORM 1 FROM callboard.node
    WHERE number = _node AND epoch = _epoch AND status IN ('up', 'draining') FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % was superseded: epoch % is not current', _node, _epoch USING ERRCODE = 'CB001';
    END IF;
    _now := callboard.clock();

    IF cardinality(_ack_id) > 0 THEN
        DELETE FROM callboard.message WHERE ctid = ANY (ARRAY(
            SELECT found.place
            FROM (SELECT unnest(_ack_shard) AS shard, unnest(_ack_id) AS id) a
            CROSS JOIN LATERAL (
                SELECT m.ctid AS place FROM callboard.message m
                WHERE m.shard = a.shard AND m.id = a.id AND m.held::integer = 0 OFFSET 0
            ) found
        ));
        GET DIAGNOSTICS _hit = ROW_COUNT;
        IF _hit <> cardinality(_ack_id) THEN
            RAISE EXCEPTION 'not all messages to acknowledge are waiting' USING ERRCODE = 'CB002';
        END IF;
    END IF;

    IF cardinality(_actor.expected) > _created THEN
        UPDATE callboard.actor SET
            kind = a.kind, version = a.version, incarnation = a.incarnation, status = a.status, reason = a.reason,
            state = a.state, state_version = a.state_version, last_id = a.last_id, sent = a.sent, events = a.events,
            summary = a.summary, bonds = a.bonds
        FROM (
            SELECT wanted.*, found.place
            FROM (
                SELECT unnest(_actor.shard) AS shard, unnest(_actor.address) AS address, unnest(_actor.kind) AS kind,
                    unnest(_actor.version) AS version, unnest(_actor.incarnation) AS incarnation,
                    unnest(_actor.status) AS status, unnest(_actor.reason) AS reason, unnest(_actor.state) AS state,
                    unnest(_actor.state_version) AS state_version, unnest(_actor.last_id) AS last_id,
                    unnest(_actor.sent) AS sent, unnest(_actor.events) AS events, unnest(_actor.summary) AS summary,
                    unnest(_actor.bonds) AS bonds, unnest(_actor.expected) AS expected
            ) wanted
            CROSS JOIN LATERAL (
                SELECT f.ctid AS place FROM callboard.actor f
                WHERE f.shard = wanted.shard AND f.address = wanted.address AND f.version = wanted.expected OFFSET 0
            ) found
        ) a
        WHERE actor.ctid = a.place;
        GET DIAGNOSTICS _hit = ROW_COUNT;
        IF _hit <> cardinality(_actor.expected) - _created THEN
            RAISE EXCEPTION 'not all actors have the expected version' USING ERRCODE = 'CB002';
        END IF;
    END IF;

    IF _created > 0 THEN
        INSERT INTO callboard.actor (
            shard, address, kind, version, incarnation, status, reason, state, state_version, last_id, sent, events,
            summary, bonds, created_at
        )
        SELECT
            a.shard, a.address, a.kind, a.version, a.incarnation, a.status, a.reason, a.state, a.state_version,
            a.last_id, a.sent, a.events, a.summary, a.bonds, _now
        FROM (
            SELECT unnest(_actor.shard) AS shard, unnest(_actor.address) AS address, unnest(_actor.kind) AS kind,
                unnest(_actor.version) AS version, unnest(_actor.incarnation) AS incarnation,
                unnest(_actor.status) AS status, unnest(_actor.reason) AS reason, unnest(_actor.state) AS state,
                unnest(_actor.state_version) AS state_version, unnest(_actor.last_id) AS last_id,
                unnest(_actor.sent) AS sent, unnest(_actor.events) AS events, unnest(_actor.summary) AS summary,
                unnest(_actor.bonds) AS bonds, unnest(_actor.expected) AS expected
        ) a
        WHERE a.expected = 0
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS _hit = ROW_COUNT;
        IF _hit <> _created THEN
            RAISE EXCEPTION 'not all actors to create are new' USING ERRCODE = 'CB002';
        END IF;
    END IF;

    IF _rare IS NOT NULL THEN
        PERFORM callboard.commit_rare(_node, _epoch, _rare, _now);
    END IF;

    IF cardinality(_message.id) > 0 THEN
        INSERT INTO callboard.message (
            id, shard, recipient, sender, lane, type, version, body, sender_seq, deliveries, failures, due_at,
            last_error, reply_to, correlation, causation, started, sent_by_node, held, sent_at, headers
        )
        SELECT
            m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries,
            m.failures, CASE m.delay_seconds WHEN 0 THEN _now ELSE _now + make_interval(secs => m.delay_seconds) END,
            m.last_error, m.reply_to, m.correlation, m.causation, m.started, m.sent_by_node, m.held, _now, m.headers
        FROM (
            SELECT unnest(_message.id) AS id, unnest(_message.shard) AS shard,
                unnest(_message.recipient) AS recipient, unnest(_message.sender) AS sender,
                unnest(_message.lane) AS lane, unnest(_message.type) AS type, unnest(_message.version) AS version,
                unnest(_message.body) AS body, unnest(_message.sender_seq) AS sender_seq,
                unnest(_message.deliveries) AS deliveries, unnest(_message.failures) AS failures,
                unnest(_message.delay_seconds) AS delay_seconds, unnest(_message.last_error) AS last_error,
                unnest(_message.reply_to) AS reply_to, unnest(_message.correlation) AS correlation,
                unnest(_message.causation) AS causation, unnest(_message.started) AS started,
                unnest(_message.sent_by_node) AS sent_by_node, unnest(_message.headers) AS headers,
                unnest(_message.held) AS held
        ) m;
    END IF;

    IF cardinality(_turn.id) > 0 THEN
        INSERT INTO callboard.turn (
            shard, id, recipient, sender, type, lane, sender_seq, version, outcome, causation, deliveries, node, epoch,
            at
        )
        SELECT
            unnest(_turn.shard), unnest(_turn.id), unnest(_turn.recipient), unnest(_turn.sender), unnest(_turn.type),
            unnest(_turn.lane), unnest(_turn.sender_seq), unnest(_turn.version), unnest(_turn.outcome),
            unnest(_turn.causation), unnest(_turn.deliveries), unnest(_turn.node), _epoch, _now;
    END IF;

    IF cardinality(_event.seq) > 0 THEN
        INSERT INTO callboard.journal (shard, address, seq, type, body, at, node)
        SELECT
            unnest(_event.shard), unnest(_event.address), unnest(_event.seq), unnest(_event.type), unnest(_event.body),
            _now, unnest(_event.node);
        -- S9: an actor's events are numbered from 1 without gaps; repeats are refused by the key. Each looks for the one
        -- before it, now that all are there: no grouping, and the pages it looks at were just written.
        PERFORM 1
        FROM (
            SELECT unnest(_event.shard) AS shard, unnest(_event.address) AS address, unnest(_event.seq) AS seq
        ) e
        WHERE e.seq > 1 AND NOT EXISTS (
            SELECT 1 FROM callboard.journal j
            WHERE j.shard = e.shard AND j.address = e.address AND j.seq = e.seq - 1);
        IF FOUND THEN
            RAISE EXCEPTION 'an event does not follow the last one of its actor' USING ERRCODE = '23514';
        END IF;
    END IF;

    -- Last: it may take back what another turn of this batch has sent.
    IF _rare ? 'withdraws' THEN
        PERFORM callboard.commit_withdrawals(_node, _epoch, _rare, _now);
    END IF;
END $$;

CREATE FUNCTION callboard.commit_withdrawals(
    _node integer, _epoch bigint, _rare jsonb, _now timestamptz
) RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    WITH gone AS (
        DELETE FROM callboard.message m
        USING jsonb_to_recordset(_rare -> 'withdraws') AS r(shard integer, id bigint)
        WHERE m.shard = r.shard AND m.id = r.id
        RETURNING m.*
    )
    INSERT INTO callboard.turn (
        shard, id, recipient, sender, type, lane, sender_seq, version, outcome, causation, deliveries, node, epoch, at
    )
    SELECT shard, id, recipient, sender, type, lane, sender_seq, 0, 'cancelled', causation, deliveries, _node, _epoch,
        _now
    FROM gone;
END $$;

CREATE FUNCTION callboard.must_hit(_what text, _hit bigint, _wanted bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF _hit <> _wanted THEN
        RAISE EXCEPTION 'of % %, only % are as expected', _wanted, _what, _hit USING ERRCODE = 'CB002';
    END IF;
END $$;

-- The rare sections. Within a batch a fire comes before a cancel and a cancel before a setting: a timer that one unit
-- fires and another one sets anew has fired.
CREATE FUNCTION callboard.commit_rare(
    _node integer, _epoch bigint, _rare jsonb, _now timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF _rare ?| ARRAY['retries', 'charges', 'releases', 'drops', 'stashes', 'unstashes', 'dead'] THEN
        PERFORM callboard.commit_rare_messages(_node, _epoch, _rare, _now);
    END IF;
    IF _rare ?| ARRAY['fires', 'cancels', 'timers'] THEN
        PERFORM callboard.commit_rare_timers(_rare, _now);
    END IF;
    IF _rare ?| ARRAY['moves', 'decisions'] THEN
        PERFORM callboard.commit_rare_decisions(_node, _rare, _now);
    END IF;
END $$;

CREATE FUNCTION callboard.commit_rare_messages(
    _node integer, _epoch bigint, _rare jsonb, _now timestamptz
) RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    _hit bigint;
BEGIN
    -- Where they are still there, no check; several processes may have ended over the same message.
    UPDATE callboard.message m SET losses = m.losses + r.times
    FROM (
        SELECT c.shard, c.id, count(*)::integer AS times
        FROM jsonb_to_recordset(_rare -> 'charges') AS c(shard integer, id bigint)
        GROUP BY c.shard, c.id
    ) r
    WHERE m.shard = r.shard AND m.id = r.id;

    -- What an actor puts aside is held; its own, so that nobody can hide another's messages. Before the retries, which
    -- then miss what this batch puts aside; what had been put aside before comes back after the drops, which need it held.
    UPDATE callboard.message m SET held = true
    FROM jsonb_to_recordset(_rare -> 'stashes') AS r(shard integer, id bigint, recipient text)
    WHERE m.shard = r.shard AND m.id = r.id AND m.recipient = r.recipient AND NOT m.held;
    GET DIAGNOSTICS _hit = ROW_COUNT;
    PERFORM callboard.must_hit('messages to put aside', _hit, coalesce(jsonb_array_length(_rare -> 'stashes'), 0));

    -- A call that is noted as begun has not failed.
    UPDATE callboard.message m SET
        due_at = _now + make_interval(secs => r.delay_seconds), deliveries = r.deliveries, failures = r.failures,
        last_error = r.last_error, started = r.started, losses = r.losses, timeouts = r.timeouts,
        failing_since = CASE
            WHEN r.failures > m.failures OR r.deliveries > m.deliveries AND NOT r.started
            THEN coalesce(m.failing_since, _now) ELSE m.failing_since END
    FROM jsonb_to_recordset(_rare -> 'retries') AS r(
        shard integer, id bigint, delay_seconds double precision, deliveries integer, failures integer,
        last_error text, started boolean, losses integer, timeouts integer)
    WHERE m.shard = r.shard AND m.id = r.id AND NOT m.held;
    GET DIAGNOSTICS _hit = ROW_COUNT;
    PERFORM callboard.must_hit('retried messages', _hit, coalesce(jsonb_array_length(_rare -> 'retries'), 0));

    UPDATE callboard.message m SET held = false
    FROM jsonb_to_recordset(_rare -> 'releases') AS r(shard integer, id bigint)
    WHERE m.shard = r.shard AND m.id = r.id AND m.held;
    GET DIAGNOSTICS _hit = ROW_COUNT;
    PERFORM callboard.must_hit('released messages', _hit, coalesce(jsonb_array_length(_rare -> 'releases'), 0));

    -- What is taken back was not handled, and its turn row says so: every message's end is on record.
    WITH gone AS (
        DELETE FROM callboard.message m
        USING jsonb_to_recordset(_rare -> 'drops') AS r(shard integer, id bigint)
        WHERE m.shard = r.shard AND m.id = r.id AND m.held
        RETURNING m.*
    )
    INSERT INTO callboard.turn (
        shard, id, recipient, sender, type, lane, sender_seq, version, outcome, causation, deliveries, node, epoch, at
    )
    SELECT shard, id, recipient, sender, type, lane, sender_seq, 0, 'cancelled', causation, deliveries, _node, _epoch,
        _now
    FROM gone;
    GET DIAGNOSTICS _hit = ROW_COUNT;
    PERFORM callboard.must_hit('dropped messages', _hit, coalesce(jsonb_array_length(_rare -> 'drops'), 0));

    UPDATE callboard.message m SET held = false
    FROM jsonb_to_recordset(_rare -> 'unstashes') AS r(shard integer, address text)
    WHERE m.shard = r.shard AND m.recipient = r.address AND m.held AND NOT EXISTS (
        SELECT 1 FROM jsonb_to_recordset(_rare -> 'stashes') AS s(shard integer, id bigint)
        WHERE s.shard = m.shard AND s.id = m.id);

    INSERT INTO callboard.dead_letter (
        shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries, failures, last_error,
        reply_to, correlation, causation, started, sent_by_node, reason, detail, at, headers, losses, timeouts,
        settled, settled_at, settled_by
    )
    SELECT
        shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries, failures, last_error,
        reply_to, correlation, causation, started, sent_by_node, reason, detail, _now, headers, losses,
        timeouts, coalesce(settled, ''), CASE WHEN settled <> '' THEN _now END, coalesce(settled_by, '')
    FROM jsonb_to_recordset(_rare -> 'dead') AS d(
        shard integer, id bigint, recipient text, sender text, lane smallint, type text, version integer, body text,
        sender_seq bigint, deliveries integer, failures integer, last_error text, reply_to text, correlation bigint,
        causation bigint, started boolean, sent_by_node integer, reason text, detail text, headers text,
        losses integer, timeouts integer, settled text, settled_by text);
END $$;

-- Whether a fire may advance a timer by so many periods: the last of them has begun, but for what rounding can take
-- from a delay. In seconds, which do not overflow.
CREATE FUNCTION callboard.is_due(
    _due_at timestamptz, _period_seconds double precision, _periods bigint, _now timestamptz
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT _periods >= 1 AND (_periods = 1 OR _period_seconds > 0)
        AND callboard.seconds(_due_at) + (_periods - 1) * _period_seconds <= callboard.seconds(_now) + 0.001
$$;

CREATE FUNCTION callboard.commit_rare_timers(_rare jsonb, _now timestamptz) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    _hit bigint;
BEGIN
    -- The next due time is as many periods after the last one as the fire says (no drift), each of which has begun; a
    -- timer without a period is gone. Both count as fired.
    WITH fired AS (
        SELECT t.shard, t.address, t.key, t.period_seconds, f.periods
        FROM callboard.timer t
        JOIN jsonb_to_recordset(_rare -> 'fires') 
            AS f(shard integer, address text, key text, generation bigint, periods bigint)
            ON t.shard = f.shard AND t.address = f.address AND t.key = f.key AND t.generation = f.generation
            AND callboard.is_due(t.due_at, t.period_seconds, f.periods, _now)
    ), gone AS (
        DELETE FROM callboard.timer t USING fired f
        WHERE t.shard = f.shard AND t.address = f.address AND t.key = f.key AND f.period_seconds = 0
        RETURNING 1
    ), advanced AS (
        UPDATE callboard.timer t
        SET due_at = t.due_at + make_interval(secs => t.period_seconds * f.periods)
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
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    _hit bigint;
BEGIN
    WITH moved AS (
        UPDATE callboard.decision d
        SET status = m.after, note = coalesce(nullif(m.note, ''), d.note), checks = coalesce(nullif(m.checks, ''), d.checks),
            hold_id = CASE WHEN m.hold_id = 0 AND m.after = 'approved' THEN d.hold_id ELSE 0 END
        FROM jsonb_to_recordset(_rare -> 'moves') AS m(
            decision text, before text, after text, note text, must boolean, hold_id bigint, checks text)
        WHERE d.id = m.decision AND d.status = m.before AND m.hold_id IN (0, d.hold_id)
        RETURNING d.id, m.before, m.after, m.note, m.must
    ), noted AS (
        INSERT INTO callboard.audit (at, who, label, action, object, before, after, note)
        SELECT _now, 'node ' || _node, '', 'move', id, before, after, note FROM moved WHERE before <> after
    )
    SELECT count(*) FILTER (WHERE must) INTO _hit FROM moved;
    PERFORM callboard.must_hit('decisions', _hit, (
        SELECT count(*) FROM jsonb_to_recordset(_rare -> 'moves') AS m(must boolean) WHERE m.must));

    INSERT INTO callboard.decision (
        id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by,
        requested_at, expires_seconds, expires_at, decided_by, decided_at, note, release_at, policy, risk, needed,
        not_requester, hold_seconds, signatures, provenance, checks, replaces, diff, edited_by, hold_id
    )
    SELECT
        id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, status, requested_by,
        _now, CASE WHEN expires_seconds < 0 THEN 0 ELSE expires_seconds END,
        CASE WHEN expires_seconds > 0 THEN _now + make_interval(secs => expires_seconds) END,
        decided_by, CASE WHEN decided_at > 0 THEN to_timestamp(decided_at) WHEN status <> 'pending' THEN _now END,
        note, CASE WHEN release_at > 0 THEN to_timestamp(release_at) END, policy, risk, needed,
        not_requester, hold_seconds, signatures, provenance, checks, replaces, diff, edited_by, hold_id
    FROM jsonb_to_recordset(_rare -> 'decisions') AS d(
        id text, run text, call text, message_id bigint, approvals text, kind text, tool text, arguments text,
        digest text, reason text, status text, requested_by text, expires_seconds double precision, decided_by text,
        decided_at double precision, note text, release_at double precision, policy text, risk text, needed integer,
        not_requester boolean, hold_seconds double precision, signatures text, provenance text, checks text,
        replaces text, diff text, edited_by text, hold_id bigint);
END $$;

-- Which units of a batch do not fit what is stored, and why; asked only after CB002. Reads without locks: a unit that
-- did not fit at this moment may be left out, and what is left is checked again by the commit itself.
CREATE FUNCTION callboard.misfits(_claims jsonb) RETURNS TABLE (unit integer, reason text)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    RETURN QUERY
    SELECT c.unit, format('%s: version %s was expected, %s is there', c.address, c.expected,
                          coalesce(a.version::text, 'none'))
    FROM jsonb_to_recordset(_claims -> 'actors') AS c(unit integer, shard integer, address text, expected bigint)
    LEFT JOIN callboard.actor a ON a.shard = c.shard AND a.address = c.address
    WHERE coalesce(a.version, 0) <> c.expected
    UNION ALL
    SELECT c.unit, format('message %s of shard %s is not %s there', c.id, c.shard, CASE
        WHEN c.held THEN 'held'
        WHEN c.recipient IS NULL THEN 'waiting'
        ELSE 'waiting for ' || c.recipient END)
    FROM jsonb_to_recordset(_claims -> 'messages')
        AS c(unit integer, shard integer, id bigint, held boolean, recipient text)
    LEFT JOIN callboard.message m ON m.shard = c.shard AND m.id = c.id
    WHERE m.held IS DISTINCT FROM c.held OR m.recipient <> c.recipient
    UNION ALL
    SELECT c.unit, CASE
        WHEN t.generation IS DISTINCT FROM c.generation
            THEN format('timer %L of %s was cancelled or set anew', c.key, c.address)
        ELSE format('timer %L of %s is due at %s, not yet %s times', c.key, c.address, t.due_at, c.periods) END
    FROM jsonb_to_recordset(_claims -> 'fires')
        AS c(unit integer, shard integer, address text, key text, generation bigint, periods bigint)
    LEFT JOIN callboard.timer t
        ON t.shard = c.shard AND t.address = c.address AND t.key = c.key
    WHERE t.generation IS DISTINCT FROM c.generation
        OR NOT callboard.is_due(t.due_at, t.period_seconds, c.periods, (SELECT callboard.clock()))
    UNION ALL
    SELECT c.unit, CASE
        WHEN d.status = c.before THEN format('decision %s is not in the release hold %s', c.decision, c.hold_id)
        ELSE format('decision %s is %s, not %s', c.decision, coalesce(d.status, 'not there'), c.before) END
    FROM jsonb_to_recordset(_claims -> 'moves') AS c(unit integer, decision text, before text, hold_id bigint)
    LEFT JOIN callboard.decision d ON d.id = c.decision
    WHERE d.status IS DISTINCT FROM c.before OR c.hold_id NOT IN (0, d.hold_id);
END $$;
