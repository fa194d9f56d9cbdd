"""Make real tickets out of the loaded records: the same seed and the same desk give the same tickets.

A ticket is text from a customer's address and nothing else. What it is about is kept in `crm.expectation`, which the
desk's role cannot read, so that `ledger.py` can check afterwards what the desk made of the text.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from callboard.crm.phrasings import PHRASINGS, Rarity, Scenario
from callboard.crm.policy import Policy, parse_policy, policy_text
from callboard.crm.schema import lock_desk
from callboard.mailbox.errors import UsageError
from callboard.persistence.postgres.database import Database, Session

# What a desk's day looks like, in the order in which tickets are made. The scenario above the limit is counted apart.
_DAY: Final[tuple[Scenario, ...]] = (
    "damaged",
    "cancel_pending",
    "order_status",
    "foreign_order",
    "damaged",
    "cancel_too_late",
    "unknown_order",
    "cancel_pending",
    "damaged",
    "order_status",
    "unclear",
)

# Orders that no ticket is about yet, in an order that only the seed decides.
_ORDERS = """
SELECT o.order_id, o.status, o.account_id, a.email, a.first_name, NULL::integer AS position
FROM crm.sales_order o JOIN crm.account a USING (account_id)
WHERE o.status = ANY(%(statuses)s) AND NOT EXISTS (SELECT FROM crm.expectation e WHERE e.order_id = o.order_id)
ORDER BY md5(%(salt)s || o.order_id) LIMIT 1
"""
_ITEMS = """
SELECT o.order_id, o.status, o.account_id, a.email, a.first_name, i.position, p.name, v.options,
       (SELECT count(*) FROM crm.order_item i2 JOIN crm.variant v2 USING (variant_id)
        WHERE i2.order_id = o.order_id AND v2.product_id = v.product_id) AS of_this_product
FROM crm.order_item i JOIN crm.sales_order o USING (order_id) JOIN crm.account a USING (account_id)
    JOIN crm.variant v USING (variant_id) JOIN crm.product p USING (product_id)
WHERE o.status = ANY(%(statuses)s) AND i.unit_price_cents BETWEEN %(low)s AND %(high)s
    AND NOT EXISTS (SELECT FROM crm.expectation e WHERE e.order_id = o.order_id)
ORDER BY md5(%(salt)s || o.order_id || i.position) LIMIT 1
"""
# An item that could be had in another colour or size for the same price or a little more.
_SWAPS = """
SELECT o.order_id, o.status, o.account_id, a.email, a.first_name, i.position, p.name, v.options, w.options AS wanted,
       (SELECT count(*) FROM crm.order_item i2 JOIN crm.variant v2 USING (variant_id)
        WHERE i2.order_id = o.order_id AND v2.product_id = v.product_id) AS of_this_product
FROM crm.order_item i JOIN crm.sales_order o USING (order_id) JOIN crm.account a USING (account_id)
    JOIN crm.variant v USING (variant_id) JOIN crm.product p USING (product_id)
    JOIN crm.variant w ON w.product_id = v.product_id AND w.variant_id <> v.variant_id AND w.available
WHERE o.status = ANY(%(statuses)s) AND w.price_cents - i.unit_price_cents BETWEEN 0 AND %(most)s
    AND NOT EXISTS (SELECT FROM crm.expectation e WHERE e.order_id = o.order_id)
    AND NOT EXISTS (SELECT FROM crm.payment y JOIN crm.payment_method m USING (payment_method_id)
                    WHERE y.order_id = o.order_id AND (m.kind = 'gift_card' OR y.kind = 'refund'))
ORDER BY md5(%(salt)s || o.order_id || i.position || w.variant_id) LIMIT 1
"""
# Customers who have written nothing yet.
_ACCOUNTS = """
SELECT NULL AS order_id, NULL AS status, a.account_id, a.email, a.first_name, NULL::integer AS position,
       (SELECT min(s.subscription_id) FROM crm.subscription s
        WHERE s.account_id = a.account_id AND s.status = 'active' AND s.paid_until > crm.clock()) AS subscription_id
FROM crm.account a
WHERE NOT EXISTS (SELECT FROM crm.ticket t WHERE lower(t.from_email) = lower(a.email))
    AND (NOT %(idle)s OR NOT EXISTS (SELECT FROM crm.sales_order o WHERE o.account_id = a.account_id
                                     AND o.status IN ('pending', 'processed'))
         AND NOT EXISTS (SELECT FROM crm.subscription s WHERE s.account_id = a.account_id AND s.status = 'active'
                         AND s.paid_until <= crm.clock()))
    AND (NOT %(subscribed)s OR (SELECT count(*) FROM crm.subscription s WHERE s.account_id = a.account_id) = 1
         AND EXISTS (SELECT FROM crm.subscription s WHERE s.account_id = a.account_id AND s.status = 'active'
                     AND s.paid_until > crm.clock()))
ORDER BY md5(%(salt)s || a.account_id) LIMIT 1
"""
_STRANGER = """
SELECT email, first_name FROM crm.account WHERE account_id <> %(owner)s
ORDER BY md5(%(salt)s || account_id) LIMIT 1
"""


class TicketCase(msgspec.Struct, frozen=True):
    """A ticket that was made, and what it is about."""

    ticket_id: str
    scenario: Scenario | Rarity
    order_id: str
    """"" where it is about none."""
    item_position: int | None
    """Which item arrived damaged, in the scenarios where one did."""


async def make_tickets(
    database: Database,
    count: int,
    *,
    seed: int = 1,
    above_limit: int = 1,
    policy: Policy | None = None,
    only_first: bool = False,
    rarities: Sequence[Rarity] = (),
) -> list[TicketCase]:
    """Write `count` new tickets, `above_limit` of them about a refund that needs approval. Each has its own order.

    `rarities`: a ticket for each of them beside those, the last ones, from customers who have written nothing else.
    With `only_first`, nothing is written where there are tickets already, however many ask at the same time. Needs
    the rights of the installer. Raises UsageError where the desk has too few orders for so many tickets.
    """
    if not 0 <= above_limit <= count:
        raise UsageError(f"{above_limit} of {count} tickets cannot be above the limit")
    scenarios: list[Scenario | Rarity] = ["damaged_above_limit"] * above_limit
    scenarios += [_DAY[number % len(_DAY)] for number in range(count - above_limit)]
    scenarios += rarities
    async with database.transaction() as session:
        await lock_desk(session)
        made = await session.row("SELECT count(*) AS tickets FROM crm.ticket")
        assert made is not None  # count(*) always has a row
        if only_first and made["tickets"]:
            return []
        maker = _Maker(session, seed, policy or parse_policy(policy_text()))
        return [await maker.make(made["tickets"] + n, scenario) for n, scenario in enumerate(scenarios, start=1)]


class _Maker:
    """Writes one ticket after the other in one transaction."""

    def __init__(self, session: Session, seed: int, policy: Policy) -> None:
        self._session = session
        self._seed = seed
        self._policy = policy

    async def make(self, number: int, scenario: Scenario | Rarity) -> TicketCase:
        salt = f"{self._seed}:{number}:{scenario}:"
        facts = await self._facts(scenario, salt)
        if facts is None:
            raise UsageError(f"the desk has no order left for ticket {number} ({scenario}); ask for fewer tickets")
        writer, order_id = facts, str(facts["order_id"] or "")
        if scenario == "foreign_order":
            writer = await self._session.row(_STRANGER, {"owner": facts["account_id"], "salt": salt}) or facts
        if scenario == "unknown_order":
            order_id = await self._unused_order_id(order_id)
        case = TicketCase(f"T-{number:04d}", scenario, order_id, facts["position"])
        await self._write(case, facts, writer, salt)
        return case

    async def _facts(self, scenario: Scenario | Rarity, salt: str) -> dict[str, Any] | None:
        policy = self._policy
        statuses: dict[Scenario | Rarity, Sequence[str]] = {
            "exchange": sorted(policy.exchangeable_statuses),
            "cancel_pending": sorted(policy.cancellable_statuses),
            "cancel_too_late": ["processed", "delivered"],
            "damaged": sorted(policy.refundable_statuses),
            "damaged_above_limit": sorted(policy.refundable_statuses),
        }
        params = {"salt": salt, "statuses": statuses.get(scenario, ["pending", "processed", "delivered"])}
        match scenario:
            case "damaged":
                return await self._session.row(_ITEMS, {**params, "low": 1, "high": policy.refund_limit_cents})
            case "damaged_above_limit":
                low, high = policy.refund_limit_cents + 1, policy.refund_ceiling_cents
                return await self._session.row(_ITEMS, {**params, "low": low, "high": high})
            case "exchange":
                return await self._session.row(_SWAPS, {**params, "most": policy.exchange_limit_cents})
            case "close_account" | "change_email" | "subscription" | "question":
                which = {"idle": scenario == "close_account", "subscribed": scenario == "subscription"}
                return await self._session.row(_ACCOUNTS, {"salt": salt, **which})
        return await self._session.row(_ORDERS, params)

    async def _unused_order_id(self, order_id: str) -> str:
        """The next number of the same shape that no order has."""
        digits = int(order_id[2:])
        while True:
            digits += 1
            candidate = f"{order_id[:2]}{digits:0{len(order_id) - 2}d}"
            if await self._session.row("SELECT 1 FROM crm.sales_order WHERE order_id = %s", (candidate,)) is None:
                return candidate

    async def _write(self, case: TicketCase, facts: Mapping[str, Any], writer: Mapping[str, Any], salt: str) -> None:
        subject, body = _words(case, facts, writer, salt)
        await self._session.execute(
            "INSERT INTO crm.ticket (ticket_id, from_email, subject) VALUES (%s, %s, %s)",
            (case.ticket_id, writer["email"], subject),
        )
        await self._session.execute(
            "INSERT INTO crm.message (ticket_id, author, trust, body) VALUES (%s, 'customer', 'untrusted', %s)",
            (case.ticket_id, body),
        )
        await self._session.execute(
            "INSERT INTO crm.expectation (ticket_id, scenario, order_id, item_position, order_status)"
            " VALUES (%s, %s, %s, %s, %s)",
            (case.ticket_id, case.scenario, case.order_id or None, case.item_position, facts["status"]),
        )


def _words(case: TicketCase, facts: Mapping[str, Any], writer: Mapping[str, Any], salt: str) -> tuple[str, str]:
    phrasings = PHRASINGS[case.scenario]
    subject, body = phrasings[hashlib.sha256(salt.encode()).digest()[0] % len(phrasings)]
    fields = {
        "order": case.order_id,
        "email": writer["email"],
        "first": writer["first_name"],
        "new": f"{writer['account_id']}@example.net" if "account_id" in writer else "",
        "subscription": facts.get("subscription_id"),
        "want": _options(facts.get("wanted", {})),
        **_item_words(facts),
    }
    filled = subject.format_map(fields), body.format_map(fields)
    if case.order_id in "".join(filled):
        return filled
    return filled[0], f"{filled[1]}\n\nOrder number: {case.order_id}"


def _item_words(facts: Mapping[str, Any]) -> dict[str, str]:
    """The item in a customer's words: with its options where the order has several of that product."""
    if "name" not in facts:
        return {"exact": "parcel"}
    name = str(facts["name"]).lower()
    return {"exact": name if facts["of_this_product"] == 1 else f"{name} ({_options(facts['options'])})"}


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{option} {value}" for option, value in options.items())
