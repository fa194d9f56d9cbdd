"""What one account gets back without approval: never more than the cap in 30 days, however many ask at once."""

from typing import Any

import anyio
import pytest

from callboard import NeedsApproval
from callboard.crm.ledger import breaches, duplicate_effects, refunds
from callboard.crm.tools import desk_tools
from callboard.persistence.postgres.database import Database

from .calls import APPROVED, delivered, named, refund, strict
from .hand_clock import take_clock

pytestmark = pytest.mark.anyio

ACCOUNT = "marek.dunleavy"
POLICY = strict(cap="150.00 USD")
"""Of three delivered orders, each may give 100.00 USD back without approval, and together half of that."""


async def test_g5_refunds_of_several_orders_cannot_add_up_past_the_cap(small: Database, small_owner: Database) -> None:
    tools, (one, two, three) = desk_tools(small, policy=POLICY), await delivered(small, ACCOUNT)
    assert "error" not in await refund(tools, one, 9_000, "key-1")
    assert "error" not in await refund(tools, two, 6_000, "key-2")
    with pytest.raises(NeedsApproval, match=r"150\.01 USD within 30 days, above 150\.00 USD") as asked:
        await refund(tools, three, 1, "key-3")
    assert asked.value.needed == 1
    assert "error" not in await refund(tools, three, 1, "key-3", APPROVED)
    assert [made.amount_cents for made in await refunds(small_owner)] == [9_000, 6_000, 1]
    assert await breaches(small_owner, policy=POLICY) == []


@pytest.mark.parametrize("first", [0, 1, 2])
async def test_g5_siblings_and_two_agents_at_once_cannot_slip_past_the_cap(
    small: Database, small_owner: Database, first: int
) -> None:
    orders = await delivered(small, ACCOUNT)
    agents = [desk_tools(small, policy=POLICY, node=node) for node in ("n1", "n2")]
    asked: list[str] = []

    async def call(agent: int, order: dict[str, Any]) -> None:
        try:
            await refund(agents[agent], order, 8_000, f"key-{order['order_id']}")
        except NeedsApproval as reason:
            asked.append(str(reason))

    async with anyio.create_task_group() as group:
        for number, order in enumerate(orders[first:] + orders[:first]):
            group.start_soon(call, number % 2, order)
    assert len(asked) == 2
    assert [made.amount_cents for made in await refunds(small_owner)] == [8_000]
    assert await breaches(small_owner, policy=POLICY) == []


async def test_a_refund_that_waits_for_the_account_counts_what_was_committed_meanwhile(
    small: Database, small_owner: Database
) -> None:
    tools, (one, two, _) = desk_tools(small, policy=POLICY), await delivered(small, ACCOUNT)
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%FOR NO KEY UPDATE%%'"
    asked: list[str] = []

    async def call() -> None:
        try:
            await refund(tools, two, 8_000, "key-2")
        except NeedsApproval as reason:
            asked.append(str(reason))

    async with anyio.create_task_group() as group, small_owner.transaction() as session:
        await session.execute("SELECT 1 FROM crm.account WHERE account_id = %s FOR UPDATE", (ACCOUNT,))
        group.start_soon(call)
        with anyio.fail_after(60):
            while await small_owner.row(waiting) is None:
                await anyio.lowlevel.checkpoint()
        await session.execute(
            "INSERT INTO crm.payment (order_id, payment_method_id, kind, amount_cents, idempotency_key, cause)"
            " VALUES (%s, %s, 'refund', 8000, 'key-1', 'refund')",
            (one["order_id"], one["method"]),
        )
    assert len(asked) == 1


async def test_what_was_approved_and_what_is_older_than_30_days_is_not_counted(
    small: Database, small_owner: Database
) -> None:
    passes = await take_clock(small_owner)
    tools, (one, two, three) = desk_tools(small, policy=POLICY), await delivered(small, ACCOUNT)
    assert "error" not in await refund(tools, one, 20_000, "key-1", APPROVED)
    assert "error" not in await refund(tools, two, 10_000, "key-2")
    with pytest.raises(NeedsApproval):
        await refund(tools, three, 10_000, "key-3")
    await passes(days=29)
    with pytest.raises(NeedsApproval):
        await refund(tools, three, 10_000, "key-3")
    await passes(days=2)
    assert "error" not in await refund(tools, three, 10_000, "key-3")
    assert await breaches(small_owner, policy=POLICY) == []


async def test_a_cancelled_order_counts_towards_no_cap(small: Database, small_owner: Database) -> None:
    tools = desk_tools(small, policy=strict(cap="1.00 USD"))
    done = await named(tools, "cancel_order")(order_id="#S10559", idempotency_key="key-1")
    assert done["refunded_cents"] > 100
    assert await breaches(small_owner, policy=strict(cap="1.00 USD")) == []
    assert await duplicate_effects(small_owner) == []
