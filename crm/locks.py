"""The rows that tools lock before they change anything, always in one order, so that no two can wait for each other.

    key ──▶ account ──▶ order or subscription ──▶ payment method

A tool takes those of them that it needs and leaves none out on the way: whoever locks an order holds its account. So
what is counted over an account (its refunds of 30 days) stands still until the tool has committed. Closing an account
(closing.py) begins with its own row, which no tool locks. A ticket's row (casework.py) is never locked with these.
"""

from typing import Any

from callboard.crm.answers import refused
from callboard.persistence.postgres.database import Session

_ACCOUNT = "SELECT account_id, email, status, version FROM crm.account WHERE account_id = %s FOR NO KEY UPDATE"
_ORDER = """
SELECT order_id, account_id, status, cancel_key, version FROM crm.sales_order WHERE order_id = %s FOR UPDATE
"""
_SUBSCRIPTION = """
SELECT subscription_id, account_id, status, renews, paid_until, paused_at, version,
       paid_until <= crm.clock() AS lapsed,
       ceil(extract(epoch FROM greatest(paid_until - coalesce(paused_at, crm.clock()), interval '0')) / 86400)::integer
           AS days_left
FROM crm.subscription WHERE subscription_id = %s FOR UPDATE
"""


async def lock_key(session: Session, key: str) -> None:
    """Wait for every other call under `key`; what is looked up by it afterwards stays as it is."""
    await session.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (key,))


async def lock_account(session: Session, account_id: str) -> dict[str, Any] | None:
    """An account, locked; None where there is none."""
    return await session.row(_ACCOUNT, (account_id,))


async def lock_order(session: Session, order_id: str) -> dict[str, Any] | None:
    """An order, locked after its account; None where there is none."""
    owner = await session.row("SELECT account_id FROM crm.sales_order WHERE order_id = %s", (order_id,))
    if owner is None:
        return None
    await lock_account(session, owner["account_id"])
    return await session.row(_ORDER, (order_id,))


async def lock_subscription(session: Session, subscription_id: str) -> dict[str, Any] | None:
    """A subscription with the paid days that are left, locked after its account; None where there is none."""
    owner = await session.row("SELECT account_id FROM crm.subscription WHERE subscription_id = %s", (subscription_id,))
    if owner is None:
        return None
    await lock_account(session, owner["account_id"])
    return await session.row(_SUBSCRIPTION, (subscription_id,))


def moved_on(what: str, version: int | None, row: dict[str, Any]) -> dict[str, Any] | None:
    """Refuse where the caller has read another version of the row than there is; None: go on."""
    if version is None or version == row["version"]:
        return None
    return refused(
        "changed", f"{what} was at version {version} and is at {row['version']} now; read it again before you go on"
    )
