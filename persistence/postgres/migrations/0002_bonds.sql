-- What actors' bonds, stashes, interrupts and deploys need: see the columns in schema.sql. Every new column has a
-- constant default, so that no table is written anew.

ALTER TABLE callboard.node ADD capabilities text NOT NULL DEFAULT '';

ALTER TABLE callboard.actor
    ADD bonds text NOT NULL DEFAULT '',
    DROP CONSTRAINT actor_incarnation_check,
    ADD CONSTRAINT actor_incarnation_check CHECK (incarnation >= 0);

ALTER TABLE callboard.message
    ADD headers text NOT NULL DEFAULT '',
    ADD losses integer NOT NULL DEFAULT 0,
    ADD timeouts integer NOT NULL DEFAULT 0,
    ADD failing_since timestamptz;

ALTER TABLE callboard.dead_letter
    ADD headers text NOT NULL DEFAULT '',
    ADD losses integer NOT NULL DEFAULT 0,
    ADD timeouts integer NOT NULL DEFAULT 0;

ALTER TABLE callboard.turn
    DROP CONSTRAINT turn_outcome_check,
    ADD CONSTRAINT turn_outcome_check
        CHECK (outcome IN ('done', 'refused', 'dead', 'cancelled', 'stashed', 'late'));

CREATE TABLE callboard.full_mailbox (
    shard    integer NOT NULL,
    address  text COLLATE "C" NOT NULL CHECK (address <> ''),
    PRIMARY KEY (shard, address)
);
