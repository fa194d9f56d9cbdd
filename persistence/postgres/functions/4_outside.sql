-- What comes from outside: messages with client ids, decisions of people, numbers for clients' id clocks.

-- Accept messages (objects as put_messages takes them, with `place`, `client_id` and `digest`); true for each that is
-- new. A client id is known for seven days. All or nothing: CB003 where one was used for another body, CB004 where a
-- mailbox is full. Replies and system messages always find room, or two full actors would starve each other's answers.
CREATE FUNCTION callboard.accept_messages(_messages jsonb, _mailbox_limit integer) RETURNS boolean[]
LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := callboard.clock();
    _new integer[];
BEGIN
    SELECT array_agg(place) INTO _new
    FROM jsonb_to_recordset(_messages) AS m(place integer, client_id text) WHERE client_id = '';
    IF jsonb_array_length(_messages) > coalesce(cardinality(_new), 0) THEN
        _new := _new || callboard.remember_client_ids(_messages, _now);
    END IF;
    PERFORM callboard.check_room(_messages, _new, _mailbox_limit);
    PERFORM callboard.put_messages(
        (SELECT jsonb_agg(m) FROM jsonb_array_elements(_messages) m WHERE (m ->> 'place')::integer = ANY (_new)), _now);
    RETURN ARRAY(
        SELECT place = ANY (coalesce(_new, '{}'))
        FROM jsonb_to_recordset(_messages) AS m(place integer) ORDER BY place);
END $$;

-- The places of the messages whose client id is new. Sorted, so that two callers lock in the same order.
CREATE FUNCTION callboard.remember_client_ids(_messages jsonb, _now timestamptz) RETURNS integer[]
LANGUAGE plpgsql AS $$
DECLARE
    _new integer[];
    _other record;
BEGIN
    DELETE FROM callboard.client_send WHERE (recipient, client_id) IN (
        SELECT recipient, client_id FROM callboard.client_send
        WHERE at < _now - interval '7 days' ORDER BY at LIMIT 100 FOR UPDATE SKIP LOCKED);
    WITH incoming AS (
        SELECT DISTINCT ON (recipient, client_id) recipient, client_id, decode(digest, 'hex') AS digest, place
        FROM jsonb_to_recordset(_messages) AS m(place integer, recipient text, client_id text, digest text)
        WHERE client_id <> ''
        ORDER BY recipient, client_id, place
    ), remembered AS (
        INSERT INTO callboard.client_send AS known (recipient, client_id, digest, at)
        SELECT recipient, client_id, digest, _now FROM incoming
        ON CONFLICT (recipient, client_id) DO UPDATE SET digest = excluded.digest, at = excluded.at
        WHERE known.at < _now - interval '7 days'
        RETURNING recipient, client_id
    )
    SELECT array_agg(place) INTO _new FROM incoming JOIN remembered USING (recipient, client_id);
    SELECT m.recipient, m.client_id INTO _other
    FROM jsonb_to_recordset(_messages) AS m(recipient text, client_id text, digest text)
    JOIN callboard.client_send known ON known.recipient = m.recipient AND known.client_id = m.client_id
    WHERE known.digest <> decode(m.digest, 'hex') LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'client id % was used for another message to %; take a new one',
            quote_literal(_other.client_id), _other.recipient USING ERRCODE = 'CB003';
    END IF;
    RETURN _new;
END $$;

-- Counts no further than the limit. Soft: two callers at once may overshoot by what they bring.
CREATE FUNCTION callboard.check_room(_messages jsonb, _new integer[], _limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    _full record;
BEGIN
    SELECT box.recipient, waiting.amount INTO _full
    FROM (
        SELECT shard, recipient, count(*) AS more
        FROM jsonb_to_recordset(_messages) AS m(place integer, shard integer, recipient text, lane smallint)
        WHERE lane = 2 AND place = ANY (_new) GROUP BY shard, recipient
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

-- S7: the compare-and-set, its audit row and the notice to the approval actor. False: it did not hit; the caller reads
-- the row and says why. Who declares a decision expired may do so after its time; everybody else may not.
CREATE FUNCTION callboard.decide(
    _id text, _status text, _digest text, _by text, _note text, _hold_seconds double precision, _label text,
    _notice jsonb
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _now timestamptz := callboard.clock();
BEGIN
    UPDATE callboard.decision SET
        status = _status, decided_by = _by, decided_at = _now, note = _note,
        release_at = CASE WHEN _status = 'approved' THEN _now + make_interval(secs => _hold_seconds) END
    WHERE id = _id AND status = 'pending' AND digest = _digest
        AND (_status = 'expired' OR expires_at IS NULL OR expires_at > _now);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO callboard.audit (at, who, label, action, object, before, after, note)
    VALUES (_now, _by, _label, 'decide', _id, 'pending', _status, _note);
    PERFORM callboard.put_messages(_notice, _now);
    RETURN true;
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
    DELETE FROM callboard.message WHERE shard = 256 AND id IN (
        SELECT id FROM callboard.message WHERE shard = 256 AND sent_at < _now - interval '1 day' LIMIT 1000);
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
