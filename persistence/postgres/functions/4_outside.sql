-- What comes from outside: messages with client ids, decisions of people, numbers for clients' id clocks.

-- Accept messages; true for each that is new. A client id (NULL for none at all, '' for none of that message) is known
-- for seven days. All or nothing: CB003 where one was used for another body, CB004 where a mailbox is full. Replies and
-- system messages always find room, or two full actors would starve each other's answers.
-- Here and in remember_client_ids only one plan is possible (see commit_batch on plans), and making it anew costs more
-- than running it.
CREATE FUNCTION callboard.accept_messages(
    _message callboard.message_columns, _client_id text[], _digest bytea[], _mailbox_limit integer, _audits jsonb
) RETURNS boolean[] LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _now timestamptz := callboard.clock();
    _new boolean[];
BEGIN
    IF _client_id IS NULL THEN
        _new := array_fill(true, ARRAY[cardinality(_message.id)]);
    ELSE
        _new := callboard.remember_client_ids(_message.recipient, _client_id, _digest, _message.id, _now);
    END IF;
    PERFORM callboard.check_room(_message.shard, _message.recipient, _message.lane, _new, _mailbox_limit);
    INSERT INTO callboard.message (
        id, shard, recipient, sender, lane, type, version, body, sender_seq, deliveries, failures, due_at,
        last_error, reply_to, correlation, causation, started, sent_by_node, held, sent_at, headers
    )
    SELECT
        m.id, m.shard, m.recipient, m.sender, m.lane, m.type, m.version, m.body, m.sender_seq, m.deliveries,
        m.failures, _now + make_interval(secs => m.delay_seconds), m.last_error, m.reply_to, m.correlation,
        m.causation, m.started, m.sent_by_node, false, _now, m.headers
    FROM (
        SELECT unnest(_message.id) AS id, unnest(_message.shard) AS shard, unnest(_message.recipient) AS recipient,
            unnest(_message.sender) AS sender, unnest(_message.lane) AS lane, unnest(_message.type) AS type,
            unnest(_message.version) AS version, unnest(_message.body) AS body,
            unnest(_message.sender_seq) AS sender_seq, unnest(_message.deliveries) AS deliveries,
            unnest(_message.failures) AS failures, unnest(_message.delay_seconds) AS delay_seconds,
            unnest(_message.last_error) AS last_error, unnest(_message.reply_to) AS reply_to,
            unnest(_message.correlation) AS correlation, unnest(_message.causation) AS causation,
            unnest(_message.started) AS started, unnest(_message.sent_by_node) AS sent_by_node,
            unnest(_message.headers) AS headers, unnest(_new) AS is_new
    ) m WHERE m.is_new;
    IF _audits IS NOT NULL AND true = ANY (_new) THEN
        PERFORM callboard.write_audit(_audits, _now);
    END IF;
    RETURN _new;
END $$;

-- Which messages have a client id that is new, or none. Sorted, so that two callers lock in the same order.
CREATE FUNCTION callboard.remember_client_ids(
    _recipient text[], _client_id text[], _digest bytea[], _id bigint[], _now timestamptz
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    _new boolean[];
    _other record;
BEGIN
    DELETE FROM callboard.client_send WHERE ctid = ANY (ARRAY(
        SELECT old.ctid FROM callboard.client_send old
        WHERE old.at < _now - interval '7 days' ORDER BY old.at LIMIT 100 FOR UPDATE SKIP LOCKED));
    WITH incoming AS (
        SELECT * FROM unnest(_recipient, _client_id, _digest, _id)
            WITH ORDINALITY AS m(recipient, client_id, digest, id, place)
    ), first_of_each AS (
        SELECT DISTINCT ON (recipient, client_id) recipient, client_id, digest, id, place
        FROM incoming WHERE client_id <> ''
        ORDER BY recipient, client_id, place
    ), remembered AS (
        INSERT INTO callboard.client_send AS known (recipient, client_id, digest, at, message_id)
        SELECT recipient, client_id, digest, _now, id FROM first_of_each
        ON CONFLICT (recipient, client_id) DO UPDATE
        SET digest = excluded.digest, at = excluded.at, message_id = excluded.message_id
        WHERE known.at < _now - interval '7 days'
        RETURNING recipient, client_id
    )
    SELECT array_agg(i.client_id = '' OR r.client_id IS NOT NULL ORDER BY i.place) INTO _new
    FROM incoming i
    LEFT JOIN first_of_each f ON f.place = i.place
    LEFT JOIN remembered r ON r.recipient = f.recipient AND r.client_id = f.client_id;
    SELECT m.recipient, m.client_id INTO _other
    FROM unnest(_recipient, _client_id, _digest) AS m(recipient, client_id, digest)
    CROSS JOIN LATERAL (
        SELECT k.digest FROM callboard.client_send k
        WHERE k.recipient = m.recipient AND k.client_id = m.client_id OFFSET 0
    ) known
    WHERE known.digest <> m.digest LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'client id % was used for another message to %; take a new one',
            quote_literal(_other.client_id), _other.recipient USING ERRCODE = 'CB003';
    END IF;
    RETURN _new;
END $$;

-- Counts no further than the limit. Soft: two callers at once may overshoot by what they bring.
CREATE FUNCTION callboard.check_room(
    _shard bigint[], _recipient text[], _lane bigint[], _new boolean[], _limit integer
) RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _full record;
BEGIN
    SELECT box.recipient, waiting.amount INTO _full
    FROM (
        SELECT m.shard, m.recipient, count(*) AS more
        FROM unnest(_shard, _recipient, _lane, _new) AS m(shard, recipient, lane, is_new)
        WHERE m.lane = 2 AND m.is_new GROUP BY m.shard, m.recipient
    ) box
    CROSS JOIN LATERAL (
        SELECT count(*) AS amount FROM (
            (SELECT 1 FROM callboard.message m
             WHERE m.shard = box.shard AND m.recipient = box.recipient AND NOT m.held LIMIT _limit)
            UNION ALL
            (SELECT 1 FROM callboard.message m
             WHERE m.shard = box.shard AND m.recipient = box.recipient AND m.held LIMIT _limit)
        ) counted
    ) waiting
    WHERE waiting.amount + box.more > _limit LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% holds % messages of %; try again later', _full.recipient, _full.amount, _limit
            USING ERRCODE = 'CB004';
    END IF;
END $$;

-- S7: a person's word on a decision. The row is locked first, so that whoever is refused is told by the row that
-- refused them: it comes back as it was then, or as it is now where the word counted. What the outcomes mean:
-- persistence/verdicts. Who declares a decision expired may do so after its time; everybody else may not.
CREATE FUNCTION callboard.decide(
    _id text, _status text, _digest text, _by text, _note text, _hold_seconds double precision, _label text,
    _seen integer, _channel text, _host text, _notice jsonb, OUT outcome text, OUT d callboard.decision
) LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := callboard.clock();
    _signed jsonb := '[]';
    _names text := _by;
BEGIN
    SELECT f.* INTO d FROM callboard.decision f WHERE f.id = _id FOR UPDATE;
    outcome := CASE
        WHEN d.id IS NULL THEN 'missing'
        WHEN d.status <> 'pending' THEN 'closed'
        WHEN d.digest <> _digest THEN 'digest'
        WHEN _status <> 'expired' AND d.expires_at <= _now THEN 'expired'
        WHEN _status <> 'approved' THEN 'decided'
        WHEN d.not_requester
            AND (_by = d.requested_by OR coalesce(nullif(d.edited_by, ''), '[]')::jsonb ? _by) THEN 'barred'
        ELSE 'signed' END;
    IF outcome = 'signed' THEN
        _signed := coalesce(nullif(d.signatures, ''), '[]')::jsonb;
        outcome := CASE
            WHEN EXISTS (SELECT 1 FROM jsonb_array_elements(_signed) AS s WHERE s ->> 'by' = _by) THEN 'twice'
            WHEN jsonb_array_length(_signed) + 1 < d.needed THEN 'signed'
            WHEN d.needed > 1 AND jsonb_array_length(_signed) <> _seen THEN 'moved'
            ELSE 'decided' END;
        SELECT string_agg(s ->> 'by', ', ' ORDER BY place) || ', ' || _by INTO _names
        FROM jsonb_array_elements(_signed) WITH ORDINALITY AS e(s, place);
        _signed := _signed || jsonb_build_object(
            'by', _by, 'label', _label, 'at', callboard.seconds(_now), 'note', _note);
    END IF;
    IF outcome = 'signed' THEN
        UPDATE callboard.decision f SET signatures = _signed::text WHERE f.id = _id RETURNING f.* INTO d;
        INSERT INTO callboard.audit (at, who, label, action, object, before, after, note, channel, host)
        VALUES (_now, _by, _label, 'sign', _id, 'pending', 'pending', _note, _channel, _host);
    ELSIF outcome = 'decided' THEN
        UPDATE callboard.decision f SET
            status = _status, decided_by = coalesce(_names, _by), decided_at = _now, note = _note,
            signatures = CASE WHEN _status = 'approved' THEN _signed::text ELSE f.signatures END,
            release_at = CASE WHEN _status = 'approved'
                THEN _now + make_interval(secs => greatest(_hold_seconds, f.hold_seconds)) END,
            hold_id = CASE WHEN _status = 'approved' AND greatest(_hold_seconds, f.hold_seconds) > 0
                THEN (_notice -> 0 ->> 'id')::bigint ELSE 0 END
        WHERE f.id = _id RETURNING f.* INTO d;
        INSERT INTO callboard.audit (at, who, label, action, object, before, after, note, channel, host)
        VALUES (_now, _by, _label, 'decide', _id, 'pending', _status, _note, _channel, _host);
        PERFORM callboard.put_messages(_notice, _now);
    END IF;
END $$;

-- S7: an approval in its release hold is pending again, and nobody has approved it. The lock on the row decides between
-- this and the approval actor, which ends the hold in a move of its own (commit_rare_decisions).
CREATE FUNCTION callboard.take_back(
    _id text, _hold_id bigint, _by text, _note text, _label text, _channel text, _host text, _notice jsonb,
    OUT outcome text, OUT d callboard.decision
) LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := callboard.clock();
BEGIN
    SELECT f.* INTO d FROM callboard.decision f WHERE f.id = _id FOR UPDATE;
    outcome := CASE
        WHEN d.id IS NULL THEN 'missing'
        WHEN d.status <> 'approved' OR d.hold_id = 0 THEN 'closed'
        WHEN d.hold_id <> _hold_id THEN 'moved'
        ELSE 'taken back' END;
    IF outcome = 'taken back' THEN
        UPDATE callboard.decision f SET
            status = 'pending', decided_by = '', decided_at = NULL, note = '', signatures = '', release_at = NULL,
            hold_id = 0
        WHERE f.id = _id RETURNING f.* INTO d;
        INSERT INTO callboard.audit (at, who, label, action, object, before, after, note, channel, host)
        VALUES (_now, _by, _label, 'take back', _id, 'approved', 'pending', _note, _channel, _host);
        PERFORM callboard.put_messages(_notice, _now);
    END IF;
END $$;

-- Numbers are used again a day after their lease at the earliest; under pressure ten minutes must do (see join_node).
-- On the way, what outside askers never fetched is thrown away after a day: shard 256 is theirs.
CREATE FUNCTION callboard.lease_number(_holder text, _seconds double precision) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := callboard.clock();
    _number integer;
BEGIN
    PERFORM callboard.own_ownership();
    UPDATE callboard.number_lease SET until = greatest(until, _now + make_interval(secs => _seconds))
    WHERE holder = _holder RETURNING number INTO _number;
    IF FOUND THEN
        RETURN _number;
    END IF;
    WITH unfetched AS (
        DELETE FROM callboard.message WHERE shard = 256 AND id IN (
            SELECT id FROM callboard.message WHERE shard = 256 AND sent_at < _now - interval '1 day' LIMIT 1000)
        RETURNING *
    )
    INSERT INTO callboard.turn (
        shard, id, recipient, sender, type, lane, sender_seq, version, outcome, causation, deliveries, node, epoch, at
    )
    SELECT
        shard, id, recipient, sender, type, lane, sender_seq, 0, 'cancelled', causation, deliveries, 0, 0, _now
    FROM unfetched;
    SELECT coalesce(
        (SELECT g.number FROM generate_series(1024, 4095) AS g(number)
         WHERE NOT EXISTS (SELECT 1 FROM callboard.number_lease l WHERE l.number = g.number)
         ORDER BY g.number LIMIT 1),
        (SELECT l.number FROM callboard.number_lease l
         WHERE l.until < _now - interval '10 minutes' ORDER BY l.until LIMIT 1)
    ) INTO _number;
    IF _number IS NULL THEN
        RAISE EXCEPTION 'all 3072 client numbers are leased or were minutes ago; wait for one to be free'
            USING ERRCODE = 'CB003';
    END IF;
    INSERT INTO callboard.number_lease (number, holder, until)
    VALUES (_number, _holder, _now + make_interval(secs => _seconds))
    ON CONFLICT (number) DO UPDATE SET holder = excluded.holder, until = excluded.until;
    RETURN _number;
END $$;
