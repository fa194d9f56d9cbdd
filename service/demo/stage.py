"""The play: tickets, a kill in the middle of a refund, the take-over, a question to a person, the proof."""

import os
import shutil
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
from callboard.crm.app import AGENTS
from callboard.crm.policy import policy_text
from callboard.mailbox.address import key_of
from callboard.mailbox.errors import UsageError
from callboard.persistence.port import Port, RealPort
from callboard.persistence.rows import Decision
from callboard.persistence.store import Store
from callboard.service.wiring import make_store

from .database import DemoDatabase, open_database, write_tickets
from .nodes import NodeProcess
from .proof import find_interrupted, prove
from .question import answer, ask_about
from .report import Teller

LOOK_SECONDS = 0.1
LIMIT_SECONDS = 400.0
"""Bounds every wait of the play; a desk of this size needs a few seconds."""


class DemoOptions(msgspec.Struct, frozen=True):
    """How it is played."""

    tickets: int = 24
    nodes: int = 2
    yes: bool = False
    document: bool = False
    """Print one JSON document instead of the trace and the proof."""
    dsn: str = ""
    seed: int = 1


async def run_demo(options: DemoOptions, port: Port | None = None) -> int:
    """Play it; 0 only if every invariant holds.

    Raises:
        UsageError: fewer than two nodes (one is killed), or no ticket.
        CallboardError: what keeps the play from beginning.
    """
    if options.nodes < 2 or options.tickets < 1:
        raise UsageError(
            f"{options.nodes} nodes, {options.tickets} tickets: it takes 2 nodes (one is killed) and 1 ticket"
        )
    here = port or RealPort()
    teller = Teller(document=options.document)
    teller.heading("Setting the stage")
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
        with anyio.fail_after(2 * LIMIT_SECONDS):
            async with self._on_stage():
                await self._submit()
                await self._work(people=False)
                approved, denied = await self._ask()
                await self._work(people=True)
            return await self._prove(approved, denied)

    @asynccontextmanager
    async def _on_stage(self) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory(prefix="callboard-demo-") as folder:
            options = {"hang_once": str(Path(folder) / "hangs")}
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
            start = StartRun(goal, budget, "desk-model", policy_text(), "desk")
            self.run_ids.append(await self.runs.create(start, case.ticket_id))

    # --- watching ----------------------------------------------------------------------------------------------

    def _told(self, node: NodeProcess, event: dict[str, Any]) -> None:
        if event.get("event") == "in_refund" and self._in_refund is None:
            self._in_refund = (node, str(event["key"]))

    async def _work(self, *, people: bool) -> None:
        """Watch until every ticket is finished; without `people`, until only people are waited for."""
        with anyio.fail_after(LIMIT_SECONDS):
            while True:
                if self._in_refund is not None and not self.key:
                    await self._kill(*self._in_refund)
                open_runs = await self._look()
                if not open_runs or (not people and all(status == "awaiting_approval" for status in open_runs)):
                    return
                await self.port.sleep(LOOK_SECONDS)

    async def _look(self) -> list[str]:
        """Tell what was finished since the last look; the statuses of the others."""
        rows = dict(await self.runs.list(limit=len(self.run_ids) + 100))
        still: list[str] = []
        for run_id in self.run_ids:
            summary = rows.get(run_id, {})
            status = str(summary.get("status", "waiting"))
            if status not in ("completed", "failed", "cancelled"):
                still.append(status)
            elif run_id not in self._finished:
                self._finished.add(run_id)
                done, count = len(self._finished), len(self.run_ids)
                self.teller.ticket(run_id, status, str(summary.get("detail", "")), done, count)
        return still

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

    async def _ask(self) -> tuple[list[str], list[str]]:
        """Put every held refund before a person; tickets that were approved, and denied."""
        approved: list[str] = []
        denied: list[str] = []
        alone = self.options.yes or not sys.stdin.isatty()
        for decision in await self.runs.store.decisions(status="pending", limit=1000):
            ticket = key_of(decision.run) or decision.run
            question = await ask_about(decision, ticket, self.database.owner)
            self.teller.question(question)
            if alone:
                why = "--yes" if self.options.yes else "no terminal to ask on"
                self.teller.say(f"approved by the demonstration itself ({why})", mark="✓")
            granted = alone or await answer(question, self.port)
            await self._decide(decision, ticket, granted=granted)
            (approved if granted else denied).append(ticket)
        return approved, denied

    async def _decide(self, decision: Decision, ticket: str, *, granted: bool) -> None:
        status = "approved" if granted else "denied"
        note = "" if granted else "not approved in the demonstration"
        await self.runs.decide(ticket, status, "demo", call=int(decision.call), digest=decision.digest, note=note)

    # --- the proof ---------------------------------------------------------------------------------------------

    async def _prove(self, approved: list[str], denied: list[str]) -> int:
        owner = self.database.owner
        cut = await find_interrupted(self.runs, self.run_ids, self.key, self.killed_at) if self.key else None
        checks, doubles, lost = await prove(owner, self.runs, self.run_ids, denied=denied, interrupted=cut)
        if cut is not None and not self.options.document:
            self.teller.trace(cut)
        self.teller.checks(checks)
        ok = all(check.ok for check in checks) and (cut is not None or not self.key)
        refunds = await ledger.refunds(owner)
        rows = dict(await self.runs.list(limit=len(self.run_ids) + 100))
        document = {
            "schema": "callboard.demo/1",
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
        hint = f"Look around: {_command()} replay {cut.run_id} --dsn {self.database.name}" if cut else ""
        self.teller.result(document, hint)
        return 0 if ok else 1


def _command() -> str:
    """How to call this program from here: it need not be on the PATH."""
    return "callboard" if shutil.which("callboard") else os.path.relpath(Path(sys.prefix) / "bin" / "callboard")
