"""Asking for an account to be closed: two people, one row, and not while something is open."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from callboard import NeedsApproval
from callboard.actors.agent.tool import Tool
from callboard.crm.ledger import attempts, breaches, duplicate_effects
from callboard.crm.tools import desk_tools
from callboard.persistence.postgres.database import Database

from .calls import APPROVED, named

pytestmark = pytest.mark.anyio

ACCOUNT = "noor.haddadi"


async def close(tools: Sequence[Tool], key: str, account_id: str = ACCOUNT, **more: Any) -> dict[str, Any]:
    given = {"account_id": account_id, "reason": "moves away", "idempotency_key": key, **more}
    result: dict[str, Any] = await named(tools, "offboard_account")(**given)
    return result


async def test_g5_closing_always_takes_two_people_at_the_gate_and_behind_it(
    small: Database, small_owner: Database
) -> None:
    tools = desk_tools(small)
    tool = named(tools, "offboard_account")
    terms = tool.terms(tool.validate({"account_id": ACCOUNT, "reason": "moves away"}))
    assert terms is not None and (terms.needed, terms.risk) == (2, "high")
    with pytest.raises(NeedsApproval, match="two people") as asked:
        await close(tools, "key-1")
    assert (asked.value.needed, asked.value.risk) == (2, "high")
    assert await small.rows("SELECT 1 FROM crm.offboarding") == []
    assert await breaches(small_owner) == []


async def test_g4_ten_calls_under_one_key_and_one_under_another_ask_once(
    small: Database, small_owner: Database
) -> None:
    tools, results = desk_tools(small), list[dict[str, Any]]()

    async def call(key: str) -> None:
        results.append(await close(tools, key, approval=APPROVED))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(call, "key-1")
    assert [result["dedup_hit"] for result in results].count(False) == 1
    assert {result["state"] for result in results} == {"asked"}
    assert (await close(tools, "key-2", approval=APPROVED))["code"] == "asked_before"
    assert (await close(tools, "key-1", "kwame.oseibonsu", approval=APPROVED))["code"] == "key_reused"
    tool = named(tools, "offboard_account")
    assert tool.reconcile is not None
    assert await tool.reconcile(idempotency_key="key-1") == await close(tools, "key-1", approval=APPROVED)
    assert await tool.reconcile(idempotency_key="key-2") is None
    assert await small.rows("SELECT account_id, reason, approval FROM crm.offboarding") == [
        {"account_id": ACCOUNT, "reason": "moves away", "approval": APPROVED}
    ]
    assert {one.idempotency_key: one.effects for one in await attempts(small_owner)} == {"key-1": 1, "key-2": 0}
    assert await duplicate_effects(small_owner) == [] == await breaches(small_owner)


@pytest.mark.parametrize(
    ("account_id", "code", "words"),
    [
        ("nobody", "not_found", "no account"),
        ("ilse.vanterpool", "in_the_way", "orders are on their way: #S11188, #S11225"),
        ("kwame.oseibonsu", "in_the_way", "subscriptions are not paid: SUB-1003"),
    ],
)
async def test_an_account_with_something_open_is_not_closed_whoever_approves(
    small: Database, account_id: str, code: str, words: str
) -> None:
    result = await close(desk_tools(small), "key-1", account_id, approval=APPROVED)
    assert result["code"] == code and words in result["error"]


async def test_an_account_that_was_put_back_can_be_asked_for_again(small: Database, small_owner: Database) -> None:
    await close(desk_tools(small), "key-1", approval=APPROVED)
    await small_owner.execute("UPDATE crm.offboarding SET state = 'undone'")
    assert (await close(desk_tools(small), "key-2", approval=APPROVED))["asked"] is True
