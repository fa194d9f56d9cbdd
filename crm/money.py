"""The desk's money tools: refund part of an order, cancel an order.

A money tool first commits a row that it was attempted, then takes the order's row lock, looks whether its key has
acted before, checks the books, and writes the ledger, in one transaction. So the same key can run many times, at once
or after a crash, on any node: the ledger gets one row, and every caller the same answer.

Lock order: order, then payment method. The key is looked up after the order is locked, because before it another
caller with the same key may be about to commit.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from callboard.crm.answers import refused, text_problem
from callboard.crm.policy import Policy, dollars
from callboard.persistence.postgres.database import Database, Session

AfterEffect = Callable[[str], Awaitable[None]]
"""Awaited with the idempotency key between the committed refund and its result, where a crash is at its worst."""

_RECORDED = """
SELECT payment_id, order_id, payment_method_id, amount_cents, currency FROM crm.payment
WHERE kind = 'refund' AND idempotency_key = %s
"""
_BOOKS = """
SELECT coalesce(sum(amount_cents) FILTER (WHERE kind = 'charge'), 0)::bigint AS paid,
       coalesce(sum(amount_cents) FILTER (WHERE kind = 'refund'), 0)::bigint AS refunded,
       coalesce(sum(amount_cents) FILTER (WHERE cause = 'refund' AND amount_cents <= %(limit)s), 0)::bigint
           AS unapproved,
       coalesce(bool_or(kind = 'charge' AND payment_method_id = %(method)s), false) AS charged
FROM crm.payment WHERE order_id = %(order)s
"""
_REFUND = """
INSERT INTO crm.payment (order_id, payment_method_id, kind, amount_cents, currency, reason, idempotency_key, cause)
VALUES (%(order)s, %(method)s, 'refund', %(amount)s, %(currency)s, %(reason)s, %(key)s, %(cause)s)
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING payment_id, order_id, payment_method_id, amount_cents, currency
"""
_STILL_PAID = """
SELECT payment_method_id,
       (sum(amount_cents) FILTER (WHERE kind = 'charge')
        - coalesce(sum(amount_cents) FILTER (WHERE kind = 'refund'), 0))::bigint AS amount
FROM crm.payment WHERE order_id = %s GROUP BY payment_method_id
HAVING sum(amount_cents) FILTER (WHERE kind = 'charge')
       > coalesce(sum(amount_cents) FILTER (WHERE kind = 'refund'), 0)
ORDER BY payment_method_id
"""
_CANCELLED = """
SELECT payment_id, payment_method_id, amount_cents, currency FROM crm.payment
WHERE order_id = %s AND cause = 'cancel' ORDER BY payment_id
"""


def refund_needs_approval(policy: Policy) -> Callable[[Mapping[str, Any]], bool | str]:
    """Make the gate of `issue_refund`: False below the limit, above it the reason in words for whoever decides."""

    def gate(arguments: Mapping[str, Any]) -> bool | str:
        amount_cents = int(arguments["amount_cents"])
        if amount_cents <= policy.refund_limit_cents:
            return False
        amount, limit = dollars(amount_cents, policy.currency), dollars(policy.refund_limit_cents, policy.currency)
        return f"a refund of {amount} for order {arguments['order_id']} is above the limit of {limit}"

    return gate


class Money:
    """The money tools of one database. `node` names the process in the attempts; see `tools.py` for the tools."""

    def __init__(self, database: Database, policy: Policy, *, node: str, after_effect: AfterEffect | None) -> None:
        self._database = database
        self._policy = policy
        self._node = node
        self._after_effect = after_effect

    async def issue_refund(
        self, order_id: str, amount_cents: int, payment_method_id: str, reason: str, idempotency_key: str
    ) -> dict[str, Any]:
        """Refund part of an order, in integer cents, to a payment method that was charged for it."""
        if (problem := text_problem(reason)) is not None:
            return problem
        await self._attempt("issue_refund", order_id, idempotency_key)
        refund = {
            "order": order_id,
            "method": payment_method_id,
            "amount": amount_cents,
            "currency": self._policy.currency,
            "reason": reason,
            "key": idempotency_key,
            "cause": "refund",
        }
        async with self._database.transaction() as session:
            result = await self._refund(session, refund)
        if self._after_effect is not None and result.get("dedup_hit") is False:
            await self._after_effect(idempotency_key)
        return result

    async def reconcile_refund(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `issue_refund` under this key has done: its result, or None where it did nothing (yet)."""
        recorded = await self._database.row(_RECORDED, (idempotency_key,))
        return None if recorded is None else _refunded(recorded, dedup_hit=True)

    async def cancel_order(self, order_id: str, idempotency_key: str) -> dict[str, Any]:
        """Cancel an order that has not left the warehouse and give back everything that was paid for it."""
        await self._attempt("cancel_order", order_id, idempotency_key)
        async with self._database.transaction() as session:
            order = await _lock_order(session, order_id)
            if order is None:
                return refused("not_found", f"there is no order {order_id!r}")
            dedup_hit = order["cancel_key"] == idempotency_key
            if not dedup_hit:
                if order["status"] not in self._policy.cancellable_statuses:
                    allowed = " or ".join(sorted(self._policy.cancellable_statuses))
                    sentence = f"order {order_id} is {order['status']}; only a {allowed} order can be cancelled"
                    return refused("wrong_status", sentence)
                await self._cancel(session, order_id, idempotency_key)
            refunds = await session.rows(_CANCELLED, (order_id,))
        total = sum(refund["amount_cents"] for refund in refunds)
        return {
            "cancelled": True,
            "order_id": order_id,
            "refunds": refunds,
            "refunded_cents": total,
            "currency": self._policy.currency,
            "dedup_hit": dedup_hit,
        }

    async def reconcile_cancel(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `cancel_order` under this key has done: its result, or None where it did nothing (yet)."""
        order = await self._database.row(
            "SELECT order_id FROM crm.sales_order WHERE cancel_key = %s", (idempotency_key,)
        )
        if order is None:
            return None
        refunds = await self._database.rows(_CANCELLED, (order["order_id"],))
        total = sum(refund["amount_cents"] for refund in refunds)
        return {
            "cancelled": True,
            "order_id": order["order_id"],
            "refunds": refunds,
            "refunded_cents": total,
            "currency": self._policy.currency,
            "dedup_hit": True,
        }

    async def _attempt(self, tool: str, order_id: str, key: str) -> None:
        await self._database.execute(
            "INSERT INTO crm.attempt (idempotency_key, tool, order_id, node) VALUES (%s, %s, %s, %s)",
            (key, tool, order_id, self._node),
        )

    async def _refund(self, session: Session, refund: dict[str, Any]) -> dict[str, Any]:
        order = await _lock_order(session, refund["order"])
        recorded = await session.row(_RECORDED, (refund["key"],))
        if recorded is not None:
            return _same(recorded, refund)
        refusal = await self._why_not(session, order, refund)
        if refusal is not None:
            return refusal
        written = await session.row(_REFUND, refund)
        if written is None:  # another order's refund took the key between our look and our insert
            return _key_reused(refund)
        await _top_up_gift_card(session, refund["method"], refund["amount"])
        return _refunded(written, dedup_hit=False)

    async def _why_not(
        self, session: Session, order: dict[str, Any] | None, refund: dict[str, Any]
    ) -> dict[str, Any] | None:
        order_id, amount, policy = refund["order"], refund["amount"], self._policy
        if order is None:
            return refused("not_found", f"there is no order {order_id!r}")
        if amount <= 0:
            return refused("bad_amount", f"{amount} cents cannot be refunded; name a positive amount")
        if amount > policy.refund_ceiling_cents:
            ceiling = dollars(policy.refund_ceiling_cents, policy.currency)
            return refused("above_ceiling", f"the desk may refund at most {ceiling} at a time; escalate the ticket")
        if order["status"] not in policy.refundable_statuses:
            allowed = " or ".join(sorted(policy.refundable_statuses))
            return refused("wrong_status", f"order {order_id} is {order['status']}; refunds are for {allowed} orders")
        books = await session.row(_BOOKS, {**refund, "limit": policy.refund_limit_cents})
        assert books is not None  # an aggregate without GROUP BY always has a row
        return self._against_books(books, refund)

    def _against_books(self, books: Mapping[str, Any], refund: Mapping[str, Any]) -> dict[str, Any] | None:
        order_id, amount, policy = refund["order"], refund["amount"], self._policy
        left = books["paid"] - books["refunded"]
        if not books["charged"]:
            return refused("wrong_method", f"order {order_id} was not paid with {refund['method']!r}")
        if amount > left:
            sentence = f"only {dollars(left, policy.currency)} of order {order_id} can still be refunded"
            return refused("over_refund", sentence)
        # The gate sees one call at a time; this sees the parts that a refund might have been cut into.
        if amount <= policy.refund_limit_cents < amount + books["unapproved"]:
            limit = dollars(policy.refund_limit_cents, policy.currency)
            sentence = (
                f"refunds of order {order_id} made without approval would pass {limit} in all; escalate the ticket"
            )
            return refused("split_refund", sentence)
        return None

    async def _cancel(self, session: Session, order_id: str, key: str) -> None:
        for paid in await session.rows(_STILL_PAID, (order_id,)):
            method, amount = paid["payment_method_id"], paid["amount"]
            refund = {
                "order": order_id,
                "method": method,
                "amount": amount,
                "currency": self._policy.currency,
                "reason": "order cancelled",
                "key": f"{key}:{method}",
                "cause": "cancel",
            }
            await session.row(_REFUND, refund)
            await _top_up_gift_card(session, method, amount)
        await session.execute(
            "UPDATE crm.sales_order SET status = 'cancelled', cancel_key = %s WHERE order_id = %s", (key, order_id)
        )


async def _lock_order(session: Session, order_id: str) -> dict[str, Any] | None:
    return await session.row(
        "SELECT status, cancel_key FROM crm.sales_order WHERE order_id = %s FOR UPDATE", (order_id,)
    )


async def _top_up_gift_card(session: Session, payment_method_id: str, amount_cents: int) -> None:
    await session.execute(
        "UPDATE crm.payment_method SET balance_cents = balance_cents + %s"
        " WHERE payment_method_id = %s AND kind = 'gift_card'",
        (amount_cents, payment_method_id),
    )


def _same(recorded: Mapping[str, Any], refund: Mapping[str, Any]) -> dict[str, Any]:
    asked = (refund["order"], refund["method"], refund["amount"])
    done = (recorded["order_id"], recorded["payment_method_id"], recorded["amount_cents"])
    return _refunded(recorded, dedup_hit=True) if asked == done else _key_reused(refund)


def _key_reused(refund: Mapping[str, Any]) -> dict[str, Any]:
    return refused(
        "key_reused", f"the key of this refund of order {refund['order']} was used for another refund before"
    )


def _refunded(recorded: Mapping[str, Any], *, dedup_hit: bool) -> dict[str, Any]:
    return {
        "refunded": True,
        **recorded,
        "amount": dollars(recorded["amount_cents"], recorded["currency"]),
        "dedup_hit": dedup_hit,
    }
