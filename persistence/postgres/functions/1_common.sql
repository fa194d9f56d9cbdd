-- What all other functions use. Functions hold no data and are replaced as a whole whenever the schema is brought up to
-- date, so they need no migrations of their own.
--
-- Errors of our own have SQLSTATEs of class CB, which nothing else uses (errors.py gives them their Python classes):
--   CB001 stale epoch   CB002 a unit does not fit   CB003 conflict   CB004 mailbox full

-- The only source of time. `callboard.now` can be set (session, role, database) to any timestamp to stop the clock.
CREATE FUNCTION callboard.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT coalesce(nullif(current_setting('callboard.now', true), '')::timestamptz, clock_timestamp())
$$;

CREATE FUNCTION callboard.note_version(_version integer) RETURNS void LANGUAGE sql AS $$
    INSERT INTO callboard.schema_version (version, applied_at) VALUES (_version, callboard.clock())
$$;

-- Stable, though its result never changes: what is more volatile inside than outside is not inlined, and a call costs
-- more than most statements here.
CREATE FUNCTION callboard.seconds(_at timestamptz) RETURNS double precision LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(extract(epoch FROM _at)::double precision, 0.0)
$$;

-- The fence (S2): holds the node's row until the transaction ends, so that no take-over can pass in between.
CREATE FUNCTION callboard.fence(_node integer, _epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM callboard.node
    WHERE number = _node AND epoch = _epoch AND status IN ('up', 'draining') FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % was superseded: epoch % is not current', _node, _epoch USING ERRCODE = 'CB001';
    END IF;
END $$;

-- Messages from JSON: for what comes from outside, one at a time. Turns take the arrays of commit_batch instead.
CREATE FUNCTION callboard.put_messages(_messages jsonb, _now timestamptz) RETURNS void LANGUAGE sql AS $$
    INSERT INTO callboard.message (
        shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries, failures, due_at, last_error,
        reply_to, correlation, causation, started, sent_by_node, held, sent_at, headers
    )
    SELECT
        shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries, failures,
        _now + make_interval(secs => delay_seconds), last_error,
        reply_to, correlation, causation, started, sent_by_node, false, _now, headers
    FROM jsonb_to_recordset(_messages) AS m(
        shard integer, id bigint, recipient text, sender text, lane smallint, type text, version integer, body text,
        sender_seq bigint, deliveries integer, failures integer, delay_seconds double precision, last_error text,
        reply_to text, correlation bigint, causation bigint, started boolean, sent_by_node integer, headers text
    )
$$;

-- Wake whoever serves these mailboxes. Apart from any commit that matters: a transaction with NOTIFY holds a lock that
-- serialises it with all others of its kind, and here it does not even wait for the disk.
CREATE FUNCTION callboard.wake_owners(_shards bigint[], _recipients text[], _but integer) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_notify('callboard_node_' || news.node, news.shards)
    FROM (
        SELECT s.node, string_agg(s.id::text, ',') AS shards
        FROM callboard.shard s
        WHERE s.id = ANY (_shards) AND s.node IS DISTINCT FROM _but AND s.node IS NOT NULL
        GROUP BY s.node
    ) news;
    PERFORM pg_notify('callboard_client_' || client.number, client.address)
    FROM (
        SELECT DISTINCT substring(r.address FROM '^/sys/client:([0-9]{1,4})-') AS number, r.address
        FROM unnest(_recipients) AS r(address)
        WHERE r.address LIKE '/sys/client:%'
    ) client
    WHERE client.number IS NOT NULL;
END $$;

-- S13: audit rows, in the transaction of what they tell of.
CREATE FUNCTION callboard.write_audit(_audits jsonb, _now timestamptz) RETURNS void LANGUAGE sql AS $$
    INSERT INTO callboard.audit (at, who, label, action, object, before, after, note, channel, host)
    SELECT _now, who, label, action, object, before, after, note, channel, host
    FROM jsonb_to_recordset(_audits) AS a(
        who text, label text, action text, object text, before text, after text, note text, channel text, host text
    )
$$;
