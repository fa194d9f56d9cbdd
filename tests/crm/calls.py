"""Calling the desk's tools as a run does, without one: by name, under a key."""

from collections.abc import Sequence
from typing import Any

from callboard.actors.agent.tool import Tool
from callboard.crm.policy import Policy, parse_policy, policy_text
from callboard.persistence.postgres.database import Database

PICK = """
SELECT o.order_id, o.account_id, o.version, p.payment_method_id AS method, i.unit_price_cents AS price,
       p.amount_cents AS paid
FROM crm.sales_order o JOIN crm.payment p USING (order_id) JOIN crm.order_item i USING (order_id)
WHERE o.status = %s AND p.kind = 'charge' AND i.position = 1 ORDER BY p.amount_cents DESC LIMIT 1
"""
APPROVED = "crm.desk.agent:T-0001.5"
"""A decision."""


def named(tools: Sequence[Tool], name: str) -> Tool:
    return next(tool for tool in tools if tool.name == name)


def strict(**sums: str) -> Policy:
    """The page that ships with other sums: `strict(cap="150.00 USD")`."""
    page = policy_text()
    for rule, sum_ in sums.items():
        old = {"cap": "300.00 USD", "one_person": "1,000.00 USD", "exchange": "50.00 USD"}[rule]
        assert page.count(f"| {old} |") == 1
        page = page.replace(f"| {old} |", f"| {sum_} |")
    return parse_policy(page)


async def pick(database: Database, status: str) -> dict[str, Any]:
    """The order of this status that cost most."""
    row = await database.row(PICK, (status,))
    assert row is not None
    return row


async def delivered(database: Database, account_id: str) -> list[dict[str, Any]]:
    """The delivered orders of an account, with what paid for each."""
    return await database.rows(
        "SELECT order_id, account_id, version, payment_method_id AS method, amount_cents AS paid"
        " FROM crm.sales_order JOIN crm.payment USING (order_id)"
        " WHERE account_id = %s AND status = 'delivered' AND kind = 'charge' ORDER BY order_id",
        (account_id,),
    )


async def refund(
    tools: Sequence[Tool], order: dict[str, Any], amount_cents: int, key: str, approval: str | None = None, **more: Any
) -> dict[str, Any]:
    result: dict[str, Any] = await named(tools, "issue_refund")(
        order_id=order["order_id"],
        amount_cents=amount_cents,
        payment_method_id=order["method"],
        reason="it broke",
        idempotency_key=key,
        approval=approval,
        **more,
    )
    return result
