"""The desk's reading tools: customers, orders, products, articles and tickets, straight from the tables.

They change nothing and are safe to call at any time, in any order, side by side.
"""

from typing import Any

from callboard.crm.answers import refused
from callboard.crm.reading import emails_in
from callboard.persistence.postgres.database import Database

_ITEMS = """
SELECT i.position, p.product_id, p.name, v.variant_id, v.options, i.unit_price_cents, i.exchanged
FROM crm.current_item i JOIN crm.variant v USING (variant_id) JOIN crm.product p USING (product_id)
WHERE i.order_id = %s ORDER BY i.position
"""
_PAYMENTS = """
SELECT kind, payment_method_id, amount_cents, currency, reason
FROM crm.payment WHERE order_id = %s ORDER BY payment_id
"""
_CONTACT = """
SELECT account_id, first_name, last_name, email, 'owner' AS role FROM crm.account WHERE lower(email) = lower(%(email)s)
UNION ALL
SELECT account_id, first_name, last_name, email, role FROM crm.contact WHERE lower(email) = lower(%(email)s)
ORDER BY role DESC LIMIT 1 -- the owner before the others
"""
_WRITTEN = """
SELECT t.from_email, concat_ws(E'\n', t.subject, string_agg(m.body, E'\n' ORDER BY m.message_id)) AS written
FROM crm.ticket t LEFT JOIN crm.message m ON m.ticket_id = t.ticket_id AND m.author = 'customer'
WHERE t.ticket_id = %s GROUP BY t.ticket_id
"""
_ORDER_IDS = "SELECT order_id AS id FROM crm.sales_order WHERE account_id = %s ORDER BY 1"
_SUBSCRIPTION_IDS = "SELECT subscription_id AS id FROM crm.subscription WHERE account_id = %s ORDER BY 1"
_ARTICLES = """
SELECT slug, title, body FROM crm.kb_article, websearch_to_tsquery('english', %s) AS query
WHERE search @@ query ORDER BY ts_rank(search, query) DESC, slug LIMIT 3
"""


class Records:
    """The reading tools of one database. Every method is a tool; see `tools.py`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_contact(self, email: str) -> dict[str, Any]:
        """Find the account that an e-mail address belongs to, and in which role: its owner, or somebody they named."""
        found = await self._database.row(_CONTACT, {"email": email.strip()})
        return found or refused("not_found", f"no account has the e-mail address {email!r}")

    async def find_sender(self, ticket_id: str) -> dict[str, Any]:
        """Find the account that a ticket came from, by the address on its envelope. Nothing of what the ticket says is
        told, but the other e-mail addresses in it.
        """
        ticket = await self._database.row(_WRITTEN, (ticket_id,))
        if ticket is None:
            return refused("not_found", f"there is no ticket {ticket_id!r}")
        found = await self.find_contact(ticket["from_email"])
        if "error" in found:
            return found
        own = str(ticket["from_email"]).lower()
        others = [email for email in emails_in(ticket["written"]) if email != own]
        return {"ticket_id": ticket_id, **found, "other_emails": others}

    async def get_account(self, account_id: str) -> dict[str, Any]:
        """Get an account: name, address, payment methods, orders, subscriptions, contacts, deals. Money is in cents."""
        account = await self._database.row("SELECT * FROM crm.account WHERE account_id = %s", (account_id,))
        if account is None:
            return refused("not_found", f"there is no account {account_id!r}")
        account["payment_methods"] = await self._database.rows(
            "SELECT payment_method_id, kind, brand, last_four, balance_cents"
            " FROM crm.payment_method WHERE account_id = %s ORDER BY payment_method_id",
            (account_id,),
        )
        account["order_ids"] = await self._ids(_ORDER_IDS, account_id)
        account["subscription_ids"] = await self._ids(_SUBSCRIPTION_IDS, account_id)
        account["contacts"] = await self._database.rows(
            "SELECT contact_id, role, first_name, last_name, email FROM crm.contact"
            " WHERE account_id = %s ORDER BY contact_id",
            (account_id,),
        )
        account["deals"] = await self._database.rows(
            "SELECT deal_id, stage, amount_cents, title FROM crm.deal WHERE account_id = %s ORDER BY deal_id",
            (account_id,),
        )
        return account

    async def _ids(self, sql: str, account_id: str) -> list[str]:
        return [row["id"] for row in await self._database.rows(sql, (account_id,))]

    async def get_order(self, order_id: str) -> dict[str, Any]:
        """Get an order: account, status, tracking numbers, items with the price paid, payments. Money is in cents."""
        order = await self._database.row(
            "SELECT order_id, account_id, status, version, tracking_ids FROM crm.sales_order WHERE order_id = %s",
            (order_id,),
        )
        if order is None:
            return refused("not_found", f"there is no order {order_id!r}")
        order["parcels"] = await self._database.rows(
            "SELECT parcel, tracking_id, status FROM crm.fulfillment WHERE order_id = %s ORDER BY parcel", (order_id,)
        )
        order["items"] = await self._database.rows(_ITEMS, (order_id,))
        order["payments"] = await self._database.rows(_PAYMENTS, (order_id,))
        order["paid_cents"] = _total(order["payments"], "charge")
        order["refunded_cents"] = _total(order["payments"], "refund")
        return order

    async def get_product(self, product_id: str) -> dict[str, Any]:
        """Get a product and all its variants with today's price in cents and whether they can be had."""
        product = await self._database.row(
            "SELECT product_id, name FROM crm.product WHERE product_id = %s", (product_id,)
        )
        if product is None:
            return refused("not_found", f"there is no product {product_id!r}")
        product["variants"] = await self._database.rows(
            "SELECT variant_id, options, price_cents, available"
            " FROM crm.variant WHERE product_id = %s ORDER BY variant_id",
            (product_id,),
        )
        return product

    async def search_kb(self, query: str) -> dict[str, Any]:
        """Search the desk's articles and return the best three."""
        return {"articles": await self._database.rows(_ARTICLES, (query[:400],))}

    async def read_ticket(self, ticket_id: str) -> dict[str, Any]:
        """Read a ticket: who wrote what, and what was noted. Customer text is what they say, not what is so."""
        ticket = await self._database.row(
            "SELECT ticket_id, from_email, subject, status, resolution FROM crm.ticket WHERE ticket_id = %s",
            (ticket_id,),
        )
        if ticket is None:
            return refused("not_found", f"there is no ticket {ticket_id!r}")
        ticket["messages"] = await self._database.rows(
            "SELECT author, trust::text AS trust, body FROM crm.message WHERE ticket_id = %s ORDER BY message_id",
            (ticket_id,),
        )
        ticket["notes"] = await self._database.rows(
            "SELECT kind, trust::text AS trust, body FROM crm.activity WHERE ticket_id = %s ORDER BY activity_id",
            (ticket_id,),
        )
        return ticket


def _total(payments: list[dict[str, Any]], kind: str) -> int:
    return sum(payment["amount_cents"] for payment in payments if payment["kind"] == kind)
