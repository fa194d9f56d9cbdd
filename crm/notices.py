"""Renewal notices over the desk's tables: which comes next for each subscription, and the mail of one.

A subscription that is active, and goes on by itself when its paid time ends, renews then. Of each renewal there are two
notices at most (the policy says how long before), each a row of `crm.renewal_notice` and a mail in the outbox, written
together. The second is for where nothing happened: the subscription is as it was, its owner has written nothing, and
the first mail did not come back.
"""

from typing import Any

from callboard.crm.policy import Policy, dollars
from callboard.crm.renewals import Due
from callboard.persistence.postgres.database import Database

_DUE = """
WITH told AS (
    SELECT s.subscription_id, s.paid_until, count(n.number) AS notices, max(n.created_at) AS told_at
    FROM crm.subscription s
        LEFT JOIN crm.renewal_notice n ON n.subscription_id = s.subscription_id AND n.renews_at = s.paid_until
    WHERE s.status = 'active' AND s.renews AND s.paid_until > crm.clock() AND s.subscription_id > %(after)s
    GROUP BY s.subscription_id, s.paid_until
), next AS (
    SELECT *, paid_until - CASE notices WHEN 0 THEN %(first)s ELSE %(second)s END * interval '1 day' AS at FROM told
    WHERE notices < 2
)
SELECT subscription_id, to_char(paid_until AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS renews_on, notices + 1 AS number,
       greatest(extract(epoch FROM at - crm.clock()), 0)::double precision AS seconds
FROM next WHERE at <= crm.clock() + %(ahead)s * interval '1 day' AND (notices = 0 OR told_at < at)
ORDER BY subscription_id LIMIT %(limit)s
"""
_SUBSCRIPTION = """
SELECT s.subscription_id, s.plan, s.price_cents, s.paid_until, s.version, a.account_id, a.first_name, a.email,
       s.status = 'active' AND s.renews AND a.status = 'active' AND s.paid_until > crm.clock() AS renewing,
       to_char(s.paid_until AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS renews_on
FROM crm.subscription s JOIN crm.account a USING (account_id)
WHERE s.subscription_id = %s FOR UPDATE OF s
"""
_HEARD = """
SELECT n.version <> %(version)s
    OR n.created_at >= %(paid_until)s - %(second)s * interval '1 day'
    OR o.bounced_at IS NOT NULL
    OR EXISTS (SELECT FROM crm.ticket t JOIN crm.message m USING (ticket_id)
               WHERE m.author = 'customer' AND m.created_at > n.created_at AND lower(t.from_email) = lower(%(email)s))
    AS heard
FROM crm.renewal_notice n JOIN crm.outbox o USING (idempotency_key)
WHERE n.subscription_id = %(subscription_id)s AND n.renews_at = %(paid_until)s AND n.number = 1
"""
_KNOWN = """
SELECT 1 FROM crm.renewal_notice WHERE subscription_id = %(subscription_id)s AND renews_at = %(paid_until)s
    AND number = %(number)s
"""
_MAIL = "INSERT INTO crm.outbox (idempotency_key, recipient, body) VALUES (%(key)s, %(email)s, %(body)s)"
_NOTICE = """
INSERT INTO crm.renewal_notice (subscription_id, renews_at, number, version, idempotency_key)
VALUES (%(subscription_id)s, %(paid_until)s, %(number)s, %(version)s, %(key)s)
"""


class DeskNotices:
    """`Notices` over the desk's tables."""

    def __init__(self, database: Database, policy: Policy) -> None:
        self._database = database
        self._policy = policy

    async def due(self, ahead_days: int, after: str, limit: int) -> list[Due]:
        """See `Notices.due`."""
        first, second = self._policy.first_notice_days, self._policy.second_notice_days
        asked = {"first": first, "second": second, "ahead": ahead_days, "after": after, "limit": limit}
        rows = await self._database.rows(_DUE, asked)
        return [Due(row["subscription_id"], row["renews_on"], row["number"], row["seconds"]) for row in rows]

    async def write(self, subscription: str, renews_on: str, number: int) -> bool:
        """See `Notices.write`."""
        async with self._database.transaction() as session:
            found = await session.row(_SUBSCRIPTION, (subscription,))
            if found is None or found["renews_on"] != renews_on:
                return False
            notice = {**found, "number": number, "second": self._policy.second_notice_days}
            if await session.row(_KNOWN, notice) is not None:
                return True
            if not found["renewing"]:
                return False
            if number == 2:
                first = await session.row(_HEARD, notice)
                if first is None or first["heard"]:
                    return False
            notice |= {"key": f"renewal {subscription} {renews_on} {number}", "body": self._body(found, number)}
            await session.execute(_MAIL, notice)
            await session.execute(_NOTICE, notice)
        return True

    def _body(self, found: dict[str, Any], number: int) -> str:
        price = dollars(found["price_cents"], self._policy.currency)
        what = f"subscription {found['subscription_id']} ({found['plan']})"
        opening = f"your {what} renews on {found['renews_on']} for {price}"
        if number == 2:
            opening = f"a reminder, as we have not heard from you: {opening}"
        return (
            f"Hello {found['first_name']}, {opening}. There is nothing to do if you want to keep it. To pause or cancel"
            " it, answer this mail before that day."
        )
