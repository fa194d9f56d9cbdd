"""Notes, statuses and mail: once per key, and only to the writer of the ticket."""

from typing import Any

import anyio
import pytest

from callboard.crm.casework import Casework
from callboard.crm.records import Records
from callboard.crm.tickets import make_tickets
from callboard.crm.tools import desk_tools
from callboard.persistence.postgres.database import Database

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ticket_id(small_owner: Database) -> str:
    (case,) = await make_tickets(small_owner, 1, above_limit=0)
    return case.ticket_id


async def test_g4_the_same_reply_is_queued_once_and_goes_to_the_writer(small: Database, ticket_id: str) -> None:
    casework, results = Casework(small), list[dict[str, Any]]()

    async def call() -> None:
        results.append(await casework.reply_to_customer(ticket_id, "Hello!", "key-1"))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(call)
    assert [result["dedup_hit"] for result in results].count(False) == 1
    mails = await small.rows("SELECT recipient = from_email AS same FROM crm.outbox JOIN crm.ticket USING (ticket_id)")
    assert mails == [{"same": True}]
    read = await Records(small).read_ticket(ticket_id)
    assert [message["author"] for message in read["messages"]] == ["customer", "desk"]


async def test_a_late_repetition_does_not_undo_a_later_status(small: Database, ticket_id: str) -> None:
    casework = Casework(small)
    await casework.set_ticket(ticket_id, "waiting", "Asked back.", "key-1")
    await casework.set_ticket(ticket_id, "resolved", "Answered.", "key-2")
    assert (await casework.set_ticket(ticket_id, "waiting", "Asked back.", "key-1"))["dedup_hit"] is True
    assert (await Records(small).read_ticket(ticket_id))["status"] == "resolved"


async def test_what_a_key_has_done_can_be_asked_and_is_what_repeating_it_answers(
    small: Database, ticket_id: str
) -> None:
    tools = {tool.name: tool for tool in desk_tools(small)}
    for name, more in (
        ("add_note", {"text": "Looked."}),
        ("set_ticket", {"status": "waiting", "resolution": "Asked: which one?"}),
        ("reply_to_customer", {"text": "Hello!"}),
    ):
        tool = tools[name]
        assert tool.reconcile is not None and tool.on_doubt == "retry"
        assert await tool.reconcile(idempotency_key=name) is None
        first = await tool(ticket_id=ticket_id, **more, idempotency_key=name)
        found = await tool.reconcile(idempotency_key=name)
        assert found == {**first, "dedup_hit": True} == await tool(ticket_id=ticket_id, **more, idempotency_key=name)


@pytest.mark.parametrize("text", ["", "  ", "x" * 4_001, "a\x00b"], ids=["empty", "blank", "long", "nul"])
async def test_texts_that_cannot_be_kept_are_refused_with_a_sentence(
    small: Database, ticket_id: str, text: str
) -> None:
    casework = Casework(small)
    for result in (
        await casework.add_note(ticket_id, text, "key-1"),
        await casework.set_ticket(ticket_id, "open", text, "key-2"),
        await casework.reply_to_customer(ticket_id, text, "key-3"),
    ):
        assert result["code"] == "bad_text"


async def test_an_unknown_ticket_is_an_answer_not_an_exception(small: Database) -> None:
    casework = Casework(small)
    assert (await casework.add_note("T-9999", "x", "key-1"))["code"] == "not_found"
    assert (await casework.set_ticket("T-9999", "open", "x", "key-2"))["code"] == "not_found"
    assert (await casework.reply_to_customer("T-9999", "x", "key-3"))["code"] == "not_found"


async def test_models_see_no_key_and_no_recipient(small: Database) -> None:
    for tool in desk_tools(small):
        assert tool.takes_key is tool.side_effect
        assert {"idempotency_key", "recipient"}.isdisjoint(tool.parameters["properties"])
        assert tool.description


async def test_the_articles_are_the_policys_sections(small: Database) -> None:
    found = await Records(small).search_kb("damaged refund approval")
    assert "damaged-items" in [article["slug"] for article in found["articles"]]
    assert await Records(small).search_kb("zebra & |") == {"articles": []}


async def test_unknown_records_are_answers(small: Database) -> None:
    records = Records(small)
    for answer in (
        await records.find_contact("nobody@example.org"),
        await records.get_account("nobody"),
        await records.get_order("#S99999"),
        await records.get_product("nothing"),
        await records.read_ticket("T-9999"),
    ):
        assert answer["code"] == "not_found"
    product = await records.get_product("P001")
    assert product["name"] == "Enamel Kettle"
    assert len(product["variants"]) == 6
