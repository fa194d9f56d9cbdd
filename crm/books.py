"""The books: what was paid for an order and given back, and how a row gets into the ledger.

Every tool that moves money goes through here. Callers hold the order's lock (locks.py), and through it the account's,
so that no sum changes between looking and writing. Amounts are integer cents.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from callboard.crm.policy import CAP_DAYS, Policy
from callboard.persistence.postgres.database import Database, Session

Kind = Literal["charge", "refund"]
Cause = Literal["refund", "cancel", "exchange"]

# Unapproved: what the first limit allows, and nobody was asked about.
_ORDER_BOOKS = """
SELECT coalesce(sum(amount_cents) FILTER (WHERE kind = 'charge'), 0)::bigint AS paid,
       coalesce(sum(amount_cents) FILTER (WHERE kind = 'refund'), 0)::bigint AS refunded,
       coalesce(sum(amount_cents) FILTER (WHERE kind = 'refund' AND cause IN ('refund', 'exchange')
           AND approval IS NULL AND amount_cents <= %(limit)s), 0)::bigint AS unapproved,
       coalesce(bool_or(kind = 'charge' AND payment_method_id = %(method)s), false) AS charged
FROM crm.payment WHERE order_id = %(order)s
"""
_ACCOUNT_BOOKS = """
SELECT coalesce(sum(p.amount_cents) FILTER (WHERE p.approval IS NULL AND p.amount_cents <= %(limit)s), 0)::bigint
           AS unapproved,
       coalesce(sum(p.amount_cents), 0)::bigint AS refunded, count(*) AS refunds
FROM crm.sales_order o JOIN crm.payment p USING (order_id)
WHERE o.account_id = %(account)s AND p.kind = 'refund' AND p.cause IN ('refund', 'exchange')
    AND p.created_at > crm.clock() - %(days)s * interval '1 day'
"""
_WRITE = """
INSERT INTO crm.payment (order_id, payment_method_id, kind, amount_cents, currency, reason, idempotency_key, cause,
                         approval, policy_id)
VALUES (%(order)s, %(method)s, %(kind)s, %(amount)s, %(currency)s, %(reason)s, %(key)s, %(cause)s, %(approval)s,
        (SELECT max(policy_id) FROM crm.tool_policy WHERE page_sha256 = %(page)s))
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING payment_id, order_id, payment_method_id, amount_cents, currency
"""
_MOVE_BALANCE = """
UPDATE crm.payment_method SET balance_cents = balance_cents + %s
WHERE payment_method_id = %s AND kind = 'gift_card' AND balance_cents + %s >= 0
"""


class Entry(msgspec.Struct, frozen=True):
    """A row for the ledger. `amount` is positive, whichever way it goes."""

    order: str
    method: str
    amount: int
    reason: str
    key: str
    cause: Cause
    kind: Kind = "refund"
    approval: str | None = None
    """The decision that let it go; empty where nobody was asked."""


async def order_books(session: Session | Database, order_id: str, method: str, policy: Policy) -> Mapping[str, Any]:
    """Of an order: `paid`, `refunded`, `unapproved` (refunds without approval), and whether `method` was `charged`."""
    asked = {"order": order_id, "method": method, "limit": policy.refund_limit_cents}
    return await _sums(session, _ORDER_BOOKS, asked)


async def account_books(session: Session | Database, account_id: str, policy: Policy) -> Mapping[str, Any]:
    """Of an account's last 30 days: `refunds` (their number), `refunded` and, of that, `unapproved`.

    What came back because an order was cancelled is not counted: nothing had been sent for it.
    """
    asked = {"account": account_id, "limit": policy.refund_limit_cents, "days": CAP_DAYS}
    return await _sums(session, _ACCOUNT_BOOKS, asked)


async def write_entry(session: Session, entry: Entry, policy: Policy) -> dict[str, Any] | None:
    """Append to the ledger; None where another row has the key. Gift cards are credited and charged along with it.

    The caller has seen to it that a gift card holds what is charged.
    """
    row = msgspec.structs.asdict(entry) | {"currency": policy.currency, "page": policy.page_sha256}
    written = await session.row(_WRITE, {**row, "approval": entry.approval or None})
    if written is not None:
        change = entry.amount if entry.kind == "refund" else -entry.amount
        await session.execute(_MOVE_BALANCE, (change, entry.method, change))
    return written


async def _sums(session: Session | Database, sql: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    found = await session.row(sql, asked)
    assert found is not None  # an aggregate without GROUP BY always has a row
    return found
