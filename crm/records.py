"""The desk's reading tools: customers, orders, products, articles and tickets, straight from the tables.

They change nothing and are safe to call at any time, in any order, side by side.
"""

from typing import Any

from callboard.crm.answers import refused
from callboard.persistence.postgres.database import Database

_ITEMS = """
SELECT i.position, p.product_id, p.name, v.variant_id, v.options, i.unit_price_cents
FROM crm.order_item i JOIN crm.variant v USING (variant_id) JOIN crm.product p USING (product_id)
WHERE i.order_id = %s ORDER BY i.position
"""
_PAYMENTS = """
SELECT kind, payment_method_id, amount_cents, currency, reason
FROM crm.payment WHERE order_id = %s ORDER BY payment_id
"""
_ARTICLES = """
SELECT slug, title, body FROM crm.kb_article, websearch_to_tsquery('english', %s) AS query
WHERE search @@ query ORDER BY ts_rank(search, query) DESC, slug LIMIT 3
"""


class Records:
    """The reading tools of one database. Every method is a tool; see `tools.py`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_contact(self, email: str) -> dict[str, Any]:
        """Find the account that an e-mail address belongs to."""
        found = await self._database.row(
            "SELECT account_id, first_name, last_name, email FROM crm.account WHERE lower(email) = lower(%s)",
            (email.strip(),),
        )
        return found or refused("not_found", f"no account has the e-mail address {email!r}")

    async def get_account(self, account_id: str) -> dict[str, Any]:
        """Get an account: name, address, payment methods and order ids. Gift card balances are in cents."""
        account = await self._database.row("SELECT * FROM crm.account WHERE account_id = %s", (account_id,))
        if account is None:
            return refused("not_found", f"there is no account {account_id!r}")
        account["payment_methods"] = await self._database.rows(
            "SELECT payment_method_id, kind, brand, last_four, balance_cents"
            " FROM crm.payment_method WHERE account_id = %s ORDER BY payment_method_id",
            (account_id,),
        )
        orders = await self._database.rows(
            "SELECT order_id FROM crm.sales_order WHERE account_id = %s ORDER BY order_id", (account_id,)
        )
        account["order_ids"] = [order["order_id"] for order in orders]
        return account

    async def get_order(self, order_id: str) -> dict[str, Any]:
        """Get an order: account, status, tracking numbers, items with the price paid, payments. Money is in cents."""
        order = await self._database.row(
            "SELECT order_id, account_id, status, tracking_ids FROM crm.sales_order WHERE order_id = %s", (order_id,)
        )
        if order is None:
            return refused("not_found", f"there is no order {order_id!r}")
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
