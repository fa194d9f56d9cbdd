"""The play: tickets, a kill in the middle of a refund, the take-over, a question to a person, the proof."""

import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.messages import StartRun
from callboard.actors.agent.runs import Runs
from callboard.actors.client import Client
from callboard.crm import ledger
from callboard.crm.app import AGENTS, app
from callboard.mailbox.address import key_of
from callboard.mailbox.errors import UsageError
from callboard.persistence.port import Port, RealPort
from callboard.persistence.rows import Decision
from callboard.persistence.store import Store
from callboard.service.wiring import make_store

from .database import DemoDatabase, open_database, write_tickets
from .nodes import NodeProcess
from .proof import MAX_RUNS, find_interrupted, prove
from .question import answer, ask_about, ticket_of
from .report import Teller, own_command
from .story import RealModel

LOOK_SECONDS = 0.1
LIMIT_SECONDS = 400.0
"""Bounds every wait of the play; a desk of this size needs a few seconds."""
MODEL_LIMIT_SECONDS = 4 * 3_600.0
"""The same with a real model, which may take its time over each step of each ticket."""


class DemoOptions(msgspec.Struct, frozen=True):
    """How it is played."""

    tickets: int = 24
    nodes: int = 2
    yes: bool = False
    document: bool = False
    """Print one JSON document instead of the trace and the proof."""
    dsn: str = ""
    seed: int = 1
    model: str = ""
    """A real model for the agents (`actors.llm.choice`), of which nobody knows how tickets end; "": the offline one."""


async def run_demo(options: DemoOptions, port: Port | None = None) -> int:
    """Play it; 0 only if every invariant holds.

    Raises:
        UsageError: fewer than two nodes (one is killed), no ticket, or no such model.
        CallboardError: what keeps the play from beginning.
    """
    if options.nodes < 2 or options.tickets < 1:
        raise UsageError(
            f"{options.nodes} nodes, {options.tickets} tickets: it takes 2 nodes (one is killed) and 1 ticket"
        )
    if options.model:
        RealModel.named(options.model)  # what is wrong with it is better said here than by every node
    here = port or RealPort()
    teller = Teller(document=options.document)
    teller.heading("Setting the stage")
    if options.model:
        teller.say(f"the agents are played by {options.model}: how tickets end is not known, so it is not checked")
    async with open_database(options.dsn, here) as database, make_store(database.dsn) as store:
        where = "an embedded PostgreSQL" if database.embedded else "your PostgreSQL"
        facts = database.facts
        teller.say(f"{facts.customers} customers and {facts.orders} orders ({facts.source}) in {where}")
        return await Play(options, here, teller, database, store).run()


class Play:
    """One performance."""

    def __init__(self, options: DemoOptions, port: Port, teller: Teller, database: DemoDatabase, store: Store) -> None:
        self.options = options
        self.port = port
        self.teller = teller
        self.database = database
        self.runs = Runs(Client(store, port), AGENTS)
        self.nodes: list[NodeProcess] = []
        self.run_ids: list[str] = []
        self.key = ""
        """The idempotency key of the refund in which a node was killed."""
        self.killed_at = 0.0
        self._finished: set[str] = set()
        self._in_refund: tuple[NodeProcess, str] | None = None

    async def run(self) -> int:
        """From the first node to the last check."""
        approved: list[str] = []
        denied: list[str] = []
        async with self._on_stage():
            await self._submit()
            await self._work()
            # What somebody lets go may be asked about once more, where the records have changed meanwhile.
            while await self._ask(approved, denied):
                await self._work()
        return await self._prove(approved, denied)

    @asynccontextmanager
    async def _on_stage(self) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory(prefix="callboard-demo-") as folder:
            options = {"hang_once": str(Path(folder) / "hangs")}
            if self.options.model:
                options["model"] = self.options.model
            async with anyio.create_task_group() as group:
                try:
                    for number in range(1, self.options.nodes + 1):
                        log = Path(folder) / f"node-{number}.log"
                        node = await NodeProcess.start(
                            f"node-{number}", self.database.dsn, log, options, self.database.desk_dsn
                        )
                        node.told = self._told
                        self.nodes.append(node)
                        group.start_soon(node.listen)
                    for node in self.nodes:
                        await node.wait_ready()
                        self.teller.say(f"{node.label} serves, process {node.process.pid}")
                    yield
                finally:
                    with anyio.CancelScope(shield=True):
                        for node in self.nodes:
                            await node.stop()
                    group.cancel_scope.cancel()

    async def _submit(self) -> None:
        cases = await write_tickets(self.database, self.options.tickets, self.options.seed)
        self.teller.heading(f"{len(cases)} tickets come in; every agent is an actor")
        for case in cases:
            goal, budget = f"Work ticket {case.ticket_id}.", Budget(max_iterations=25)
            start = StartRun(goal, budget, self.options.model or "desk-model", app.system_prompt, "desk")
            self.run_ids.append(await self.runs.create(start, case.ticket_id))

    # --- watching ----------------------------------------------------------------------------------------------

    def _told(self, node: NodeProcess, event: dict[str, Any]) -> None:
        if event.get("event") == "in_refund" and self._in_refund is None:
            self._in_refund = (node, str(event["key"]))

    async def _work(self) -> None:
        """Watch until every ticket is finished, or only people are waited for."""
        with anyio.fail_after(MODEL_LIMIT_SECONDS if self.options.model else LIMIT_SECONDS):
            while True:
                if self._in_refund is not None and not self.key:
                    await self._kill(*self._in_refund)
                open_runs = await self._look()
                if not open_runs or await self._rest(open_runs):
                    return
                await self.port.sleep(LOOK_SECONDS)

    async def _look(self) -> list[str]:
        """Tell what was finished since the last look; the ids of the others."""
        rows = await self._rows()
        still: list[str] = []
        for run_id in self.run_ids:
            summary = rows.get(run_id, {})
            status = str(summary.get("status", "waiting"))
            if status not in ("completed", "failed", "cancelled"):
                still.append(run_id)
            elif run_id not in self._finished:
                self._finished.add(run_id)
                done, count = len(self._finished), len(self.run_ids)
                self.teller.ticket(run_id, status, str(summary.get("detail", "")), done, count)
        return still

    async def _rest(self, run_ids: list[str]) -> bool:
        """Whether these runs, and the agents that they have called, wait for people only."""
        for run_id in run_ids:
            if not await self.runs.at_rest(run_id):
                return False
        return True

    async def _rows(self) -> dict[str, dict[str, Any]]:
        return dict(await self.runs.list(limit=MAX_RUNS))

    async def _kill(self, node: NodeProcess, key: str) -> None:
        """The refund is in the ledger, its outcome in no journal: now."""
        self.key = key
        self.killed_at = await self.runs.store.now()
        node.kill()
        self.teller.say(
            f"kill -9 {node.process.pid}: {node.label} had paid a refund and not yet recorded it",
            mark="⚡",
            style="bad",
        )

    # --- people ------------------------------------------------------------------------------------------------

    async def _ask(self, approved: list[str], denied: list[str]) -> bool:
        """Put every held call before a person; whether there was one. Adds to the tickets approved and denied."""
        alone = self.options.yes or not sys.stdin.isatty()
        waiting = await self.runs.store.decisions(status="pending", limit=1000)
        for decision in waiting:
            ticket = ticket_of(decision)
            question = await ask_about(decision, ticket, self.database.owner)
            self.teller.question(question)
            if alone:
                why = "--yes" if self.options.yes else "no terminal to ask on"
                self.teller.say(f"approved by the demonstration itself ({why})", mark="✓")
            granted = alone or await answer(question, self.port)
            await self._decide(decision, granted=granted)
            (approved if granted else denied).append(ticket)
        return bool(waiting)

    async def _decide(self, decision: Decision, *, granted: bool) -> None:
        """As one person, or as the several that an approval takes."""
        status = "approved" if granted else "denied"
        note = "" if granted else "not approved in the demonstration"
        run, call = key_of(decision.run) or decision.run, int(decision.call)
        for number in range(decision.needed if granted else 1):
            by = f"demo-{number + 1}" if number else "demo"
            await self.runs.decide(run, status, by, call=call, digest=decision.digest, note=note)

    # --- the proof ---------------------------------------------------------------------------------------------

    async def _prove(self, approved: list[str], denied: list[str]) -> int:
        owner = self.database.owner
        cut = await find_interrupted(self.runs, self.run_ids, self.key, self.killed_at) if self.key else None
        checks, doubles, lost = await prove(
            owner, self.runs, self.run_ids, denied=denied, interrupted=cut, outcomes_known=not self.options.model
        )
        if cut is not None and not self.options.document:
            self.teller.trace(cut)
        self.teller.checks(checks)
        ok = all(check.ok for check in checks) and (cut is not None or not self.key)
        refunds = await ledger.refunds(owner)
        rows = await self._rows()
        document = {
            "schema": "callboard.demo/1",
            "model": self.options.model,
            "tickets": len(self.run_ids),
            "completed": sum(rows.get(run_id, {}).get("status") == "completed" for run_id in self.run_ids),
            "held": len(approved) + len(denied),
            "approved": len(approved),
            "denied": len(denied),
            "killed_nodes": sum(node.killed for node in self.nodes),
            "takeover_seconds": cut.takeover_seconds if cut is not None else None,
            "refunds": len(refunds),
            "refunded_cents": sum(refund.amount_cents for refund in refunds),
            "duplicate_effects": doubles,
            "lost_messages": lost,
            "interrupted_run": cut.run_id if cut is not None else None,
            "checks": [msgspec.to_builtins(check) for check in checks],
            "invariants_ok": ok,
        }
        hint = f"Look around: {own_command()} replay {cut.run_id} --dsn {self.database.name}" if cut else ""
        self.teller.result(document, hint)
        return 0 if ok else 1
