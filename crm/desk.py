"""A desk's records as typed rows, on their way from a file into the tables of `schema.sql`.

Neighbours: `retail.py` and `small_desk.py` make a `Desk`, `load.py` writes it. Field order is column order. Money is
integer cents.
"""

from typing import Literal

import msgspec

OrderStatus = Literal["pending", "processed", "delivered", "cancelled"]
PaymentKind = Literal["charge", "refund"]


class Address(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a customer lives or a parcel goes."""

    line1: str
    line2: str
    city: str
    state: str
    country: str
    postcode: str


class Account(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A customer."""

    account_id: str
    first_name: str
    last_name: str
    email: str
    address: Address


class PaymentMethod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a customer pays. `balance_cents` is that of a gift card."""

    payment_method_id: str
    account_id: str
    kind: Literal["credit_card", "paypal", "gift_card"]
    brand: str | None = None
    last_four: str | None = None
    balance_cents: int | None = None


class Product(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is sold, whatever its colour and size."""

    product_id: str
    name: str


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One colour and size of a product, with its price of today."""

    variant_id: str
    product_id: str
    options: dict[str, str]
    price_cents: int
    available: bool


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An order and its state."""

    order_id: str
    account_id: str
    status: OrderStatus
    address: Address
    tracking_ids: list[str]


class OrderItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing in an order, at the price that was paid for it."""

    order_id: str
    position: int
    variant_id: str
    unit_price_cents: int


class Payment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the ledger as it was before the desk opened."""

    order_id: str
    payment_method_id: str
    kind: PaymentKind
    amount_cents: int


class Desk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that a desk starts with."""

    source: str
    accounts: list[Account]
    payment_methods: list[PaymentMethod]
    products: list[Product]
    variants: list[Variant]
    orders: list[Order]
    items: list[OrderItem]
    payments: list[Payment]
