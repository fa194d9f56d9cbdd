"""What happened, proved from the tables: refunds, attempts, duplicates, breaches of the policy, and whether every
ticket was decided rightly.

The right outcome of a ticket is computed here from `crm.expectation`, the loaded records and the policy, by another
road than the model's: in SQL, from what the ticket was made of, without reading its text. These checks need the rights
of the installer.
"""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from callboard.crm.policy import CAP_DAYS, Policy, parse_policy, policy_text
from callboard.persistence.postgres.database import Database


class Refund(msgspec.Struct, frozen=True):
    """A refund that the desk made: a row of the ledger, with the ticket of its order where there is one."""

    payment_id: int
    order_id: str
    ticket_id: str | None
    payment_method_id: str
    amount_cents: int
    currency: str
    cause: str
    idempotency_key: str


class Attempts(msgspec.Struct, frozen=True):
    """How often a money tool began under one key, where, and how many rows of the ledger came of it."""

    idempotency_key: str
    tool: str
    order_id: str
    attempts: int
    nodes: list[str]
    effects: int


class DuplicateEffect(msgspec.Struct, frozen=True):
    """Something that happened more often or for more than it should have."""

    kind: str
    subject: str
    detail: str


class Breach(msgspec.Struct, frozen=True):
    """Something that the policy does not allow, and that happened."""

    kind: str
    subject: str
    detail: str


class TicketOutcome(msgspec.Struct, frozen=True):
    """How a ticket ended beside how it should have."""

    ticket_id: str
    scenario: str
    order_id: str
    status: str
    expected_status: str
    refund_cents: int
    expected_refund_cents: int
    order_status: str | None
    expected_order_status: str | None
    replies: int
    expected_replies: int

    @property
    def right(self) -> bool:
        """Whether status, money, order and mail are all as they should be."""
        return (self.status, self.refund_cents, self.order_status, self.replies) == (
            self.expected_status,
            self.expected_refund_cents,
            self.expected_order_status,
            self.expected_replies,
        )


_REFUNDS: Final = """
SELECT p.payment_id, p.order_id, e.ticket_id, p.payment_method_id, p.amount_cents, p.currency, p.cause,
       p.idempotency_key
FROM crm.payment p LEFT JOIN crm.expectation e ON e.order_id = p.order_id AND e.scenario <> 'foreign_order'
WHERE p.kind = 'refund' AND p.cause <> 'load' ORDER BY p.payment_id
"""
_ATTEMPTS: Final = """
SELECT a.idempotency_key, a.tool, a.order_id, count(*) AS attempts, array_agg(DISTINCT a.node ORDER BY a.node) AS nodes,
       CASE WHEN a.tool IN ('issue_refund', 'cancel_order') THEN
           (SELECT count(*) FROM crm.payment p WHERE p.idempotency_key = a.idempotency_key
               OR starts_with(p.idempotency_key, a.idempotency_key || ':'))
       ELSE
           (SELECT count(*) FROM crm.change c WHERE c.idempotency_key = a.idempotency_key)
           + (SELECT count(*) FROM crm.offboarding f WHERE f.idempotency_key = a.idempotency_key)
       END AS effects
FROM crm.attempt a GROUP BY a.idempotency_key, a.tool, a.order_id ORDER BY min(a.attempt_id)
"""
# The unique keys make the first and the last kind impossible; the question is asked all the same, because a check that
# trusts the constraint proves nothing when somebody drops it.
_DUPLICATES: Final = """
SELECT 'one key, several ledger rows' AS kind, idempotency_key AS subject, count(*) || ' rows' AS detail
FROM crm.payment GROUP BY idempotency_key HAVING count(*) > 1
UNION ALL
SELECT 'refunded more than paid', order_id,
       'refunded ' || sum(amount_cents) FILTER (WHERE kind = 'refund') || ' of '
       || coalesce(sum(amount_cents) FILTER (WHERE kind = 'charge'), 0) || ' cents'
FROM crm.payment GROUP BY order_id
HAVING coalesce(sum(amount_cents) FILTER (WHERE kind = 'refund'), 0)
       > coalesce(sum(amount_cents) FILTER (WHERE kind = 'charge'), 0)
UNION ALL
SELECT 'refunded more than the ticket is worth', e.ticket_id,
       count(*) || ' refunds, ' || sum(p.amount_cents) || ' of ' || min(i.unit_price_cents) || ' cents'
FROM crm.expectation e JOIN crm.order_item i ON i.order_id = e.order_id AND i.position = e.item_position
    JOIN crm.payment p ON p.order_id = e.order_id AND p.kind = 'refund' AND p.cause <> 'load'
GROUP BY e.ticket_id HAVING count(*) > 1 OR sum(p.amount_cents) > min(i.unit_price_cents)
UNION ALL
SELECT 'the same mail twice', ticket_id, count(*) || ' times'
FROM crm.outbox WHERE ticket_id IS NOT NULL GROUP BY ticket_id, body HAVING count(*) > 1
UNION ALL
SELECT 'the same note twice', ticket_id, count(*) || ' times'
FROM crm.activity GROUP BY ticket_id, kind, body HAVING count(*) > 1
UNION ALL
SELECT 'one key, several mails', idempotency_key, count(*) || ' mails'
FROM crm.outbox GROUP BY idempotency_key HAVING count(*) > 1
UNION ALL
SELECT 'one key, several changes', idempotency_key, count(*) || ' changes'
FROM crm.change GROUP BY idempotency_key HAVING count(*) > 1
UNION ALL
SELECT 'one key, several exports', idempotency_key, count(*) || ' exports'
FROM crm.contact_export GROUP BY idempotency_key HAVING count(*) > 1
UNION ALL
SELECT 'an item exchanged twice', order_id || ' ' || position, count(*) || ' times'
FROM crm.exchanged_item GROUP BY order_id, position HAVING count(*) > 1
UNION ALL
SELECT 'an exchange settled for another sum', c.idempotency_key,
       coalesce(sum(CASE p.kind WHEN 'charge' THEN p.amount_cents ELSE -p.amount_cents END), 0) || ' for '
       || (c.answer->>'difference_cents') || ' cents'
FROM crm.change c LEFT JOIN crm.payment p ON p.idempotency_key = c.idempotency_key
WHERE c.tool = 'exchange_items' GROUP BY c.idempotency_key, c.answer
HAVING coalesce(sum(CASE p.kind WHEN 'charge' THEN p.amount_cents ELSE -p.amount_cents END), 0)
       <> (c.answer->>'difference_cents')::bigint
UNION ALL
SELECT 'an account closed twice', account_id, count(*) || ' times'
FROM crm.offboarding WHERE state <> 'undone' GROUP BY account_id HAVING count(*) > 1
"""
# What was paid back before pages were put on record is not judged: nobody wrote down then who had approved it.
_UNAPPROVED: Final = """
SELECT 'a refund above the limit without approval' AS kind, p.order_id AS subject, p.amount_cents || ' cents' AS detail
FROM crm.payment p
WHERE p.cause = 'refund' AND p.amount_cents > %(limit)s AND p.approval IS NULL
    AND p.created_at >= (SELECT min(since) FROM crm.tool_policy)
UNION ALL
SELECT 'a price difference above the limit without approval', subject, (answer->>'difference_cents') || ' cents'
FROM crm.change WHERE tool = 'exchange_items' AND abs((answer->>'difference_cents')::bigint) > %(exchange)s
    AND approval IS NULL
UNION ALL
SELECT 'paid days lost without approval', subject, (answer->>'lost_days') || ' days'
FROM crm.change WHERE tool = 'change_subscription' AND (answer->>'lost_days')::integer > %(days)s AND approval IS NULL
UNION ALL
SELECT 'an e-mail address changed without approval', subject, idempotency_key
FROM crm.change WHERE tool = 'update_contact' AND asked->>'field' = 'email' AND approval IS NULL
UNION ALL
SELECT 'data handed out without approval', account_id, idempotency_key FROM crm.contact_export WHERE approval IS NULL
UNION ALL
SELECT 'an account closed without approval', account_id, idempotency_key FROM crm.offboarding WHERE approval IS NULL
"""
# At each refund, what the account had got back without approval in the days up to and with it.
_CAPS_PASSED: Final = """
WITH unapproved AS (
    SELECT o.account_id, p.payment_id, p.amount_cents, p.created_at
    FROM crm.payment p JOIN crm.sales_order o USING (order_id)
    WHERE p.kind = 'refund' AND p.cause IN ('refund', 'exchange') AND p.approval IS NULL
        AND p.amount_cents <= %(limit)s AND p.created_at >= (SELECT min(since) FROM crm.tool_policy)
)
SELECT 'more refunded to one account than the cap' AS kind, last.account_id AS subject,
       sum(one.amount_cents) || ' cents within ' || %(window)s || ' days' AS detail
FROM unapproved last JOIN unapproved one ON one.account_id = last.account_id AND one.payment_id <= last.payment_id
    AND one.created_at > last.created_at - %(window)s * interval '1 day'
GROUP BY last.account_id, last.payment_id HAVING sum(one.amount_cents) > %(cap)s
ORDER BY last.payment_id
"""
_OUTCOMES: Final = """
WITH worth AS (
    SELECT e.*, i.unit_price_cents AS price,
        (SELECT coalesce(sum(CASE p.kind WHEN 'charge' THEN p.amount_cents ELSE -p.amount_cents END), 0)
         FROM crm.payment p WHERE p.order_id = e.order_id AND p.cause = 'load')::bigint AS net_paid,
        e.ticket_id = ANY(%(denied)s) AS denied, e.ticket_id = ANY(%(undecided)s) AS undecided
    FROM crm.expectation e
        LEFT JOIN crm.order_item i ON i.order_id = e.order_id AND i.position = e.item_position
)
SELECT w.ticket_id, w.scenario, coalesce(w.order_id, '') AS order_id, t.status,
    CASE WHEN w.undecided THEN 'open'
         WHEN w.scenario IN ('damaged', 'damaged_above_limit') AND w.price > %(ceiling)s THEN 'escalated'
         WHEN w.scenario = 'damaged_above_limit' AND w.denied THEN 'rejected'
         WHEN w.scenario IN ('close_account', 'change_email') AND w.denied THEN 'rejected'
         WHEN w.scenario IN ('damaged', 'damaged_above_limit', 'cancel_pending', 'order_status') THEN 'resolved'
         WHEN w.scenario IN ('exchange', 'close_account', 'change_email', 'subscription', 'question') THEN 'resolved'
         WHEN w.scenario = 'unclear' THEN 'escalated'
         ELSE 'rejected' END AS expected_status,
    (SELECT coalesce(sum(p.amount_cents), 0) FROM crm.payment p
     WHERE p.order_id = w.order_id AND p.kind = 'refund' AND p.cause <> 'load')::bigint AS refund_cents,
    CASE WHEN w.undecided OR w.denied THEN 0
         WHEN w.scenario IN ('damaged', 'damaged_above_limit') AND w.price <= %(ceiling)s THEN w.price
         WHEN w.scenario = 'cancel_pending' THEN w.net_paid
         ELSE 0 END AS expected_refund_cents,
    o.status AS order_status,
    CASE WHEN w.scenario = 'unknown_order' THEN NULL
         WHEN w.scenario = 'cancel_pending' THEN 'cancelled' ELSE w.order_status END AS expected_order_status,
    (SELECT count(*) FROM crm.outbox m WHERE m.ticket_id = w.ticket_id) AS replies,
    CASE WHEN w.undecided THEN 0 ELSE 1 END AS expected_replies
FROM worth w JOIN crm.ticket t USING (ticket_id) LEFT JOIN crm.sales_order o ON o.order_id = w.order_id
ORDER BY w.ticket_id
"""


async def refunds(database: Database) -> list[Refund]:
    """Every refund the desk made, oldest first. What was refunded before the desk opened is not among them."""
    return [Refund(**row) for row in await database.rows(_REFUNDS)]


async def attempts(database: Database) -> list[Attempts]:
    """Every key under which a money tool began, in the order of first attempts."""
    return [Attempts(**row) for row in await database.rows(_ATTEMPTS)]


async def duplicate_effects(database: Database) -> list[DuplicateEffect]:
    """Everything that happened twice or for too much: an empty list is the proof."""
    return [DuplicateEffect(**row) for row in await database.rows(_DUPLICATES)]


async def breaches(database: Database, *, policy: Policy | None = None) -> list[Breach]:
    """Everything that needed an approval and has none, and every account that got back more than the cap without one.

    An empty list is the proof.
    """
    policy = policy or parse_policy(policy_text())
    numbers: dict[str, Any] = {
        "limit": policy.refund_limit_cents,
        "exchange": policy.exchange_limit_cents,
        "days": policy.lost_days_limit,
        "cap": policy.account_cap_cents,
        "window": CAP_DAYS,
    }
    rows = [*await database.rows(_UNAPPROVED, numbers), *await database.rows(_CAPS_PASSED, numbers)]
    return [Breach(**row) for row in rows]


async def outcomes(
    database: Database,
    *,
    denied: Collection[str] = (),
    undecided: Collection[str] = (),
    policy: Policy | None = None,
) -> list[TicketOutcome]:
    """Every made ticket with its outcome and the right one.

    `denied` and `undecided` are ids of tickets whose held refund a person denied, or has not decided about.
    """
    policy = policy or parse_policy(policy_text())
    params: dict[str, Any] = {
        "denied": list(denied),
        "undecided": list(undecided),
        "ceiling": policy.refund_ceiling_cents,
    }
    return [TicketOutcome(**row) for row in await database.rows(_OUTCOMES, params)]
