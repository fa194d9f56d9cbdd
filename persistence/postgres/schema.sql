-- Callboard's tables. This file is the truth: a new database is made from it, and `migrations/` leads older ones here
-- (a test compares the two). Functions are in `functions/`, statements in `queries/`. `callboard.clock()` is the only
-- source of time in all of them.
--
-- Who writes what
--   node, heartbeat, shard   a node for itself; a successor for a dead one (functions/nodes.sql)
--   actor, message, timer, turn, journal, dead_letter   the node that owns the shard, in commit_batch
--   full_mailbox             the node that owns the shard, in publish_full
--   message                  besides: anyone inserts (send, decide); an outside asker empties its own mailbox
--   decision                 inserted by a run's turn; changes by compare-and-set only (decide, commit_batch)
--   audit, journal, turn     append only; removed by retention, never changed
--   client_send, number_lease   whoever sends from outside
--   dead_letter          besides: settled by operators, by compare-and-set (requeue, discard)
--   token, answer, instance   whoever serves operators (functions/5_operating.sql)
--
-- Lock order, so that no two transactions wait for each other in a circle:
--   (1) the advisory lock "ownership" (claim, give, take over, join, leave)
--   (2) rows of node: a commit takes its own FOR SHARE, a take-over updates its victim's and so waits for the commit in
--       flight. That is the fence; nothing else may update a node's row while it serves, hence `heartbeat` is apart.
--   (3) rows of shard   (4) message, actor, timer (one writer each: the owner)   (5) decision   (6) what is inserted
--
-- Hot tables: no index on a column that changes each turn (updates stay HOT), room on each page for the new version,
-- and autovacuum by absolute thresholds, because a fifth of a huge table is too late and a fifth of an empty one
-- too often. The shard leads every key, so that a distributed PostgreSQL can spread them. No foreign keys, for the same
-- reason and because they would lock rows of other writers.
--
-- Addresses compare by bytes (collation C) everywhere, as Python compares them.

CREATE SCHEMA callboard;

CREATE TABLE callboard.schema_version (
    version     integer PRIMARY KEY,
    applied_at  timestamptz NOT NULL
);

-- Nodes -------------------------------------------------------------------------------------------------------------

CREATE TABLE callboard.node (
    number         integer PRIMARY KEY CHECK (number BETWEEN 1 AND 1023),  -- 0 means "from outside"
    epoch          bigint NOT NULL CHECK (epoch > 0),                      -- only ever grows, over all uses of a number
    boot           text NOT NULL,
    label          text NOT NULL,
    status         text NOT NULL CHECK (status IN ('up', 'draining', 'left', 'dead')),
    lease_seconds  double precision NOT NULL CHECK (lease_seconds > 0),
    guest          boolean NOT NULL,
    joined_at      timestamptz NOT NULL,
    ended_at       timestamptz,
    capabilities   text NOT NULL DEFAULT '',                               -- JSON; what it can read, with versions
    CHECK ((status IN ('up', 'draining')) = (ended_at IS NULL))
);

CREATE TABLE callboard.heartbeat (
    node     integer PRIMARY KEY,
    epoch    bigint NOT NULL,
    beat_at  timestamptz NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE callboard.shard (
    id    integer PRIMARY KEY CHECK (id BETWEEN 0 AND 255),
    node  integer
);
INSERT INTO callboard.shard (id) SELECT generate_series(0, 255);

CREATE TABLE callboard.number_lease (
    number  integer PRIMARY KEY CHECK (number BETWEEN 1024 AND 4095),
    holder  text NOT NULL UNIQUE,
    until   timestamptz NOT NULL
);

-- Actors and their mailboxes ----------------------------------------------------------------------------------------

CREATE TABLE callboard.actor (
    shard          integer NOT NULL,
    address        text COLLATE "C" NOT NULL CHECK (address <> ''),
    kind           text COLLATE "C" NOT NULL CHECK (kind <> ''),
    version        bigint NOT NULL CHECK (version > 0),
    incarnation    integer NOT NULL CHECK (incarnation >= 0),              -- 0: parked before it ever began
    status         text NOT NULL CHECK (status IN
                   ('active', 'failed', 'parked', 'paused', 'completed', 'cancelled', 'escalated', 'stopped')),
    reason         text NOT NULL,
    state          bytea NOT NULL,
    state_version  integer NOT NULL CHECK (state_version > 0),
    last_id        bigint NOT NULL,
    sent           bigint NOT NULL CHECK (sent >= 0),
    events         bigint NOT NULL CHECK (events >= 0),
    summary        text NOT NULL,
    bonds          text NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL DEFAULT 'epoch',                   -- epoch: before this was kept
    PRIMARY KEY (shard, address)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- Partial only so that it cannot be taken for a way to one address (see commit_batch on plans).
CREATE INDEX actor_kind ON callboard.actor (kind, address) WHERE kind <> '';
-- For windows (S20). A status changes a few times in a life, and only then an update has to touch the indexes.
CREATE INDEX actor_status ON callboard.actor (kind, status, address) WHERE kind <> '';
CREATE INDEX actor_created ON callboard.actor (kind, created_at, address) WHERE kind <> '';

CREATE TABLE callboard.message (
    shard         integer NOT NULL,
    id            bigint NOT NULL,
    recipient     text COLLATE "C" NOT NULL CHECK (recipient <> ''),
    sender        text NOT NULL,
    lane          smallint NOT NULL CHECK (lane BETWEEN 0 AND 2),
    type          text NOT NULL,
    version       integer NOT NULL CHECK (version > 0),
    body          text NOT NULL,                      -- JSON text, exact
    sender_seq    bigint NOT NULL,
    deliveries    integer NOT NULL CHECK (deliveries >= 0),
    failures      integer NOT NULL CHECK (failures >= 0),
    due_at        timestamptz NOT NULL,               -- not before; its lane waits with it
    last_error    text NOT NULL,
    reply_to      text NOT NULL,
    correlation   bigint NOT NULL,
    causation     bigint NOT NULL,
    started       boolean NOT NULL,
    sent_by_node  integer NOT NULL,
    held          boolean NOT NULL,
    sent_at       timestamptz NOT NULL,
    headers       text NOT NULL DEFAULT '',           -- JSON text of what few carry
    losses        integer NOT NULL DEFAULT 0,
    timeouts      integer NOT NULL DEFAULT 0,
    failing_since timestamptz,                        -- its first retry
    PRIMARY KEY (shard, id)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 20000);
-- A held message is in neither the way nor the cost of what is ready. One that an actor put aside is held too; it is
-- told from a gated call by its recipient, which is that actor and not a worker.
CREATE INDEX message_ready ON callboard.message (shard, recipient, lane, id) WHERE NOT held;
CREATE INDEX message_held ON callboard.message (shard, recipient, lane, id) WHERE held;
-- Those that have failed, which are few; by who called the worker that fails.
CREATE INDEX message_failing ON callboard.message (sender, shard, id) WHERE failing_since IS NOT NULL;

CREATE TABLE callboard.timer (
    shard           integer NOT NULL,
    address         text COLLATE "C" NOT NULL,
    key             text COLLATE "C" NOT NULL,
    generation      bigint NOT NULL,
    due_at          timestamptz NOT NULL,
    type            text NOT NULL,
    version         integer NOT NULL CHECK (version > 0),
    body            text NOT NULL,
    lane            smallint NOT NULL CHECK (lane BETWEEN 0 AND 2),
    period_seconds  double precision NOT NULL CHECK (period_seconds >= 0),
    PRIMARY KEY (shard, address, key)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX timer_due ON callboard.timer (shard, due_at);

-- Mailboxes that take no more from other actors, as their owners told; a hint for senders of all nodes, not a bound.
CREATE TABLE callboard.full_mailbox (
    shard    integer NOT NULL,
    address  text COLLATE "C" NOT NULL CHECK (address <> ''),
    PRIMARY KEY (shard, address)
);

-- What happened -----------------------------------------------------------------------------------------------------

-- The recipient comes before the id in the key (not (shard, id)): `turns` of one actor is what people ask for, and one
-- index is cheaper than two. Removed by that key too (functions/8_retention.sql). The block range index finds a stretch of
-- time, the better the less was removed: new rows fill the room of old ones.
CREATE TABLE callboard.turn (
    shard       integer NOT NULL,
    id          bigint NOT NULL,
    recipient   text COLLATE "C" NOT NULL,
    sender      text NOT NULL,
    type        text NOT NULL,
    lane        smallint NOT NULL,
    sender_seq  bigint NOT NULL,
    version     bigint NOT NULL,
    outcome     text NOT NULL CHECK (outcome IN
                ('done', 'refused', 'dead', 'cancelled', 'stashed', 'late')),
    causation   bigint NOT NULL,
    deliveries  integer NOT NULL,
    node        integer NOT NULL,
    epoch       bigint NOT NULL,
    at          timestamptz NOT NULL,
    PRIMARY KEY (shard, recipient, version, id)
) WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);
CREATE INDEX turn_at ON callboard.turn USING brin (at);

CREATE TABLE callboard.journal (
    shard    integer NOT NULL,
    address  text COLLATE "C" NOT NULL,
    seq      bigint NOT NULL CHECK (seq > 0),
    type     text NOT NULL,
    body     text NOT NULL,
    at       timestamptz NOT NULL,
    node     integer NOT NULL,
    PRIMARY KEY (shard, address, seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);
-- For the feed, which goes on from a time. Not a block range index: what is not summarised yet, the newest, it reads whole.
CREATE INDEX journal_at ON callboard.journal (at);
-- The forks of a run, by its address: retention keeps the journal that they go on from. Few events are of this type.
CREATE INDEX journal_forked ON callboard.journal (substring(body FROM '"origin":"([^"]+)"')) WHERE type = 'run.forked';

CREATE TABLE callboard.dead_letter (
    number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- one message can be given up more than once
    shard         integer NOT NULL,
    id            bigint NOT NULL,
    recipient     text COLLATE "C" NOT NULL,
    sender        text NOT NULL,
    lane          smallint NOT NULL,
    type          text NOT NULL,
    version       integer NOT NULL,
    body          text NOT NULL,
    sender_seq    bigint NOT NULL,
    deliveries    integer NOT NULL,
    failures      integer NOT NULL,
    last_error    text NOT NULL,
    reply_to      text NOT NULL,
    correlation   bigint NOT NULL,
    causation     bigint NOT NULL,
    started       boolean NOT NULL,
    sent_by_node  integer NOT NULL,
    reason        text NOT NULL CHECK (reason <> ''),
    detail        text NOT NULL,
    at            timestamptz NOT NULL,
    headers       text NOT NULL DEFAULT '',
    losses        integer NOT NULL DEFAULT 0,
    timeouts      integer NOT NULL DEFAULT 0,
    settled       text NOT NULL DEFAULT '' CHECK (settled IN ('', 'requeued', 'discarded')),
    settled_at    timestamptz,
    settled_by    text NOT NULL DEFAULT '',
    CHECK ((settled = '') = (settled_at IS NULL))
);
CREATE INDEX dead_letter_recipient ON callboard.dead_letter (recipient, number);
CREATE INDEX dead_letter_open ON callboard.dead_letter (number) WHERE settled = '';
CREATE INDEX dead_letter_open_of ON callboard.dead_letter (recipient, number) WHERE settled = '';
CREATE INDEX dead_letter_open_from ON callboard.dead_letter (sender, number) WHERE settled = '';

-- Decisions ---------------------------------------------------------------------------------------------------------

CREATE TABLE callboard.decision (
    id            text COLLATE "C" PRIMARY KEY,
    number        bigint GENERATED ALWAYS AS IDENTITY UNIQUE,        -- oldest first
    run           text COLLATE "C" NOT NULL,
    call          text NOT NULL,
    message_id    bigint NOT NULL,
    approvals     text NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('approval', 'in-doubt')),
    tool          text NOT NULL,
    arguments     text NOT NULL,                                     -- canonical JSON, what the digest covers
    digest        text NOT NULL,
    reason        text NOT NULL,
    status        text NOT NULL CHECK (status IN
                  ('pending', 'approved', 'released', 'denied', 'expired', 'superseded')),
    requested_by  text NOT NULL,
    requested_at  timestamptz NOT NULL,
    expires_seconds double precision NOT NULL CHECK (expires_seconds >= 0),
    expires_at    timestamptz,
    decided_by    text NOT NULL,
    decided_at    timestamptz,
    note          text NOT NULL,
    release_at    timestamptz,
    policy        text NOT NULL DEFAULT '',                          -- name of the rule that asks
    risk          text NOT NULL DEFAULT '',
    needed        integer NOT NULL DEFAULT 1 CHECK (needed > 0),     -- how many different people have to approve
    not_requester boolean NOT NULL DEFAULT false,
    hold_seconds  double precision NOT NULL DEFAULT 0,               -- the least release hold
    signatures    text NOT NULL DEFAULT '',                          -- JSON; who approved so far
    provenance    text NOT NULL DEFAULT '',                          -- JSON
    checks        text NOT NULL DEFAULT '',                          -- JSON; what the tool's checks found
    replaces      text COLLATE "C" NOT NULL DEFAULT '',              -- the decision whose place it takes
    diff          text NOT NULL DEFAULT '',                          -- JSON; what an edit changed
    edited_by     text NOT NULL DEFAULT '',                          -- JSON; who changed the call
    hold_id       bigint NOT NULL DEFAULT 0,                         -- the release hold that it is in; 0: none
    CHECK ((expires_seconds > 0) = (expires_at IS NOT NULL)),
    CHECK (status <> 'approved' OR decided_at IS NOT NULL)           -- nothing is approved by nobody
) WITH (fillfactor = 85);
CREATE INDEX decision_run ON callboard.decision (run, number);
CREATE INDEX decision_status ON callboard.decision (status, number);
CREATE INDEX decision_open ON callboard.decision (run, number) WHERE status IN ('pending', 'approved');

CREATE TABLE callboard.audit (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    who      text NOT NULL,          -- the authenticated principal, or "node N"
    label    text NOT NULL,          -- what it calls itself; shown, never trusted
    action   text NOT NULL,
    object   text COLLATE "C" NOT NULL,
    before   text NOT NULL,
    after    text NOT NULL,
    note     text NOT NULL,
    channel  text NOT NULL DEFAULT '',   -- cli, http, tui, daemon or library
    host     text NOT NULL DEFAULT ''
);
CREATE INDEX audit_object ON callboard.audit (object, number);

-- From outside ------------------------------------------------------------------------------------------------------

CREATE TABLE callboard.client_send (
    recipient  text COLLATE "C" NOT NULL,
    client_id  text COLLATE "C" NOT NULL CHECK (client_id <> ''),
    digest     bytea NOT NULL CHECK (octet_length(digest) = 32),
    at         timestamptz NOT NULL,
    message_id bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (recipient, client_id)
);
CREATE INDEX client_send_at ON callboard.client_send (at);

-- Bearer tokens by the SHA-256 of their secrets, which are long and random: a slow hash would protect nothing more.
CREATE TABLE callboard.token (
    name         text COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    secret_hash  bytea NOT NULL UNIQUE CHECK (octet_length(secret_hash) = 32),
    principal    text NOT NULL CHECK (principal <> ''),
    scopes       text NOT NULL,
    created_at   timestamptz NOT NULL,
    created_by   text NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,                            -- to the minute
    revoked_at   timestamptz
);

-- What requests under an idempotency key were answered, for a day; status 0 while one is being answered.
CREATE TABLE callboard.answer (
    principal    text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL CHECK (key <> ''),
    request      bytea NOT NULL CHECK (octet_length(request) = 32),
    status       integer NOT NULL,
    body         text NOT NULL,
    at           timestamptz NOT NULL,
    PRIMARY KEY (principal, key)
);
CREATE INDEX answer_at ON callboard.answer (at);

-- Who holds the lock of a name (pg_advisory_lock, by a connection of its own): only to tell the others who it is.
CREATE TABLE callboard.instance (
    name      text COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    holder    text NOT NULL,
    since_at  timestamptz NOT NULL
);

-- S9: what is recorded is never changed. Retention deletes, nothing updates.
CREATE FUNCTION callboard.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of callboard.% are never changed', TG_TABLE_NAME USING ERRCODE = '23001';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE ON callboard.journal FOR EACH ROW EXECUTE FUNCTION callboard.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE ON callboard.turn FOR EACH ROW EXECUTE FUNCTION callboard.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE ON callboard.audit FOR EACH ROW EXECUTE FUNCTION callboard.refuse_change();

-- S21: what people look for at once is told to whoever listens (functions/7_watching.sql). Triggers, so that no function
-- that changes such a row can forget it. The one on actors is asked for each turn and answers by its condition alone.
CREATE FUNCTION callboard.tell_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'actor' THEN
        PERFORM callboard.tell('actor', NEW.address);
    ELSIF TG_TABLE_NAME = 'decision' THEN
        PERFORM callboard.tell('decision', NEW.id);
    ELSIF TG_TABLE_NAME = 'dead_letter' THEN
        PERFORM callboard.tell('dead', NEW.number::text);
    ELSE
        PERFORM callboard.tell('node', NEW.number::text);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tell AFTER UPDATE OF status ON callboard.actor FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION callboard.tell_change();
CREATE TRIGGER tell AFTER INSERT OR UPDATE ON callboard.decision FOR EACH ROW
    EXECUTE FUNCTION callboard.tell_change();
CREATE TRIGGER tell AFTER INSERT OR UPDATE ON callboard.dead_letter FOR EACH ROW
    EXECUTE FUNCTION callboard.tell_change();
CREATE TRIGGER tell AFTER INSERT OR UPDATE ON callboard.node FOR EACH ROW
    EXECUTE FUNCTION callboard.tell_change();
