"""Runs that end without an answer leave their tickets to a person: once, with what was done, whatever dies."""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest

from callboard import FunctionLLM, LLMResponse
from callboard.actors.actor import Worker, on
from callboard.actors.agent.budget import Budget
from callboard.actors.agent.messages import StartRun
from callboard.actors.agent.model_worker import ModelWorker
from callboard.actors.agent.run import Parts, Run
from callboard.actors.agent.runs import Runs
from callboard.actors.agent.tool import tool
from callboard.actors.agent.tool_worker import ToolWorker, toolbox
from callboard.actors.approval import Approvals
from callboard.actors.context import WorkerContext
from callboard.actors.spec import Child, Supervisor
from callboard.actors.testing import TestKit
from callboard.crm.app import AGENTS
from callboard.crm.casework import Casework
from callboard.crm.roles import prompt_of
from callboard.crm.tickets import make_tickets
from callboard.crm.unfinished import ADDRESS as UNFINISHED
from callboard.crm.unfinished import AGAIN_SECONDS, HandedOver, HandOver, Unfinished, UnfinishedState
from callboard.mailbox.message import Message
from callboard.persistence.memory.invariants import violations
from callboard.persistence.postgres.database import Database
from tests.agent.stage import asks

from .desk_at_work import at_work
from .dying import Death

pytestmark = pytest.mark.anyio

# --- over the desk's tables -------------------------------------------------------------------------------------------


async def begin(runs: Runs, ticket: str, **limits: Any) -> None:
    start = StartRun(f"Work ticket {ticket}.", Budget(**limits), system_prompt=prompt_of("support"))
    await runs.create(start, ticket)


async def handed_over(owner: Database, ticket: str) -> dict[str, Any]:
    with anyio.fail_after(60):
        while True:
            [row] = await owner.rows("SELECT * FROM crm.ticket WHERE ticket_id = %s", (ticket,))
            if row["handed_over"]:
                return row
            await anyio.sleep(0.02)


async def notes(owner: Database, ticket: str) -> list[str]:
    sql = "SELECT body FROM crm.activity WHERE ticket_id = %s AND idempotency_key LIKE 'unfinished %%'"
    return [row["body"] for row in await owner.rows(sql, (ticket,))]


@pytest.fixture
async def ticket(small_owner: Database) -> str:
    [case] = await make_tickets(small_owner, 1, above_limit=0)
    return case.ticket_id


async def test_a_run_whose_budget_ends_leaves_its_ticket_to_a_person_with_what_its_agents_did(
    small: Database, small_owner: Database, ticket: str
) -> None:
    async with at_work(small) as runs:
        await begin(runs, ticket, max_iterations=7)
        row = await handed_over(small_owner, ticket)
    assert row["status"] == "escalated" and "7 of 7 iterations" in row["resolution"]
    [note] = await notes(small_owner, ticket)
    assert "billing: done: issue_refund(" in note
    assert "get_order" not in note, "what only reads changed nothing"
    assert (await Casework(small).set_ticket(ticket, "resolved", "Done.", "k"))["code"] == "handed_over"


async def test_a_run_that_somebody_cancels_leaves_its_ticket_to_a_person(
    small: Database, small_owner: Database, ticket: str
) -> None:
    asked, never = anyio.Event(), anyio.Event()

    async def hang(*_: Any) -> LLMResponse:
        asked.set()
        await never.wait()
        raise AssertionError

    async with at_work(small, llm=FunctionLLM(hang)) as runs:
        await begin(runs, ticket)
        await asked.wait()
        await runs.client.cancel(runs.address(ticket), by="dana", reason="a duplicate")
        row = await handed_over(small_owner, ticket)
    assert "cancelled" in row["resolution"] and "a duplicate" in row["resolution"]
    assert "changed nothing" in (await notes(small_owner, ticket))[0]


async def test_a_run_that_had_set_its_ticket_before_its_budget_ended_leaves_it_so(
    small: Database, small_owner: Database, ticket: str
) -> None:
    async with at_work(small) as runs:
        await begin(runs, ticket, max_iterations=8)
        assert (await runs.rest(ticket, seconds=60)).status == "failed"
        with anyio.fail_after(60):
            while await handed(runs) is None:  # noqa: ASYNC110 - rows raise no event here
                await anyio.sleep(0.02)
    [row] = await small_owner.rows("SELECT status, handed_over FROM crm.ticket WHERE ticket_id = %s", (ticket,))
    assert row == {"status": "resolved", "handed_over": ""}
    assert await notes(small_owner, ticket) == []


async def handed(runs: Runs) -> UnfinishedState | None:
    """The actor's state, once nothing is open."""
    row = await runs.store.actor(UNFINISHED)
    state = msgspec.msgpack.decode(row.state, type=UnfinishedState) if row is not None and row.state else None
    return state if state is not None and not state.open else None


async def test_a_run_that_ends_well_leaves_its_ticket_as_it_set_it(
    small: Database, small_owner: Database, ticket: str
) -> None:
    async with at_work(small) as runs:
        await begin(runs, ticket)
        assert (await runs.rest(ticket, seconds=60)).status == "completed"
        assert await runs.store.actor(UNFINISHED) is None, "nobody told it anything"
    assert await notes(small_owner, ticket) == []


# --- by hand-driven time ----------------------------------------------------------------------------------------------


class Caretakers(Worker, kind="test.caretaker"):
    """Notes whose tickets it was to hand over, and gives up as often as it is told to."""

    def __init__(self, handed: list[str], fails: list[int]) -> None:
        self.handed = handed
        self.fails = fails

    @on
    async def hand_over(self, message: HandOver, ctx: WorkerContext) -> Message:
        if self.fails[0] > 0:
            self.fails[0] -= 1
            raise ConnectionError("no route")
        if message.run.run not in self.handed:
            self.handed.append(message.run.run)
        return HandedOver(message.run.run, "T-1")

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        return HandedOver(message.run.run, "", ok=False) if isinstance(message, HandOver) else None


def tree(handed: list[str], fails: list[int]) -> Supervisor:
    @tool
    async def look(n: int) -> int:
        """Look."""
        return n

    box = toolbox((look,))
    parts = Parts("/crm/model", "/crm/tool", "/crm/approvals", unfinished=UNFINISHED)
    llm = FunctionLLM(lambda messages, tools, system: asks(("look", {"n": len(messages)})))
    children = (
        Child(Approvals, "approvals"),
        Child(ModelWorker, "model", args=(llm, (look.spec(),))),
        Child(ToolWorker, "tool", args=(box,)),
        Child(Caretakers, "caretaker", args=(handed, fails)),
        Child(Unfinished, "unfinished", pool=True, args=("/crm/caretaker",)),
        Supervisor("desk", (Child(Run, "agent", restart="temporary", pool=True, args=(parts, box)),)),
    )
    return Supervisor("crm", strategy="rest_for_one", children=children)


async def until_handed(kit: TestKit, count: int, mend: Callable[[], Any] | None = None) -> None:
    async def done() -> bool:
        if mend is not None:
            await mend()
        row = await kit.row(UNFINISHED)
        state = await kit.state(UNFINISHED, UnfinishedState) if row is not None and row.state else UnfinishedState()
        return state.handed == count and not state.open

    await kit.until(done)


async def test_what_the_worker_gives_up_is_tried_again_until_it_is_done() -> None:
    handed: list[str] = []
    async with TestKit(tree(handed, [7])) as kit:
        await kit.client.send(f"{AGENTS}:a", StartRun("Work ticket T-1.", Budget(max_iterations=1)))
        await kit.advance(seconds=AGAIN_SECONDS / 2)
        assert handed == []
        await until_handed(kit, 1)
        assert handed == [f"{AGENTS}:a"]


async def test_a_run_that_fails_is_told_of_once_wherever_its_node_dies() -> None:
    nth, died = 0, True
    while died:
        nth += 1
        handed: list[str] = []
        async with TestKit(tree(handed, [0])) as kit:
            death = Death(kit, nth)
            await kit.client.send(f"{AGENTS}:a", StartRun("Work ticket T-1.", Budget(max_iterations=2)))
            await until_handed(kit, 1, death.mend)
            kit.store.before = None
            assert handed == [f"{AGENTS}:a"], f"killed before commit {nth}"
            assert await kit.store.dead_letters() == []
            assert violations(kit.store.tables, kit.store.cluster, kit.store.clock(), at_rest=False) == []
            died = death.victim is not None
    assert nth > 4
