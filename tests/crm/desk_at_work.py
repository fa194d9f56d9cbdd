"""The whole desk in this process: its tree over the records of a database, its runs in memory."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio

from callboard import InMemoryStore, LLMClient, LLMResponse, Node, NodeSettings
from callboard.actors.agent.events import ApprovalRequested
from callboard.actors.agent.messages import StartRun
from callboard.actors.agent.runs import Runs
from callboard.actors.agent.state import RunState
from callboard.actors.client import Client
from callboard.actors.llm.client import ChatMessage, ToolSpec
from callboard.actors.spec import Tree
from callboard.crm.app import AGENTS, app, desk_tree
from callboard.crm.model import DeskModel
from callboard.crm.roles import Role, role_of
from callboard.mailbox.address import key_of
from callboard.persistence.port import RealPort
from callboard.persistence.postgres.database import Database
from callboard.persistence.rows import Decision

SECONDS = 60
PEOPLE = ("dana", "erik", "femi")


@asynccontextmanager
async def at_work(records: Database, *, llm: LLMClient | None = None) -> AsyncIterator[Runs]:
    """One node serves the desk for as long as the block lasts."""
    store, port = InMemoryStore(), RealPort()
    async with store, anyio.create_task_group() as group:
        node = Node(store, Tree(desk_tree(records, "n1", llm=llm)), port, NodeSettings())
        group.start_soon(node.run)
        await node.ready.wait()
        try:
            yield Runs(Client(store, port), AGENTS)
        finally:
            node.stop()


async def work(runs: Runs, ticket_id: str) -> RunState:
    """Have a ticket worked until the run has ended, or only people are waited for."""
    start = StartRun(f"Work ticket {ticket_id}.", system_prompt=app.system_prompt)
    return await runs.start(start, ticket_id, seconds=SECONDS)


async def pending(runs: Runs) -> Sequence[Decision]:
    """What people are asked now."""
    return await runs.store.decisions(status="pending", limit=1_000)


async def answered(runs: Runs, ticket_id: str, *, denied: str = "") -> RunState:
    """Approve all that is asked, by as many people as it takes, or deny it for a reason, until the run rests."""
    while asked := await pending(runs):
        for one in asked:
            verdict = "denied" if denied else "approved"
            for person in PEOPLE[: 1 if denied else one.needed]:
                run = key_of(one.run) or ""
                await runs.decide(run, verdict, person, call=int(one.call), digest=one.digest, note=denied)
        await runs.rest(ticket_id, seconds=SECONDS)
    return await runs.state(ticket_id)


async def asked_in(runs: Runs) -> list[tuple[str, str]]:
    """(tool, reason) of every question to people so far, over all runs."""
    found = []
    for run_id, _ in await runs.list(limit=1_000):
        events = [recorded.event for recorded in await runs.events(run_id)]
        found += [(event.tool, event.reason) for event in events if isinstance(event, ApprovalRequested)]
    return found


class Playing(LLMClient):
    """`DeskModel`, but for one role, whose answers are given one after the other, whatever the tools say."""

    def __init__(self, role: Role, answers: Sequence[LLMResponse], others: LLMClient | None = None) -> None:
        self._role, self._answers, self._others = role, answers, others or DeskModel()

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        """See `LLMClient.call`."""
        if role_of(system_prompt) != self._role:
            return await self._others.call(messages, tools, system_prompt)
        return self._answers[sum(message.role == "assistant" for message in messages)]
