"""Subscriptions: what a change does to the paid time, who has to approve it, and once under a key."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from callboard import NeedsApproval
from callboard.actors.agent.tool import Tool
from callboard.crm.ledger import breaches, duplicate_effects
from callboard.crm.tools import desk_tools
from callboard.persistence.postgres.database import Database

from .calls import APPROVED, named
from .hand_clock import take_clock

pytestmark = pytest.mark.anyio

ACTIVE, PAUSED, OVERDUE, ENDING, CANCELLED = "SUB-1001", "SUB-1002", "SUB-1003", "SUB-1004", "SUB-1006"


async def change(tools: Sequence[Tool], subscription: str, what: str, key: str, **more: Any) -> dict[str, Any]:
    tool = named(tools, "change_subscription")
    result: dict[str, Any] = await tool(subscription_id=subscription, change=what, idempotency_key=key, **more)
    return result


async def days_left(database: Database, subscription: str) -> int:
    sql = "SELECT round(extract(epoch FROM paid_until - crm.clock()) / 86400)::integer AS days FROM crm.subscription"
    row = await database.row(f"{sql} WHERE subscription_id = %s", (subscription,))
    assert row is not None
    return int(row["days"])


async def test_a_pause_loses_no_paid_day(small: Database, small_owner: Database) -> None:
    passes, tools = await take_clock(small_owner), desk_tools(small)
    assert (await change(tools, ACTIVE, "pause", "key-1"))["status"] == "paused"
    await passes(days=50)
    resumed = await change(tools, ACTIVE, "resume", "key-2")
    assert (resumed["status"], resumed["version"]) == ("active", 3)
    assert await days_left(small, ACTIVE) == 20


async def test_g5_cancelling_asks_where_paid_days_are_lost_and_only_there(
    small: Database, small_owner: Database
) -> None:
    tools = desk_tools(small)
    with pytest.raises(NeedsApproval, match="loses 20 days"):
        await change(tools, ACTIVE, "cancel", "key-1")
    with pytest.raises(NeedsApproval, match="loses 200 days"):
        await change(tools, PAUSED, "cancel", "key-2")
    approved = await change(tools, ACTIVE, "cancel", "key-1", approval=APPROVED)
    assert (approved["status"], approved["renews"], approved["lost_days"]) == ("cancelled", False, 20)
    assert (await change(tools, OVERDUE, "cancel", "key-3"))["lost_days"] == 0
    assert await breaches(small_owner) == [] == await duplicate_effects(small_owner)


async def test_g4_one_key_changes_once_and_the_answer_is_the_same(small: Database) -> None:
    tools, results = desk_tools(small), list[dict[str, Any]]()

    async def call() -> None:
        results.append(await change(tools, ENDING, "renew", "key-1"))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(call)
    assert [result.pop("dedup_hit") for result in results].count(False) == 1
    assert all(result == results[0] for result in results)
    assert results[0]["renews"] is True and results[0]["version"] == 2
    tool = named(tools, "change_subscription")
    assert tool.reconcile is not None
    assert await tool.reconcile(idempotency_key="key-1") == {**results[0], "dedup_hit": True}
    assert await tool.reconcile(idempotency_key="key-2") is None
    assert (await change(tools, ENDING, "pause", "key-1"))["code"] == "key_reused"


async def test_a_late_repetition_does_not_undo_what_was_done_since(small: Database) -> None:
    tools = desk_tools(small)
    await change(tools, ENDING, "pause", "key-1")
    await change(tools, ENDING, "resume", "key-2")
    assert (await change(tools, ENDING, "pause", "key-1"))["dedup_hit"] is True
    assert (await named(tools, "get_subscription")(subscription_id=ENDING))["status"] == "active"


async def test_of_two_agents_that_read_the_same_version_one_has_to_read_again(small: Database) -> None:
    agents = [desk_tools(small, node=node) for node in ("n1", "n2")]
    read = (await named(agents[0], "get_subscription")(subscription_id=ACTIVE))["version"]
    results: list[dict[str, Any]] = []

    async def call(agent: int, what: str) -> None:
        results.append(await change(agents[agent], ACTIVE, what, what, version=read, approval=APPROVED))

    async with anyio.create_task_group() as group:
        group.start_soon(call, 0, "pause")
        group.start_soon(call, 1, "cancel")
    assert sorted(result.get("code", "") for result in results) == ["", "changed"]


@pytest.mark.parametrize(
    ("subscription", "what", "code"),
    [
        ("SUB-9999", "pause", "not_found"),
        (PAUSED, "pause", "wrong_status"),
        (ACTIVE, "resume", "wrong_status"),
        (ACTIVE, "renew", "wrong_status"),
        (CANCELLED, "cancel", "wrong_status"),
        (OVERDUE, "renew", "lapsed"),
        (OVERDUE, "pause", "lapsed"),
    ],
)
async def test_what_cannot_be_is_refused(small: Database, subscription: str, what: str, code: str) -> None:
    assert (await change(desk_tools(small), subscription, what, "key-1"))["code"] == code
    assert await small.rows("SELECT * FROM crm.change") == []


async def test_an_account_names_its_subscriptions_contacts_and_deals(small: Database) -> None:
    account = await named(desk_tools(small), "get_account")(account_id="noor.haddadi")
    assert account["subscription_ids"] == [ACTIVE, PAUSED]
    assert [contact["email"] for contact in account["contacts"]] == ["sami.haddadi@example.org"]
    found = await named(desk_tools(small), "find_contact")(email="Sami.Haddadi@example.org")
    assert (found["account_id"], found["role"]) == ("noor.haddadi", "delivery")
    (deal,) = (await named(desk_tools(small), "get_account")(account_id="yuki.tanabe"))["deals"]
    assert (deal["stage"], deal["amount_cents"]) == ("won", 42_000)
