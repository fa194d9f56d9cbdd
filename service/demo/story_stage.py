"""The stage of a story: a database of its own on a real PostgreSQL, the desk at work on it, and what people do.

Everything here is done as anybody would do it from outside: a ticket is a row and a run, a decision is an operation
under a person's name. Nothing depends on how many calls the agents make, or in which order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import anyio

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.events import ToolCallCompleted, ToolCallRequested
from callboard.actors.agent.messages import StartRun
from callboard.actors.agent.rules import Rules
from callboard.actors.agent.runs import Runs
from callboard.actors.agent.state import RunState
from callboard.actors.client import Client
from callboard.actors.llm.client import LLMClient
from callboard.actors.node import Node, NodeSettings
from callboard.actors.spec import Supervisor, Tree
from callboard.crm.app import DESK_RULES, app, desk_tree
from callboard.crm.ledger import Refund, refunds
from callboard.crm.policy import dollars
from callboard.crm.schema import APP_ROLE
from callboard.crm.small_desk import read_small_desk
from callboard.crm.tools import Toolset
from callboard.mailbox.errors import AlreadyDecided
from callboard.persistence.port import Port
from callboard.persistence.postgres.database import Database
from callboard.persistence.rows import Decision
from callboard.persistence.store import Store
from callboard.service.operations.decisions import Answer, Decisions
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from callboard.service.operations.views import approval_view
from callboard.service.wiring import make_store

from .database import DemoDatabase, open_database
from .proof import Check
from .question import ask_about, ticket_of
from .story import RealModel, TurnMissed
from .story_clock import move_clocks, take_clocks
from .tale import Tale

T = TypeVar("T")

LIMIT_SECONDS = 120.0
"""Bounds every wait of a story, to end what hangs; a whole story takes a few seconds."""
MODEL_LIMIT_SECONDS = 1_800.0
"""The same with a real model, which may take its time over each step."""
LOOK_SECONDS = 0.02
NAME = 14
"""Width of the names in a question."""
PATIENT = NodeSettings(label="desk", lease_seconds=10 * 365 * 86_400.0, beat_seconds=5.0)
"""Of a node that is alone: months may pass at once, and nobody is to take it for dead."""
BUDGET = Budget(max_iterations=25)


@asynccontextmanager
async def open_stage(
    dsn: str, port: Port, tale: Tale, *, model: RealModel | None = None, home: Path | None = None
) -> AsyncIterator[Stage]:
    """A stage on a fresh database of the server of `dsn` (default: the embedded one), with the small desk's records.

    Raises:
        CallboardError: what keeps it from being set.
    """
    async with (
        open_database(dsn, port, home=home, desk=read_small_desk()) as database,
        make_store(database.dsn) as store,
    ):
        await take_clocks(database.owner)
        yield Stage(database, store, port, tale, model)


class Stage:
    """What a story plays on."""

    def __init__(
        self, database: DemoDatabase, store: Store, port: Port, tale: Tale, model: RealModel | None = None
    ) -> None:
        self.database = database
        self.owner = database.owner
        """The desk's records, with all rights."""
        self.store = store
        self.port = port
        self.tale = tale
        self.model = model
        """A real model that plays the agents; None: the desk's offline one does."""
        self.runs = Runs(Client(store, port), app.runs)
        self.node: Node | None = None
        """The desk's node, while it is open in this process."""
        self.limit_seconds = MODEL_LIMIT_SECONDS if model else LIMIT_SECONDS
        """Bounds every wait."""
        self._told: set[int] = set()
        """Payments that were told."""

    # --- the desk ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def desk(
        self,
        *,
        llm: LLMClient | None = None,
        rules: Rules = DESK_RULES,
        tools: Callable[[Database], Toolset] | None = None,
        tree: Callable[[Supervisor, Database], Supervisor] | None = None,
    ) -> AsyncIterator[Node]:
        """The desk at work in this process for as long as the block lasts; its node drains at the end.

        `llm`: instead of the desk's offline model, where no real one plays. `tools`: makes the tools over the desk's
        own connection, instead of its usual ones. `tree`: changes the finished tree.
        """
        async with self.desk_tables() as tables:
            made = tools(tables) if tools else None
            grown = desk_tree(tables, "desk", rules=rules, llm=self.model.client if self.model else llm, tools=made)
            node = Node(self.store, Tree(tree(grown, tables) if tree else grown), self.port, PATIENT)
            async with anyio.create_task_group() as group:
                self.port.spawn(group, node.run, name="node")
                await node.ready.wait()
                self.node = node
                try:
                    yield node
                finally:
                    self.node = None
                    node.stop()

    @asynccontextmanager
    async def desk_tables(self) -> AsyncIterator[Database]:
        """The records as the desk's tools see them, with their rights."""
        own = self.database.desk_dsn
        async with await Database.open(own or self.database.dsn, role=None if own else APP_ROLE, size=8) as tables:
            yield tables

    # --- customers ---------------------------------------------------------------------------------------------

    async def writes(self, ticket: str, email: str, subject: str, body: str) -> None:
        """A customer writes; nobody works on it yet."""
        await self.owner.execute(
            "INSERT INTO crm.ticket (ticket_id, from_email, subject) VALUES (%s, %s, %s)", (ticket, email, subject)
        )
        await self.owner.execute(
            "INSERT INTO crm.message (ticket_id, author, trust, body) VALUES (%s, 'customer', 'untrusted', %s)",
            (ticket, body),
        )
        self.tale.tell("customer", f'{email} writes {ticket}, "{subject}": "{body}"')

    async def begin(self, ticket: str, goal: str = "", budget: Budget = BUDGET) -> None:
        """The desk's agent begins to work on a ticket, as run `ticket`."""
        model = self.model.name if self.model else "desk-model"
        start = StartRun(goal or f"Work ticket {ticket}.", budget, model, app.system_prompt, "desk")
        await self.runs.create(start, ticket)

    async def rest(self, ticket: str) -> RunState:
        """Wait until the work on a ticket is over, or only people are waited for.

        Raises:
            TurnMissed: neither.
        """
        try:
            return await self.runs.rest(ticket, seconds=self.limit_seconds)
        except TimeoutError as error:
            raise TurnMissed(f"the work on {ticket} comes to rest", str(error)) from None

    async def over(self, ticket: str, status: str = "completed") -> RunState:
        """Wait until the work on a ticket is over.

        Raises:
            TurnMissed: it waits for somebody, or ended with another status.
        """
        state = await self.rest(ticket)
        if state.status != status:
            raise TurnMissed(f"the work on {ticket} ends as {status}", await self._how_it_is(ticket, state))
        return state

    async def _how_it_is(self, ticket: str, state: RunState) -> str:
        """Where the work on a ticket is, in words: how it ended, or what is asked."""
        why = f": {state.failure_reason} {state.failure_detail}" if state.failure_reason else ""
        asked = "".join(f"; {one.tool} is held: {one.reason}" for one in await self.questions(ticket))
        return f"the run is {state.status}{why}{asked}"

    # --- people ------------------------------------------------------------------------------------------------

    async def questions(self, ticket: str = "") -> list[Decision]:
        """What waits for people, about one ticket or all, oldest first; not told."""
        found = await self.store.decisions(status="pending", limit=1_000)
        return [one for one in found if not ticket or ticket_of(one) == ticket]

    async def asked(self, ticket: str, tool: str = "") -> Decision:
        """Wait for the question to people about a ticket, and tell it as they see it.

        Raises:
            TurnMissed: nobody is asked, or about another tool.
        """
        state = await self.rest(ticket)
        found = [one for one in await self.questions(ticket) if not tool or one.tool == tool]
        if not found:
            expected = f"a person is asked about {tool or 'a call'} for {ticket}"
            raise TurnMissed(expected, await self._how_it_is(ticket, state))
        await self.tell_question(found[0])
        return found[0]

    async def tell_question(self, decision: Decision) -> None:
        """Tell a question as whoever decides sees it."""
        question = await ask_about(decision, ticket_of(decision), self.owner)
        agent = (await self.runs.state(decision.run.rpartition(":")[2])).agent
        who = f"{agent}, asked by support," if agent else "support"
        self.tale.tell("agent", f"{who} wants to call {decision.tool} for {question.ticket}")
        for number, (name, value) in enumerate(question.lines):
            text = f"{name:<{NAME}}{value}"
            self.tale.tell("question", text, "waits", more=number > 0, indent=NAME)

    async def decides(self, decision: Decision, status: str, by: str = "dana", note: str = "") -> Decision:
        """A person decides; approving, they repeat the sums that they saw. Told. The row as it is afterwards."""
        assert status in ("approved", "denied")
        view = approval_view(decision, ticket_of(decision))
        granted = status == "approved"
        sums = tuple(one.shown for one in view.money) if granted else ()
        answer = Answer("approved" if granted else "denied", sums, view.digest, note)
        await Decisions(Operations(self.store, Principal(by), self.port)).decide(decision.id, answer)
        typed = f", typing the sum again: {', '.join(sums)}" if sums else ""
        self.tale.tell(by, f"{'approves' if granted else 'denies'}{typed}{f' ({note})' if note else ''}")
        return await self.row(decision)

    async def comes_too_late(self, decision: Decision, by: str = "dana") -> None:
        """A person approves what cannot be approved any more, and is told so.

        Raises:
            TurnMissed: it is approved.
        """
        try:
            await self.decides(decision, "approved", by)
        except AlreadyDecided as refusal:
            self.tale.tell(by, f"approves too late, and is told: {refusal}")
        else:
            raise TurnMissed("an approval that comes too late is refused", "it was taken")

    async def row(self, decision: Decision) -> Decision:
        """What became of a question."""
        row = await self.store.decision(decision.id)
        assert row is not None  # decisions are never deleted while their runs are there
        return row

    # --- time --------------------------------------------------------------------------------------------------

    async def passes(self, **duration: float) -> None:
        """Let time pass (`hours=`, `days=`, …), for the desk and everybody else. What falls due on the way happens
        after it; wait for it with `until`."""
        by = timedelta(**duration)
        await move_clocks(self.owner, by)
        if self.node is not None and self.node.life is not None:
            asked_at = self.port.monotonic()
            self.node.clock.sync(await self.store.now(), asked_at)
            self.node.life.timers.look()
        said = (f"{amount:g} {unit if amount != 1 else unit[:-1]}" for unit, amount in duration.items())
        verb = "passes" if sum(duration.values()) == 1 else "pass"
        self.tale.tell("time", f"{', '.join(said)} {verb}")

    async def until(self, look: Callable[[], Awaitable[T]], what: str) -> T:
        """Wait until a look sees something; `what` is expected.

        Raises:
            TurnMissed: not in time.
        """
        end = self.port.monotonic() + self.limit_seconds
        while not (found := await look()):
            if self.port.monotonic() >= end:
                raise TurnMissed(what, f"not so within {self.limit_seconds:g} s")
            await self.port.sleep(LOOK_SECONDS)
        return found

    # --- what there is to tell of ------------------------------------------------------------------------------

    async def tell_mail(self, ticket: str) -> None:
        """Tell what the desk wrote to the customer."""
        for mail in await self.rows("SELECT recipient, body FROM crm.outbox WHERE ticket_id = %s", ticket):
            self.tale.tell("mail", f'to {mail["recipient"]}: "{mail["body"]}"')

    async def tell_refund_calls(self, ticket: str) -> None:
        """Tell what the tool said to every refund that was asked of it for a ticket."""
        for run_id in [one for one, _ in await self.runs.list(limit=1_000) if one.partition(".")[0] == ticket]:
            asked: dict[int, str] = {}
            for recorded in await self.runs.events(run_id):
                event = recorded.event
                if isinstance(event, ToolCallRequested) and event.tool == "issue_refund":
                    wanted = event.arguments
                    asked[event.call] = f"{dollars(int(wanted['amount_cents']))} for order {wanted['order_id']}"
                elif isinstance(event, ToolCallCompleted) and event.call in asked:
                    self.tale.tell("refund", f"{asked[event.call]}: {_said(event.result)}")

    async def tell_ticket(self, ticket: str) -> None:
        """Tell how a ticket stands."""
        for one in await self.rows("SELECT status, resolution FROM crm.ticket WHERE ticket_id = %s", ticket):
            self.tale.tell("done", f"{ticket} is {one['status']}: {one['resolution']}")

    async def tell_refunds(self, order: str) -> None:
        """Tell what was paid back for an order, and not told before."""
        for one in await self._refunds(order):
            if one.payment_id in self._told:
                continue
            self._told.add(one.payment_id)
            self.tale.tell("done", f"{dollars(one.amount_cents)} of order {order} paid back to {one.payment_method_id}")

    async def _refunds(self, order: str) -> list[Refund]:
        return [one for one in await refunds(self.owner) if one.order_id == order]

    # --- what is proved often ----------------------------------------------------------------------------------

    async def refunded(self, order: str, cents: Sequence[int]) -> Check:
        """Exactly these sums were paid back for an order, in whatever sequence."""
        found = sorted(one.amount_cents for one in await self._refunds(order))
        name = f"paid back for order {order}: {_sums(sorted(cents))}"
        return Check(name, found == sorted(cents), "" if found == sorted(cents) else f"it is {_sums(found)}")

    async def decided_once(self, ticket: str, tool: str, status: str) -> Check:
        """People were asked about this tool once for a ticket, and that is how it ended."""
        rows = await self.store.decisions(status=None, limit=1_000)
        found = [one.status for one in rows if ticket_of(one) == ticket and one.tool == tool]
        ok = found == [status]
        return Check(f"one question about {tool} for {ticket}, {status}", ok, "" if ok else ", ".join(found) or "none")

    async def ticket_is(self, ticket: str, status: str) -> Check:
        """A ticket ended so."""
        [row] = await self.rows("SELECT status FROM crm.ticket WHERE ticket_id = %s", ticket)
        ok = row["status"] == status
        return Check(f"ticket {ticket} is {status}", ok, "" if ok else f"it is {row['status']}")

    async def mails(self, ticket: str, count: int) -> Check:
        """So many mails went to whoever wrote a ticket, and none elsewhere."""
        sql = "SELECT o.recipient = t.from_email AS right FROM crm.outbox o JOIN crm.ticket t USING (ticket_id)"
        found = await self.rows(f"{sql} WHERE ticket_id = %s", ticket)
        ok = len(found) == count and all(one["right"] for one in found)
        many = f"{count} mail{'s' if count != 1 else ''}"
        return Check(f"{many} for {ticket}, to its writer alone", ok, "" if ok else f"there are {len(found)}")

    async def rows(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        """What a query finds, with the owner's rights."""
        return await self.owner.rows(sql, params)


def _sums(cents: Sequence[int]) -> str:
    return ", ".join(dollars(one) for one in cents) or "nothing"


def _said(result: Any) -> str:
    why = result.get("error") if isinstance(result, dict) else None
    return f"refused, {why}" if why else "paid"
