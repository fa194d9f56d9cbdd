"""Records that a story needs beside those of the small desk."""

from collections.abc import Sequence

from callboard.persistence.postgres.database import Database

_ORDER = """
INSERT INTO crm.sales_order (order_id, account_id, status, line1, line2, city, state, country, postcode, tracking_ids)
SELECT %(order)s, a.account_id, 'delivered', a.line1, a.line2, a.city, a.state, a.country, a.postcode, '{}'
FROM crm.account a WHERE a.account_id = (SELECT account_id FROM crm.payment_method WHERE payment_method_id = %(method)s)
"""
_ITEM = """
INSERT INTO crm.order_item (order_id, position, variant_id, unit_price_cents)
SELECT %(order)s, %(position)s, min(v.variant_id), %(cents)s
FROM crm.variant v JOIN crm.product p USING (product_id) WHERE p.name = %(product)s
"""
_CHARGE = """
INSERT INTO crm.payment (order_id, payment_method_id, kind, amount_cents, idempotency_key)
VALUES (%(order)s, %(method)s, 'charge', %(cents)s, 'story ' || %(order)s)
"""


async def write_order(owner: Database, order: str, method: str, items: Sequence[tuple[str, int]]) -> None:
    """A delivered order of (product, price in cents), paid by this payment method, whose account has ordered it."""
    async with owner.transaction() as session:
        named = {"order": order, "method": method}
        await session.execute(_ORDER, named)
        for position, (product, cents) in enumerate(items):
            await session.execute(_ITEM, {**named, "position": position, "product": product, "cents": cents})
        await session.execute(_CHARGE, {**named, "cents": sum(cents for _, cents in items)})
