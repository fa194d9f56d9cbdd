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
    phone: str = ""


class Contact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody else who may write for an account."""

    contact_id: str
    account_id: str
    role: Literal["billing", "delivery"]
    first_name: str
    last_name: str
    email: str
    phone: str = ""


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


class Parcel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A parcel of an order."""

    order_id: str
    parcel: int
    tracking_id: str
    status: Literal["shipped", "delivered"]


class Subscription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that is paid for a while at a time."""

    subscription_id: str
    account_id: str
    plan: str
    price_cents: int
    period_days: int
    status: Literal["active", "paused", "cancelled"]
    renews: bool
    paid_days: int
    """For how many days from now it is paid; negative: for so many it is not. Of a paused one: from its pause on."""


class Deal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an account may buy."""

    deal_id: str
    account_id: str
    title: str
    stage: Literal["open", "won", "lost"]
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
    contacts: list[Contact] = []
    subscriptions: list[Subscription] = []
    deals: list[Deal] = []

    @property
    def parcels(self) -> list[Parcel]:
        """A parcel for every tracking number, delivered where its order is."""
        return [
            Parcel(order.order_id, number, tracking_id, "delivered" if order.status == "delivered" else "shipped")
            for order in self.orders
            for number, tracking_id in enumerate(order.tracking_ids, start=1)
        ]
