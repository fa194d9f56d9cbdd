"""One retail desk in memory: the rows as they are now, and a row for every attempt to change them.

Neighbours: `retail_reading.py` and `retail_writing.py` are the tools' functions. The attempts are there because the
desk's own checks hide some mistakes: who cancels an order twice changes nothing the second time, and has tried twice.
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import msgspec

from callboard.crm.answers import refused
from callboard.crm.desk import PaymentMethod, Product, Variant
from callboard.evals.retail_rows import OrderRow, Records, UserRow


class Refused(Exception):
    """The desk does not do this; the sentence is for the model."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code, self.sentence = code, sentence


class Attempt(msgspec.Struct, frozen=True):
    """A change that somebody tried to make."""

    tool: str
    arguments: dict[str, Any]
    outcome: str
    """`done`, or the code of the refusal."""


class Tables(msgspec.Struct, frozen=True):
    """Everything that a desk holds in the end."""

    users: dict[str, UserRow]
    orders: dict[str, OrderRow]
    attempts: tuple[Attempt, ...]

    def same_rows(self, other: "Tables") -> bool:
        """Whether customers and orders are equal, however they came to be."""
        return self.users == other.users and self.orders == other.orders


class RetailDesk:
    """Records of one run."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._users = dict(records.users)
        self._orders = dict(records.orders)
        self._attempts: list[Attempt] = []

    def tables(self) -> Tables:
        """What it holds now."""
        return Tables(dict(self._users), dict(self._orders), tuple(self._attempts))

    # --- rows: each raises Refused where there is none ---------------------------------------------------------------

    def users(self) -> Mapping[str, UserRow]:
        """All customers."""
        return self._users

    def user(self, user_id: str) -> UserRow:
        """A customer."""
        return self._users.get(user_id) or _none("customer", user_id)

    def order(self, order_id: str) -> OrderRow:
        """An order."""
        return self._orders.get(order_id) or _none("order", order_id)

    def product(self, product_id: str) -> Product:
        """A product."""
        return self.records.products.get(product_id) or _none("product", product_id)

    def variant(self, item_id: str) -> Variant:
        """A variant of a product."""
        return self.records.variants.get(item_id) or _none("item", item_id)

    def method(self, user_id: str, payment_method_id: str) -> PaymentMethod:
        """A way to pay, of this customer."""
        return self.user(user_id).methods.get(payment_method_id) or _none("payment method", payment_method_id)

    # --- changes -----------------------------------------------------------------------------------------------------

    def answer(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `work` gives; a refusal as an answer that a model can read."""
        try:
            return work()
        except Refused as refusal:
            return refused(refusal.code, refusal.sentence)

    def attempt(self, tool: str, arguments: Mapping[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """As `answer`, and write down that it was tried. `work` changes rows only after its last check."""
        answer = self.answer(work)
        self._attempts.append(Attempt(tool, dict(arguments), answer.get("code", "done")))
        return answer

    def put_order(self, order: OrderRow) -> None:
        """Replace an order's row."""
        self._orders[order.order_id] = order

    def put_user(self, user: UserRow) -> None:
        """Replace a customer's row."""
        self._users[user.account.account_id] = user

    def charge(self, user_id: str, payment_method_id: str, cents: int) -> None:
        """Take cents off a gift card (negative: put them back); cards and accounts hold no balance here."""
        user, method = self.user(user_id), self.method(user_id, payment_method_id)
        if method.balance_cents is not None:
            left = msgspec.structs.replace(method, balance_cents=method.balance_cents - cents)
            self.put_user(msgspec.structs.replace(user, methods={**user.methods, payment_method_id: left}))


def _none(what: str, key: str) -> NoReturn:
    raise Refused("not_found", f"there is no {what} {key!r}")
