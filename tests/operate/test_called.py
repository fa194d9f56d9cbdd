"""Whoever names a run means the agents that it has called too: what they ask people, and what people did about it."""

from collections.abc import AsyncIterator

import pytest

from callboard import AgentSpec, InMemoryStore, Runtime, tool
from callboard.mailbox.errors import Conflict, NotFound
from callboard.persistence.store import Store
from callboard.service.operations.audit import AuditTrail
from callboard.service.operations.called import called_runs
from callboard.service.operations.decisions import Answer, Decisions
from callboard.service.operations.lookup import find_run
from callboard.service.operations.runs import Operations
from tests.agent.stage import asks, says, script

pytestmark = pytest.mark.anyio

POOL = "/agents/run"


@tool(effect="write", requires_approval="somebody has to look at it")
async def publish(page: str) -> str:
    """Publish a page."""
    return page


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """Of a run `book` that has called an editor, who has called two printers, and each of these waits for people."""
    printer = AgentSpec(
        "printer", "Prints.", tools=(publish,), llm=script(asks(("publish", {"page": "1"})), says("ok"))
    )
    both = asks(("printer", {"goal": "print it"}), ("printer", {"goal": "print it again"}))
    editor = AgentSpec("editor", "Edits.", agents=("printer",), llm=script(both, says("edited")))
    llm = script(asks(("editor", {"goal": "edit it"})), says("done"))
    memory = InMemoryStore()
    async with memory, Runtime(memory, llm, agents=[printer, editor]) as runtime:
        await runtime.start("Make a book.", run_id="book", requested_by="mara")
        yield memory


async def test_the_runs_that_a_run_has_called_are_found_at_any_depth(store: Store) -> None:
    found = await called_runs(store, f"{POOL}:book")
    assert found == [f"{POOL}:book.1", f"{POOL}:book.1.1", f"{POOL}:book.1.2"]
    assert await called_runs(store, f"{POOL}:book.1.2") == []


async def test_a_run_is_named_by_its_beginning_though_those_that_it_has_called_begin_alike(store: Store) -> None:
    assert await find_run(store, "bo") == f"{POOL}:book"
    assert await find_run(store, "book.1") == f"{POOL}:book.1"


async def test_what_an_agent_asks_is_found_and_decided_by_the_run_that_has_called_it(store: Store) -> None:
    decisions = Decisions(Operations(store, "dana"))
    with pytest.raises(Conflict, match=r"waits for 2 decisions; give its id: book\.1\.1\.1, book\.1\.2\.1"):
        await decisions.find("book")
    assert (await decisions.find("book.1.2")).id == "book.1.2.1"
    await decisions.decide("book.1.1.1", Answer("denied", note="not yet"))
    assert (await decisions.find("book")).id == "book.1.2.1"
    assert (await decisions.decide("book", Answer("approved"))).id == "book.1.2.1"
    with pytest.raises(NotFound, match="no gated call 7"):
        await decisions.find("book", call=7)


async def test_the_audit_of_a_run_has_what_people_did_about_its_agents(store: Store) -> None:
    operations = Operations(store, "dana")
    await Decisions(operations).decide("book.1.1.1", Answer("denied", note="not yet"))
    rows = await AuditTrail(operations).list(object="book", action="decide")
    assert [(row.who, row.object, row.note) for row in rows] == [("dana", "book.1.1.1", "not yet")]
