-- What screens watch (S20, S21): windows of lists, what needs attention, and who is told of a change.
--
-- Each function reads by index steps, as many as it gives rows, whatever there is besides; `tallies` alone counts. The
-- kinds of actors and their statuses are few, so a list of all is put together from one walk for each of both.

-- S21: say it to whoever listens. A transaction that notifies is committed one after the other with all others of its
-- kind, on all nodes: what can come in floods (actors that end, dead letters) is told of once in a twentieth of a second
-- for each session, and then in whole. Whoever hears of one waits for longer than that before it looks.
CREATE FUNCTION callboard.tell(_what text, _name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _mine text := 'callboard.told_' || _what;
    _began double precision := extract(epoch FROM now());  -- of the transaction, by the server: no time of ours
    _told double precision;
BEGIN
    IF _what IN ('actor', 'dead') THEN
        _told := nullif(current_setting(_mine, true), '')::double precision;
        IF _told < _began AND _told > _began - 0.05 THEN
            RETURN;
        END IF;
        PERFORM set_config(_mine, _began::text, false);
    END IF;
    PERFORM pg_notify('callboard_changes', _what || ' ' || _name);
END $$;

-- Shards that no node serves, or one that was not heard of for ten seconds (as `why` says it).
CREATE FUNCTION callboard.unserved() RETURNS SETOF integer LANGUAGE sql STABLE AS $$
    SELECT s.id FROM callboard.shard s
    WHERE NOT EXISTS (
        SELECT 1 FROM callboard.node n JOIN callboard.heartbeat h ON h.node = n.number
        WHERE n.number = s.node AND n.status IN ('up', 'draining')
            AND h.beat_at > callboard.clock() - interval '10 seconds')
$$;

CREATE FUNCTION callboard.kinds(_kind text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE kinds(kind) AS (
        SELECT coalesce(nullif(_kind, '') COLLATE "C", (
            SELECT f.kind FROM callboard.actor f WHERE f.kind <> '' ORDER BY f.kind, f.address LIMIT 1))
        UNION ALL
        SELECT (
            SELECT f.kind FROM callboard.actor f WHERE f.kind > kinds.kind AND f.kind <> ''
            ORDER BY f.kind, f.address LIMIT 1)
        FROM kinds WHERE kinds.kind IS NOT NULL AND _kind = ''
    )
    SELECT kind FROM kinds WHERE kind IS NOT NULL
$$;

-- Places of actors next to an address, nearest first: beyond `_after`, or (`_back`) before `_before` or the end. Status
-- and address are compared together, so that no index fits but the one by both: with an equality the order is also that
-- of actor_kind, through which all active actors would be read to find none that is paused.
CREATE FUNCTION callboard.places(
    _prefix text, _kind text, _statuses text[], _after text, _before text, _back boolean, _without text[], _limit integer
) RETURNS TABLE (shard integer, address text)  -- no sort: an index in the order that is wanted, or none
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    _end text := _prefix || chr(1114111);
BEGIN
    IF _before <> '' AND _before < _end COLLATE "C" THEN
        _end := _before;
    END IF;
    IF _back THEN
        RETURN QUERY
        SELECT a.shard, a.address
        FROM callboard.kinds(_kind) k(kind) CROSS JOIN unnest(_statuses) s(status)
        CROSS JOIN LATERAL (
            SELECT l.shard, l.address FROM callboard.actor l
            WHERE l.kind = k.kind AND l.kind <> '' AND (l.status, l.address) > (s.status, _after)
                AND (l.status, l.address) >= (s.status, _prefix) AND (l.status, l.address) < (s.status, _end)
                AND l.address <> ALL (_without)
            ORDER BY l.kind DESC, l.status DESC, l.address DESC LIMIT _limit
        ) a
        ORDER BY a.address DESC LIMIT _limit;
    ELSE
        RETURN QUERY
        SELECT a.shard, a.address
        FROM callboard.kinds(_kind) k(kind) CROSS JOIN unnest(_statuses) s(status)
        CROSS JOIN LATERAL (
            SELECT l.shard, l.address FROM callboard.actor l
            WHERE l.kind = k.kind AND l.kind <> '' AND (l.status, l.address) > (s.status, _after)
                AND (l.status, l.address) >= (s.status, _prefix) AND (l.status, l.address) < (s.status, _end)
                AND l.address <> ALL (_without)
            ORDER BY l.kind, l.status, l.address LIMIT _limit
        ) a
        ORDER BY a.address LIMIT _limit;
    END IF;
END $$;

CREATE FUNCTION callboard.glance_asked(_d callboard.decision) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'id', _d.id, 'kind', _d.kind, 'status', _d.status, 'tool', _d.tool,
        'arguments', CASE WHEN greatest(octet_length(_d.arguments), octet_length(_d.provenance)) <= 8000
            THEN _d.arguments ELSE '' END,
        'provenance', CASE WHEN greatest(octet_length(_d.arguments), octet_length(_d.provenance)) <= 8000
            THEN _d.provenance ELSE '' END,
        'requested_at', callboard.seconds(_d.requested_at), 'release_at', callboard.seconds(_d.release_at),
        'decided_by', _d.decided_by)::text
$$;

CREATE FUNCTION callboard.glance_failing(_m callboard.message) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'type', _m.type, 'recipient', _m.recipient, 'failures', _m.failures, 'deliveries', _m.deliveries,
        'last_error', left(_m.last_error, 500), 'due_at', callboard.seconds(_m.due_at),
        'body', CASE WHEN octet_length(_m.body) <= 2000 THEN _m.body ELSE '' END)::text
$$;

-- Actors at a glance. One statement for all of them: a function for each part would be planned anew for each actor, which
-- costs a multiple of what it does. Planning the whole takes as long as a hundred of them, and no value that is given
-- could make it another plan (each step is for one address, by its index, up to a constant), so it is planned once for
-- each session. Mailboxes are counted no further than a thousand messages, free and held ones each.
--
-- Of an address without an actor there is a row where there is something for it: a message, or an open dead letter. Whose
-- a message is that has no actor as its recipient, is told as by `is_call` (persistence/watching.py), here and below:
-- of its caller, where it can be a call to a worker and its caller is an actor of its shard.
CREATE FUNCTION callboard.glances(_shards integer[], _addresses text[]) RETURNS TABLE (
    address text, kind text, status text, reason text, summary text, created_at double precision, shard integer,
    bonds text, turned_at double precision, waiting bigint, free bigint, ready bigint, oldest_at double precision,
    next_due_at double precision, first text, losses integer, calls bigint, served boolean, failing text, pending text,
    held text, dead bigint, dead_reason text, dead_recipient text
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := callboard.clock();
    _unserved integer[] := ARRAY(SELECT * FROM callboard.unserved());
BEGIN
    RETURN QUERY
    SELECT
        w.address, coalesce(a.kind, ''), a.status, coalesce(left(a.reason, 2000), ''), coalesce(a.summary, ''),
        callboard.seconds(a.created_at), w.shard,
        CASE WHEN octet_length(a.bonds) <= 8000 THEN a.bonds ELSE '' END, callboard.seconds(turned.at),
        least(box.free + aside.amount, 1000), box.free, box.ready,
        callboard.seconds(least(box.oldest_at, aside.oldest_at)), callboard.seconds(box.next_due_at),
        coalesce(head.type, ''), coalesce(head.losses, 0),
        CASE WHEN a.shard = ANY (_unserved) THEN (
            SELECT count(*) FROM (
                SELECT m.sender, m.recipient, m.reply_to FROM callboard.message m
                WHERE m.shard = a.shard AND NOT m.held AND m.recipient <> a.address
                ORDER BY m.shard, m.recipient, m.lane, m.id LIMIT 1000
            ) c WHERE c.sender = a.address AND c.reply_to = c.sender AND strpos(c.recipient, ':') = 0 AND NOT EXISTS (
                SELECT 1 FROM callboard.actor o WHERE o.shard = a.shard AND o.address = c.recipient)) ELSE 0 END,
        w.shard <> ALL (_unserved), fails.said, asks.said, goes.said, least(given_up.amount, 1000),
        coalesce(given_up_last.said, ''), coalesce(given_up_last.recipient, '')
    FROM (SELECT unnest(_shards) AS shard, unnest(_addresses) AS address) w
    LEFT JOIN LATERAL (
        SELECT * FROM callboard.actor l WHERE l.shard = w.shard AND l.address = w.address OFFSET 0
    ) a ON true
    LEFT JOIN LATERAL (
        SELECT t.at FROM callboard.turn t
        WHERE t.shard = a.shard AND t.recipient = a.address AND t.version = a.version
        ORDER BY t.shard, t.recipient, t.version, t.id LIMIT 1
    ) turned ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS free, count(*) FILTER (WHERE b.due_at <= _now) AS ready, min(b.sent_at) AS oldest_at,
            min(b.due_at) FILTER (WHERE b.due_at > _now) AS next_due_at,
            min(b.due_at) FILTER (WHERE b.failing_since IS NOT NULL) AS again_at
        FROM (
            SELECT m.due_at, m.sent_at, m.failing_since FROM callboard.message m
            WHERE m.shard = w.shard AND m.recipient = w.address AND NOT m.held
            ORDER BY m.shard, m.recipient, m.lane, m.id LIMIT 1000
        ) b
    ) box
    CROSS JOIN LATERAL (
        SELECT count(*) AS amount, min(h.sent_at) AS oldest_at
        FROM (
            SELECT m.sent_at FROM callboard.message m
            WHERE m.shard = w.shard AND m.recipient = w.address AND m.held
            ORDER BY m.shard, m.recipient, m.lane, m.id LIMIT 1000
        ) h
    ) aside
    LEFT JOIN LATERAL (
        SELECT m.type, m.losses FROM callboard.message m
        WHERE m.shard = w.shard AND m.recipient = w.address AND NOT m.held
        ORDER BY m.shard, m.recipient, m.lane, m.id LIMIT 1
    ) head ON box.free > 0
    LEFT JOIN LATERAL (
        SELECT callboard.glance_failing(f.m) AS said
        FROM (
            (SELECT m, m.due_at, m.id FROM callboard.message m
             WHERE m.shard = w.shard AND m.recipient = w.address AND NOT m.held AND box.again_at IS NOT NULL
                AND m.failing_since IS NOT NULL AND m.due_at = box.again_at AND (a.address IS NOT NULL OR NOT (
                    m.reply_to = m.sender AND m.sender <> '' AND strpos(m.recipient, ':') = 0 AND EXISTS (
                        SELECT 1 FROM callboard.actor o WHERE o.shard = m.shard AND o.address = m.sender)))
             ORDER BY m.shard, m.recipient, m.lane, m.id LIMIT 1)
            UNION ALL
            (SELECT m, m.due_at, m.id FROM callboard.message m
             WHERE m.sender = a.address AND m.shard = a.shard AND m.failing_since IS NOT NULL AND NOT m.held
                AND m.reply_to = m.sender AND strpos(m.recipient, ':') = 0
                AND NOT EXISTS (SELECT 1 FROM callboard.actor o WHERE o.shard = m.shard AND o.address = m.recipient)
             ORDER BY m.due_at, m.id LIMIT 1)
        ) f
        ORDER BY f.due_at, f.id LIMIT 1
    ) fails ON true
    LEFT JOIN LATERAL (
        SELECT callboard.glance_asked(d) AS said FROM callboard.decision d
        WHERE d.run = a.address AND d.status = 'pending' ORDER BY d.run, d.number LIMIT 1
    ) asks ON true
    LEFT JOIN LATERAL (
        SELECT callboard.glance_asked(d) AS said FROM callboard.decision d
        WHERE d.run = a.address AND d.status = 'approved' AND d.hold_id <> 0 ORDER BY d.release_at, d.number LIMIT 1
    ) goes ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS amount, max(o.number) AS newest
        FROM (
            SELECT f.number
            FROM (
                SELECT n.number, n.shard, n.recipient, n.sender, n.reply_to FROM callboard.dead_letter n
                WHERE n.recipient = w.address AND n.settled = '' ORDER BY n.recipient DESC, n.number DESC LIMIT 1000
            ) f
            WHERE a.address IS NOT NULL OR NOT (
                f.reply_to = f.sender AND f.sender <> '' AND strpos(f.recipient, ':') = 0 AND EXISTS (
                    SELECT 1 FROM callboard.actor o WHERE o.shard = f.shard AND o.address = f.sender))
            UNION ALL
            SELECT f.number
            FROM (
                SELECT n.number, n.shard, n.recipient FROM callboard.dead_letter n
                WHERE n.sender = a.address AND n.settled = '' AND n.shard = a.shard AND n.reply_to = n.sender
                    AND strpos(n.recipient, ':') = 0
                ORDER BY n.sender DESC, n.number DESC LIMIT 1000
            ) f
            WHERE NOT EXISTS (SELECT 1 FROM callboard.actor o WHERE o.shard = f.shard AND o.address = f.recipient)
        ) o
    ) given_up
    LEFT JOIN LATERAL (
        SELECT left(f.reason || ': ' || f.detail, 500) AS said, f.recipient FROM callboard.dead_letter f
        WHERE f.number = given_up.newest
    ) given_up_last ON true
    WHERE a.address IS NOT NULL OR (w.shard < 256 AND (box.free > 0 OR aside.amount > 0 OR given_up.amount > 0));
END $$;

-- Addresses of actors that need attention: by what it is, then the longest waiting, the newest, or by address.
CREATE FUNCTION callboard.pressing(_limit integer) RETURNS TABLE (address text)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    _unserved integer[] := ARRAY(SELECT * FROM callboard.unserved());
BEGIN
    RETURN QUERY
    WITH standing AS (
        SELECT s.rank, a.address
        FROM (VALUES (3, 'failed'), (4, 'escalated'), (7, 'parked'), (8, 'paused')) AS s(rank, status)
        CROSS JOIN callboard.kinds('') k(kind)
        CROSS JOIN LATERAL (
            -- A range of one, as with an equality the order is also that of actor_kind: where all actors are active and
            -- the table was not vacuumed lately, all of them were read through that to find none that is paused.
            SELECT l.address FROM callboard.actor l
            WHERE l.kind = k.kind AND l.kind <> '' AND l.status >= s.status AND l.status <= s.status
            ORDER BY l.kind, l.status, l.address LIMIT _limit
        ) a
    ), delayed AS (
        -- Whom a message keeps waiting, or kept: its recipient, or whoever called a worker.
        SELECT m.rank, m.place, CASE WHEN m.reply_to = m.sender AND m.sender <> '' AND strpos(m.recipient, ':') = 0
            AND NOT EXISTS (SELECT 1 FROM callboard.actor o WHERE o.shard = m.shard AND o.address = m.recipient)
            AND EXISTS (SELECT 1 FROM callboard.actor o WHERE o.shard = m.shard AND o.address = m.sender)
        THEN m.sender ELSE m.recipient END AS address
        FROM (
            (SELECT 2 AS rank, -f.number AS place, f.shard, f.recipient, f.sender, f.reply_to
             FROM callboard.dead_letter f WHERE f.settled = '' ORDER BY f.number DESC LIMIT 4 * _limit)
            UNION ALL
            (SELECT 5, f.id, f.shard, f.recipient, f.sender, f.reply_to FROM callboard.message f
             WHERE f.failing_since IS NOT NULL AND NOT f.held LIMIT 4 * _limit)
            UNION ALL
            (SELECT 6, u.id, u.shard, u.recipient, u.sender, u.reply_to
             FROM unnest(_unserved) s(shard)
             CROSS JOIN LATERAL (
                SELECT w.shard, w.id, w.recipient, w.sender, w.reply_to FROM callboard.message w
                WHERE w.shard = s.shard AND NOT w.held
                ORDER BY w.shard, w.recipient, w.lane, w.id LIMIT 100
             ) u LIMIT 4 * _limit)
        ) m
        WHERE m.shard < 256
    ), found AS (
        (SELECT 1 AS rank, d.number AS place, d.run AS address FROM callboard.decision d
         WHERE d.status = 'pending' ORDER BY d.status, d.number LIMIT 4 * _limit)
        UNION ALL
        SELECT s.rank, 0, s.address FROM standing s
        UNION ALL
        SELECT m.rank, m.place, m.address FROM delayed m
        UNION ALL
        (SELECT 9, d.number, d.run FROM callboard.decision d
         WHERE d.status = 'approved' AND d.hold_id <> 0 ORDER BY d.status, d.number LIMIT 4 * _limit)
    )
    SELECT o.address
    FROM (SELECT DISTINCT ON (f.address) f.rank, f.place, f.address FROM found f ORDER BY f.address, f.rank, f.place) o
    ORDER BY o.rank, o.place, o.address LIMIT _limit;
END $$;

-- How deep mailboxes were at the ends of so many steps until now, oldest first: of what was handled since, and of what
-- waits. When a message was sent is in its id (mailbox/ids.py).
CREATE FUNCTION callboard.trends(
    _shards integer[], _addresses text[], _seconds double precision, _steps integer, _turns integer, _waiting integer
) RETURNS TABLE (address text, depths bigint[]) LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    _now double precision := callboard.seconds(callboard.clock());
    _edges double precision[] := ARRAY(
        SELECT _now - _seconds * (_steps - g) / _steps FROM generate_series(1, _steps) g ORDER BY g);
    _since timestamptz := callboard.clock() - make_interval(secs => _seconds);
BEGIN
    RETURN QUERY
    SELECT w.address, ARRAY(
        SELECT count(s.sent) FROM unnest(_edges) WITH ORDINALITY e(edge, place)
        LEFT JOIN unnest(stays.sent, stays.gone) AS s(sent, gone) ON s.sent <= e.edge AND e.edge < s.gone
        GROUP BY e.place ORDER BY e.place)
    FROM (SELECT unnest(_shards) AS shard, unnest(_addresses) AS address) w
    CROSS JOIN LATERAL (
        SELECT array_agg(x.sent) AS sent, array_agg(x.gone) AS gone
        FROM (
            SELECT ((t.id >> 22) + 1704067200000) / 1000.0::double precision AS sent, callboard.seconds(t.at) AS gone
            FROM (
                SELECT r.id, r.at, r.outcome FROM callboard.turn r
                WHERE r.shard = w.shard AND r.recipient = w.address
                ORDER BY r.shard DESC, r.recipient DESC, r.version DESC, r.id DESC LIMIT _turns
            ) t
            WHERE t.at >= _since AND t.outcome <> 'stashed'
            UNION ALL
            (SELECT callboard.seconds(m.sent_at), 'Infinity' FROM callboard.message m
             WHERE m.shard = w.shard AND m.recipient = w.address AND NOT m.held
             ORDER BY m.shard, m.recipient, m.lane, m.id LIMIT _waiting)
            UNION ALL
            (SELECT callboard.seconds(m.sent_at), 'Infinity' FROM callboard.message m
             WHERE m.shard = w.shard AND m.recipient = w.address AND m.held
             ORDER BY m.shard, m.recipient, m.lane, m.id LIMIT _waiting)
        ) x
    ) stays;
END $$;

-- All actors, counted off one index: a pool's instances are one stretch of it, and how many those are is counted without
-- a look at any of them. (Grouping by a part of each address takes seven times as long.) And of the active ones, who has
-- something to do, among the first 50,000 messages.
CREATE FUNCTION callboard.tallies() RETURNS TABLE (
    place text, keyed boolean, kind text, status text, actors bigint, busy bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    _at text;
    _first text;
    _kind text;
    _status text;
    _busy jsonb;
BEGIN
    SELECT coalesce(jsonb_object_agg(g.kind || ' ' || g.place, g.amount), '{}') INTO _busy
    FROM (
        SELECT a.kind, CASE WHEN strpos(b.address, ':') > 0 THEN split_part(b.address, ':', 1) || ':' ELSE b.address END
            AS place, count(*) AS amount
        FROM (
            SELECT DISTINCT m.shard, CASE WHEN m.reply_to = m.sender AND strpos(m.recipient, ':') = 0 AND NOT EXISTS (
                SELECT 1 FROM callboard.actor o WHERE o.shard = m.shard AND o.address = m.recipient
            ) THEN m.sender ELSE m.recipient END AS address
            FROM (
                SELECT w.shard, w.recipient, w.sender, w.reply_to FROM callboard.message w
                WHERE NOT w.held AND w.shard < 256 ORDER BY w.shard, w.recipient, w.lane, w.id LIMIT 50000
            ) m
        ) b
        CROSS JOIN LATERAL (
            SELECT o.kind FROM callboard.actor o
            WHERE o.shard = b.shard AND o.address = b.address AND o.status = 'active' OFFSET 0
        ) a
        GROUP BY 1, 2
    ) g;
    FOR _kind, _status IN
        SELECT k.kind, s.status FROM callboard.kinds('') k(kind) CROSS JOIN unnest(ARRAY[
            'active', 'failed', 'parked', 'paused', 'completed', 'cancelled', 'escalated', 'stopped']) s(status)
    LOOP
        _at := '';
        kind := _kind;
        status := _status;
        LOOP
            SELECT l.address INTO _first FROM callboard.actor l
            WHERE l.kind = _kind AND l.kind <> '' AND l.status = _status AND l.address >= _at
            ORDER BY l.kind, l.status, l.address LIMIT 1;
            EXIT WHEN NOT FOUND;
            place := split_part(_first, ':', 1);
            keyed := strpos(_first, ':') > 0;
            IF keyed THEN
                SELECT count(*) INTO actors FROM callboard.actor l
                WHERE l.kind = _kind AND l.kind <> '' AND l.status = _status
                    AND l.address >= place || ':' AND l.address < place || ';';
                _at := place || ';';  -- what follows upon the colon
            ELSE
                actors := 1;
                _at := _first || chr(1);
            END IF;
            busy := CASE _status WHEN 'active'
                THEN coalesce((_busy ->> (_kind || ' ' || place || CASE WHEN keyed THEN ':' ELSE '' END))::bigint, 0)
                ELSE 0 END;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END $$;

-- What needs somebody, each count no further than the limit.
CREATE FUNCTION callboard.alarms(
    _shown integer, _limit integer, OUT at double precision, OUT oldest text, OUT to_decide bigint, OUT held bigint,
    OUT dead bigint, OUT failing bigint, OUT failed bigint, OUT escalated bigint, OUT parked bigint, OUT paused bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    at := callboard.seconds(callboard.clock());
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'id', d.id, 'requested_at', callboard.seconds(d.requested_at), 'expires_at', callboard.seconds(d.expires_at)
    ) ORDER BY d.number), '[]')::text INTO oldest
    FROM (
        SELECT * FROM callboard.decision p WHERE p.status = 'pending' ORDER BY p.status, p.number LIMIT _shown
    ) d;
    SELECT count(*) INTO to_decide
    FROM (SELECT 1 FROM callboard.decision d WHERE d.status = 'pending' LIMIT _limit) c;
    SELECT count(*) INTO held
    FROM (SELECT 1 FROM callboard.decision d WHERE d.status = 'approved' AND d.hold_id <> 0 LIMIT _limit) c;
    SELECT count(*) INTO dead FROM (SELECT 1 FROM callboard.dead_letter f WHERE f.settled = '' LIMIT _limit) c;
    SELECT count(*) INTO failing
    FROM (SELECT 1 FROM callboard.message m WHERE m.failing_since IS NOT NULL AND NOT m.held LIMIT _limit) c;
    SELECT
        coalesce(sum(c.amount) FILTER (WHERE c.status = 'failed'), 0),
        coalesce(sum(c.amount) FILTER (WHERE c.status = 'escalated'), 0),
        coalesce(sum(c.amount) FILTER (WHERE c.status = 'parked'), 0),
        coalesce(sum(c.amount) FILTER (WHERE c.status = 'paused'), 0)
    INTO failed, escalated, parked, paused
    FROM (
        SELECT s.status, a.amount
        FROM callboard.kinds('') k(kind) CROSS JOIN unnest(ARRAY['failed', 'escalated', 'parked', 'paused']) s(status)
        CROSS JOIN LATERAL (
            SELECT count(*) AS amount FROM (
                SELECT 1 FROM callboard.actor l
                WHERE l.kind = k.kind AND l.kind <> '' AND l.status >= s.status AND l.status <= s.status
                ORDER BY l.kind, l.status, l.address LIMIT _limit  -- as in `pressing`
            ) l
        ) a
    ) c;
END $$;
