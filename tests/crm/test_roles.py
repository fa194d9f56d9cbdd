"""Who at the desk may do what; that a request proves nothing; and that each wish of a customer is seen to."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from callboard import InMemoryStore, Node, NodeSettings
from callboard.actors.agent.agents import agent_tool, check_agents, specs_for
from callboard.actors.agent.arguments import InvalidArguments
from callboard.actors.agent.events import ToolCallFailed
from callboard.actors.agent.messages import StartRun
from callboard.actors.agent.rules import Rules
from callboard.actors.agent.runs import Runs
from callboard.actors.client import Client
from callboard.actors.spec import Tree
from callboard.crm.app import AGENTS, app, desk_tree
from callboard.crm.ledger import attempts, breaches, duplicate_effects, outcomes, refunds
from callboard.crm.phrasings import RARITIES
from callboard.crm.roles import ROLES, TOOLS_OF, agents_of, prompt_of, role_of, tools_of
from callboard.crm.tickets import TicketCase, make_tickets
from callboard.crm.tools import Toolset, desk_tools
from callboard.persistence.port import RealPort
from callboard.persistence.postgres.database import Database
from tests.agent.stage import asks, says
from tests.crm.desk_at_work import Playing, answered, asked_in, at_work, pending, work

pytestmark = pytest.mark.anyio


@pytest.fixture
def tools(small: Database) -> Toolset:
    """The tools that the desk really has."""
    return desk_tools(small)


def effects(names: Sequence[str], tools: Toolset) -> set[str]:
    return {tool.effect for tool in tools if tool.name in names}


# --- who holds what ----------------------------------------------------------------------------------------------


async def test_only_billing_holds_a_tool_that_moves_money(tools: Toolset) -> None:
    money = {tool.name for tool in tools if tool.effect == "money"}
    assert {"issue_refund", "cancel_order", "exchange_items", "offboard_account"} <= money
    agents = agents_of(tools)
    held = {role: {tool.name for tool in agents[role].tools} for role in agents}
    held["support"] = {tool.name for tool in tools_of("support", tools)}
    assert money <= held["billing"]
    assert [role for role in ROLES if held[role] & money] == ["billing"]


async def test_triage_and_knowledge_only_read_and_only_support_writes_to_customers(tools: Toolset) -> None:
    assert effects(TOOLS_OF["triage"], tools) == effects(TOOLS_OF["knowledge"], tools) == {"read"}
    assert effects(TOOLS_OF["retention"], tools) == {"read", "write"}
    assert [role for role in ROLES if "reply_to_customer" in TOOLS_OF[role]] == ["support"]


async def test_whoever_moves_something_never_reads_what_customers_write(tools: Toolset) -> None:
    movers = [role for role in ROLES if {"issue_refund", "change_subscription"} & set(TOOLS_OF[role])]
    assert movers == ["billing", "retention"]
    for role in movers:
        assert "read_ticket" not in TOOLS_OF[role]


async def test_every_tool_of_the_desk_has_somebody_who_holds_it_and_nobody_holds_what_there_is_not(
    tools: Toolset,
) -> None:
    assert {tool.name for tool in tools} == {name for names in TOOLS_OF.values() for name in names}


async def test_a_model_is_told_of_its_own_tools_and_of_the_fields_of_requests(tools: Toolset) -> None:
    rules = Rules(agents=check_agents(agents_of(tools).values(), {}))
    own = tuple(tool.spec() for tool in tools_of("support", tools))
    seen = {spec.name: spec for spec in specs_for("", own, rules)}
    assert set(seen) == {*TOOLS_OF["support"], "triage", "billing", "retention", "knowledge"}
    fields = seen["billing"].parameters["properties"]
    assert set(fields) == {"ticket_id", "wish", "order_id", "positions", "new_variant_ids"}
    assert {spec.name for spec in specs_for("knowledge", own, rules)} == {"search_kb"}


def test_a_prompt_is_the_policy_and_says_whose_it_is() -> None:
    for role in ROLES:
        assert role_of(prompt_of(role)) == role
        assert "Refund limit without approval" in prompt_of(role)
    assert role_of("A page that names no role") == "support"


async def test_a_request_has_no_place_for_sums_and_is_checked_before_anybody_is_asked(tools: Toolset) -> None:
    billing = agent_tool(agents_of(tools)["billing"])
    with pytest.raises(InvalidArguments, match="amount_cents"):
        billing.validate({"ticket_id": "T-0001", "wish": "refund_damaged", "amount_cents": 100_000})
    with pytest.raises(InvalidArguments, match="wish"):
        billing.validate({"ticket_id": "T-0001", "wish": "give_me_everything"})


# --- what an agent cannot do -------------------------------------------------------------------------------------


async def test_support_cannot_call_a_money_tool_even_if_its_model_asks(small: Database, small_owner: Database) -> None:
    [case] = await make_tickets(small_owner, 1, above_limit=0)
    refund = {"order_id": case.order_id, "amount_cents": 100, "payment_method_id": "card-04", "reason": "because"}
    answers = [asks(("issue_refund", refund), ("cancel_order", {"order_id": case.order_id})), says("done")]
    async with at_work(small, llm=Playing("support", answers)) as runs:
        assert (await work(runs, case.ticket_id)).status == "completed"
        events = [recorded.event for recorded in await runs.events(case.ticket_id)]
    failed = [event.error for event in events if isinstance(event, ToolCallFailed)]
    assert len(failed) == 2 and all("unknown tool" in error for error in failed)
    assert await attempts(small_owner) == []


@pytest.mark.parametrize("role", ["triage", "knowledge"])
async def test_a_reading_agent_cannot_act_even_if_its_model_asks(
    role: Any, small: Database, small_owner: Database
) -> None:
    [case] = await make_tickets(small_owner, 1, above_limit=0)
    asked = {"ticket_id": case.ticket_id} if role == "triage" else {"question": "How long?"}
    note = asks(("add_note", {"ticket_id": case.ticket_id, "text": "x"}), ("cancel_order", {"order_id": case.order_id}))
    support = Playing("support", [asks((role, asked)), says("done")], Playing(role, [note, says("{}")]))
    async with at_work(small, llm=support) as runs:
        await work(runs, case.ticket_id)
        events = [recorded.event for recorded in await runs.events(f"{case.ticket_id}.1")]
    assert [event.tool for event in events if isinstance(event, ToolCallFailed)] == ["add_note", "cancel_order"]
    assert await small.rows("SELECT 1 FROM crm.activity") == [] and await attempts(small_owner) == []


async def test_a_request_about_an_order_of_somebody_else_moves_nothing(small: Database, small_owner: Database) -> None:
    mine, victim = await make_tickets(small_owner, 2, above_limit=0)
    assert victim.scenario == "cancel_pending"
    asked = {"ticket_id": mine.ticket_id, "wish": "cancel_order", "order_id": victim.order_id}
    state, answer = await _billing_says(small, mine, asked)
    assert state == "completed" and '"status":"rejected"' in answer
    assert await attempts(small_owner) == []


async def test_a_request_about_the_ticket_of_somebody_else_waits_for_a_person(
    small: Database, small_owner: Database
) -> None:
    mine, victim = await make_tickets(small_owner, 2, above_limit=0)
    read = ("read_ticket", {"ticket_id": victim.ticket_id}), ("get_order", {"order_id": victim.order_id})
    asked = {"ticket_id": victim.ticket_id, "wish": "cancel_order", "order_id": victim.order_id}
    model = Playing("support", [asks(*read), asks(("billing", asked)), says("done")])
    async with at_work(small, llm=model) as runs:
        assert (await work(runs, mine.ticket_id)).status == "awaiting_approval"
        [question] = await pending(runs)
    assert question.tool == "billing" and "was not begun for" in question.reason
    assert await attempts(small_owner) == []


async def test_an_untrue_request_gets_what_the_records_allow_and_no_more(
    small: Database, small_owner: Database
) -> None:
    [case] = await make_tickets(small_owner, 1, above_limit=0)
    rows = await small_owner.rows("SELECT position FROM crm.order_item WHERE order_id = %s", (case.order_id,))
    every = {"positions": [row["position"] for row in rows] + [77]}
    asked = {"ticket_id": case.ticket_id, "wish": "refund_damaged", "order_id": case.order_id, **every}
    look = ("get_order", {"order_id": case.order_id})
    state, answer = await _billing_says(small, case, asked, look)
    assert state == "completed" and '"status":"waiting"' in answer  # several items: which one?
    too_late = {"ticket_id": case.ticket_id, "wish": "cancel_order", "order_id": case.order_id}
    state, answer = await _billing_says(small, case, too_late, look)
    assert state == "completed" and '"status":"rejected"' in answer
    assert await attempts(small_owner) == []


async def _billing_says(
    small: Database, case: TicketCase, asked: dict[str, Any], *look: tuple[str, dict[str, Any]]
) -> tuple[str, str]:
    """How support's run ended whose model sends this request, and what billing answered."""
    order = ("get_order", {"order_id": asked["order_id"]})
    model = Playing("support", [asks(*(look or (order,))), asks(("billing", asked)), says("done")])
    async with at_work(small, llm=model) as runs:
        state = await work(runs, case.ticket_id)
        if state.status != "completed":
            state = await answered(runs, case.ticket_id)
        child = await runs.state(f"{case.ticket_id}.2")
    return state.status, child.final_answer or ""


# --- what customers want -----------------------------------------------------------------------------------------


async def test_every_wish_is_seen_to_and_only_what_the_policy_says_asks_a_person(
    small: Database, small_owner: Database
) -> None:
    cases = await make_tickets(small_owner, 0, above_limit=0, rarities=("close_account", *RARITIES[:1], *RARITIES[2:]))
    async with at_work(small) as runs:
        for case in cases:
            await work(runs, case.ticket_id)
            state = await answered(runs, case.ticket_id)
            assert state.status == "completed", (case.scenario, state.failure_detail)
        asked = await asked_in(runs)
    assert {case.scenario for case in cases} == set(RARITIES)
    assert [outcome for outcome in await outcomes(small_owner) if not outcome.right] == []
    assert sorted(tool for tool, _ in asked) == ["offboard_account", "update_contact"], asked
    assert await duplicate_effects(small_owner) == [] and await breaches(small_owner) == []
    closing, swapped, changed, paused = await _traces(small_owner)
    assert closing == swapped == changed == paused == 1


async def _traces(owner: Database) -> list[int]:
    counts = (
        "SELECT count(*) AS n FROM crm.offboarding",
        "SELECT count(*) AS n FROM crm.exchanged_item",
        "SELECT count(*) AS n FROM crm.account WHERE email LIKE '%%@example.net'",
        "SELECT count(*) AS n FROM crm.subscription WHERE status = 'paused' AND subscription_id <> 'SUB-1002'",
    )
    return [row["n"] for sql in counts for row in await owner.rows(sql)]


async def test_a_question_is_answered_from_the_articles_and_never_taken_for_an_order(
    small: Database, small_owner: Database
) -> None:
    [case] = await make_tickets(small_owner, 0, above_limit=0, rarities=["question"])
    words = "Good morning! What happens to the paid days when a subscription is cancelled?"
    await small_owner.execute("UPDATE crm.message SET body = %s", (words,))
    async with at_work(small) as runs:
        assert (await work(runs, case.ticket_id)).status == "completed"
    [mail] = await small.rows("SELECT body FROM crm.outbox")
    assert "paid days are lost" in mail["body"]
    assert await small_owner.rows("SELECT 1 FROM crm.change") == []


async def test_an_approval_waits_in_the_child_while_support_waits_for_it(
    small: Database, small_owner: Database
) -> None:
    [case] = await make_tickets(small_owner, 1)
    async with at_work(small) as runs:
        state = await work(runs, case.ticket_id)
        [question] = await pending(runs)
        rows = dict(await runs.list(limit=10))
        billing = next(run_id for run_id in rows if run_id != case.ticket_id)
        assert state.status == "running" and rows[case.ticket_id]["waits_for"] == f"billing: run {billing}"
        assert question.run == runs.address(billing) and rows[billing]["status"] == "awaiting_approval"
        assert await small.rows("SELECT 1 FROM crm.outbox") == []  # the customer hears when it is decided
        assert len(await small.rows("SELECT 1 FROM crm.activity WHERE kind = 'note'")) == 1  # colleagues at once
        assert (await answered(runs, case.ticket_id)).status == "completed"
    assert [outcome.right for outcome in await outcomes(small_owner)] == [True]
    assert await breaches(small_owner) == []


async def test_a_refusal_reaches_the_customer_and_asks_nobody_again(small: Database, small_owner: Database) -> None:
    [case] = await make_tickets(small_owner, 1)
    async with at_work(small) as runs:
        await work(runs, case.ticket_id)
        # What people write is not the model's to repeat: a number of it would have to come from somewhere.
        state = await answered(runs, case.ticket_id, denied="a copy of case 5531, see https://wiki.example/5531")
        assert state.status == "completed" and len(await asked_in(runs)) == 1
    assert await refunds(small_owner) == []
    [outcome] = await outcomes(small_owner, denied=[case.ticket_id])
    assert outcome.right


async def test_a_node_that_dies_within_a_childs_refund_leaves_one_refund(
    small: Database, small_owner: Database
) -> None:
    [case] = await make_tickets(small_owner, 1, above_limit=0)
    store, port = InMemoryStore(), RealPort()
    runs = Runs(Client(store, port), AGENTS)
    async with store:
        async with anyio.create_task_group() as first:

            async def die(key: str) -> None:
                first.cancel_scope.cancel()
                await anyio.sleep_forever()

            node = Node(store, Tree(desk_tree(small, "n1", die)), port, NodeSettings(lease_seconds=1.0))
            first.start_soon(node.run)
            await node.ready.wait()
            start = StartRun(f"Work ticket {case.ticket_id}.", system_prompt=app.system_prompt)
            await runs.create(start, case.ticket_id)
            await anyio.sleep_forever()
        assert len(await refunds(small_owner)) == 1
        async with anyio.create_task_group() as second:
            node = Node(store, Tree(desk_tree(small, "n2")), port, NodeSettings(lease_seconds=1.0))
            second.start_soon(node.run)
            assert (await runs.rest(case.ticket_id, seconds=60)).status == "completed"
            node.stop()
    [refund] = await refunds(small_owner)
    assert refund.ticket_id == case.ticket_id
    assert await duplicate_effects(small_owner) == []
    assert [outcome.right for outcome in await outcomes(small_owner)] == [True]


def test_the_guide_shows_the_roles_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "DESK.md").read_text(encoding="utf-8")
    shown = {
        cells[1].strip(): tuple(re.findall(r"`(\w+)`", cells[2]))
        for cells in (line.split("|") for line in page.splitlines() if line.startswith("| "))
        if cells[1].strip() in ROLES
    }
    assert shown == TOOLS_OF
