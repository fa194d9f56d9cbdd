"""The desk's tools in a run: what one asks for is held as by a gate, and its row names the decision."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from callboard import FunctionLLM, InMemoryStore, Runtime, Tool
from callboard.actors.agent.approval_events import ApprovalChecked
from callboard.actors.agent.events import ApprovalRequested
from callboard.crm.ledger import breaches, duplicate_effects, refunds
from callboard.crm.tools import desk_tools
from callboard.persistence.postgres.database import Database
from tests.agent.stage import asks, says

from .calls import delivered, strict

pytestmark = pytest.mark.anyio


def runtime(tools: Sequence[Tool], *calls: tuple[str, dict[str, Any]]) -> Runtime:
    """A run asks for these calls in one turn, and ends."""
    answers = [asks(*calls), says("done")]
    model = FunctionLLM(lambda messages, *_: answers[sum(message.role == "assistant" for message in messages)])
    return Runtime(InMemoryStore(), model, tools)


async def questions(running: Runtime, run: str) -> list[ApprovalRequested]:
    events = [recorded.event for recorded in await running.events(run)]
    return [event for event in events if isinstance(event, ApprovalRequested)]


@asynccontextmanager
async def served(running: Runtime) -> AsyncIterator[None]:
    """A node works all the time, as at a desk: checks are run while people think."""
    async with anyio.create_task_group() as group:
        group.start_soon(running.serve)
        yield
        group.cancel_scope.cancel()


async def checked(running: Runtime, run: str) -> None:
    """Until whoever decides can see what the checks have found."""
    with anyio.fail_after(60):
        while not any(isinstance(one.event, ApprovalChecked) for one in await running.events(run)):
            await anyio.lowlevel.checkpoint()


async def test_g5_of_siblings_that_pass_the_cap_together_one_is_held_and_the_row_names_who_let_it_go(
    small: Database, small_owner: Database
) -> None:
    policy = strict(cap="150.00 USD")
    calls = [
        ("issue_refund", {"order_id": one["order_id"], "amount_cents": 8_000, "payment_method_id": one["method"]})
        for one in (await delivered(small, "marek.dunleavy"))[:2]
    ]
    with_reason = [(name, {**arguments, "reason": "it broke"}) for name, arguments in calls]
    async with runtime(desk_tools(small, policy=policy), *with_reason) as running, served(running):
        run = await running.start("refund both")
        assert run.state.status == "awaiting_approval"
        assert [made.amount_cents for made in await refunds(small_owner)] == [8_000]
        (asked,) = await questions(running, run.id)
        assert "160.00 USD within 30 days, above 150.00 USD" in asked.reason
        assert asked.needed == 1
        await checked(running, run.id)
        await running.approve(run.id, "ada", call=asked.call)
        state = await running.resume(run.id)
        assert state.status == "completed", state.failure_detail
    rows = await small.rows("SELECT approval FROM crm.payment WHERE cause = 'refund' ORDER BY payment_id")
    assert [row["approval"] for row in rows] == [None, asked.decision]
    assert await breaches(small_owner, policy=policy) == [] == await duplicate_effects(small_owner)


async def test_g5_closing_an_account_waits_for_the_second_person(small: Database, small_owner: Database) -> None:
    closing = ("offboard_account", {"account_id": "noor.haddadi", "reason": "moves away"})
    async with runtime(desk_tools(small), closing) as running:
        run = await running.start("close it")
        (asked,) = await questions(running, run.id)
        assert (asked.needed, asked.risk) == (2, "high")
        await running.approve(run.id, "ada")
        assert await small.rows("SELECT 1 FROM crm.offboarding") == []
        await running.approve(run.id, "grace")
        state = await running.resume(run.id)
        assert state.status == "completed", state.failure_detail
    assert await small.rows("SELECT account_id, approval FROM crm.offboarding") == [
        {"account_id": "noor.haddadi", "approval": asked.decision}
    ]
    assert await breaches(small_owner) == []


async def test_a_denied_question_of_a_tool_leaves_nothing(small: Database, small_owner: Database) -> None:
    cancel = ("change_subscription", {"subscription_id": "SUB-1001", "change": "cancel"})
    async with runtime(desk_tools(small), cancel) as running:
        run = await running.start("cancel it")
        (asked,) = await questions(running, run.id)
        assert "loses 20 days" in asked.reason
        await running.deny(run.id, "ada", "not today")
        state = await running.resume(run.id)
        assert state.status == "completed", state.failure_detail
    assert await small.rows("SELECT 1 FROM crm.change") == []


def test_every_tool_that_changes_something_takes_a_key_and_can_be_asked_what_it_did() -> None:
    for tool in desk_tools(None):  # type: ignore[arg-type]  # nothing is called
        assert tool.takes_key is tool.side_effect
        hidden = {"idempotency_key", "approval", "recipient"}
        assert hidden.isdisjoint(tool.parameters["properties"])
        assert (tool.reconcile is not None) is tool.side_effect
        if tool.effect == "money" or tool.name in ("export_contacts", "change_subscription"):
            assert tool.takes_approval and tool.checks and tool.on_doubt == "reconcile", tool.name
