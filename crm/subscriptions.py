"""The desk's subscriptions: read one, and pause, resume, renew or cancel it. None of it moves money.

    active ◀──▶ paused       the paid time stands still, and goes on when it is resumed
      └────┬────┘
           ▼
       cancelled             at once: the paid days that are left are lost

Renewing means that it goes on by itself when the paid time ends; what is due then is billed elsewhere.
"""

from typing import Any, Literal

from callboard.actors.agent.faults import NeedsApproval
from callboard.crm.answers import refused
from callboard.crm.changes import Change, reconciled
from callboard.crm.locks import lock_key, lock_subscription, moved_on
from callboard.crm.policy import Policy
from callboard.persistence.postgres.database import Database, Session

SubscriptionChange = Literal["pause", "resume", "cancel", "renew"]

_READ = """
SELECT subscription_id, account_id, plan, price_cents, period_days, status, renews, paid_until::text AS paid_until,
       paused_at::text AS paused_at, version
FROM crm.subscription WHERE subscription_id = %s
"""
_CHANGE = """
UPDATE crm.subscription SET
    status = CASE %(change)s WHEN 'pause' THEN 'paused' WHEN 'resume' THEN 'active' WHEN 'cancel' THEN 'cancelled'
                             ELSE status END,
    renews = CASE %(change)s WHEN 'renew' THEN true WHEN 'cancel' THEN false ELSE renews END,
    paid_until = CASE %(change)s WHEN 'resume' THEN paid_until + (crm.clock() - paused_at) ELSE paid_until END,
    paused_at = CASE %(change)s WHEN 'pause' THEN crm.clock() WHEN 'renew' THEN paused_at END
WHERE subscription_id = %(subscription)s
RETURNING status, renews, paid_until::text AS paid_until, version
"""
_ALLOWED = {"pause": ("active",), "resume": ("paused",), "cancel": ("active", "paused"), "renew": ("active", "paused")}


class Subscriptions:
    """The subscription tools of one database; see `tools.py`."""

    def __init__(self, database: Database, policy: Policy) -> None:
        self._database = database
        self._policy = policy

    async def get_subscription(self, subscription_id: str) -> dict[str, Any]:
        """Get a subscription: plan, price in cents and period in days, status, and until when it is paid for."""
        found = await self._database.row(_READ, (subscription_id,))
        return found or _no_subscription(subscription_id)

    async def change_subscription(
        self,
        subscription_id: str,
        change: SubscriptionChange,
        idempotency_key: str,
        version: int | None = None,
        approval: str | None = None,
    ) -> dict[str, Any]:
        """Pause, resume, renew or cancel a subscription. Cancelling ends it at once.

        Give `version` as you read it: where the subscription has moved on since, nothing is changed.
        """
        asked = {"subscription": subscription_id, "change": change}
        call = Change("change_subscription", subscription_id, asked, idempotency_key, approval)
        async with self._database.transaction() as session:
            await lock_key(session, idempotency_key)
            if (before := await call.answered(session)) is not None:
                return before
            row = await lock_subscription(session, subscription_id)
            if row is None:
                return _no_subscription(subscription_id)
            refusal = moved_on(f"subscription {subscription_id}", version, row) or _why_not(row, change)
            if refusal is not None:
                return refusal
            lost = row["days_left"] if change == "cancel" else 0
            if lost > self._policy.lost_days_limit and not approval:
                raise NeedsApproval(
                    f"cancelling subscription {subscription_id} now loses {lost} days that are paid for"
                )
            return await self._write(session, call, row, lost)

    async def reconcile_change(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `change_subscription` under this key has done: its result, or None where it did nothing (yet)."""
        return await reconciled(self._database, "change_subscription", idempotency_key)

    async def _write(self, session: Session, call: Change, row: dict[str, Any], lost: int) -> dict[str, Any]:
        now = await session.row(_CHANGE, call.asked)
        assert now is not None  # it is locked
        answer = {"changed": call.asked["change"], "subscription_id": call.subject, **now, "lost_days": lost}
        before = {"status": row["status"], "renews": row["renews"], "paid_until": row["paid_until"]}
        return await call.record(session, before, answer)


def _why_not(row: dict[str, Any], change: SubscriptionChange) -> dict[str, Any] | None:
    name, status = row["subscription_id"], row["status"]
    if status not in _ALLOWED[change]:
        return refused("wrong_status", f"subscription {name} is {status}; it cannot be {_DONE[change]}")
    if change == "renew" and row["renews"]:
        return refused("wrong_status", f"subscription {name} renews by itself already")
    if change in ("renew", "pause") and status == "active" and row["lapsed"]:
        return refused("lapsed", f"the paid time of subscription {name} is over; it has to be paid first")
    return None


_DONE = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "renew": "renewed"}


def _no_subscription(subscription_id: str) -> dict[str, Any]:
    return refused("not_found", f"there is no subscription {subscription_id!r}")
