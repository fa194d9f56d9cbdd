"""The desk's exchange: items of a delivered order for other variants of the same products, and the price difference.

What was sold stays on record: an exchange is rows of `crm.exchanged_item` beside the order's own, and at most one row
of the ledger, for the difference over all items. Under one key all of it happens once (changes.py).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from callboard.actors.agent.faults import NeedsApproval
from callboard.crm.answers import refused
from callboard.crm.attempts import Attempts
from callboard.crm.books import Entry, account_books, order_books, write_entry
from callboard.crm.changes import Change, reconciled
from callboard.crm.locks import lock_key, lock_order, moved_on
from callboard.crm.policy import CAP_DAYS, Policy, dollars
from callboard.persistence.postgres.database import Database, Session

MAX_ITEMS = 20
"""How many items one call may exchange."""
Positions = Annotated[list[int], Meta(min_length=1, max_length=MAX_ITEMS)]
VariantIds = Annotated[list[str], Meta(min_length=1, max_length=MAX_ITEMS)]

_ITEMS = """
SELECT i.position, i.variant_id, i.unit_price_cents, i.exchanged, v.product_id
FROM crm.current_item i JOIN crm.variant v USING (variant_id) WHERE i.order_id = %s
"""
_VARIANTS = "SELECT variant_id, product_id, price_cents, available FROM crm.variant WHERE variant_id = ANY(%s)"
_METHOD = """
SELECT payment_method_id, kind, balance_cents FROM crm.payment_method
WHERE payment_method_id = %s AND account_id = %s FOR UPDATE
"""
_EXCHANGED = """
INSERT INTO crm.exchanged_item (order_id, position, variant_id, unit_price_cents, idempotency_key)
VALUES (%s, %s, %s, %s, %s)
"""

Swap = tuple[Mapping[str, Any], Mapping[str, Any]]
"""An item of the order as it is, and the variant that it becomes."""


class Exchange:
    """The exchanging tool of one database; see `tools.py`."""

    def __init__(self, database: Database, policy: Policy, *, node: str) -> None:
        self._database = database
        self._policy = policy
        self._attempts = Attempts(database, node)

    async def exchange_items(
        self,
        order_id: str,
        positions: Positions,
        new_variant_ids: VariantIds,
        payment_method_id: str,
        idempotency_key: str,
        *,
        order_version: int | None = None,
        approval: str | None = None,
    ) -> dict[str, Any]:
        """Exchange items of a delivered order, by position, each for another variant of the same product.

        The price difference is charged to `payment_method_id`, or given back to it. Give `order_version` as you read
        it: where the order has moved on since, nothing is exchanged.
        """
        await self._attempts.begin("exchange_items", order_id, idempotency_key)
        asked = {"order": order_id, "positions": positions, "variants": new_variant_ids, "method": payment_method_id}
        change = Change("exchange_items", order_id, asked, idempotency_key, approval)
        async with self._database.transaction() as session:
            await lock_key(session, idempotency_key)
            if (before := await change.answered(session)) is not None:
                return before
            order = await lock_order(session, order_id)
            if order is None:
                return refused("not_found", f"there is no order {order_id!r}")
            refusal = moved_on(f"order {order_id}", order_version, order) or self._wrong_status(order)
            if refusal is not None:
                return refusal
            swaps = await _swaps(session, order_id, positions, new_variant_ids)
            return swaps if isinstance(swaps, dict) else await self._exchange(session, change, order, swaps)

    async def reconcile_exchange(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `exchange_items` under this key has done: its result, or None where it did nothing (yet)."""
        return await reconciled(self._database, "exchange_items", idempotency_key)

    def _wrong_status(self, order: Mapping[str, Any]) -> dict[str, Any] | None:
        if order["status"] in self._policy.exchangeable_statuses:
            return None
        allowed = " or ".join(sorted(self._policy.exchangeable_statuses))
        sentence = f"order {order['order_id']} is {order['status']}; items are exchanged in {allowed} orders"
        return refused("wrong_status", sentence)

    async def _exchange(
        self, session: Session, change: Change, order: Mapping[str, Any], swaps: Sequence[Swap]
    ) -> dict[str, Any]:
        method, order_id = change.asked["method"], change.subject
        difference = sum(new["price_cents"] - item["unit_price_cents"] for item, new in swaps)
        refusal = await self._against_books(session, order, swaps, method, difference)
        if refusal is not None:
            return refusal
        if not change.approval:
            await self._ask_where_needed(session, order, difference)
        for item, new in swaps:
            row = (order_id, item["position"], new["variant_id"], new["price_cents"], change.key)
            await session.execute(_EXCHANGED, row)
        payment_id = await self._settle(session, change, difference)
        answer = {
            "exchanged": True,
            "order_id": order_id,
            "items": [{"position": item["position"], "variant_id": new["variant_id"]} for item, new in swaps],
            "difference_cents": difference,
            "currency": self._policy.currency,
            "payment_method_id": method,
            "payment_id": payment_id,
        }
        was = [{"position": item["position"], "variant_id": item["variant_id"]} for item, _ in swaps]
        return await change.record(session, {"items": was}, answer)

    async def _against_books(
        self, session: Session, order: Mapping[str, Any], swaps: Sequence[Swap], method: str, difference: int
    ) -> dict[str, Any] | None:
        order_id, policy = order["order_id"], self._policy
        books = await order_books(session, order_id, method, policy)
        if books["paid"] - books["refunded"] < sum(item["unit_price_cents"] for item, _ in swaps):
            return refused("refunded_before", f"so much of order {order_id} was refunded that these are not paid for")
        found = await session.row(_METHOD, (method, order["account_id"]))
        if found is None:
            return refused("wrong_method", f"account {order['account_id']} has no payment method {method!r}")
        if found["kind"] == "gift_card" and found["balance_cents"] < difference:
            held, due = dollars(found["balance_cents"], policy.currency), dollars(difference, policy.currency)
            return refused("gift_card_balance", f"the gift card {method} holds {held}, and {due} are due")
        return None

    async def _ask_where_needed(self, session: Session, order: Mapping[str, Any], difference: int) -> None:
        """
        Raises:
            NeedsApproval: so much is not charged or given back without a person.
        """
        policy, order_id = self._policy, order["order_id"]
        if abs(difference) > policy.exchange_limit_cents:
            due = "given back" if difference < 0 else "charged"
            amount, limit = (
                dollars(abs(difference), policy.currency),
                dollars(policy.exchange_limit_cents, policy.currency),
            )
            raise NeedsApproval(f"{amount} would be {due} for an exchange in order {order_id}, above {limit}")
        if difference >= 0:
            return
        before = (await account_books(session, order["account_id"], policy))["unapproved"]
        if before - difference > policy.account_cap_cents:
            total, cap = (
                dollars(before - difference, policy.currency),
                dollars(policy.account_cap_cents, policy.currency),
            )
            raise NeedsApproval(
                f"what account {order['account_id']} got back without approval would come to {total} within"
                f" {CAP_DAYS} days, above {cap}"
            )

    async def _settle(self, session: Session, change: Change, difference: int) -> int | None:
        """Charge or give back the difference; the ledger's row, None where there is none."""
        if difference == 0:
            return None
        entry = Entry(
            change.subject,
            change.asked["method"],
            abs(difference),
            "price difference of an exchange",
            change.key,
            "exchange",
            "charge" if difference > 0 else "refund",
            change.approval,
        )
        written = await write_entry(session, entry, self._policy)
        assert written is not None  # the key's lock is held, and the key has done nothing before
        return int(written["payment_id"])


async def _swaps(
    session: Session, order_id: str, positions: Sequence[int], variant_ids: Sequence[str]
) -> list[Swap] | dict[str, Any]:
    """Which item becomes which variant, or why that cannot be."""
    if not 0 < len(positions) <= MAX_ITEMS or len(set(positions)) != len(positions):
        return refused("bad_items", f"name 1 to {MAX_ITEMS} different positions of the order's items")
    if len(variant_ids) != len(positions):
        return refused(
            "bad_items", f"{len(positions)} positions and {len(variant_ids)} new variants; give one for each"
        )
    items = {row["position"]: row for row in await session.rows(_ITEMS, (order_id,))}
    variants = {row["variant_id"]: row for row in await session.rows(_VARIANTS, (list(variant_ids),))}
    for position, variant_id in zip(positions, variant_ids, strict=True):
        refusal = _cannot_become(order_id, position, items.get(position), variant_id, variants.get(variant_id))
        if refusal is not None:
            return refusal
    return [
        (items[position], variants[variant_id]) for position, variant_id in zip(positions, variant_ids, strict=True)
    ]


def _cannot_become(
    order_id: str, position: int, item: Mapping[str, Any] | None, variant_id: str, new: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    if item is None:
        return refused("not_found", f"order {order_id} has no item at position {position}")
    if new is None:
        return refused("not_found", f"there is no variant {variant_id!r}")
    if item["exchanged"]:
        return refused("exchanged_before", f"the item at position {position} was exchanged before")
    if new["product_id"] != item["product_id"]:
        return refused("other_product", f"{variant_id} is another product than the item at position {position}")
    if variant_id == item["variant_id"]:
        return refused("same_variant", f"the item at position {position} is {variant_id} already")
    if not new["available"]:
        return refused("not_available", f"{variant_id} cannot be had at the moment")
    return None
