"""Fill the desk's tables: with the retail data where its wheel is installed, else with the small desk.

Loading is one transaction under the installer's lock, and the row in `crm.desk` says that it happened: a second load,
from any process, finds it and changes nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from callboard.crm.desk import Address, Desk
from callboard.crm.policy import policy_text
from callboard.crm.retail import find_retail, read_retail
from callboard.crm.schema import lock_desk
from callboard.crm.small_desk import read_small_desk
from callboard.persistence.postgres.database import Database, Session

_ADDRESS = ("line1", "line2", "city", "state", "country", "postcode")


class DeskFacts(msgspec.Struct, frozen=True):
    """What a desk was filled with."""

    source: str
    customers: int
    orders: int


async def load(database: Database, desk: Desk | None = None) -> DeskFacts:
    """Fill empty tables with `desk` (default: the best one installed) and say what they hold.

    Idempotent: tables that were filled before stay as they are, whatever `desk` is. Needs the rights of the installer.
    """
    async with database.transaction() as session:
        await lock_desk(session)
        facts = await _facts(session)
        if facts is None:
            desk = desk or _best_desk()
            await _fill(session, desk)
            facts = DeskFacts(desk.source, len(desk.accounts), len(desk.orders))
    return facts


def _best_desk() -> Desk:
    path = find_retail()
    return read_small_desk() if path is None else read_retail(path)


async def _facts(session: Session) -> DeskFacts | None:
    row = await session.row("SELECT source, accounts, orders FROM crm.desk")
    return None if row is None else DeskFacts(row["source"], row["accounts"], row["orders"])


async def _fill(session: Session, desk: Desk) -> None:
    await session.copy_rows(
        "crm.account",
        ("account_id", "first_name", "last_name", "email", *_ADDRESS),
        ((a.account_id, a.first_name, a.last_name, a.email, *_lines(a.address)) for a in desk.accounts),
    )
    methods = ("payment_method_id", "account_id", "kind", "brand", "last_four", "balance_cents")
    await session.copy_rows("crm.payment_method", methods, map(msgspec.structs.astuple, desk.payment_methods))
    await session.copy_rows("crm.product", ("product_id", "name"), map(msgspec.structs.astuple, desk.products))
    await session.copy_rows(
        "crm.variant",
        ("variant_id", "product_id", "options", "price_cents", "available"),
        (
            (v.variant_id, v.product_id, msgspec.json.encode(v.options).decode(), v.price_cents, v.available)
            for v in desk.variants
        ),
    )
    await session.copy_rows(
        "crm.sales_order",
        ("order_id", "account_id", "status", *_ADDRESS, "tracking_ids"),
        ((o.order_id, o.account_id, o.status, *_lines(o.address), o.tracking_ids) for o in desk.orders),
    )
    items = ("order_id", "position", "variant_id", "unit_price_cents")
    await session.copy_rows("crm.order_item", items, map(msgspec.structs.astuple, desk.items))
    await session.copy_rows(
        "crm.payment",
        ("order_id", "payment_method_id", "kind", "amount_cents", "idempotency_key"),
        (
            (p.order_id, p.payment_method_id, p.kind, p.amount_cents, f"load:{number}")
            for number, p in enumerate(desk.payments, start=1)
        ),
    )
    await session.copy_rows("crm.kb_article", ("slug", "title", "body"), _articles(policy_text()))
    await session.execute(
        "INSERT INTO crm.desk (source, accounts, orders) VALUES (%s, %s, %s)",
        (desk.source, len(desk.accounts), len(desk.orders)),
    )


def _lines(address: Address) -> Sequence[Any]:
    return msgspec.structs.astuple(address)


def _articles(page: str) -> Iterable[tuple[str, str, str]]:
    """Cut the policy page at its headings: what people are told and what agents are told is one text."""
    for section in page.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        yield title.strip().lower().replace(" ", "-"), title.strip(), body.strip()
