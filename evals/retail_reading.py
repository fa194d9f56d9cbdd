"""The retail desk's reading tools: customers, orders, products, and arithmetic. They change nothing."""

import ast
import operator
from collections.abc import Callable
from decimal import Decimal, DecimalException
from typing import Any, Final

from callboard.evals.retail_desk import Refused, RetailDesk
from callboard.evals.retail_rows import UserRow, order_view, user_view, variant_view

MAX_EXPRESSION_CHARS: Final = 200
_OPERATORS: Final[dict[type[ast.operator], Callable[[Decimal, Decimal], Decimal]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Reading:
    """The reading tools of one desk; every public method is a tool."""

    def __init__(self, desk: RetailDesk) -> None:
        self._desk = desk

    async def find_user_id_by_email(self, email: str) -> dict[str, Any]:
        """Find the customer that an e-mail address belongs to."""
        wanted = email.strip().lower()
        return self._found(lambda user: user.account.email.lower() == wanted)

    async def find_user_id_by_name_zip(self, first_name: str, last_name: str, zip: str) -> dict[str, Any]:
        """Find the customer of this name who lives at this zip code."""
        wanted = (first_name.strip().lower(), last_name.strip().lower(), zip.strip())

        def is_wanted(user: UserRow) -> bool:
            account = user.account
            return (account.first_name.lower(), account.last_name.lower(), account.address.postcode) == wanted

        return self._found(is_wanted)

    async def get_user_details(self, user_id: str) -> dict[str, Any]:
        """Get a customer: name, address, payment methods (balances in cents) and order ids."""
        return self._desk.answer(lambda: user_view(self._desk.user(user_id)))

    async def get_order_details(self, order_id: str) -> dict[str, Any]:
        """Get an order: customer, status, address, items, tracking numbers and payments. Money is in cents."""
        return self._desk.answer(lambda: order_view(self._desk.order(order_id), self._desk.records))

    async def get_product_details(self, product_id: str) -> dict[str, Any]:
        """Get a product with all its variants, their prices in cents, and whether they can be had."""

        def view() -> dict[str, Any]:
            product, records = self._desk.product(product_id), self._desk.records
            variants = [variant_view(one, records) for one in records.variants.values() if one.product_id == product_id]
            return {"product_id": product_id, "name": product.name, "variants": variants}

        return self._desk.answer(view)

    async def get_item_details(self, item_id: str) -> dict[str, Any]:
        """Get one variant of a product, its price in cents, and whether it can be had."""
        return self._desk.answer(lambda: variant_view(self._desk.variant(item_id), self._desk.records))

    async def list_all_product_types(self) -> dict[str, Any]:
        """List all products by name with their ids."""
        products = sorted(self._desk.records.products.values(), key=lambda one: one.name)
        return {"products": [{"name": one.name, "product_id": one.product_id} for one in products]}

    async def calculate(self, expression: str) -> dict[str, Any]:
        """Work out an expression of numbers with + - * / and parentheses, to two places."""
        return self._desk.answer(lambda: {"result": f"{value_of(expression):.2f}"})

    def _found(self, is_wanted: Callable[[UserRow], bool]) -> dict[str, Any]:
        for user_id, user in self._desk.users().items():
            if is_wanted(user):
                return {"user_id": user_id}
        return self._desk.answer(_nobody)


def value_of(expression: str) -> Decimal:
    """The value of an arithmetic expression.

    Raises:
        Refused: it is none, or a long one.
    """
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise Refused("bad_expression", f"an expression has at most {MAX_EXPRESSION_CHARS} characters")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body, expression.strip())
    except (SyntaxError, ValueError, DecimalException) as error:
        raise Refused("bad_expression", f"{expression!r} is no sum that can be worked out") from error


def _value(node: ast.expr, text: str) -> Decimal:
    match node:
        case ast.Constant(value=int() | float()):
            return Decimal(ast.get_source_segment(text, node) or "")  # as it is written: a float would have rounded
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, text), _value(right, text))
    raise ValueError(ast.dump(node))


def _nobody() -> dict[str, Any]:
    raise Refused("not_found", "there is no such customer")
