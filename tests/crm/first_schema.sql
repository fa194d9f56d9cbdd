-- The desk's own tables. They live beside the runtime's schema in the same database, belong to whoever installs them and
-- are worked through the role crm_app, which has no rights on the runtime's schema (schema.py grants).
-- Money is integer cents. Free text carries who vouches for it (crm.trust). The whole file can be run again.

CREATE SCHEMA IF NOT EXISTS crm;

DO $$ BEGIN
    CREATE TYPE crm.trust AS ENUM ('untrusted', 'trusted');
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;

-- The desk's clock: tests set `crm.now` for their session, everybody else gets the server's time.
CREATE OR REPLACE FUNCTION crm.clock() RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('crm.now', true), '')::timestamptz, now())
$$;

-- One row: what was loaded, so that a second load knows.
CREATE TABLE IF NOT EXISTS crm.desk (
    only_one    boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    source      text NOT NULL,
    accounts    integer NOT NULL,
    orders      integer NOT NULL,
    loaded_at   timestamptz NOT NULL DEFAULT crm.clock()
);

CREATE TABLE IF NOT EXISTS crm.account (
    account_id  text PRIMARY KEY,
    first_name  text NOT NULL,
    last_name   text NOT NULL,
    email       text NOT NULL,
    line1       text NOT NULL,
    line2       text NOT NULL,
    city        text NOT NULL,
    state       text NOT NULL,
    country     text NOT NULL,
    postcode    text NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS account_email ON crm.account (lower(email));

CREATE TABLE IF NOT EXISTS crm.payment_method (
    payment_method_id  text PRIMARY KEY,
    account_id         text NOT NULL REFERENCES crm.account,
    kind               text NOT NULL CHECK (kind IN ('credit_card', 'paypal', 'gift_card')),
    brand              text,
    last_four          text,
    balance_cents      bigint CHECK (balance_cents >= 0),
    CHECK ((kind = 'gift_card') = (balance_cents IS NOT NULL))
);
CREATE INDEX IF NOT EXISTS payment_method_account ON crm.payment_method (account_id);

CREATE TABLE IF NOT EXISTS crm.product (
    product_id  text PRIMARY KEY,
    name        text NOT NULL UNIQUE
);

CREATE TABLE IF NOT EXISTS crm.variant (
    variant_id   text PRIMARY KEY,
    product_id   text NOT NULL REFERENCES crm.product,
    options      jsonb NOT NULL,
    price_cents  bigint NOT NULL CHECK (price_cents >= 0),
    available    boolean NOT NULL
);
CREATE INDEX IF NOT EXISTS variant_product ON crm.variant (product_id);

CREATE TABLE IF NOT EXISTS crm.sales_order (
    order_id    text PRIMARY KEY,
    account_id  text NOT NULL REFERENCES crm.account,
    status      text NOT NULL CHECK (status IN ('pending', 'processed', 'delivered', 'cancelled')),
    line1       text NOT NULL,
    line2       text NOT NULL,
    city        text NOT NULL,
    state       text NOT NULL,
    country     text NOT NULL,
    postcode    text NOT NULL,
    tracking_ids text[] NOT NULL,
    cancel_key  text UNIQUE  -- the idempotency key that cancelled it; NULL for what was cancelled before the desk opened
);
CREATE INDEX IF NOT EXISTS sales_order_account ON crm.sales_order (account_id);

CREATE TABLE IF NOT EXISTS crm.order_item (
    order_id          text NOT NULL REFERENCES crm.sales_order,
    position          integer NOT NULL,
    variant_id        text NOT NULL REFERENCES crm.variant,
    unit_price_cents  bigint NOT NULL CHECK (unit_price_cents >= 0),
    PRIMARY KEY (order_id, position)
);

-- The ledger. Append-only (a trigger below, and crm_app may only insert): what happened cannot be made not to have happened.
CREATE TABLE IF NOT EXISTS crm.payment (
    payment_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id           text NOT NULL REFERENCES crm.sales_order,
    payment_method_id  text NOT NULL REFERENCES crm.payment_method,
    kind               text NOT NULL CHECK (kind IN ('charge', 'refund')),
    amount_cents       bigint NOT NULL CHECK (amount_cents > 0),
    currency           text NOT NULL DEFAULT 'USD' CHECK (currency ~ '^[A-Z]{3}$'),
    reason             text NOT NULL DEFAULT '',
    idempotency_key    text NOT NULL UNIQUE,
    cause              text NOT NULL DEFAULT 'load' CHECK (cause IN ('load', 'refund', 'cancel')),
    created_at         timestamptz NOT NULL DEFAULT crm.clock()
);
CREATE INDEX IF NOT EXISTS payment_order ON crm.payment (order_id);

CREATE OR REPLACE FUNCTION crm.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only; write a correcting row instead', TG_TABLE_NAME;
END $$;
CREATE OR REPLACE TRIGGER payment_append_only BEFORE UPDATE OR DELETE ON crm.payment
    FOR EACH ROW EXECUTE FUNCTION crm.refuse_change();

-- One row for each time a money tool began, committed before its effect: "two attempts, one refund" is a query.
CREATE TABLE IF NOT EXISTS crm.attempt (
    attempt_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key  text NOT NULL,
    tool             text NOT NULL,
    order_id         text NOT NULL,  -- what the caller named: may not exist
    node             text NOT NULL,
    at               timestamptz NOT NULL DEFAULT crm.clock()
);
CREATE INDEX IF NOT EXISTS attempt_key ON crm.attempt (idempotency_key);

CREATE TABLE IF NOT EXISTS crm.ticket (
    ticket_id   text PRIMARY KEY,
    from_email  text NOT NULL,  -- as the mail server saw it: the writer's claim of who they are
    subject     text NOT NULL,
    status      text NOT NULL DEFAULT 'open'
                CHECK (status IN ('open', 'waiting', 'resolved', 'rejected', 'escalated')),
    resolution  text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT crm.clock(),
    updated_at  timestamptz NOT NULL DEFAULT crm.clock()
);

CREATE TABLE IF NOT EXISTS crm.message (
    message_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ticket_id   text NOT NULL REFERENCES crm.ticket,
    author      text NOT NULL CHECK (author IN ('customer', 'desk')),
    trust       crm.trust NOT NULL,
    body        text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT crm.clock()
);
CREATE INDEX IF NOT EXISTS message_ticket ON crm.message (ticket_id);

-- What the desk did to a ticket, once per key: notes, changes of status.
CREATE TABLE IF NOT EXISTS crm.activity (
    activity_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ticket_id        text NOT NULL REFERENCES crm.ticket,
    kind             text NOT NULL CHECK (kind IN ('note', 'status')),
    body             text NOT NULL,
    trust            crm.trust NOT NULL,
    idempotency_key  text NOT NULL UNIQUE,
    created_at       timestamptz NOT NULL DEFAULT crm.clock()
);
CREATE INDEX IF NOT EXISTS activity_ticket ON crm.activity (ticket_id);

CREATE TABLE IF NOT EXISTS crm.kb_article (
    slug    text PRIMARY KEY,
    title   text NOT NULL,
    body    text NOT NULL,
    search  tsvector GENERATED ALWAYS AS (to_tsvector('english', title || ' ' || body)) STORED
);

-- Mail that waits to be sent. Whoever sends it does so at least once, under the same key.
CREATE TABLE IF NOT EXISTS crm.outbox (
    outbox_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key  text NOT NULL UNIQUE,
    ticket_id        text NOT NULL REFERENCES crm.ticket,
    recipient        text NOT NULL,
    body             text NOT NULL,
    not_before       timestamptz NOT NULL DEFAULT crm.clock(),
    sent_at          timestamptz,
    created_at       timestamptz NOT NULL DEFAULT crm.clock()
);
CREATE INDEX IF NOT EXISTS outbox_unsent ON crm.outbox (not_before) WHERE sent_at IS NULL;

-- What a made-up ticket is about, for the checks of ledger.py. crm_app may not read it: the answer is not a clue.
CREATE TABLE IF NOT EXISTS crm.expectation (
    ticket_id      text PRIMARY KEY REFERENCES crm.ticket,
    scenario       text NOT NULL,
    order_id       text,
    item_position  integer,
    order_status   text  -- when the ticket was written
);
