"""A desk that was installed and filled by the first version is upgraded in place, with all that happened on it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard.crm.ledger import breaches, duplicate_effects, refunds
from callboard.crm.load import load
from callboard.crm.schema import install
from callboard.crm.small_desk import read_small_desk
from callboard.crm.tools import desk_tools
from callboard.persistence.postgres.database import Database, Session

from .calls import named, refund

pytestmark = pytest.mark.anyio

FIRST = Path(__file__).with_name("first_schema.sql")
"""As it was when desks were first installed."""
ADDRESS = ("line1", "line2", "city", "state", "country", "postcode")
LATER = """
SELECT (SELECT count(*) FROM crm.subscription) AS subscriptions, (SELECT count(*) FROM crm.contact) AS contacts,
       (SELECT count(*) FROM crm.deal) AS deals, (SELECT count(*) FROM crm.fulfillment) AS parcels,
       (SELECT count(*) FROM crm.tool_policy) AS policies
"""
COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns WHERE table_schema = 'crm'
ORDER BY 1, 2
"""
CONSTRAINTS = """
SELECT conrelid::regclass::text AS belongs_to, pg_get_constraintdef(oid) AS definition FROM pg_constraint
WHERE connamespace = 'crm'::regnamespace ORDER BY 1, 2
"""


def plain(rows: list[Any]) -> Iterator[list[Any]]:
    for row in rows:
        values = msgspec.structs.asdict(row)
        address = values.pop("address", None)
        values.pop("phone", None)
        tracking = [values.pop("tracking_ids")] if "tracking_ids" in values else []
        options = [msgspec.json.encode(values.pop("options")).decode()] if "options" in values else []
        yield [*values.values(), *(msgspec.structs.astuple(address) if address else ()), *tracking, *options]


async def fill_as_then(session: Session) -> None:
    """As the first version did it."""
    desk = read_small_desk()
    await session.copy_rows(
        "crm.account", ("account_id", "first_name", "last_name", "email", *ADDRESS), plain(desk.accounts)
    )
    methods = ("payment_method_id", "account_id", "kind", "brand", "last_four", "balance_cents")
    await session.copy_rows("crm.payment_method", methods, plain(desk.payment_methods))
    await session.copy_rows("crm.product", ("product_id", "name"), plain(desk.products))
    variants = ("variant_id", "product_id", "price_cents", "available", "options")
    await session.copy_rows("crm.variant", variants, plain(desk.variants))
    orders = ("order_id", "account_id", "status", *ADDRESS, "tracking_ids")
    await session.copy_rows("crm.sales_order", orders, plain(desk.orders))
    items = ("order_id", "position", "variant_id", "unit_price_cents")
    await session.copy_rows("crm.order_item", items, plain(desk.items))
    payments = ("order_id", "payment_method_id", "kind", "amount_cents", "idempotency_key")
    numbered = ([*row, f"load:{number}"] for number, row in enumerate(plain(desk.payments), start=1))
    await session.copy_rows("crm.payment", payments, numbered)
    await session.execute(
        "INSERT INTO crm.desk (source, accounts, orders) VALUES (%s, %s, %s)",
        (desk.source, len(desk.accounts), len(desk.orders)),
    )
    # A refund that somebody approved, and a small one: who it was, nobody wrote down.
    await session.execute(
        "INSERT INTO crm.payment (order_id, payment_method_id, kind, amount_cents, idempotency_key, cause) VALUES"
        " ('#S10966', 'gift-02', 'refund', 26696, 'big', 'refund'), ('#S11003', 'gift-02', 'refund', 3495, 'small',"
        " 'refund')"
    )


@pytest.fixture
async def upgraded(owner: Database) -> Database:
    async with owner.transaction() as session:
        await session.execute(FIRST.read_text(encoding="utf-8"))
        await session.execute("COMMENT ON SCHEMA crm IS 'callboard desk 0123456789abcdef'")
        await fill_as_then(session)
    await install(owner)
    await load(owner)
    return owner


async def test_an_upgraded_desk_has_what_a_new_one_has_and_keeps_what_happened(upgraded: Database, dsn: str) -> None:
    assert await upgraded.row(LATER) == {"subscriptions": 7, "contacts": 3, "deals": 3, "parcels": 18, "policies": 1}
    assert [made.amount_cents for made in await refunds(upgraded)] == [26_696, 3_495]
    assert await upgraded.rows("SELECT DISTINCT version FROM crm.sales_order") == [{"version": 1}]
    assert await breaches(upgraded) == [] == await duplicate_effects(upgraded)
    async with await Database.open(dsn, role="crm_app") as small:
        tools = desk_tools(small)
        # What was refunded before counts: of the limit of this order, 65.05 are left.
        order = {"order_id": "#S11003", "method": "gift-02"}
        assert (await refund(tools, order, 6_506, "key-1"))["code"] == "split_refund"
        assert "error" not in await refund(tools, order, 6_505, "key-2")
        changed = await named(tools, "change_subscription")(
            subscription_id="SUB-1001", change="pause", idempotency_key="key-3"
        )
        assert changed["status"] == "paused"
    assert await breaches(upgraded) == []


async def test_upgrading_and_loading_again_changes_nothing(upgraded: Database) -> None:
    before = await upgraded.row(LATER)
    await upgraded.execute("COMMENT ON SCHEMA crm IS 'callboard desk 0123456789abcdef'")  # the text is run once more
    await install(upgraded)
    await load(upgraded)
    assert await upgraded.row(LATER) == before


async def test_an_upgraded_schema_is_the_one_that_a_new_desk_gets(upgraded: Database) -> None:
    async def shape() -> list[list[dict[str, Any]]]:
        return [await upgraded.rows(COLUMNS), await upgraded.rows(CONSTRAINTS)]

    after_upgrade = await shape()
    await upgraded.execute("DROP SCHEMA crm CASCADE")
    await install(upgraded)
    assert await shape() == after_upgrade
