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

-- A row that has one carries a version: whoever read it can say so, and is told when it has moved on since.
CREATE OR REPLACE FUNCTION crm.next_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END $$;

-- Every policy page that was in force, one row each time: rows about money name the one they were made under.
CREATE TABLE IF NOT EXISTS crm.tool_policy (
    policy_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    page_sha256  text NOT NULL,
    numbers      jsonb NOT NULL,  -- the table of limits, as policy.py reads it
    since        timestamptz NOT NULL DEFAULT crm.clock()
);

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
ALTER TABLE crm.account ADD COLUMN IF NOT EXISTS phone text NOT NULL DEFAULT '';
ALTER TABLE crm.account ADD COLUMN IF NOT EXISTS status text NOT NULL DEFAULT 'active'
    CHECK (status IN ('active', 'closed'));
ALTER TABLE crm.account ADD COLUMN IF NOT EXISTS version integer NOT NULL DEFAULT 1;
CREATE OR REPLACE TRIGGER account_version BEFORE UPDATE ON crm.account
    FOR EACH ROW EXECUTE FUNCTION crm.next_version();

-- Others who may write for an account, beside whoever it belongs to.
CREATE TABLE IF NOT EXISTS crm.contact (
    contact_id  text PRIMARY KEY,
    account_id  text NOT NULL REFERENCES crm.account,
    role        text NOT NULL CHECK (role IN ('billing', 'delivery')),
    first_name  text NOT NULL,
    last_name   text NOT NULL,
    email       text NOT NULL,
    phone       text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX IF NOT EXISTS contact_email ON crm.contact (lower(email));
CREATE INDEX IF NOT EXISTS contact_account ON crm.contact (account_id);

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
ALTER TABLE crm.sales_order ADD COLUMN IF NOT EXISTS version integer NOT NULL DEFAULT 1;
CREATE OR REPLACE TRIGGER sales_order_version BEFORE UPDATE ON crm.sales_order
    FOR EACH ROW EXECUTE FUNCTION crm.next_version();

-- One row for each parcel of an order.
CREATE TABLE IF NOT EXISTS crm.fulfillment (
    order_id     text NOT NULL REFERENCES crm.sales_order,
    parcel       integer NOT NULL,
    tracking_id  text NOT NULL,
    status       text NOT NULL CHECK (status IN ('shipped', 'delivered')),
    PRIMARY KEY (order_id, parcel)
);

CREATE TABLE IF NOT EXISTS crm.order_item (
    order_id          text NOT NULL REFERENCES crm.sales_order,
    position          integer NOT NULL,
    variant_id        text NOT NULL REFERENCES crm.variant,
    unit_price_cents  bigint NOT NULL CHECK (unit_price_cents >= 0),
    PRIMARY KEY (order_id, position)
);

-- What an item became: append-only too, so what was sold stays on record. Of several rows the last one counts.
CREATE TABLE IF NOT EXISTS crm.exchanged_item (
    exchange_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id          text NOT NULL,
    position          integer NOT NULL,
    variant_id        text NOT NULL REFERENCES crm.variant,
    unit_price_cents  bigint NOT NULL CHECK (unit_price_cents >= 0),
    idempotency_key   text NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT crm.clock(),
    FOREIGN KEY (order_id, position) REFERENCES crm.order_item,
    UNIQUE (idempotency_key, position)
);
CREATE INDEX IF NOT EXISTS exchanged_item_order ON crm.exchanged_item (order_id, position);

CREATE OR REPLACE VIEW crm.current_item AS
SELECT i.order_id, i.position, coalesce(x.variant_id, i.variant_id) AS variant_id,
       coalesce(x.unit_price_cents, i.unit_price_cents) AS unit_price_cents, x.exchange_id IS NOT NULL AS exchanged
FROM crm.order_item i LEFT JOIN LATERAL (
    SELECT exchange_id, variant_id, unit_price_cents FROM crm.exchanged_item x
    WHERE x.order_id = i.order_id AND x.position = i.position ORDER BY exchange_id DESC LIMIT 1
) x ON true;

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
ALTER TABLE crm.payment ADD COLUMN IF NOT EXISTS approval text;  -- the decision that let it go; NULL: nobody was asked
ALTER TABLE crm.payment ADD COLUMN IF NOT EXISTS policy_id bigint REFERENCES crm.tool_policy;
ALTER TABLE crm.payment DROP CONSTRAINT IF EXISTS payment_cause_check;
ALTER TABLE crm.payment ADD CONSTRAINT payment_cause_check CHECK (cause IN ('load', 'refund', 'cancel', 'exchange'));

CREATE OR REPLACE FUNCTION crm.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only; write a correcting row instead', TG_TABLE_NAME;
END $$;
CREATE OR REPLACE TRIGGER payment_append_only BEFORE UPDATE OR DELETE ON crm.payment
    FOR EACH ROW EXECUTE FUNCTION crm.refuse_change();
CREATE OR REPLACE TRIGGER exchanged_item_append_only BEFORE UPDATE OR DELETE ON crm.exchanged_item
    FOR EACH ROW EXECUTE FUNCTION crm.refuse_change();

-- Whoever read an order before money moved on it has read another order.
CREATE OR REPLACE FUNCTION crm.order_moved_on() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE crm.sales_order SET status = status WHERE order_id = NEW.order_id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER payment_moves_order AFTER INSERT ON crm.payment
    FOR EACH ROW WHEN (NEW.cause <> 'load') EXECUTE FUNCTION crm.order_moved_on();
CREATE OR REPLACE TRIGGER exchange_moves_order AFTER INSERT ON crm.exchanged_item
    FOR EACH ROW EXECUTE FUNCTION crm.order_moved_on();

-- Something that is paid for a while at a time. Moves no money of its own: what is due is billed elsewhere.
CREATE TABLE IF NOT EXISTS crm.subscription (
    subscription_id  text PRIMARY KEY,
    account_id       text NOT NULL REFERENCES crm.account,
    plan             text NOT NULL,
    price_cents      bigint NOT NULL CHECK (price_cents >= 0),
    period_days      integer NOT NULL CHECK (period_days > 0),
    status           text NOT NULL CHECK (status IN ('active', 'paused', 'cancelled')),
    renews           boolean NOT NULL,         -- whether it goes on by itself when the time that was paid for ends
    paid_until       timestamptz NOT NULL,
    paused_at        timestamptz,
    version          integer NOT NULL DEFAULT 1,
    CHECK ((status = 'paused') = (paused_at IS NOT NULL))
);
CREATE INDEX IF NOT EXISTS subscription_account ON crm.subscription (account_id);
CREATE INDEX IF NOT EXISTS subscription_ends ON crm.subscription (paid_until) WHERE status = 'active';
CREATE OR REPLACE TRIGGER subscription_version BEFORE UPDATE ON crm.subscription
    FOR EACH ROW EXECUTE FUNCTION crm.next_version();

-- What somebody may buy. Titles are what people wrote.
CREATE TABLE IF NOT EXISTS crm.deal (
    deal_id       text PRIMARY KEY,
    account_id    text NOT NULL REFERENCES crm.account,
    title         text NOT NULL,
    trust         crm.trust NOT NULL DEFAULT 'untrusted',
    stage         text NOT NULL CHECK (stage IN ('open', 'won', 'lost')),
    amount_cents  bigint NOT NULL CHECK (amount_cents >= 0)
);
CREATE INDEX IF NOT EXISTS deal_account ON crm.deal (account_id);

-- What a tool changed of a row, once per key, with the answer that it gave. Append-only.
CREATE TABLE IF NOT EXISTS crm.change (
    change_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key  text NOT NULL UNIQUE,
    tool             text NOT NULL,
    subject          text NOT NULL,   -- the account, order or subscription
    asked            jsonb NOT NULL,  -- the arguments: another call under the same key is known by them
    before           jsonb NOT NULL,  -- what it was
    answer           jsonb NOT NULL,
    approval         text,            -- the decision that let it go; NULL: nobody was asked
    created_at       timestamptz NOT NULL DEFAULT crm.clock()
);
CREATE INDEX IF NOT EXISTS change_subject ON crm.change (subject);
CREATE OR REPLACE TRIGGER change_append_only BEFORE UPDATE OR DELETE ON crm.change
    FOR EACH ROW EXECUTE FUNCTION crm.refuse_change();

-- What was written out of an account, for whoever asked for it.
CREATE TABLE IF NOT EXISTS crm.contact_export (
    export_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id       text NOT NULL REFERENCES crm.account,
    idempotency_key  text NOT NULL UNIQUE,
    content          jsonb NOT NULL,
    approval         text,
    created_at       timestamptz NOT NULL DEFAULT crm.clock()
);

-- An account that is to be closed: written by a tool, worked off by an actor (offboarding.py), step by step or back.
CREATE TABLE IF NOT EXISTS crm.offboarding (
    offboarding_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id       text NOT NULL REFERENCES crm.account,
    reason           text NOT NULL,
    trust            crm.trust NOT NULL DEFAULT 'untrusted',  -- of the reason
    state            text NOT NULL DEFAULT 'asked' CHECK (state IN ('asked', 'running', 'done', 'undone')),
    approval         text,
    idempotency_key  text NOT NULL UNIQUE,
    created_at       timestamptz NOT NULL DEFAULT crm.clock(),
    ended_at         timestamptz
);
CREATE UNIQUE INDEX IF NOT EXISTS offboarding_once ON crm.offboarding (account_id) WHERE state <> 'undone';
CREATE TABLE IF NOT EXISTS crm.offboarding_step (
    offboarding_id  bigint NOT NULL REFERENCES crm.offboarding,
    step            text NOT NULL CHECK (step IN ('cancel_subscriptions', 'export', 'close')),
    state           text NOT NULL CHECK (state IN ('done', 'failed', 'compensated')),
    before          jsonb NOT NULL DEFAULT '{}',  -- what it takes to put things back
    at              timestamptz NOT NULL DEFAULT crm.clock(),
    PRIMARY KEY (offboarding_id, step)
);

-- One row for each time a money tool began, committed before its effect: "two attempts, one refund" is a query.
CREATE TABLE IF NOT EXISTS crm.attempt (
    attempt_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key  text NOT NULL,
    tool             text NOT NULL,
    order_id         text NOT NULL,  -- what the caller named (an order, an account): may not exist
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

-- Mail that came back, and tickets that the desk itself has left to a person (handover.py, outbox.py). Mail about a
-- renewal belongs to no ticket.
ALTER TABLE crm.ticket ADD COLUMN IF NOT EXISTS handed_over text NOT NULL DEFAULT '';  -- why; '' once a person has it
ALTER TABLE crm.outbox ADD COLUMN IF NOT EXISTS bounced_at timestamptz;
ALTER TABLE crm.outbox ADD COLUMN IF NOT EXISTS tries integer NOT NULL DEFAULT 0;      -- that failed
ALTER TABLE crm.outbox ADD COLUMN IF NOT EXISTS trouble text NOT NULL DEFAULT '';      -- why the last one did
ALTER TABLE crm.outbox ALTER COLUMN ticket_id DROP NOT NULL;

-- An account that is being put back as it was, and why. An export that was withdrawn has no content any more.
ALTER TABLE crm.offboarding ADD COLUMN IF NOT EXISTS why text NOT NULL DEFAULT '';
ALTER TABLE crm.offboarding DROP CONSTRAINT IF EXISTS offboarding_state_check;
ALTER TABLE crm.offboarding ADD CONSTRAINT offboarding_state_check
    CHECK (state IN ('asked', 'running', 'undoing', 'done', 'undone'));
ALTER TABLE crm.contact_export ADD COLUMN IF NOT EXISTS withdrawn_at timestamptz;

-- What was written to somebody before a subscription renews: one row of each number for a subscription and a date.
CREATE TABLE IF NOT EXISTS crm.renewal_notice (
    subscription_id  text NOT NULL REFERENCES crm.subscription,
    renews_at        timestamptz NOT NULL,
    number           integer NOT NULL CHECK (number IN (1, 2)),
    version          integer NOT NULL,  -- of the subscription, then
    idempotency_key  text NOT NULL UNIQUE REFERENCES crm.outbox (idempotency_key),
    created_at       timestamptz NOT NULL DEFAULT crm.clock(),
    PRIMARY KEY (subscription_id, renews_at, number)
);
