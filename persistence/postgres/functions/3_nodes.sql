-- Nodes: joining, owning shards, dying, being taken over.
--
-- A node's sessions hold its advisory lock (lock_class(), number) shared; who watches it waits for the lock exclusively
-- and gives it back at once. Key 0 of that class is "ownership": whoever changes owners of shards holds it until the
-- end of the transaction, so that a claim sees every node that joined before it.
--
-- Each statement of these functions has a snapshot of its own (read committed, which every session of ours sets): what
-- is read after a lock was granted includes what its former holder committed.

CREATE FUNCTION callboard.lock_class() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 1128352844';

CREATE FUNCTION callboard.own_ownership() RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(callboard.lock_class(), 0)
$$;

-- Whether a session of that node holds its lock. A watcher who waits or was just granted it does not count: it asks for
-- the exclusive mode.
CREATE FUNCTION callboard.lock_held(_number integer) RETURNS boolean LANGUAGE sql AS $$
    SELECT EXISTS (
        SELECT 1 FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock'
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND classid = callboard.lock_class()::oid AND objid = _number::oid AND objsubid = 2
    )
$$;

-- Wait for the lock of a node to be free. False after `_milliseconds`: the error of lock_timeout is caught here, or the
-- server's log would have a line for each round.
CREATE FUNCTION callboard.await_lock(_number integer, _milliseconds integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', greatest(_milliseconds, 1)::text, true);
    PERFORM pg_advisory_lock(callboard.lock_class(), _number);
    PERFORM pg_advisory_unlock(callboard.lock_class(), _number);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- Payload of a node's channel: ids of shards with news, and "m" when the members changed, separated by commas.
CREATE FUNCTION callboard.tell_members(_but integer) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('callboard_node_' || number, 'm')
    FROM callboard.node WHERE status IN ('up', 'draining') AND number <> _but
$$;

-- The number: one never used, else the one that ended longest ago, a day at least. Where nodes restart so often that
-- none is left, ten minutes must do: what is feared is a clock that stepped back, and ids at that distance still differ.
CREATE FUNCTION callboard.join_node(
    _boot text, _label text, _lease_seconds double precision, _guest boolean, _capabilities text
) RETURNS TABLE (number integer, epoch bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _number integer;
    _now timestamptz := callboard.clock();
BEGIN
    PERFORM callboard.own_ownership();
    SELECT coalesce(
        (SELECT g.number FROM generate_series(1, 1023) AS g(number)
         WHERE NOT EXISTS (SELECT 1 FROM callboard.node n WHERE n.number = g.number) ORDER BY g.number LIMIT 1),
        (SELECT n.number FROM callboard.node n
         WHERE n.ended_at < _now - interval '10 minutes'
            AND NOT EXISTS (SELECT 1 FROM callboard.shard s WHERE s.node = n.number)
         ORDER BY n.ended_at LIMIT 1)
    ) INTO _number;
    IF _number IS NULL THEN
        RAISE EXCEPTION 'all 1023 node numbers are in use or were minutes ago; wait for one to be free'
            USING ERRCODE = 'CB003';
    END IF;
    INSERT INTO callboard.heartbeat AS h (node, epoch, beat_at) VALUES (_number, 0, _now)
    ON CONFLICT (node) DO UPDATE SET beat_at = excluded.beat_at;
    RETURN QUERY
    INSERT INTO callboard.node AS n (number, epoch, boot, label, status, lease_seconds, guest, joined_at, capabilities)
    VALUES (_number, 1, _boot, _label, 'up', _lease_seconds, _guest, _now, _capabilities)
    ON CONFLICT (number) DO UPDATE SET
        epoch = n.epoch + 1, boot = excluded.boot, label = excluded.label, status = 'up',
        lease_seconds = excluded.lease_seconds, guest = excluded.guest, joined_at = excluded.joined_at, ended_at = NULL,
        capabilities = excluded.capabilities
    RETURNING n.number, n.epoch;
    UPDATE callboard.heartbeat SET epoch = (SELECT n.epoch FROM callboard.node n WHERE n.number = _number)
    WHERE node = _number;
    PERFORM callboard.tell_members(_number);
END $$;

CREATE FUNCTION callboard.claim_shards(_node integer, _epoch bigint, _shards bigint[]) RETURNS SETOF integer
LANGUAGE plpgsql AS $$
DECLARE
    _taken integer[];
BEGIN
    PERFORM callboard.own_ownership();
    PERFORM callboard.fence(_node, _epoch);
    WITH taken AS (
        UPDATE callboard.shard s SET node = _node
        WHERE (_shards IS NULL OR s.id = ANY (_shards))
            AND (s.node IS NULL OR NOT EXISTS (
                SELECT 1 FROM callboard.node n WHERE n.number = s.node AND n.status IN ('up', 'draining')))
        RETURNING s.id
    )
    SELECT array_agg(id) INTO _taken FROM taken;
    IF _taken IS NOT NULL THEN
        PERFORM callboard.tell_members(_node);
    END IF;
    RETURN QUERY SELECT unnest(_taken);
END $$;

-- To a node that does not serve any more: to nobody.
CREATE FUNCTION callboard.give_shards(_node integer, _epoch bigint, _shards bigint[], _to integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    _target integer;
    _given text;
BEGIN
    PERFORM callboard.own_ownership();
    PERFORM callboard.fence(_node, _epoch);
    SELECT number INTO _target FROM callboard.node WHERE number = _to AND status IN ('up', 'draining');
    WITH given AS (
        UPDATE callboard.shard SET node = _target WHERE node = _node AND id = ANY (_shards) RETURNING id
    )
    SELECT string_agg(id::text, ',') INTO _given FROM given;
    IF _given IS NOT NULL THEN
        PERFORM callboard.tell_members(_node);
        PERFORM pg_notify('callboard_node_' || _target, 'm,' || _given) WHERE _target IS NOT NULL;
    END IF;
END $$;

-- The fence is enough: only this node gives its shards away, and whoever takes them first raises its epoch. Sorted, so
-- that two callers lock in the same order.
CREATE FUNCTION callboard.publish_full(
    _node integer, _epoch bigint, _full_shards bigint[], _full text[], _room_shards bigint[], _room text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM callboard.fence(_node, _epoch);
    DELETE FROM callboard.full_mailbox f
    USING unnest(_room_shards, _room) AS r(shard, address)
    WHERE f.shard = r.shard AND f.address = r.address
        AND EXISTS (SELECT 1 FROM callboard.shard s WHERE s.id = r.shard AND s.node = _node);
    INSERT INTO callboard.full_mailbox (shard, address)
    SELECT r.shard, r.address FROM unnest(_full_shards, _full) AS r(shard, address)
    WHERE EXISTS (SELECT 1 FROM callboard.shard s WHERE s.id = r.shard AND s.node = _node)
    ORDER BY r.shard, r.address
    ON CONFLICT DO NOTHING;
END $$;

CREATE FUNCTION callboard.drain_node(_node integer, _epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM callboard.own_ownership();
    UPDATE callboard.node SET status = 'draining'
    WHERE number = _node AND epoch = _epoch AND status IN ('up', 'draining');
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % was superseded: epoch % is not current', _node, _epoch USING ERRCODE = 'CB001';
    END IF;
    PERFORM callboard.tell_members(_node);
END $$;

CREATE FUNCTION callboard.leave_node(_node integer, _epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM callboard.own_ownership();
    UPDATE callboard.node SET status = 'left', ended_at = callboard.clock()
    WHERE number = _node AND epoch = _epoch AND status IN ('up', 'draining');
    IF FOUND THEN
        UPDATE callboard.shard SET node = NULL WHERE node = _node;
        DELETE FROM callboard.heartbeat WHERE node = _node;
        PERFORM callboard.tell_members(_node);
    END IF;
END $$;

-- Take over a dead or silent member. Its sessions are found by their name, which carries number and epoch, among the
-- ones that are connected now; so no process id that was used again can be meant. Ending them is for speed and order:
-- what keeps a zombie out is the update of its row, which waits for its commit in flight and raises the epoch.
--
-- A server that was just started has seen no beat for as long as it was down, and no lock either: nobody is judged by a
-- lease before the others could have beaten again, for two leases.
CREATE FUNCTION callboard.take_over(_me integer, _my_epoch bigint, _number integer, _epoch bigint, _by text)
RETURNS SETOF integer LANGUAGE plpgsql AS $$
DECLARE
    _member callboard.node;
    _lease interval;
BEGIN
    PERFORM callboard.own_ownership();
    PERFORM callboard.fence(_me, _my_epoch);
    SELECT * INTO _member FROM callboard.node
    WHERE number = _number AND epoch = _epoch AND status IN ('up', 'draining') AND number <> _me;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    _lease := make_interval(secs => _member.lease_seconds);
    IF _by = 'lease' THEN
        PERFORM 1 FROM callboard.heartbeat
        WHERE node = _number AND beat_at < callboard.clock() - _lease
            AND pg_postmaster_start_time() < clock_timestamp() - 2 * _lease;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    ELSIF callboard.lock_held(_number) THEN
        RETURN;
    END IF;
    PERFORM pg_terminate_backend(a.pid) FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.usename = session_user AND a.pid <> pg_backend_pid()
        AND a.application_name LIKE format('callboard node %s epoch %s %%', _number, _epoch);
    -- Wait first and ask for the time then: what it committed last is no later than its end.
    PERFORM 1 FROM callboard.node WHERE number = _number AND epoch = _epoch FOR NO KEY UPDATE;
    UPDATE callboard.node SET epoch = epoch + 1, status = 'dead', ended_at = callboard.clock()
    WHERE number = _number AND epoch = _epoch;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM callboard.heartbeat WHERE node = _number;
    PERFORM callboard.tell_members(_me);
    RETURN QUERY UPDATE callboard.shard SET node = _me WHERE node = _number RETURNING id;
END $$;
