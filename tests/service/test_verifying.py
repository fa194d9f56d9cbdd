"""Proving a run that is at work meanwhile: its row and its journal are read one after the other."""

from copy import deepcopy

import pytest

from callboard import FunctionLLM, InMemoryStore, LLMResponse, Runtime, ToolCall, tool
from callboard.persistence.rows import ActorRow

pytestmark = pytest.mark.anyio


@tool(requires_approval=True)
async def close_ticket(ticket: int) -> str:
    """Close a ticket."""
    return f"closed {ticket}"


@pytest.mark.parametrize("was_at_work", [True, False])
async def test_what_a_run_records_between_the_two_looks_is_no_fault_and_what_no_row_counts_is_one(
    *, was_at_work: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([LLMResponse("", (ToolCall("c", "close_ticket", {"ticket": 5}),)), LLMResponse("done")])
    store = InMemoryStore()
    runtime = Runtime(store, FunctionLLM(lambda *_: next(answers)), [close_ticket])
    run = await runtime.start("Close it.")
    before = deepcopy(await store.actor(f"/agents/run:{run.id}"))
    assert before is not None
    await runtime.approve(run.id, "dana")
    assert (await runtime.resume(run.id)).status == "completed"
    after = await store.actor(f"/agents/run:{run.id}")
    assert after is not None and after.events > before.events
    looks = iter([before, after if was_at_work else before])

    async def row(_: str) -> ActorRow:
        return next(looks)

    monkeypatch.setattr(store, "actor", row)
    found = await runtime.verify(run.id)
    assert found.ok is was_at_work
    assert found.events == (before.events if was_at_work else after.events)
