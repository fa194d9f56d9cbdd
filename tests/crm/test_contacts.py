"""Changing an account and handing out what is held about it: gated, once, and never by way of the model."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from callboard import NeedsApproval
from callboard.actors.agent.tool import Tool
from callboard.crm.ledger import attempts, breaches
from callboard.crm.tools import desk_tools
from callboard.persistence.postgres.database import Database

from .calls import APPROVED, named

pytestmark = pytest.mark.anyio

ACCOUNT = "noor.haddadi"


async def update(tools: Sequence[Tool], field: str, value: str, key: str, **more: Any) -> dict[str, Any]:
    given = {"account_id": ACCOUNT, "field": field, "value": value, "idempotency_key": key, **more}
    result: dict[str, Any] = await named(tools, "update_contact")(**given)
    return result


async def export(tools: Sequence[Tool], key: str, **more: Any) -> dict[str, Any]:
    given = {"account_id": ACCOUNT, "idempotency_key": key, **more}
    result: dict[str, Any] = await named(tools, "export_contacts")(**given)
    return result


async def test_g5_an_email_address_takes_approval_at_the_gate_and_behind_it_and_a_phone_number_none(
    small: Database, small_owner: Database
) -> None:
    tools = desk_tools(small)
    tool = named(tools, "update_contact")
    email = {"account_id": ACCOUNT, "field": "email", "value": "noor@example.net"}
    assert tool.gate(tool.validate(email)) is not None
    assert tool.gate(tool.validate({**email, "field": "phone", "value": "+44 113 555 0100"})) is None
    with pytest.raises(NeedsApproval, match=r"would become noor@example\.net"):
        await update(tools, "email", "noor@example.net", "key-1")
    assert (await named(tools, "get_account")(account_id=ACCOUNT))["email"] == "noor.haddadi@example.org"
    done = await update(tools, "email", "noor@example.net", "key-1", approval=APPROVED)
    assert (done["updated"], done["version"], done["dedup_hit"]) == (True, 2, False)
    assert (await update(tools, "phone", "+44 113 555 0100", "key-2"))["version"] == 3
    account = await named(tools, "get_account")(account_id=ACCOUNT)
    assert (account["email"], account["phone"]) == ("noor@example.net", "+44 113 555 0100")
    assert await small.rows("SELECT before, approval FROM crm.change ORDER BY change_id") == [
        {"before": {"email": "noor.haddadi@example.org"}, "approval": APPROVED},
        {"before": {"phone": ""}, "approval": None},
    ]
    assert await breaches(small_owner) == []


async def test_g4_one_key_updates_once_and_a_late_repetition_undoes_nothing(
    small: Database, small_owner: Database
) -> None:
    tools, results = desk_tools(small), list[dict[str, Any]]()

    async def call() -> None:
        results.append(await update(tools, "city", "York", "key-1"))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(call)
    assert [result["dedup_hit"] for result in results].count(False) == 1
    await update(tools, "city", "Hull", "key-2")
    tool = named(tools, "update_contact")
    assert tool.reconcile is not None
    assert await tool.reconcile(idempotency_key="key-1") == await update(tools, "city", "York", "key-1")
    assert await tool.reconcile(idempotency_key="key-3") is None
    assert (await named(tools, "get_account")(account_id=ACCOUNT))["city"] == "Hull"
    assert [one.effects for one in await attempts(small_owner)] == [1, 1]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("email", "no address", "bad_value"),
        ("email", "a@b", "bad_value"),
        ("email", "a@b.example\nBcc: all@example.org", "bad_value"),
        ("email", "Bram.Kessler@example.org", "taken"),
        ("email", "oona.dunleavy@example.org", "taken"),
        ("phone", "call me", "bad_value"),
        ("city", "", "bad_value"),
        ("city", "x" * 201, "bad_value"),
        ("line1", "a\x1b[2Jb", "bad_value"),
    ],
)
async def test_what_is_no_such_detail_is_refused(small: Database, field: str, value: str, code: str) -> None:
    assert (await update(desk_tools(small), field, value, "key-1", approval=APPROVED))["code"] == code
    assert await small.rows("SELECT * FROM crm.change") == []


async def test_a_closed_account_is_not_changed(small: Database, small_owner: Database) -> None:
    await small_owner.execute("UPDATE crm.account SET status = 'closed' WHERE account_id = %s", (ACCOUNT,))
    assert (await update(desk_tools(small), "city", "York", "key-1"))["code"] == "closed"


async def test_g5_an_export_always_asks_is_made_once_and_tells_the_model_only_how_much_it_was(
    small: Database, small_owner: Database
) -> None:
    tools = desk_tools(small)
    tool = named(tools, "export_contacts")
    assert tool.gate(tool.validate({"account_id": ACCOUNT})) is not None
    with pytest.raises(NeedsApproval, match="handed out"):
        await export(tools, "key-1")
    assert await small.rows("SELECT 1 FROM crm.contact_export") == []
    results: list[dict[str, Any]] = []

    async def call() -> None:
        results.append(await export(tools, "key-1", approval=APPROVED))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(call)
    assert [result.pop("dedup_hit") for result in results].count(False) == 1
    assert results[0] == {"exported": True, "export_id": 1, "account_id": ACCOUNT, "contacts": 1, "orders": 2}
    assert all(result == results[0] for result in results)
    assert tool.reconcile is not None
    assert await tool.reconcile(idempotency_key="key-1") == {**results[0], "dedup_hit": True}
    (kept,) = await small.rows("SELECT content, approval FROM crm.contact_export")
    assert kept["content"]["account"]["email"] == "noor.haddadi@example.org"
    assert [one["subscription_id"] for one in kept["content"]["subscriptions"]] == ["SUB-1001", "SUB-1002"]
    assert kept["approval"] == APPROVED
    assert (await named(tools, "export_contacts")(account_id="nobody", idempotency_key="key-2"))["code"] == "not_found"
    other = await named(tools, "export_contacts")(account_id="bram.kessler", idempotency_key="key-1", approval="d")
    assert other["code"] == "key_reused"
    assert await breaches(small_owner) == []
