"""The retail desk's records as its tools keep them: frozen rows, and an index that many desks share.

`crm.retail` reads the file (whole cents, no floats); here its rows stand by key. Rows are never changed, only replaced,
so a desk of a run starts as two shallow copies, and two desks compare by what was replaced.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from callboard.crm.desk import Account, Address, Desk, Payment, PaymentMethod, Product, Variant


class Item(msgspec.Struct, frozen=True):
    """One thing in an order, at the price that counts for it."""

    variant_id: str
    price_cents: int


class Asked(msgspec.Struct, frozen=True):
    """What a customer wants done with delivered items."""

    kind: Literal["return", "exchange"]
    item_ids: tuple[str, ...]
    new_item_ids: tuple[str, ...]
    payment_method_id: str
    difference_cents: int = 0
    """What the customer still owes; negative: is owed."""


class OrderRow(msgspec.Struct, frozen=True):
    """An order, and what was done with it."""

    order_id: str
    user_id: str
    status: str
    address: Address
    items: tuple[Item, ...]
    tracking_ids: tuple[str, ...]
    payments: tuple[Payment, ...]
    cancel_reason: str = ""
    asked: Asked | None = None


class UserRow(msgspec.Struct, frozen=True):
    """A customer with ways to pay."""

    account: Account
    methods: dict[str, PaymentMethod]
    order_ids: tuple[str, ...]


class Records(msgspec.Struct, frozen=True):
    """Everything that a desk starts with, by key. Nobody changes it."""

    users: dict[str, UserRow]
    orders: dict[str, OrderRow]
    products: dict[str, Product]
    variants: dict[str, Variant]


def records_of(desk: Desk) -> Records:
    """The rows of a desk, put together by key."""
    items: dict[str, list[Item]] = {}
    for item in sorted(desk.items, key=lambda one: one.position):
        items.setdefault(item.order_id, []).append(Item(item.variant_id, item.unit_price_cents))
    payments: dict[str, list[Payment]] = {}
    for payment in desk.payments:
        payments.setdefault(payment.order_id, []).append(payment)
    orders = {
        order.order_id: OrderRow(
            order.order_id,
            order.account_id,
            order.status,
            order.address,
            tuple(items.get(order.order_id, ())),
            tuple(order.tracking_ids),
            tuple(payments.get(order.order_id, ())),
        )
        for order in desk.orders
    }
    return Records(
        _users(desk, orders),
        orders,
        {product.product_id: product for product in desk.products},
        {variant.variant_id: variant for variant in desk.variants},
    )


def _users(desk: Desk, orders: Mapping[str, OrderRow]) -> dict[str, UserRow]:
    methods: dict[str, dict[str, PaymentMethod]] = {}
    for method in desk.payment_methods:
        methods.setdefault(method.account_id, {})[method.payment_method_id] = method
    order_ids: dict[str, list[str]] = {}
    for order in orders.values():
        order_ids.setdefault(order.user_id, []).append(order.order_id)
    return {
        account.account_id: UserRow(
            account, methods.get(account.account_id, {}), tuple(order_ids.get(account.account_id, ()))
        )
        for account in desk.accounts
    }


def order_view(order: OrderRow, records: Records) -> dict[str, Any]:
    """An order as tools answer it; money is in cents."""
    view: dict[str, Any] = {
        "order_id": order.order_id,
        "user_id": order.user_id,
        "status": order.status,
        "address": address_view(order.address),
        "items": [
            {**variant_view(records.variants[item.variant_id], records), "price_cents": item.price_cents}
            for item in order.items
        ],
        "tracking_ids": list(order.tracking_ids),
        "payments": [
            {"kind": one.kind, "payment_method_id": one.payment_method_id, "amount_cents": one.amount_cents}
            for one in order.payments
        ],
    }
    if order.cancel_reason:
        view["cancel_reason"] = order.cancel_reason
    if order.asked is not None:
        view["asked"] = msgspec.to_builtins(order.asked)
    return view


def user_view(user: UserRow) -> dict[str, Any]:
    """A customer as tools answer it."""
    account = user.account
    return {
        "user_id": account.account_id,
        "first_name": account.first_name,
        "last_name": account.last_name,
        "email": account.email,
        "address": address_view(account.address),
        "payment_methods": [
            {key: value for key, value in msgspec.to_builtins(method).items() if key != "account_id"}
            for method in user.methods.values()
        ],
        "order_ids": list(user.order_ids),
    }


def variant_view(variant: Variant, records: Records) -> dict[str, Any]:
    """A variant as tools answer it."""
    return {
        "item_id": variant.variant_id,
        "product_id": variant.product_id,
        "name": records.products[variant.product_id].name,
        "options": variant.options,
        "price_cents": variant.price_cents,
        "available": variant.available,
    }


def address_view(address: Address) -> dict[str, str]:
    """An address under the names that the writing tools take."""
    return {
        "address1": address.line1,
        "address2": address.line2,
        "city": address.city,
        "state": address.state,
        "country": address.country,
        "zip": address.postcode,
    }
