"""The deterministic model decides every kind of ticket rightly, by the policy and the records alone."""

from collections.abc import Awaitable, Callable

import pytest

from callboard.actors.agent.transcript import EDITED
from callboard.actors.llm.client import ChatMessage, ToolCall
from callboard.crm.ledger import duplicate_effects, outcomes, refunds
from callboard.crm.model import DeskModel
from callboard.crm.phrasings import SCENARIOS
from callboard.crm.policy import policy_text
from callboard.crm.tickets import make_tickets
from callboard.crm.tools import desk_tools
from callboard.crm.transcript import Transcript
from callboard.persistence.postgres.database import Database
from tests.crm.desk_loop import Result, called, deny_all, work

pytestmark = pytest.mark.anyio


async def test_every_ticket_of_the_real_desk_is_decided_rightly(retail: Database, retail_owner: Database) -> None:
    cases = await make_tickets(retail_owner, 80, seed=7, above_limit=12)
    assert {case.scenario for case in cases} == set(SCENARIOS)
    model, tools, reasons = DeskModel(), desk_tools(retail), list[str]()

    def decide(reason: str) -> bool:
        reasons.append(reason)
        return True

    for case in cases:
        await work(model, tools, case.ticket_id, decide=decide)
    assert [outcome for outcome in await outcomes(retail_owner) if not outcome.right] == []
    assert len(reasons) == 12
    assert await duplicate_effects(retail_owner) == []


async def test_every_ticket_of_the_small_desk_is_decided_rightly(small: Database, small_owner: Database) -> None:
    cases = await make_tickets(small_owner, 12, seed=3)
    assert {case.scenario for case in cases} == set(SCENARIOS)
    for case in cases:
        await work(DeskModel(), desk_tools(small), case.ticket_id)
    assert [outcome for outcome in await outcomes(small_owner) if not outcome.right] == []


async def test_a_denied_refund_moves_no_money_and_the_customer_is_told(small: Database, small_owner: Database) -> None:
    (case,) = await make_tickets(small_owner, 1)
    messages = await work(DeskModel(), desk_tools(small), case.ticket_id, decide=deny_all)
    assert await refunds(small_owner) == []
    assert called(messages).count("issue_refund") == 1
    (outcome,) = await outcomes(small_owner, denied=[case.ticket_id])
    assert outcome.right
    (mail,) = await small.rows("SELECT body FROM crm.outbox")
    assert "did not approve" in mail["body"]


async def test_a_held_refund_has_a_note_beside_it(small: Database, small_owner: Database) -> None:
    (case,) = await make_tickets(small_owner, 1)
    messages = await work(DeskModel(), desk_tools(small), case.ticket_id)
    (siblings,) = [message for message in messages if "issue_refund" in called([message])]
    assert called([siblings]) == ["issue_refund", "add_note"]
    notes = await small.rows("SELECT body FROM crm.activity WHERE kind = 'note'")
    assert len(notes) == 1
    assert "Asking for approval" in notes[0]["body"]


async def test_a_stranger_learns_nothing_and_gets_nothing(retail: Database, retail_owner: Database) -> None:
    cases = [case for case in await make_tickets(retail_owner, 40) if case.scenario == "foreign_order"]
    assert cases
    for case in cases:
        messages = await work(DeskModel(), desk_tools(retail), case.ticket_id)
        assert {"issue_refund", "cancel_order"}.isdisjoint(called(messages))
    mails = await retail.rows("SELECT body FROM crm.outbox")
    assert {mail["body"] for mail in mails} == {mails[0]["body"]}
    assert "do not match" in mails[0]["body"]


async def test_the_limits_come_from_the_prompt(small: Database, small_owner: Database) -> None:
    (case,) = await make_tickets(small_owner, 1)
    strict = policy_text().replace("2,500.00 USD", "100.00 USD")
    messages = await work(DeskModel(), desk_tools(small), case.ticket_id, system_prompt=strict)
    assert "issue_refund" not in called(messages)
    assert messages[-1].content.startswith(f"Ticket {case.ticket_id} is escalated.")


async def test_the_same_conversation_gets_the_same_answer(small: Database, small_owner: Database) -> None:
    (case,) = await make_tickets(small_owner, 1)
    tools = desk_tools(small)
    messages = await work(DeskModel(), tools, case.ticket_id)
    for position, message in enumerate(messages):
        if message.role == "assistant":
            again = await DeskModel().call(messages[:position], [tool.spec() for tool in tools], policy_text())
            assert (again.content, again.tool_calls) == (message.content, message.tool_calls)


async def test_reads_that_fail_are_tried_twice_then_a_colleague_takes_over(
    small: Database, small_owner: Database
) -> None:
    (case,) = await make_tickets(small_owner, 1)

    async def broken_lookup(call: ToolCall, run: Callable[[], Awaitable[Result]]) -> Result:
        return {"error": "timed out after 30 s"} if call.name == "get_order" else await run()

    messages = await work(DeskModel(), desk_tools(small), case.ticket_id, around=broken_lookup)
    assert called(messages).count("get_order") == 2
    assert called(messages).count("find_contact") == 1
    assert "is escalated" in messages[-1].content


async def test_money_that_failed_is_never_tried_again_by_the_model(small: Database, small_owner: Database) -> None:
    (case,) = await make_tickets(small_owner, 1)

    async def in_doubt(call: ToolCall, run: Callable[[], Awaitable[Result]]) -> Result:
        return {"error": "the outcome is unknown"} if call.name == "issue_refund" else await run()

    messages = await work(DeskModel(), desk_tools(small), case.ticket_id, around=in_doubt)
    assert called(messages).count("issue_refund") == 1
    assert "is escalated" in messages[-1].content


async def test_without_money_tools_the_desk_hands_over(small: Database, small_owner: Database) -> None:
    (case,) = await make_tickets(small_owner, 1)
    tools = [tool for tool in desk_tools(small) if tool.name not in {"issue_refund", "cancel_order"}]
    messages = await work(DeskModel(), tools, case.ticket_id)
    assert "is escalated" in messages[-1].content


async def test_a_goal_without_a_ticket_is_answered_with_the_way_out() -> None:
    response = await DeskModel().call([ChatMessage("user", "Hello")], [], policy_text())
    assert "Work ticket" in response.content
    assert response.cost_usd == 0
    assert response.input_tokens > 0


async def test_an_unknown_ticket_ends_the_run_with_a_sentence(small: Database) -> None:
    messages = await work(DeskModel(), desk_tools(small), "T-9999")
    assert called(messages) == ["read_ticket"]
    assert "there is no ticket" in messages[-1].content


def test_a_result_is_read_as_one_where_a_person_changed_the_call() -> None:
    call = ToolCall("c1", "issue_refund", {"amount_cents": 47_164})
    told = f'{EDITED} {{"amount_cents":15000}}\n{{"refunded":true,"amount":"150.00 USD"}}'
    messages = [
        ChatMessage("user", "Work ticket T-0001."),
        ChatMessage("assistant", "", (call,)),
        ChatMessage("tool", told, tool_call_id="c1"),
    ]
    made = Transcript(messages).last("issue_refund")
    assert made is not None and made.error is None
    assert made.result["amount"] == "150.00 USD"
