"""A retail domain of our own making in the benchmark's shape: two customers, four orders, two products, five tasks."""

import json
from pathlib import Path
from typing import Any

from callboard.evals.retail_desk import RetailDesk
from callboard.evals.retail_reading import Reading
from callboard.evals.retail_tasks import RetailData, RetailTask, read_retail_data
from callboard.evals.retail_writing import Writing

_HOME = {"address1": "1 Elm Road", "address2": "", "city": "Ulm", "state": "BW", "country": "Germany", "zip": "89073"}
MOVED = {"address1": "7 Oak Lane", "address2": "Flat 2", "city": "Bonn", "state": "NW", "country": "Germany"}
_MOVED = {**MOVED, "zip": "53111"}


def _variant(item_id: str, colour: str, price: float, *, available: bool = True) -> dict[str, Any]:
    return {"item_id": item_id, "options": {"colour": colour}, "available": available, "price": price}


def _order(number: int, user: str, status: str, items: dict[str, float], method: str) -> dict[str, Any]:
    return {
        "order_id": f"#W{number}",
        "user_id": user,
        "address": _HOME,
        "items": [{"item_id": item, "price": price} for item, price in items.items()],
        "status": status,
        "fulfillments": [],
        "payment_history": [
            {"transaction_type": "payment", "amount": round(sum(items.values()), 2), "payment_method_id": method}
        ],
    }


def _user(user_id: str, first: str, zip: str, methods: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "user_id": user_id,
        "name": {"first_name": first, "last_name": "Berg"},
        "address": {**_HOME, "zip": zip},
        "email": f"{first.lower()}@example.com",
        "payment_methods": {key: {"id": key, **value} for key, value in methods.items()},
    }


DATABASE = {
    "products": {
        "100": {
            "name": "Kettle",
            "product_id": "100",
            "variants": {
                "1101": _variant("1101", "red", 30.1),
                "1102": _variant("1102", "blue", 42.35),
                "1103": _variant("1103", "black", 9.0, available=False),
                "1104": _variant("1104", "white", 25.0),
            },
        },
        "200": {"name": "Lamp", "product_id": "200", "variants": {"2201": _variant("2201", "red", 15.0)}},
    },
    "users": {
        "ida_berg_1": _user(
            "ida_berg_1",
            "Ida",
            "89073",
            {"gift_card_1": {"source": "gift_card", "balance": 5}, "credit_card_1": {"source": "credit_card"}},
        ),
        "ole_berg_2": _user("ole_berg_2", "Ole", "20095", {"paypal_2": {"source": "paypal"}}),
    },
    "orders": {
        "#W1": _order(1, "ida_berg_1", "pending", {"1101": 30.1, "2201": 15.0}, "gift_card_1"),
        "#W2": _order(2, "ida_berg_1", "delivered", {"1102": 40.0, "2201": 15.0}, "credit_card_1"),
        "#W3": _order(3, "ole_berg_2", "pending", {"1101": 30.1}, "paypal_2"),
        "#W4": _order(4, "ole_berg_2", "cancelled", {"1104": 25.0}, "paypal_2"),
    },
}

Listed = tuple[str, dict[str, Any]]

MOVE: Listed = ("modify_user_address", {"user_id": "ida_berg_1", **_MOVED})
MOVE_ORDER: Listed = ("modify_pending_order_address", {"order_id": "#W1", **_MOVED})
CANCEL: Listed = ("cancel_pending_order", {"order_id": "#W3", "reason": "no longer needed"})
RETURN: Listed = (
    "return_delivered_order_items",
    {"order_id": "#W2", "item_ids": ["2201"], "payment_method_id": "credit_card_1"},
)
RECOLOUR: Listed = (
    "modify_pending_order_items",
    {"order_id": "#W1", "item_ids": ["1101"], "new_item_ids": ["1104"], "payment_method_id": "gift_card_1"},
)
_ADDRESS_IN_WORDS = "7 Oak Lane, Flat 2, Bonn, NW, Germany, 53111"

TASKS: list[dict[str, Any]] = [
    {"id": "cancel", "said": "You want your order #W3 cancelled.", "calls": [CANCEL]},
    {"id": "return", "said": "You return the lamp of your last order.", "calls": [RETURN]},
    {"id": "move", "said": f"You now live at {_ADDRESS_IN_WORDS}.", "calls": [MOVE, MOVE_ORDER]},
    {
        "id": "recolour",
        "said": "You want the kettle white.",
        "calls": [("find_user_id_by_name_zip", {"first_name": "Ida", "last_name": "Berg", "zip": "89073"}), RECOLOUR],
    },
    {
        "id": "question",
        "said": "You ask what lamps there are, and what a hundred of them would cost.",
        "calls": [("list_all_product_types", {})],
        "told": ["Lamp", "1,500"],
    },
]


def written(folder: Path) -> Path:
    """The two files, as the wheel has them; the folder."""
    (folder / "db.json").write_text(json.dumps(DATABASE))
    (folder / "tasks.json").write_text(json.dumps([_task(one) for one in TASKS]))
    return folder


def _task(one: dict[str, Any]) -> dict[str, Any]:
    said = {"task_instructions": "Be brief.", "reason_for_call": one["said"], "known_info": None, "domain": "retail"}
    actions = [{"action_id": "", "name": name, "arguments": arguments} for name, arguments in one["calls"]]
    return {
        "id": one["id"],
        "user_scenario": {"instructions": said},
        "evaluation_criteria": {"actions": actions or None, "communicate_info": one.get("told")},
    }


def shop(folder: Path) -> RetailData:
    """The shop, read as the benchmark's data is read."""
    return read_retail_data(written(folder))


def task_of(data: RetailData, task_id: str) -> RetailTask:
    """One of the tasks."""
    return next(task for task in data.tasks if task.task_id == task_id)


class Counter:
    """A desk of the shop with its tools' functions."""

    def __init__(self, data: RetailData) -> None:
        self.desk = RetailDesk(data.records)
        self.reads, self.writes = Reading(self.desk), Writing(self.desk)

    def balance(self, user_id: str, method: str) -> int | None:
        """What a gift card holds, in cents."""
        return self.desk.method(user_id, method).balance_cents
