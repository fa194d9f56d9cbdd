"""Exchanging items: the same product only, the difference over the ledger, and all of it once."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from callboard import NeedsApproval
from callboard.actors.agent.arguments import InvalidArguments
from callboard.actors.agent.tool import Tool
from callboard.crm.ledger import attempts, breaches, duplicate_effects
from callboard.crm.tools import desk_tools
from callboard.persistence.postgres.database import Database

from .calls import APPROVED, named, refund, strict

pytestmark = pytest.mark.anyio

MAREK = {"order_id": "#S11003", "positions": [1, 3], "new_variant_ids": ["P003-2", "P002-2"]}
"""Paid with the gift card gift-02, which holds 37.00; the new ones cost 0.69 and 0.79 more."""


async def exchange(tools: Sequence[Tool], key: str, **arguments: Any) -> dict[str, Any]:
    given = {"payment_method_id": "gift-02", **MAREK, **arguments}
    result: dict[str, Any] = await named(tools, "exchange_items")(**given, idempotency_key=key)
    return result


async def balance(database: Database, method: str) -> int:
    row = await database.row("SELECT balance_cents FROM crm.payment_method WHERE payment_method_id = %s", (method,))
    assert row is not None
    return int(row["balance_cents"])


async def variants(tools: Sequence[Tool], order_id: str) -> list[str]:
    order = await named(tools, "get_order")(order_id=order_id)
    return [item["variant_id"] for item in order["items"]]


async def settled(database: Database) -> list[tuple[str, int, str | None]]:
    rows = await database.rows("SELECT kind, amount_cents, approval FROM crm.payment WHERE cause = 'exchange'")
    return [(row["kind"], row["amount_cents"], row["approval"]) for row in rows]


async def test_g4_ten_concurrent_calls_under_one_key_exchange_and_charge_once(
    small: Database, small_owner: Database
) -> None:
    tools, results = desk_tools(small, node="n1"), list[dict[str, Any]]()

    async def call() -> None:
        results.append(await exchange(tools, "key-1"))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(call)
    assert [result["dedup_hit"] for result in results].count(False) == 1
    assert {result["difference_cents"] for result in results} == {148}
    assert await variants(tools, "#S11003") == ["P003-2", "P001-2", "P002-2"]
    assert await settled(small) == [("charge", 148, None)]
    assert await balance(small, "gift-02") == 3_700 - 148
    (tried,) = await attempts(small_owner)
    assert (tried.tool, tried.attempts, tried.effects) == ("exchange_items", 10, 1)
    assert await duplicate_effects(small_owner) == [] == await breaches(small_owner)


async def test_g4_after_a_crash_between_effect_and_answer_the_heir_finds_what_happened(small: Database) -> None:
    lost = await exchange(desk_tools(small, node="dying"), "key-1")
    heir = desk_tools(small, node="heir")
    tool = named(heir, "exchange_items")
    assert tool.reconcile is not None
    found = await tool.reconcile(idempotency_key="key-1")
    assert found == {**lost, "dedup_hit": True} == await exchange(heir, "key-1")
    assert await tool.reconcile(idempotency_key="key-2") is None
    assert (await exchange(heir, "key-1", positions=[1], new_variant_ids=["P003-2"]))["code"] == "key_reused"


async def test_what_costs_less_is_given_back_and_what_costs_the_same_moves_nothing(small: Database) -> None:
    tools = desk_tools(small)
    less = await exchange(tools, "key-1", order_id="#S10966", positions=[2], new_variant_ids=["P005-4"])
    assert (less["difference_cents"], await balance(small, "gift-02")) == (-1_746, 3_700 + 1_746)
    same = await exchange(tools, "key-2", order_id="#S10485", positions=[2], new_variant_ids=["P009-2"])
    assert (same["difference_cents"], same["payment_id"]) == (0, None)
    assert await settled(small) == [("refund", 1_746, None)]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"order_id": "#S99999"}, "not_found"),
        ({"order_id": "#S11373", "positions": [1], "new_variant_ids": ["P001-1"]}, "wrong_status"),
        ({"positions": [9], "new_variant_ids": ["P003-2"]}, "not_found"),
        ({"positions": [1], "new_variant_ids": ["P999-9"]}, "not_found"),
        ({"positions": [1], "new_variant_ids": ["P002-2"]}, "other_product"),
        ({"positions": [1], "new_variant_ids": ["P003-1"]}, "same_variant"),
        ({"positions": [1], "new_variant_ids": ["P003-3"]}, "not_available"),
        ({"positions": [1, 3], "new_variant_ids": ["P003-2"]}, "bad_items"),
        ({"positions": [1, 1], "new_variant_ids": ["P003-2", "P003-2"]}, "bad_items"),
        ({"positions": [], "new_variant_ids": []}, "bad_items"),
        ({"payment_method_id": "card-01"}, "wrong_method"),
        ({"order_version": 7}, "changed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_cannot_be_exchanged_is_refused_and_changes_nothing(
    small: Database, arguments: dict[str, Any], code: str
) -> None:
    tools = desk_tools(small)
    assert (await exchange(tools, "key-1", **arguments))["code"] == code
    assert await variants(tools, "#S11003") == ["P003-1", "P001-2", "P002-1"]
    assert await settled(small) == []


async def test_a_gift_card_has_to_hold_the_difference(small: Database, small_owner: Database) -> None:
    await small_owner.execute("UPDATE crm.payment_method SET balance_cents = 147 WHERE payment_method_id = 'gift-02'")
    assert (await exchange(desk_tools(small), "key-1"))["code"] == "gift_card_balance"
    assert (await exchange(desk_tools(small), "key-2", payment_method_id="card-02"))["exchanged"] is True


async def test_an_item_is_exchanged_once_and_not_when_it_was_refunded(small: Database) -> None:
    tools = desk_tools(small)
    read = (await named(tools, "get_order")(order_id="#S11003"))["version"]
    assert "error" not in await exchange(tools, "key-1", order_version=read)
    assert (await exchange(tools, "key-2", order_version=read))["code"] == "changed"
    again = await exchange(tools, "key-3", positions=[1], new_variant_ids=["P003-4"])
    assert again["code"] == "exchanged_before"
    order = {"order_id": "#S10670", "method": "paypal-03"}
    assert "error" not in await refund(tools, order, 4_547, "key-4")
    other = {"order_id": "#S10670", "positions": [1], "new_variant_ids": ["P001-4"], "payment_method_id": "paypal-03"}
    assert (await exchange(tools, "key-5", **other))["code"] == "refunded_before"


async def test_g5_a_large_difference_asks_and_what_comes_back_counts_towards_the_cap(
    small: Database, small_owner: Database
) -> None:
    less = {"order_id": "#S10966", "positions": [2], "new_variant_ids": ["P005-4"]}
    for policy, why in (
        (strict(exchange="10.00 USD"), "17.46 USD would be given back"),
        (strict(cap="17.45 USD"), "30 "),
    ):
        with pytest.raises(NeedsApproval, match=why):
            await exchange(desk_tools(small, policy=policy), "key-1", **less)
    assert await settled(small) == []
    tools = desk_tools(small, policy=strict(exchange="10.00 USD"))
    assert "error" not in await exchange(tools, "key-1", **less, approval=APPROVED)
    assert await settled(small) == [("refund", 1_746, APPROVED)]
    assert await breaches(small_owner, policy=strict(exchange="10.00 USD")) == []


def test_models_are_told_how_many_items_there_may_be() -> None:
    tool = named(desk_tools(None), "exchange_items")  # type: ignore[arg-type]  # nothing is called
    assert tool.parameters["properties"]["positions"]["maxItems"] == 20
    with pytest.raises(InvalidArguments):
        tool.validate({**MAREK, "payment_method_id": "gift-02", "positions": list(range(21))})
