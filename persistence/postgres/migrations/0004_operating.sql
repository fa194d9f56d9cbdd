-- What operating needs: see the tables in schema.sql. New columns have constant defaults: no table is written anew.

ALTER TABLE callboard.dead_letter
    ADD settled text NOT NULL DEFAULT '' CHECK (settled IN ('', 'requeued', 'discarded')),
    ADD settled_at timestamptz,
    ADD settled_by text NOT NULL DEFAULT '',
    ADD CHECK ((settled = '') = (settled_at IS NULL));
CREATE INDEX dead_letter_open ON callboard.dead_letter (number) WHERE settled = '';

ALTER TABLE callboard.audit
    ADD channel text NOT NULL DEFAULT '',
    ADD host text NOT NULL DEFAULT '';

ALTER TABLE callboard.client_send ADD message_id bigint NOT NULL DEFAULT 0;

CREATE INDEX journal_at ON callboard.journal (at);

CREATE TABLE callboard.token (
    name         text COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    secret_hash  bytea NOT NULL UNIQUE CHECK (octet_length(secret_hash) = 32),
    principal    text NOT NULL CHECK (principal <> ''),
    scopes       text NOT NULL,
    created_at   timestamptz NOT NULL,
    created_by   text NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);

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

CREATE TABLE callboard.instance (
    name      text COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    holder    text NOT NULL,
    since_at  timestamptz NOT NULL
);
