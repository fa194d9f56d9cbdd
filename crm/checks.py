"""What is so, for whoever decides about a held call: plain sentences from the records. They run again at the release.

A check gets the call's arguments and nothing of the conversation; that is their worth: no text that a customer or a
model wrote is in between. One that is not fine does not stop anybody, it tells them. When one turns from fine to not
fine between the question and the release, the question is asked anew.
"""

import re
from typing import Any

from callboard.crm.books import account_books, order_books
from callboard.crm.offboard import in_the_way
from callboard.crm.policy import CAP_DAYS, Policy, dollars
from callboard.persistence.postgres.database import Database

Found = tuple[bool, str]

MAX_ID_CHARACTERS = 100
"""Nothing on record has a longer one."""

_ORDER = """
SELECT o.order_id, o.account_id, o.status, o.version, a.first_name, a.last_name, a.email, a.status AS account_status
FROM crm.sales_order o JOIN crm.account a USING (account_id) WHERE o.order_id = %s
"""
_ACCOUNT = "SELECT account_id, first_name, last_name, email, status FROM crm.account WHERE account_id = %s"
# Tickets that are worked on and name it, with whether they come from somebody of the account.
_TICKETS = """
SELECT t.ticket_id, EXISTS (SELECT FROM crm.account a WHERE a.account_id = %(account)s
                                AND lower(a.email) = lower(t.from_email)
                            UNION ALL SELECT FROM crm.contact c WHERE c.account_id = %(account)s
                                AND lower(c.email) = lower(t.from_email)) AS own
FROM crm.ticket t WHERE t.status IN ('open', 'waiting') AND (t.subject ~ %(named)s OR EXISTS (
    SELECT FROM crm.message m WHERE m.ticket_id = t.ticket_id AND m.author = 'customer' AND m.body ~ %(named)s))
ORDER BY t.ticket_id LIMIT 5
"""
_METHOD = """
SELECT kind, brand, last_four, balance_cents FROM crm.payment_method
WHERE payment_method_id = %s AND account_id = %s
"""
_SUBSCRIPTION = """
SELECT s.subscription_id, s.plan, s.status, s.version, s.paid_until::date::text AS paid_until, a.first_name,
       a.last_name, a.email
FROM crm.subscription s JOIN crm.account a USING (account_id) WHERE s.subscription_id = %s
"""
_LIVE = "SELECT count(*) AS number FROM crm.subscription WHERE account_id = %s AND status <> 'cancelled'"


class Checks:
    """The checks over one database, opened as the tools' own is. `tools.py` says which tool has which."""

    def __init__(self, database: Database, policy: Policy) -> None:
        self._database = database
        self._policy = policy

    # --- about an order --------------------------------------------------------------------------------------------

    async def customer(self, order_id: str) -> Found:
        """Whose order it is."""
        order = await self._order(order_id)
        if order is None:
            return False, f"there is no order {order_id}"
        return order["account_status"] == "active", f"order {order_id} is of {_person(order)}"

    async def writer_owns_order(self, order_id: str) -> Found:
        """Whether those who write about it are those whose it is."""
        order = await self._order(order_id)
        if order is None:
            return False, f"there is no order {order_id}"
        named = re.escape(order_id) + r"(?!\w)"
        asked = {"account": order["account_id"], "named": named}
        tickets = await self._database.rows(_TICKETS, asked)
        strangers = [ticket["ticket_id"] for ticket in tickets if not ticket["own"]]
        if strangers:
            return False, f"{', '.join(strangers)} names order {order_id} and comes from somebody else's address"
        own = ", ".join(ticket["ticket_id"] for ticket in tickets)
        if not own:
            return False, f"no open ticket names order {order_id}"
        return True, f"{own} names order {order_id} and comes from its owner"

    async def order_unchanged(self, order_id: str, order_version: int | None) -> Found:
        """Whether the order is as it was when it was read."""
        order = await self._order(order_id)
        if order is None:
            return False, f"there is no order {order_id}"
        now = f"order {order_id} is {order['status']}"
        if order_version is not None and order_version != order["version"]:
            return False, f"{now} and has changed since it was read (version {order_version}, now {order['version']})"
        return True, f"{now}, version {order['version']}"

    async def paid_and_refunded(self, order_id: str) -> Found:
        """What was paid for it and given back so far."""
        books = await order_books(self._database, order_id, "", self._policy)
        paid, refunded = self._dollars(books["paid"]), self._dollars(books["refunded"])
        return bool(books["paid"]) and not books[
            "refunded"
        ], f"{paid} was paid for order {order_id}, {refunded} refunded so far"

    async def amount_is_left(self, order_id: str, amount_cents: int) -> Found:
        """Whether so much can still be given back."""
        books = await order_books(self._database, order_id, "", self._policy)
        left = books["paid"] - books["refunded"]
        said = f"{self._dollars(left)} of order {order_id} can still be refunded"
        return amount_cents <= left, f"{said}, {self._dollars(amount_cents)} would be"

    async def payment_method(self, order_id: str, payment_method_id: str) -> Found:
        """What the money goes to."""
        order = await self._order(order_id)
        method = order and await self._database.row(_METHOD, (payment_method_id, order["account_id"]))
        if not method:
            return False, f"{payment_method_id} is no payment method of the order's account"
        books = await order_books(self._database, order_id, payment_method_id, self._policy)
        paid = "paid for the order" if books["charged"] else "is on the account and did not pay for the order"
        return bool(books["charged"]), f"{_method(method)} {paid}"

    async def account_method(self, order_id: str, payment_method_id: str) -> Found:
        """Whether what is charged or credited is the account's own."""
        order = await self._order(order_id)
        method = order and await self._database.row(_METHOD, (payment_method_id, order["account_id"]))
        if not method:
            return False, f"{payment_method_id} is no payment method of the order's account"
        return True, f"{_method(method)} is on the order's account"

    async def refunds_of_30_days(self, order_id: str, amount_cents: int = 0) -> Found:
        """What the account got back lately, and whether it would pass the policy's cap."""
        order = await self._order(order_id)
        if order is None:
            return False, f"there is no order {order_id}"
        books = await account_books(self._database, order["account_id"], self._policy)
        said = (
            f"{books['refunds']} refunds of this account in {CAP_DAYS} days, {self._dollars(books['refunded'])} in all"
        )
        total, cap = books["refunded"] + amount_cents, self._policy.account_cap_cents
        if total > cap and books["refunds"]:
            return False, f"{said}; together with this it is above {self._dollars(cap)}"
        return True, said

    # --- about an account or a subscription ------------------------------------------------------------------------

    async def account_holder(self, account_id: str) -> Found:
        """Whose account it is."""
        account = await self._database.row(_ACCOUNT, (account_id,))
        if account is None:
            return False, f"there is no account {account_id}"
        return account["status"] == "active", f"account {account_id} ({account['status']}) is of {_person(account)}"

    async def nothing_in_the_way(self, account_id: str) -> Found:
        """Whether it can be closed, and what goes with it."""
        what = await in_the_way(self._database, account_id)
        live = await self._database.row(_LIVE, (account_id,))
        goes = f"{live['number'] if live else 0} subscriptions would be cancelled"
        return not what, f"{what or 'no order is on its way and nothing is unpaid'}; {goes}"

    async def subscription(self, subscription_id: str, version: int | None) -> Found:
        """Whose subscription it is, and whether it is as it was when it was read."""
        row = await self._database.row(_SUBSCRIPTION, (subscription_id,))
        if row is None:
            return False, f"there is no subscription {subscription_id}"
        said = f"{row['plan']} of {_person(row)}, {row['status']}, paid until {row['paid_until']}"
        if version is not None and version != row["version"]:
            return False, f"{said}; it has changed since it was read (version {version}, now {row['version']})"
        return True, said

    async def _order(self, order_id: str) -> dict[str, Any] | None:
        return await self._database.row(_ORDER, (order_id,)) if len(order_id) <= MAX_ID_CHARACTERS else None

    def _dollars(self, cents: int) -> str:
        return dollars(cents, self._policy.currency)


def _person(row: dict[str, Any]) -> str:
    return f"{row['first_name']} {row['last_name']} <{row['email']}>"


def _method(row: dict[str, Any]) -> str:
    if row["last_four"]:
        return f"{row['brand'] or 'card'} ending {row['last_four']}"
    if row["balance_cents"] is not None:
        return "a gift card"
    return str(row["kind"])
