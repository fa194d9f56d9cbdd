"""The money tools: one key, one effect; never more than was paid; no way round the limit."""

from typing import Any

import anyio
import pytest

from callboard import NeedsApproval
from callboard.crm.ledger import attempts, breaches, duplicate_effects, refunds
from callboard.crm.tools import desk_tools
from callboard.persistence.postgres.database import Database

from .calls import APPROVED, named, pick, refund, strict

pytestmark = pytest.mark.anyio


async def test_g4_twenty_concurrent_calls_under_one_key_refund_once(small: Database, small_owner: Database) -> None:
    tools, order = desk_tools(small, node="n1"), await pick(small, "delivered")
    results: list[dict[str, Any]] = []

    async def call() -> None:
        results.append(await refund(tools, order, 5_000, "key-1"))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(call)

    assert [result["dedup_hit"] for result in results].count(False) == 1
    assert len({result["payment_id"] for result in results}) == 1
    assert [made.amount_cents for made in await refunds(small_owner)] == [5_000]
    (tried,) = await attempts(small_owner)
    assert (tried.attempts, tried.effects, tried.nodes) == (20, 1, ["n1"])
    assert await duplicate_effects(small_owner) == []


async def test_concurrent_refunds_under_different_keys_never_pass_what_was_paid(
    small: Database, small_owner: Database
) -> None:
    tools, order = desk_tools(small), await pick(small, "delivered")
    part = order["paid"] // 3 + 1  # three of these are more than was paid
    results: list[dict[str, Any]] = []

    async def call(key: str) -> None:
        results.append(await refund(tools, order, part, key, APPROVED))

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(call, f"key-{number}")

    refused = [result["code"] for result in results if "error" in result]
    assert refused == ["over_refund"] * 4
    assert sum(made.amount_cents for made in await refunds(small_owner)) == 2 * part
    assert await duplicate_effects(small_owner) == []


async def test_small_refunds_of_one_order_cannot_add_up_past_the_limit(small: Database, small_owner: Database) -> None:
    tools, order = desk_tools(small), await pick(small, "delivered")
    assert "error" not in await refund(tools, order, 9_000, "key-1")
    second = await refund(tools, order, 1_001, "key-2")
    assert second["code"] == "split_refund"
    assert "error" not in await refund(tools, order, 1_000, "key-3")
    assert len(await refunds(small_owner)) == 2


@pytest.mark.parametrize(("amount", "code"), [(0, "bad_amount"), (-5, "bad_amount"), (10**30, "above_ceiling")])
async def test_amounts_that_make_no_sense_are_refused(small: Database, amount: int, code: str) -> None:
    order = await pick(small, "delivered")
    assert (await refund(desk_tools(small), order, amount, "key-1"))["code"] == code


async def test_a_refund_goes_only_to_what_paid_for_a_delivered_order(small: Database) -> None:
    tools, order = desk_tools(small), await pick(small, "delivered")
    assert (await refund(tools, {**order, "method": "somebody-else"}, 100, "key-1"))["code"] == "wrong_method"
    assert (await refund(tools, {**order, "order_id": "#S99999"}, 100, "key-2"))["code"] == "not_found"
    assert (await refund(tools, await pick(small, "pending"), 100, "key-3"))["code"] == "wrong_status"


async def test_a_key_that_acted_for_another_refund_is_refused(small: Database) -> None:
    tools, order = desk_tools(small), await pick(small, "delivered")
    await refund(tools, order, 100, "key-1")
    assert (await refund(tools, order, 200, "key-1"))["code"] == "key_reused"


async def test_the_gate_names_amount_order_and_limit(small: Database) -> None:
    tool, order = named(desk_tools(small), "issue_refund"), await pick(small, "delivered")
    arguments = {"order_id": order["order_id"], "payment_method_id": order["method"], "reason": "it broke"}
    assert tool.gate(tool.validate({**arguments, "amount_cents": 10_000})) is None
    reason = tool.gate(tool.validate({**arguments, "amount_cents": 10_001}))
    assert reason == f"a refund of 100.01 USD for order {order['order_id']} is above the limit of 100.00 USD"


@pytest.mark.parametrize(("amount", "needed"), [(10_001, 1), (100_000, 1), (100_001, 2), (250_000, 2)])
async def test_g5_the_second_limit_takes_two_people_at_the_gate_and_behind_it(
    small: Database, amount: int, needed: int
) -> None:
    tool, order = named(desk_tools(small), "issue_refund"), await pick(small, "delivered")
    arguments = {"order_id": order["order_id"], "payment_method_id": order["method"], "reason": "it broke"}
    terms = tool.terms(tool.validate({**arguments, "amount_cents": amount}))
    assert terms is not None and terms.needed == needed


async def test_g5_a_refund_above_a_limit_that_came_past_the_gate_asks_all_the_same(
    small: Database, small_owner: Database
) -> None:
    order = await pick(small, "delivered")
    for policy, needed in ((strict(), 1), (strict(one_person="150.00 USD"), 2)):
        with pytest.raises(NeedsApproval, match="above the limit") as asked:
            await refund(desk_tools(small, policy=policy), order, 20_000, "key-1")
        assert asked.value.needed == needed
    assert await refunds(small_owner) == []
    assert "error" not in await refund(desk_tools(small), order, 20_000, "key-1", APPROVED)
    rows = await small.rows("SELECT approval, policy_id FROM crm.payment WHERE cause = 'refund'")
    assert rows == [{"approval": APPROVED, "policy_id": 1}]
    assert await breaches(small_owner) == []


async def test_an_order_that_has_moved_on_since_it_was_read_is_not_refunded(
    small: Database, small_owner: Database
) -> None:
    tools, order = desk_tools(small), await pick(small, "delivered")
    read = (await named(tools, "get_order")(order_id=order["order_id"]))["version"]
    results: list[dict[str, Any]] = []

    async def call(key: str) -> None:
        results.append(await refund(tools, order, 4_000, key, order_version=read))

    async with anyio.create_task_group() as group:
        for key in ("key-1", "key-2"):
            group.start_soon(call, key)
    assert sorted(result.get("code", "") for result in results) == ["", "changed"]
    (made,) = await refunds(small_owner)
    # Its own refund is no reason to refuse a repetition.
    again = await refund(tools, order, 4_000, made.idempotency_key, order_version=read)
    assert again["dedup_hit"] is True
    now = (await named(tools, "get_order")(order_id=order["order_id"]))["version"]
    assert now == read + 1
    assert "error" not in await refund(tools, order, 4_000, "key-3", order_version=now)


async def test_a_pending_order_that_has_moved_on_is_not_cancelled(small: Database, small_owner: Database) -> None:
    cancel, order = named(desk_tools(small), "cancel_order"), await pick(small, "pending")
    await small_owner.execute("UPDATE crm.sales_order SET city = 'Elsewhere' WHERE order_id = %s", (order["order_id"],))
    moved = await cancel(order_id=order["order_id"], idempotency_key="key-1", order_version=order["version"])
    assert moved["code"] == "changed" and "read it again" in moved["error"]
    done = await cancel(
        order_id=order["order_id"], idempotency_key="key-2", order_version=order["version"] + 1, approval=APPROVED
    )
    assert done["cancelled"] is True
    assert await small.rows("SELECT DISTINCT approval FROM crm.payment WHERE cause = 'cancel'") == [
        {"approval": APPROVED}
    ]


async def test_g4_a_crash_between_effect_and_result_leaves_one_refund_and_two_attempts(
    small: Database, small_owner: Database
) -> None:
    order, reached, keys = await pick(small, "delivered"), anyio.Event(), list[str]()

    async def die(key: str) -> None:
        keys.append(key)
        reached.set()
        await anyio.sleep_forever()

    dying, heir = desk_tools(small, node="dying", after_effect=die), desk_tools(small, node="heir")
    async with anyio.create_task_group() as group:
        group.start_soon(refund, dying, order, 5_000, "key-1")
        await reached.wait()
        assert len(await refunds(small_owner)) == 1  # the hook comes after the commit
        group.cancel_scope.cancel()
    assert keys == ["key-1"]

    tool = named(heir, "issue_refund")
    assert tool.reconcile is not None
    found = await tool.reconcile(idempotency_key="key-1")
    assert found == await refund(heir, order, 5_000, "key-1")
    assert found["dedup_hit"] is True
    assert await tool.reconcile(idempotency_key="key-2") is None
    (tried,) = await attempts(small_owner)
    assert (tried.attempts, tried.effects, tried.nodes) == (2, 1, ["dying", "heir"])


async def test_cancelling_gives_everything_back_once(small: Database, small_owner: Database) -> None:
    cancel, order = named(desk_tools(small), "cancel_order"), await pick(small, "pending")
    results: list[dict[str, Any]] = []

    async def call() -> None:
        results.append(await cancel(order_id=order["order_id"], idempotency_key="key-1"))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(call)

    assert {result["refunded_cents"] for result in results} == {order["paid"]}
    assert [result["dedup_hit"] for result in results].count(False) == 1
    assert [made.amount_cents for made in await refunds(small_owner)] == [order["paid"]]
    again = await cancel(order_id=order["order_id"], idempotency_key="key-2")
    assert again["code"] == "wrong_status"
    assert cancel.reconcile is not None
    assert (await cancel.reconcile(idempotency_key="key-1"))["refunded_cents"] == order["paid"]
    assert await cancel.reconcile(idempotency_key="key-2") is None


async def test_a_delivered_order_cannot_be_cancelled(small: Database, small_owner: Database) -> None:
    order = await pick(small, "delivered")
    result = await named(desk_tools(small), "cancel_order")(order_id=order["order_id"], idempotency_key="key-1")
    assert result["code"] == "wrong_status"
    assert await refunds(small_owner) == []


async def test_a_refund_to_a_gift_card_raises_its_balance_once(small: Database) -> None:
    order = await small.row(
        "SELECT o.order_id, payment_method_id AS method, balance_cents"
        " FROM crm.sales_order o JOIN crm.payment USING (order_id) JOIN crm.payment_method m USING (payment_method_id)"
        " WHERE m.kind = 'gift_card' AND o.status = 'delivered' ORDER BY 1 LIMIT 1"
    )
    assert order is not None
    for _ in range(2):
        assert "error" not in await refund(desk_tools(small), order, 700, "key-1")
    after = await small.row(
        "SELECT balance_cents FROM crm.payment_method WHERE payment_method_id = %s", (order["method"],)
    )
    assert after == {"balance_cents": order["balance_cents"] + 700}
