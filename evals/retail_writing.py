"""The retail desk's writing tools: what a shop does with orders and addresses, each with the checks that a shop makes.

The rules are the desk's: only pending orders are changed or cancelled, only delivered ones come back; items are swapped
for available ones of the same product; a gift card pays no more than it holds; money goes back the way it came, or onto
a gift card. Every attempt is written down, refused ones too. Money is integer cents.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from callboard.crm.desk import Address, Payment, PaymentMethod, Variant
from callboard.evals.retail_desk import Refused, RetailDesk
from callboard.evals.retail_rows import Asked, Item, OrderRow, order_view, user_view

CancelReason = Literal["no longer needed", "ordered by mistake"]
ITEMS_MODIFIED: Final = "pending (items modified)"
"""Pending still, but its items have been changed once, which is all that a customer gets."""


class Writing:
    """The writing tools of one desk; every public method is a tool."""

    def __init__(self, desk: RetailDesk) -> None:
        self._desk = desk

    async def cancel_pending_order(self, order_id: str, reason: CancelReason) -> dict[str, Any]:
        """Cancel a pending order and pay it back the way it was paid."""

        def cancel() -> dict[str, Any]:
            order = self._in_status(order_id, "pending")
            refunds = _refunds(order)
            for one in refunds:
                self._desk.charge(order.user_id, one.payment_method_id, -one.amount_cents)
            payments = (*order.payments, *refunds)
            return self._put(order, status="cancelled", cancel_reason=reason, payments=payments)

        return self._desk.attempt("cancel_pending_order", {"order_id": order_id, "reason": reason}, cancel)

    async def modify_pending_order_address(
        self, order_id: str, *, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> dict[str, Any]:
        """Send a pending order to another address."""
        address = Address(address1, address2, city, state, country, zip)

        def modify() -> dict[str, Any]:
            return self._put(self._in_status(order_id, "pending", ITEMS_MODIFIED), address=address)

        made = {"order_id": order_id, "address": msgspec.to_builtins(address)}
        return self._desk.attempt("modify_pending_order_address", made, modify)

    async def modify_pending_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> dict[str, Any]:
        """Swap items of a pending order for others of the same product, once; the method settles the difference."""

        def modify() -> dict[str, Any]:
            order = self._in_status(order_id, "pending")
            swaps, method = self._swaps(order, item_ids, new_item_ids, payment_method_id, for_another=True)
            difference = sum(new.price_cents - old.price_cents for old, new in swaps)
            self._must_hold(method, difference)
            items = list(order.items)
            for old, new in swaps:
                items[items.index(old)] = Item(new.variant_id, new.price_cents)
            self._desk.charge(order.user_id, payment_method_id, difference)
            kind: Literal["charge", "refund"] = "charge" if difference > 0 else "refund"
            paid = [Payment(order_id, payment_method_id, kind, abs(difference))] if difference else []
            return self._put(order, status=ITEMS_MODIFIED, items=tuple(items), payments=(*order.payments, *paid))

        made = _swap_arguments(order_id, item_ids, new_item_ids, payment_method_id)
        return self._desk.attempt("modify_pending_order_items", made, modify)

    async def modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> dict[str, Any]:
        """Pay a pending order with another method; the first one gets its money back."""

        def modify() -> dict[str, Any]:
            order = self._in_status(order_id, "pending", ITEMS_MODIFIED)
            method = self._desk.method(order.user_id, payment_method_id)
            if len(order.payments) != 1:
                raise Refused("not_possible", f"order {order_id} was not paid in one piece")
            (paid,) = order.payments
            if paid.payment_method_id == payment_method_id:
                raise Refused("not_possible", f"order {order_id} is paid with {payment_method_id} already")
            self._must_hold(method, paid.amount_cents)
            self._desk.charge(order.user_id, payment_method_id, paid.amount_cents)
            self._desk.charge(order.user_id, paid.payment_method_id, -paid.amount_cents)
            now = msgspec.structs.replace(paid, payment_method_id=payment_method_id)
            back = msgspec.structs.replace(paid, kind="refund")
            return self._put(order, payments=(paid, now, back))

        made = {"order_id": order_id, "payment_method_id": payment_method_id}
        return self._desk.attempt("modify_pending_order_payment", made, modify)

    async def modify_user_address(
        self, user_id: str, *, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> dict[str, Any]:
        """Change the address that a customer's orders go to from now on."""
        address = Address(address1, address2, city, state, country, zip)

        def modify() -> dict[str, Any]:
            user = self._desk.user(user_id)
            changed = msgspec.structs.replace(user, account=msgspec.structs.replace(user.account, address=address))
            self._desk.put_user(changed)
            return user_view(changed)

        made = {"user_id": user_id, "address": msgspec.to_builtins(address)}
        return self._desk.attempt("modify_user_address", made, modify)

    async def return_delivered_order_items(
        self, order_id: str, item_ids: list[str], payment_method_id: str
    ) -> dict[str, Any]:
        """Take items of a delivered order back; their price goes to the first method, or onto a gift card."""

        def take_back() -> dict[str, Any]:
            order = self._in_status(order_id, "delivered")
            method = self._desk.method(order.user_id, payment_method_id)
            paid_with = {one.payment_method_id for one in order.payments if one.kind == "charge"}
            if method.kind != "gift_card" and payment_method_id not in paid_with:
                raise Refused("not_possible", f"order {order_id} was not paid with {payment_method_id}")
            self._taken(order, item_ids)
            asked = Asked("return", tuple(sorted(item_ids)), (), payment_method_id)
            return self._put(order, status="return requested", asked=asked)

        made = {"order_id": order_id, "item_ids": list(item_ids), "payment_method_id": payment_method_id}
        return self._desk.attempt("return_delivered_order_items", made, take_back)

    async def exchange_delivered_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> dict[str, Any]:
        """Exchange items of a delivered order for ones of the same product; the method settles the difference."""

        def exchange() -> dict[str, Any]:
            order = self._in_status(order_id, "delivered")
            swaps, method = self._swaps(order, item_ids, new_item_ids, payment_method_id, for_another=False)
            difference = sum(new.price_cents - old.price_cents for old, new in swaps)
            self._must_hold(method, difference)
            old_ids, new_ids = tuple(sorted(item_ids)), tuple(sorted(new_item_ids))
            asked = Asked("exchange", old_ids, new_ids, payment_method_id, difference)
            return self._put(order, status="exchange requested", asked=asked)

        made = _swap_arguments(order_id, item_ids, new_item_ids, payment_method_id)
        return self._desk.attempt("exchange_delivered_order_items", made, exchange)

    async def transfer_to_human_agents(self, summary: str) -> dict[str, Any]:
        """Hand the customer over to a person, with what they want and what was done."""
        return self._desk.attempt("transfer_to_human_agents", {"summary": summary}, lambda: {"transferred": True})

    # --- checks ------------------------------------------------------------------------------------------------------

    def _in_status(self, order_id: str, *allowed: str) -> OrderRow:
        order = self._desk.order(order_id)
        if order.status not in allowed:
            raise Refused("wrong_status", f"order {order_id} is {order.status}, not {allowed[0]}")
        return order

    def _taken(self, order: OrderRow, item_ids: Sequence[str]) -> list[Item]:
        """The order's items of these ids, as often as each is named."""
        if not item_ids:
            raise Refused("not_possible", "name at least one item")
        left, taken = list(order.items), []
        for item_id in item_ids:
            found = next((item for item in left if item.variant_id == item_id), None)
            if found is None:
                raise Refused("not_found", f"order {order.order_id} has no item {item_id} (or not as many)")
            left.remove(found)
            taken.append(found)
        return taken

    def _swaps(
        self, order: OrderRow, old_ids: Sequence[str], new_ids: Sequence[str], method_id: str, *, for_another: bool
    ) -> tuple[list[tuple[Item, Variant]], PaymentMethod]:
        """Which item becomes which variant, and the method that settles. `for_another`: never for the same variant."""
        taken = self._taken(order, old_ids)
        if len(old_ids) != len(new_ids):
            raise Refused("not_possible", f"{len(old_ids)} items cannot become {len(new_ids)}")
        swaps = [(old, self._desk.variant(new_id)) for old, new_id in zip(taken, new_ids, strict=True)]
        for old, new in swaps:
            if new.product_id != self._desk.variant(old.variant_id).product_id:
                raise Refused("not_possible", f"{new.variant_id} is another product than {old.variant_id}")
            if not new.available:
                raise Refused("not_possible", f"{new.variant_id} is not available")
            if for_another and new.variant_id == old.variant_id:
                raise Refused("not_possible", f"{new.variant_id} is what the order has already")
        return swaps, self._desk.method(order.user_id, method_id)

    def _must_hold(self, method: PaymentMethod, cents: int) -> None:
        if method.balance_cents is not None and cents > method.balance_cents:
            raise Refused("not_enough", f"{method.payment_method_id} holds {method.balance_cents} cents, not {cents}")

    def _put(self, order: OrderRow, **changes: Any) -> dict[str, Any]:
        changed = msgspec.structs.replace(order, **changes)
        self._desk.put_order(changed)
        return order_view(changed, self._desk.records)


def _refunds(order: OrderRow) -> list[Payment]:
    """What pays an order back: of each method, what it has paid and not got back yet."""
    owed: dict[str, int] = {}
    for one in order.payments:
        cents = one.amount_cents if one.kind == "charge" else -one.amount_cents
        owed[one.payment_method_id] = owed.get(one.payment_method_id, 0) + cents
    return [Payment(order.order_id, method, "refund", cents) for method, cents in owed.items() if cents > 0]


def _swap_arguments(order_id: str, old: Sequence[str], new: Sequence[str], method: str) -> dict[str, Any]:
    return {"order_id": order_id, "item_ids": [*old], "new_item_ids": [*new], "payment_method_id": method}
