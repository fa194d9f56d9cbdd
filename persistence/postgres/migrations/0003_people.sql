-- What decisions of several people, edits, checks and release holds need: see the columns in schema.sql. Every new column
-- has a constant default: no table is written anew, and a decision that was asked for before is one that needs one person.

ALTER TABLE callboard.decision
    ADD policy text NOT NULL DEFAULT '',
    ADD risk text NOT NULL DEFAULT '',
    ADD needed integer NOT NULL DEFAULT 1 CHECK (needed > 0),
    ADD not_requester boolean NOT NULL DEFAULT false,
    ADD hold_seconds double precision NOT NULL DEFAULT 0,
    ADD signatures text NOT NULL DEFAULT '',
    ADD provenance text NOT NULL DEFAULT '',
    ADD checks text NOT NULL DEFAULT '',
    ADD replaces text COLLATE "C" NOT NULL DEFAULT '',
    ADD diff text NOT NULL DEFAULT '',
    ADD edited_by text NOT NULL DEFAULT '',
    ADD hold_id bigint NOT NULL DEFAULT 0;
