"""The desk's tool that asks for an account to be closed. It writes one row; the closing itself is a saga of its own,
step by step or back (offboarding.py).
"""

from typing import Any

from callboard.crm.answers import refused, text_problem
from callboard.crm.attempts import Attempts
from callboard.crm.gates import asked_by_tool, closing_terms
from callboard.crm.locks import lock_account, lock_key
from callboard.persistence.postgres.database import Database, Session

_ASKED = "SELECT offboarding_id, account_id, state FROM crm.offboarding WHERE idempotency_key = %s"
_OPEN = "SELECT state FROM crm.offboarding WHERE account_id = %s AND state <> 'undone'"
_ASK = """
INSERT INTO crm.offboarding (account_id, reason, approval, idempotency_key) VALUES (%s, %s, %s, %s)
RETURNING offboarding_id, account_id, state
"""
_IN_THE_WAY = """
SELECT (SELECT array_agg(order_id ORDER BY order_id) FROM crm.sales_order
        WHERE account_id = %(account)s AND status IN ('pending', 'processed')) AS open_orders,
       (SELECT array_agg(order_id ORDER BY order_id) FROM crm.sales_order o
        WHERE account_id = %(account)s AND status <> 'cancelled'
            AND (SELECT sum(unit_price_cents) FROM crm.order_item i WHERE i.order_id = o.order_id)
                > (SELECT coalesce(sum(amount_cents), 0) FROM crm.payment p
                   WHERE p.order_id = o.order_id AND p.kind = 'charge')) AS unpaid_orders,
       (SELECT array_agg(subscription_id ORDER BY subscription_id) FROM crm.subscription
        WHERE account_id = %(account)s AND status = 'active' AND paid_until <= crm.clock()) AS unpaid_subscriptions
"""


class Offboard:
    """The closing tool of one database; see `tools.py`."""

    def __init__(self, database: Database, *, node: str) -> None:
        self._database = database
        self._attempts = Attempts(database, node)

    async def offboard_account(
        self, account_id: str, reason: str, idempotency_key: str, approval: str | None = None
    ) -> dict[str, Any]:
        """Have an account closed: its subscriptions are cancelled, its data written out, and the account shut.

        Takes the approval of two people. Refused while an order is on its way or something is unpaid.
        """
        if (problem := text_problem(reason)) is not None:
            return problem
        await self._attempts.begin("offboard_account", account_id, idempotency_key)
        async with self._database.transaction() as session:
            await lock_key(session, idempotency_key)
            recorded = await session.row(_ASKED, (idempotency_key,))
            if recorded is not None:
                same = recorded["account_id"] == account_id
                return _asked(recorded, dedup_hit=True) if same else _key_reused(account_id)
            refusal = await _why_not(session, account_id)
            if refusal is not None:
                return refusal
            if not approval:
                raise asked_by_tool(closing_terms({"account_id": account_id}))
            asked = await session.row(_ASK, (account_id, reason, approval, idempotency_key))
        assert asked is not None  # the account's lock is held, so nobody else has asked for it
        return _asked(asked, dedup_hit=False)

    async def reconcile_offboard(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `offboard_account` under this key has done: its result, or None where it did nothing (yet)."""
        recorded = await self._database.row(_ASKED, (idempotency_key,))
        return None if recorded is None else _asked(recorded, dedup_hit=True)


async def in_the_way(session: Session | Database, account_id: str) -> str:
    """What keeps an account from being closed, in words; "" for nothing."""
    found = await session.row(_IN_THE_WAY, {"account": account_id})
    assert found is not None  # it makes one row of whatever there is
    words = (
        ("orders are on their way", found["open_orders"]),
        ("orders are not paid", found["unpaid_orders"]),
        ("subscriptions are not paid", found["unpaid_subscriptions"]),
    )
    return "; ".join(f"{what}: {', '.join(which)}" for what, which in words if which)


async def _why_not(session: Session, account_id: str) -> dict[str, Any] | None:
    account = await lock_account(session, account_id)
    if account is None:
        return refused("not_found", f"there is no account {account_id!r}")
    opened = await session.row(_OPEN, (account_id,))
    if opened is not None:
        return refused("asked_before", f"account {account_id} is being closed already ({opened['state']})")
    if what := await in_the_way(session, account_id):
        return refused("in_the_way", f"account {account_id} cannot be closed: {what}")
    return None


def _asked(recorded: dict[str, Any], *, dedup_hit: bool) -> dict[str, Any]:
    return {"asked": True, **recorded, "dedup_hit": dedup_hit}


def _key_reused(account_id: str) -> dict[str, Any]:
    return refused("key_reused", f"the key of this closing of account {account_id} was used for another one before")
