"""The retail desk's tools, put together: what each does to the world, and which of its fields can be relied on.

Keys, states, money, options and what the shop sells are the desk's own. Names and addresses are what customers typed,
and stay theirs however long they have been on file; but state and country are picked from a list, and a choice carries
nothing. The result of a sum is its arguments', so it is nobody's.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from callboard.actors.agent.events import Trust
from callboard.actors.agent.tool import Tool, tool
from callboard.actors.guard.profiles import Effect
from callboard.evals.retail_desk import RetailDesk
from callboard.evals.retail_reading import Reading
from callboard.evals.retail_rows import Records
from callboard.evals.retail_writing import Writing

# What is not named is untrusted: names, lines, city and zip code of an address, and the sentences of refusals.
_PICKED: Final = ("address.state", "address.country")
_USER: Final[Mapping[str, Trust]] = dict.fromkeys(
    ("user_id", "email", "payment_methods", "order_ids", "code", *_PICKED), "trusted"
)
_ORDER: Final[Mapping[str, Trust]] = dict.fromkeys(
    (
        *("order_id", "user_id", "status", "items", "tracking_ids", "payments", "cancel_reason", "asked", "code"),
        *_PICKED,
    ),
    "trusted",
)
_PRODUCT: Final[Mapping[str, Trust]] = dict.fromkeys(("product_id", "name", "variants", "code"), "trusted")
_PRODUCTS: Final[Mapping[str, Trust]] = {"products": "trusted"}
_ITEM: Final[Mapping[str, Trust]] = dict.fromkeys(
    ("item_id", "product_id", "name", "options", "price_cents", "available", "code"), "trusted"
)
_FOUND: Final[Mapping[str, Trust]] = dict.fromkeys(("user_id", "code"), "trusted")

EFFECTS: Final[Mapping[str, Effect]] = {
    "cancel_pending_order": "money",
    "modify_pending_order_items": "money",
    "modify_pending_order_payment": "money",
    "return_delivered_order_items": "money",
    "exchange_delivered_order_items": "money",
    "modify_pending_order_address": "write",
    "modify_user_address": "write",
    "transfer_to_human_agents": "write",
}
"""Tools that do anything but read."""

_LABELS: Final[Mapping[str, Trust | Mapping[str, Trust]]] = {
    "find_user_id_by_email": _FOUND,
    "find_user_id_by_name_zip": _FOUND,
    "get_user_details": _USER,
    "get_order_details": _ORDER,
    "get_product_details": _PRODUCT,
    "get_item_details": _ITEM,
    "list_all_product_types": _PRODUCTS,
    "calculate": "untrusted",
    "cancel_pending_order": _ORDER,
    "modify_pending_order_items": _ORDER,
    "modify_pending_order_payment": _ORDER,
    "return_delivered_order_items": _ORDER,
    "exchange_delivered_order_items": _ORDER,
    "modify_pending_order_address": _ORDER,
    "modify_user_address": _USER,
    "transfer_to_human_agents": {"transferred": "trusted"},
}


def retail_tools(desk: RetailDesk) -> tuple[Tool, ...]:
    """The sixteen tools of a desk."""
    functions = functions_of(desk)
    return tuple(replace(one, function=functions[one.name]) for one in declared_tools())


@cache
def declared_tools() -> tuple[Tool, ...]:
    """The tools of no desk. Reading signatures takes longer than a whole task, so it is done once."""
    functions = functions_of(RetailDesk(Records({}, {}, {}, {})))
    return tuple(
        tool(functions[name], effect=EFFECTS.get(name, "read"), returns_trust=label) for name, label in _LABELS.items()
    )


def functions_of(desk: RetailDesk) -> dict[str, Callable[..., Any]]:
    """What the tools of a desk do, by name."""
    reading, writing = Reading(desk), Writing(desk)
    return {name: getattr(writing if name in EFFECTS else reading, name) for name in _LABELS}
