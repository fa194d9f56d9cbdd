"""A desk on which everything went wrong: what a proof is worth shows where there is nothing to prove."""

from callboard.persistence.postgres.database import Database

_SPOIL = """
INSERT INTO crm.payment (order_id, payment_method_id, kind, amount_cents, idempotency_key, cause)
    SELECT DISTINCT ON (order_id) order_id, payment_method_id, 'refund', 20000, 'forged ' || order_id, 'refund'
    FROM crm.payment WHERE kind = 'charge';
INSERT INTO crm.attempt (idempotency_key, tool, order_id, node) VALUES ('forged', 'issue_refund', '#S11114', 'nowhere');
INSERT INTO crm.outbox (idempotency_key, ticket_id, recipient, body)
    SELECT 'forged ' || ticket_id, ticket_id, 'somebody@example.com', 'Kwame''s card-06 got 249.50 USD' FROM crm.ticket;
INSERT INTO crm.activity (ticket_id, kind, body, trust, idempotency_key)
    SELECT ticket_id, kind, body, trust, 'forged ' || activity_id FROM crm.activity;
UPDATE crm.ticket SET status = 'open';
UPDATE callboard.decision SET status = 'superseded', decided_by = '';
UPDATE callboard.actor SET sent = sent + 1;
DELETE FROM callboard.journal WHERE type LIKE 'tool.%';
INSERT INTO callboard.dead_letter (shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries,
        failures, last_error, reply_to, correlation, causation, started, sent_by_node, reason, detail, at)
    VALUES (0, 1, '/crm/desk/agent:lost', '', 1, 'run.tell', 1, '{}', 0, 1, 1, '', '', 0, 0, false, 0, 'failed', '',
        now());
"""


async def spoil(owner: Database) -> None:
    """Pay everybody twice, write to strangers, lose messages and journals, and forget who decided."""
    await owner.execute(_SPOIL)
