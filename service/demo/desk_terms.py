"""On what terms people decide at the demonstration desk: three tiers of risk, and what is looked up for them.

A cancellation is a small thing that cannot be undone; a refund above the limit can be taken back for a while; a large
one takes two people and more time. The checks are run when the question is asked, under the desk's own database role,
and say what is on record: one of them fails where a customer writes that somebody has approved it already.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from callboard.actors.agent.policies import Policy
from callboard.actors.agent.policy_data import policies_from
from callboard.crm.policy import dollars
from callboard.crm.tools import Toolset
from callboard.persistence.postgres.database import Database

LARGE_CENTS = 50_000

POLICIES: tuple[Policy, ...] = policies_from(
    [
        {
            "tool": "cancel_order",
            "name": "orders.cancel",
            "reason": "a cancelled order cannot be brought back",
            "risk": "low",
            "expires_seconds": 1_500,
            "hold_seconds": 10,
        },
        {
            "tool": "issue_refund",
            "name": "refunds.over-100",
            "when": [{"field": "amount_cents", "above": 10_000}],
            "reason": "somebody else sees every refund of more than 100.00 USD",
            "risk": "medium",
            "expires_seconds": 3_600,
            "hold_seconds": 10,
        },
        {
            "tool": "issue_refund",
            "name": "refunds.over-500",
            "when": [{"field": "amount_cents", "above": LARGE_CENTS}],
            "reason": "a refund of more than 500.00 USD takes two people",
            "risk": "high",
            "needed": 2,
            "not_requester": True,
            "expires_seconds": 14_400,
            "hold_seconds": 60,
        },
    ]
)

_PAID = """
SELECT coalesce(sum(amount_cents) FILTER (WHERE kind = 'charge'), 0)::bigint AS paid,
       coalesce(sum(amount_cents) FILTER (WHERE kind = 'refund'), 0)::bigint AS refunded
FROM crm.payment WHERE order_id = %s
"""
_METHOD = """
SELECT m.kind, m.brand, m.last_four FROM crm.payment p JOIN crm.payment_method m USING (payment_method_id)
WHERE p.order_id = %s AND p.payment_method_id = %s AND p.kind = 'charge' LIMIT 1
"""
# What a customer wrote is looked at for one word, and never repeated: it would be read as ours.
_CLAIMED = """
SELECT count(*) AS claims FROM crm.message
WHERE author = 'customer' AND strpos(body, %s) > 0 AND body ILIKE '%%has approved%%'
"""

Found = tuple[bool, str]
Check = Callable[..., Awaitable[Found]]


def checked(tools: Toolset, database: Database) -> Toolset:
    """The same tools, with checks on those that move money. `database` is opened as the tools' own is."""
    checks = {"issue_refund": _refund_checks(database), "cancel_order": (_pending_check(database),)}
    return tuple(replace(tool, checks=checks.get(tool.name, ())) for tool in tools)


def _refund_checks(database: Database) -> tuple[Check, ...]:
    async def paid(order_id: str, amount_cents: int) -> Found:
        books = await database.row(_PAID, (order_id,)) or {"paid": 0}
        return amount_cents <= books["paid"], f"{dollars(books['paid'])} was paid for order {order_id}"

    async def refunded_before(order_id: str) -> Found:
        books = await database.row(_PAID, (order_id,)) or {"refunded": 0}
        if books["refunded"]:
            return False, f"{dollars(books['refunded'])} was refunded on it before"
        return True, "nothing was refunded on it so far"

    async def payment_method(order_id: str, payment_method_id: str) -> Found:
        method = await database.row(_METHOD, (order_id, payment_method_id))
        if method is None:
            return False, "the order was not paid by this payment method"
        name = f"{method['brand']} ending {method['last_four']}" if method["last_four"] else method["kind"]
        return True, f"{name.replace('_', ' ')} is what paid for the order"

    async def claim_of_approval(order_id: str) -> Found:
        found = await database.row(_CLAIMED, (order_id,)) or {"claims": 0}
        if found["claims"]:
            return False, "the customer writes that it is approved already; nobody here has"
        return True, "the customer claims no approval"

    return paid, refunded_before, payment_method, claim_of_approval


def _pending_check(database: Database) -> Check:
    async def still_pending(order_id: str) -> Found:
        order = await database.row("SELECT status FROM crm.sales_order WHERE order_id = %s", (order_id,))
        status = order["status"] if order else "unknown"
        return status == "pending", f"order {order_id} is {status}"

    return still_pending
