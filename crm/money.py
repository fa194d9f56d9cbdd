"""The desk's money tools: refund part of an order, cancel an order.

A money tool first commits a row that it was attempted, then locks (locks.py), looks whether its key has acted before,
checks the books, and writes the ledger, in one transaction. So the same key can run many times, at once or after a
crash, on any node: the ledger gets one row, and every caller the same answer.

The gate sees one call at a time. What only adds up over several (the parts of one refund, all refunds of an account
within 30 days) is counted here, under the account's lock, so that neither siblings nor two agents can slip past it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from callboard.actors.agent.faults import NeedsApproval
from callboard.crm.answers import refused, text_problem
from callboard.crm.attempts import Attempts
from callboard.crm.books import Entry, account_books, order_books, write_entry
from callboard.crm.gates import asked_by_tool, refund_terms
from callboard.crm.locks import lock_key, lock_order, moved_on
from callboard.crm.policy import CAP_DAYS, Policy, dollars
from callboard.persistence.postgres.database import Database, Session

AfterEffect = Callable[[str], Awaitable[None]]
"""Awaited with the idempotency key between the committed refund and its result, where a crash is at its worst."""

_RECORDED = """
SELECT payment_id, order_id, payment_method_id, amount_cents, currency FROM crm.payment
WHERE kind = 'refund' AND idempotency_key = %s
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


class Money:
    """The money tools of one database. `node` names the process in the attempts; see `tools.py` for the tools."""

    def __init__(self, database: Database, policy: Policy, *, node: str, after_effect: AfterEffect | None) -> None:
        self._database = database
        self._policy = policy
        self._attempts = Attempts(database, node)
        self._after_effect = after_effect

    async def issue_refund(
        self,
        order_id: str,
        amount_cents: int,
        payment_method_id: str,
        reason: str,
        idempotency_key: str,
        *,
        order_version: int | None = None,
        approval: str | None = None,
    ) -> dict[str, Any]:
        """Refund part of an order, in integer cents, to a payment method that was charged for it.

        Give `order_version` as you read it: where the order has moved on since, nothing is refunded.
        """
        if (problem := text_problem(reason)) is not None:
            return problem
        await self._attempts.begin("issue_refund", order_id, idempotency_key)
        refund = Entry(order_id, payment_method_id, amount_cents, reason, idempotency_key, "refund", approval=approval)
        async with self._database.transaction() as session:
            result = await self._refund(session, refund, order_version)
        if self._after_effect is not None and result.get("dedup_hit") is False:
            await self._after_effect(idempotency_key)
        return result

    async def reconcile_refund(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `issue_refund` under this key has done: its result, or None where it did nothing (yet)."""
        recorded = await self._database.row(_RECORDED, (idempotency_key,))
        return None if recorded is None else _refunded(recorded, dedup_hit=True)

    async def cancel_order(
        self, order_id: str, idempotency_key: str, order_version: int | None = None, approval: str | None = None
    ) -> dict[str, Any]:
        """Cancel an order that has not left the warehouse and give back everything that was paid for it."""
        await self._attempts.begin("cancel_order", order_id, idempotency_key)
        async with self._database.transaction() as session:
            await lock_key(session, idempotency_key)
            order = await lock_order(session, order_id)
            if order is None:
                return refused("not_found", f"there is no order {order_id!r}")
            dedup_hit = order["cancel_key"] == idempotency_key
            if not dedup_hit:
                refusal = self._not_cancellable(order, order_version)
                if refusal is not None:
                    return refusal
                await self._cancel(session, order_id, idempotency_key, approval)
            return self._cancelled(order_id, await session.rows(_CANCELLED, (order_id,)), dedup_hit=dedup_hit)

    async def reconcile_cancel(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `cancel_order` under this key has done: its result, or None where it did nothing (yet)."""
        order = await self._database.row(
            "SELECT order_id FROM crm.sales_order WHERE cancel_key = %s", (idempotency_key,)
        )
        if order is None:
            return None
        refunds = await self._database.rows(_CANCELLED, (order["order_id"],))
        return self._cancelled(order["order_id"], refunds, dedup_hit=True)

    async def _refund(self, session: Session, refund: Entry, version: int | None) -> dict[str, Any]:
        await lock_key(session, refund.key)
        order = await lock_order(session, refund.order)
        recorded = await session.row(_RECORDED, (refund.key,))
        if recorded is not None:
            return _same(recorded, refund)
        if order is None:
            return refused("not_found", f"there is no order {refund.order!r}")
        refusal = moved_on(f"order {refund.order}", version, order) or await self._why_not(session, order, refund)
        if refusal is not None:
            return refusal
        if not refund.approval:
            await self._ask_where_needed(session, order, refund.amount)
        written = await write_entry(session, refund, self._policy)
        return _key_reused(refund) if written is None else _refunded(written, dedup_hit=False)

    async def _why_not(self, session: Session, order: Mapping[str, Any], refund: Entry) -> dict[str, Any] | None:
        order_id, amount, policy = refund.order, refund.amount, self._policy
        if amount <= 0:
            return refused("bad_amount", f"{amount} cents cannot be refunded; name a positive amount")
        if amount > policy.refund_ceiling_cents:
            ceiling = dollars(policy.refund_ceiling_cents, policy.currency)
            return refused("above_ceiling", f"the desk may refund at most {ceiling} at a time; escalate the ticket")
        if order["status"] not in policy.refundable_statuses:
            allowed = " or ".join(sorted(policy.refundable_statuses))
            return refused("wrong_status", f"order {order_id} is {order['status']}; refunds are for {allowed} orders")
        return self._against_books(await order_books(session, order_id, refund.method, policy), refund)

    def _against_books(self, books: Mapping[str, Any], refund: Entry) -> dict[str, Any] | None:
        order_id, policy = refund.order, self._policy
        left = books["paid"] - books["refunded"]
        if not books["charged"]:
            return refused("wrong_method", f"order {order_id} was not paid with {refund.method!r}")
        if refund.amount > left:
            sentence = f"only {dollars(left, policy.currency)} of order {order_id} can still be refunded"
            return refused("over_refund", sentence)
        # The gate sees one call at a time; this sees the parts that a refund might have been cut into.
        alone = not refund.approval and refund.amount <= policy.refund_limit_cents
        if alone and refund.amount + books["unapproved"] > policy.refund_limit_cents:
            limit = dollars(policy.refund_limit_cents, policy.currency)
            sentence = (
                f"refunds of order {order_id} made without approval would pass {limit} in all; escalate the ticket"
            )
            return refused("split_refund", sentence)
        return None

    async def _ask_where_needed(self, session: Session, order: Mapping[str, Any], amount: int) -> None:
        """
        Raises:
            NeedsApproval: so much is not refunded without a person.
        """
        policy = self._policy
        if amount > policy.refund_limit_cents:
            raise asked_by_tool(refund_terms(order["order_id"], amount, policy))
        before = (await account_books(session, order["account_id"], policy))["unapproved"]
        if before + amount > policy.account_cap_cents:
            total, cap = dollars(before + amount, policy.currency), dollars(policy.account_cap_cents, policy.currency)
            raise NeedsApproval(
                f"refunds of account {order['account_id']} without approval would come to {total} within {CAP_DAYS}"
                f" days, above {cap}"
            )

    def _not_cancellable(self, order: dict[str, Any], version: int | None) -> dict[str, Any] | None:
        order_id, status = order["order_id"], order["status"]
        if status not in self._policy.cancellable_statuses:
            allowed = " or ".join(sorted(self._policy.cancellable_statuses))
            return refused("wrong_status", f"order {order_id} is {status}; only a {allowed} order can be cancelled")
        return moved_on(f"order {order_id}", version, order)

    async def _cancel(self, session: Session, order_id: str, key: str, approval: str | None) -> None:
        for paid in await session.rows(_STILL_PAID, (order_id,)):
            method, amount = paid["payment_method_id"], paid["amount"]
            back = Entry(order_id, method, amount, "order cancelled", f"{key}:{method}", "cancel", approval=approval)
            await write_entry(session, back, self._policy)
        await session.execute(
            "UPDATE crm.sales_order SET status = 'cancelled', cancel_key = %s WHERE order_id = %s", (key, order_id)
        )

    def _cancelled(self, order_id: str, refunds: list[dict[str, Any]], *, dedup_hit: bool) -> dict[str, Any]:
        return {
            "cancelled": True,
            "order_id": order_id,
            "refunds": refunds,
            "refunded_cents": sum(refund["amount_cents"] for refund in refunds),
            "currency": self._policy.currency,
            "dedup_hit": dedup_hit,
        }


def _same(recorded: Mapping[str, Any], refund: Entry) -> dict[str, Any]:
    asked = (refund.order, refund.method, refund.amount)
    done = (recorded["order_id"], recorded["payment_method_id"], recorded["amount_cents"])
    return _refunded(recorded, dedup_hit=True) if asked == done else _key_reused(refund)


def _key_reused(refund: Entry) -> dict[str, Any]:
    return refused("key_reused", f"the key of this refund of order {refund.order} was used for another refund before")


def _refunded(recorded: Mapping[str, Any], *, dedup_hit: bool) -> dict[str, Any]:
    return {
        "refunded": True,
        **recorded,
        "amount": dollars(recorded["amount_cents"], recorded["currency"]),
        "dedup_hit": dedup_hit,
    }
