-- What the inspector looks at and settles (S14, S18). Its questions are wider than those of nodes, whose sessions are
-- kept to index steps: each function here says itself how it may walk, and is bounded in what it reads.

-- A message's state as the inspector names it; what an actor put aside has that actor's row.
CREATE FUNCTION callboard.message_state(_m callboard.message, _now timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN _m.held AND EXISTS (
            SELECT 1 FROM callboard.actor a WHERE a.shard = _m.shard AND a.address = _m.recipient) THEN 'stashed'
        WHEN _m.held THEN 'held'
        WHEN _m.due_at <= _now THEN 'ready'
        WHEN _m.failures > 0 OR _m.last_error <> '' OR _m.failing_since IS NOT NULL THEN 'retrying'
        ELSE 'scheduled' END
$$;

-- Depth and oldest message of each mailbox, read off the indexes alone: a million messages of either kind at most.
CREATE FUNCTION callboard.depths(_prefix text) RETURNS TABLE (
    shard integer, address text, depth bigint, held bigint, oldest bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.shard, g.recipient, sum(g.amount)::bigint, sum(g.held)::bigint, min(g.oldest)
    FROM (
        SELECT w.shard, w.recipient, count(*) AS amount, 0 AS held, min(w.id) AS oldest
        FROM (SELECT m.shard, m.recipient, m.id FROM callboard.message m WHERE NOT m.held LIMIT 1000000) w
        WHERE starts_with(w.recipient, _prefix) GROUP BY w.shard, w.recipient
        UNION ALL
        SELECT h.shard, h.recipient, count(*), count(*), min(h.id)
        FROM (SELECT m.shard, m.recipient, m.id FROM callboard.message m WHERE m.held LIMIT 1000000) h
        WHERE starts_with(h.recipient, _prefix) GROUP BY h.shard, h.recipient
    ) g
    GROUP BY g.shard, g.recipient;
END $$;

-- Mailboxes with what is in them. States are told of the first ten thousand messages of each; beyond it all are ready.
CREATE FUNCTION callboard.mailboxes(_prefix text, _order text, _limit integer) RETURNS TABLE (
    address text, shard integer, depth bigint, ready bigint, scheduled bigint, retrying bigint, held bigint,
    stashed bigint, oldest_at double precision, failures integer
) LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := callboard.clock();
BEGIN
    RETURN QUERY
    SELECT
        b.address, b.shard, b.depth, b.depth - b.held - d.scheduled - d.retrying, d.scheduled, d.retrying,
        CASE WHEN a.address IS NULL THEN b.held ELSE 0 END, CASE WHEN a.address IS NULL THEN 0 ELSE b.held END,
        callboard.seconds(d.oldest_at), d.failures
    FROM (
        SELECT * FROM callboard.depths(_prefix) f
        ORDER BY CASE WHEN _order = 'depth' THEN -f.depth END, CASE WHEN _order = 'age' THEN f.oldest END, f.address,
            f.shard
        LIMIT _limit
    ) b
    LEFT JOIN callboard.actor a ON a.shard = b.shard AND a.address = b.address
    CROSS JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE NOT w.held AND w.due_at > _now AND NOT w.failed) AS scheduled,
            count(*) FILTER (WHERE NOT w.held AND w.due_at > _now AND w.failed) AS retrying,
            min(w.sent_at) AS oldest_at, max(w.failures) AS failures
        FROM (
            (SELECT r.held, r.due_at, r.sent_at, r.failures,
                r.failures > 0 OR r.last_error <> '' OR r.failing_since IS NOT NULL AS failed
             FROM callboard.message r
             WHERE r.shard = b.shard AND r.recipient = b.address AND NOT r.held LIMIT 10000)
            UNION ALL
            (SELECT h.held, h.due_at, h.sent_at, h.failures, false
             FROM callboard.message h
             WHERE h.shard = b.shard AND h.recipient = b.address AND h.held LIMIT 10000)
        ) w
    ) d
    WHERE d.oldest_at IS NOT NULL
    ORDER BY CASE WHEN _order = 'depth' THEN -b.depth END, CASE WHEN _order = 'age' THEN d.oldest_at END, b.address,
        b.shard;
END $$;

-- Messages that fit all that is given, among the first hundred thousand by shard and id.
CREATE FUNCTION callboard.search_messages(
    _text text, _type text, _recipient text, _sender text, _state text, _causation bigint, _correlation bigint,
    _client_id text, _limit integer
) RETURNS SETOF callboard.message LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    _now timestamptz := callboard.clock();
BEGIN
    RETURN QUERY
    SELECT m.* FROM (SELECT * FROM callboard.message w ORDER BY w.shard, w.id LIMIT 100000) m
    WHERE starts_with(m.recipient, _recipient) AND starts_with(m.sender, _sender) AND _type IN ('', m.type)
        AND _causation IN (0, m.causation) AND _correlation IN (0, m.correlation)
        AND (_text = '' OR strpos(m.body, _text) > 0)
        AND (_client_id = '' OR EXISTS (
            SELECT 1 FROM callboard.client_send k
            WHERE k.recipient = m.recipient AND k.client_id = _client_id AND k.message_id = m.id))
        AND (_state = '' OR callboard.message_state(m::callboard.message, _now) = _state)
    ORDER BY m.id LIMIT _limit;
END $$;

-- Turns of a message within a stretch of time: how one is found whose recipient is not known, and what it caused. Turns
-- are written in order of time, so a range of blocks is read and no more.
CREATE FUNCTION callboard.turns_between(_from timestamptz, _until timestamptz, _id bigint, _causation bigint, _limit integer)
RETURNS SETOF callboard.turn LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan SET enable_bitmapscan = on AS $$
BEGIN
    RETURN QUERY
    SELECT t.* FROM callboard.turn t
    WHERE t.at >= _from AND t.at <= _until AND _id IN (0, t.id) AND _causation IN (0, t.causation)
    ORDER BY t.id, t.version DESC LIMIT _limit;
END $$;

-- Messages that a turn has sent and that wait still: their ids are of its time.
CREATE FUNCTION callboard.waiting_causes(_causation bigint, _from_id bigint, _until_id bigint, _limit integer)
RETURNS SETOF callboard.message LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    RETURN QUERY
    SELECT m.* FROM generate_series(0, 256) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT * FROM callboard.message w
        WHERE w.shard = s.shard AND w.id >= _from_id AND w.id <= _until_id AND w.causation = _causation
        ORDER BY w.shard, w.id LIMIT _limit
    ) m
    ORDER BY m.id LIMIT _limit;
END $$;

-- S14: settle a dead letter, once. The lock on its row decides between two; the loser gets the row as the other left it.
CREATE FUNCTION callboard.settle(
    _number bigint, _how text, _who text, _message jsonb, _mailbox_limit integer, _audits jsonb,
    OUT outcome text, OUT d callboard.dead_letter
) LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := callboard.clock();
BEGIN
    SELECT f.* INTO d FROM callboard.dead_letter f WHERE f.number = _number FOR UPDATE;
    outcome := CASE WHEN d.number IS NULL THEN 'missing' WHEN d.settled <> '' THEN 'settled' ELSE 'done' END;
    IF outcome = 'done' THEN
        UPDATE callboard.dead_letter f SET settled = _how, settled_at = _now, settled_by = _who
        WHERE f.number = _number RETURNING f.* INTO d;
        IF _message IS NOT NULL THEN
            PERFORM callboard.check_room(
                ARRAY[(_message -> 0 ->> 'shard')::bigint], ARRAY[_message -> 0 ->> 'recipient'],
                ARRAY[(_message -> 0 ->> 'lane')::bigint], ARRAY[true], _mailbox_limit);
            PERFORM callboard.put_messages(_message, _now);
        END IF;
        PERFORM callboard.write_audit(_audits, _now);
    END IF;
END $$;

-- How many there are of everything. Counts of few kinds; the caller bounds the time.
CREATE FUNCTION callboard.census(
    OUT at double precision, OUT actors jsonb, OUT messages jsonb, OUT depths jsonb, OUT oldest_ready double precision,
    OUT dead bigint, OUT pending bigint, OUT approved bigint, OUT oldest_pending double precision,
    OUT next_expiry double precision, OUT unowned bigint, OUT schema_version integer, OUT server_version text
) LANGUAGE plpgsql
SET plan_cache_mode = force_custom_plan SET enable_seqscan = on SET enable_hashjoin = on SET enable_bitmapscan = on AS $$
DECLARE
    _now timestamptz := callboard.clock();
    _oldest timestamptz;
    _ready bigint;
    _retrying bigint;
    _free bigint;
    _held bigint;
    _stashed bigint;
BEGIN
    at := callboard.seconds(_now);
    SELECT coalesce(jsonb_object_agg(k.kind, k.statuses), '{}') INTO actors
    FROM (
        SELECT g.kind, jsonb_object_agg(g.status, g.amount) AS statuses
        FROM (SELECT a.kind, a.status, count(*) AS amount FROM callboard.actor a GROUP BY a.kind, a.status) g
        GROUP BY g.kind
    ) k;
    -- What is due has to be looked at, message by message; whose it is, mailbox by mailbox.
    SELECT
        count(*) FILTER (WHERE w.due_at <= _now), count(*) FILTER (WHERE w.due_at > _now AND (
            w.failures > 0 OR w.last_error <> '' OR w.failing_since IS NOT NULL)), count(*),
        min(w.sent_at) FILTER (WHERE w.due_at <= _now AND w.shard < 256 AND (w.lane = 0 OR a.address IS NULL))
    INTO _ready, _retrying, _free, _oldest
    FROM callboard.message w
    -- Who stands still takes its system lane only: what waits for it waits for a person, and not to be handled.
    LEFT JOIN callboard.actor a ON a.shard = w.shard AND a.address = w.recipient
        AND a.status IN ('failed', 'parked', 'paused', 'stopped', 'escalated')
    WHERE NOT w.held;
    WITH boxes AS (
        SELECT
            f.depth, f.held, a.address IS NOT NULL AS is_actor,
            coalesce(a.kind, CASE f.shard WHEN 256 THEN 'client' ELSE split_part(f.address, ':', 1) END) AS kind
        FROM callboard.depths('') f
        LEFT JOIN callboard.actor a ON a.shard = f.shard AND a.address = f.address
    )
    SELECT
        coalesce(sum(b.held) FILTER (WHERE b.is_actor), 0), coalesce(sum(b.held) FILTER (WHERE NOT b.is_actor), 0),
        (SELECT coalesce(jsonb_object_agg(k.kind, k.amount), '{}')
         FROM (SELECT c.kind, sum(c.depth) AS amount FROM boxes c GROUP BY c.kind) k)
    INTO _stashed, _held, depths
    FROM boxes b;
    SELECT coalesce(jsonb_object_agg(s.state, s.amount), '{}') INTO messages
    FROM (VALUES ('ready', _ready), ('retrying', _retrying), ('scheduled', _free - _ready - _retrying),
        ('held', _held), ('stashed', _stashed)) AS s(state, amount)
    WHERE s.amount > 0;
    oldest_ready := callboard.seconds(_oldest);
    SELECT count(*) INTO dead FROM callboard.dead_letter f WHERE f.settled = '';
    SELECT
        count(*) FILTER (WHERE c.status = 'pending'), count(*) FILTER (WHERE c.status = 'approved'),
        callboard.seconds(min(c.requested_at) FILTER (WHERE c.status = 'pending')),
        callboard.seconds(min(c.expires_at) FILTER (WHERE c.status = 'pending'))
    INTO pending, approved, oldest_pending, next_expiry
    FROM callboard.decision c WHERE c.status IN ('pending', 'approved');
    SELECT count(*) INTO unowned
    FROM callboard.shard s LEFT JOIN callboard.node n ON n.number = s.node
    WHERE n.number IS NULL OR n.status NOT IN ('up', 'draining');
    SELECT max(v.version) INTO schema_version FROM callboard.schema_version v;
    server_version := current_setting('server_version');
END $$;
