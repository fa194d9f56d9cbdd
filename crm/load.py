"""Fill the desk's tables: with the retail data where its wheel is installed, else with the small desk.

Loading is one transaction under the installer's lock, and the row in `crm.desk` says that it happened: a second load,
from any process, finds it and changes nothing but two things. What an earlier version of this module did not know of
(contacts, subscriptions, deals, parcels) is added, where it is the same desk; and a policy page that is not the one in
force becomes it, with its articles.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from callboard.crm.desk import Address, Desk, Subscription
from callboard.crm.policy import Policy, parse_policy, policy_text
from callboard.crm.retail import find_retail, read_retail
from callboard.crm.schema import lock_desk
from callboard.crm.small_desk import read_small_desk
from callboard.persistence.postgres.database import Database, Session

_HAS_LATER_TABLES = """
SELECT EXISTS (SELECT FROM crm.subscription) OR EXISTS (SELECT FROM crm.contact) OR EXISTS (SELECT FROM crm.fulfillment)
    AS filled
"""
_ARTICLE = """
INSERT INTO crm.kb_article (slug, title, body) VALUES (%s, %s, %s)
ON CONFLICT (slug) DO UPDATE SET title = excluded.title, body = excluded.body
"""
_SUBSCRIPTION = (
    *("subscription_id", "account_id", "plan", "price_cents", "period_days", "status", "renews"),
    *("paid_until", "paused_at"),
)
_ADDRESS = ("line1", "line2", "city", "state", "country", "postcode")


class DeskFacts(msgspec.Struct, frozen=True):
    """What a desk was filled with."""

    source: str
    customers: int
    orders: int


async def load(database: Database, desk: Desk | None = None, *, page: str | None = None) -> DeskFacts:
    """Fill empty tables with `desk` (default: the best one installed) and say what they hold.

    `page`: the policy page that is in force from now on (default: the one that ships). Idempotent: tables that were
    filled before stay as they are, whatever `desk` is. Needs the rights of the installer.

    Raises:
        PolicyUnreadable: the page lacks one of the limits.
    """
    page = policy_text() if page is None else page
    policy = parse_policy(page)
    async with database.transaction() as session:
        await lock_desk(session)
        facts = await _facts(session)
        if facts is None:
            desk = desk or _best_desk()
            await _fill(session, desk)
            await _fill_later_tables(session, desk)
            facts = DeskFacts(desk.source, len(desk.accounts), len(desk.orders))
        elif await session.row(_HAS_LATER_TABLES) == {"filled": False}:
            await _add_later_tables(session, facts, desk)
        await _put_in_force(session, page, policy)
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
        ("account_id", "first_name", "last_name", "email", *_ADDRESS, "phone"),
        ((a.account_id, a.first_name, a.last_name, a.email, *_lines(a.address), a.phone) for a in desk.accounts),
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
    await session.execute(
        "INSERT INTO crm.desk (source, accounts, orders) VALUES (%s, %s, %s)",
        (desk.source, len(desk.accounts), len(desk.orders)),
    )


async def _fill_later_tables(session: Session, desk: Desk) -> None:
    people = ("contact_id", "account_id", "role", "first_name", "last_name", "email", "phone")
    await session.copy_rows("crm.contact", people, map(msgspec.structs.astuple, desk.contacts))
    deals = ("deal_id", "account_id", "title", "stage", "amount_cents")
    await session.copy_rows("crm.deal", deals, map(msgspec.structs.astuple, desk.deals))
    parcels = ("order_id", "parcel", "tracking_id", "status")
    await session.copy_rows("crm.fulfillment", parcels, map(msgspec.structs.astuple, desk.parcels))
    clock = await session.row("SELECT crm.clock() AS now")
    assert clock is not None  # a function without a table always gives a row
    await session.copy_rows(
        "crm.subscription", _SUBSCRIPTION, (_subscription(one, clock["now"]) for one in desk.subscriptions)
    )


def _subscription(row: Subscription, now: datetime) -> Sequence[Any]:
    *plain, paid_days = msgspec.structs.astuple(row)
    return (*plain, now + timedelta(days=paid_days), now if row.status == "paused" else None)


async def _add_later_tables(session: Session, facts: DeskFacts, desk: Desk | None) -> None:
    """Into a desk that was filled before there were these tables; nothing where its data is not at hand."""
    if desk is None or desk.source != facts.source:
        known = (read() for read in (read_small_desk, _best_desk))
        desk = next((one for one in known if one.source == facts.source), None)
    if desk is not None:
        await _fill_later_tables(session, desk)


async def _put_in_force(session: Session, page: str, policy: Policy) -> None:
    """Write down that this page counts from now on, unless it does already, and what it says as articles."""
    last = await session.row("SELECT page_sha256 FROM crm.tool_policy ORDER BY policy_id DESC LIMIT 1")
    if last == {"page_sha256": policy.page_sha256}:
        return
    numbers = msgspec.json.encode(policy.numbers).decode()
    await session.execute(
        "INSERT INTO crm.tool_policy (page_sha256, numbers) VALUES (%s, %s::jsonb)", (policy.page_sha256, numbers)
    )
    for article in _articles(page):
        await session.execute(_ARTICLE, article)


def _lines(address: Address) -> Sequence[Any]:
    return msgspec.structs.astuple(address)


def _articles(page: str) -> Iterable[tuple[str, str, str]]:
    """Cut the policy page at its headings: what people are told and what agents are told is one text."""
    for section in page.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        yield title.strip().lower().replace(" ", "-"), title.strip(), body.strip()
