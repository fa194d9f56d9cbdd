"""Fifty people decide at once, in several processes, on a real PostgreSQL: one is first, the others are told who."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from callboard import PostgresStore, Runtime, Terms, create_schema, policy, tool
from callboard.actors.agent.approval_events import ApprovalEdited, ApprovalTakenBack
from callboard.actors.agent.events import ApprovalGranted
from callboard.actors.agent.policies import PolicyCall
from callboard.actors.node import NodeSettings
from callboard.persistence.rows import Decision, signatures_of

from .stage import asks, says, script, verified

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
PROCESSES, EACH = 5, 10
PATIENCE = 120.0


class Desk:
    """A runtime whose one tool pays, and what it paid."""

    def __init__(self, dsn: str, **terms: Any) -> None:
        self.dsn = dsn
        self.paid: list[int] = []
        self.terms = terms

        @tool(side_effect=True)
        async def pay(amount: int) -> int:
            """Pay."""
            self.paid.append(amount)
            return amount

        @policy
        def people(call: PolicyCall) -> Terms:
            return Terms("a payment", **terms)

        settings = NodeSettings(drain_seconds=0.5)
        llm = script(asks(("pay", {"amount": 1})), says("ok"))
        self.runtime = Runtime(PostgresStore(dsn), llm, [pay], policies=[people], settings=settings)

    async def begin(self) -> str:
        """A run that waits."""
        run = await self.runtime.start("go")
        assert run.state.status == "awaiting_approval"
        return run.id

    async def rows(self, run: str) -> list[Decision]:
        return await self.runtime.store.decisions(run=self.runtime.runs.address(run))

    async def of(self, run: str, kind: type) -> list[Any]:
        return [one.event for one in await self.runtime.events(run) if isinstance(one.event, kind)]


@asynccontextmanager
async def desk(dsn: str, **terms: Any) -> AsyncIterator[Desk]:
    await create_schema(dsn)
    found = Desk(dsn, **terms)
    async with found.runtime:
        yield found


class Crowd:
    """Processes that are connected, and wait for the word to decide."""

    def __init__(self, processes: list[anyio.abc.Process]) -> None:
        self.processes = processes

    async def go(self) -> dict[str, str]:
        """All of them at once; what each person got."""
        for process in self.processes:
            assert process.stdin is not None
            await process.stdin.send(b"go\n")
        outcomes: dict[str, str] = {}
        with anyio.fail_after(PATIENCE):
            for process in self.processes:
                outcomes |= json.loads(await _line(process))
        return outcomes


async def _line(process: anyio.abc.Process) -> str:
    text = b""
    assert process.stdout is not None
    while not text.endswith(b"\n"):
        text += await process.stdout.receive()
    return text.decode()


@asynccontextmanager
async def crowd(dsn: str, what: str, run: str, *, processes: int = PROCESSES, each: int = EACH) -> AsyncIterator[Crowd]:
    async with anyio.create_task_group() as group:
        found: list[anyio.abc.Process] = []

        async def begin(first: int) -> None:
            command = [sys.executable, "-m", "tests.agent.decider", dsn, what, run, str(first), str(each)]
            process = await anyio.open_process(command, cwd=ROOT, env=dict(os.environ), stderr=None)
            found.append(process)
            assert await _line(process) == "ready\n"

        try:
            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as starting:
                    for number in range(processes):
                        starting.start_soon(begin, number * each)
            yield Crowd(found)
        finally:
            with anyio.CancelScope(shield=True):
                for process in found:
                    if process.returncode is None:
                        process.kill()
                    await process.aclose()
            group.cancel_scope.cancel()


async def test_g5_fifty_in_five_processes_approve_and_deny_and_one_is_first(dsn: str) -> None:
    async with desk(dsn) as here:
        run = await here.begin()
        async with crowd(dsn, "mixed", run) as people:
            outcomes = await people.go()
        winners = [name for name, outcome in outcomes.items() if outcome == "won"]
        assert len(outcomes) == PROCESSES * EACH and len(winners) == 1
        [row] = await here.rows(run)
        assert row.decided_by == winners[0]
        assert all(f"by {winners[0]} at" in outcome for outcome in outcomes.values() if outcome != "won")
        approved = int(winners[0][1:]) % 2 == 0
        assert (await here.runtime.resume(run)).status == "completed"
        assert len(here.paid) == approved == len(await here.of(run, ApprovalGranted))
        await verified(here.runtime, run)


async def test_of_fifty_in_five_processes_three_count_where_three_are_needed(dsn: str) -> None:
    async with desk(dsn, needed=3) as here:
        run = await here.begin()
        async with crowd(dsn, "approve", run) as people:
            outcomes = await people.go()
        winners = {name for name, outcome in outcomes.items() if outcome == "won"}
        [row] = await here.rows(run)
        assert len(winners) == 3 and {one.by for one in signatures_of(row)} == winners
        assert set(row.decided_by.split(", ")) == winners
        assert all(row.decided_by in outcome for outcome in outcomes.values() if outcome != "won")
        assert (await here.runtime.resume(run)).status == "completed"
        assert here.paid == [1]
        assert [set(one.approver.split(", ")) for one in await here.of(run, ApprovalGranted)] == [winners]


async def test_one_person_in_five_processes_counts_once(dsn: str) -> None:
    async with desk(dsn, needed=2) as here:
        run = await here.begin()
        async with crowd(dsn, "approve", run, each=1) as people:
            again = await people.go()
        assert list(again.values()).count("won") == 2
        second = await here.begin()
        async with anyio.create_task_group() as group:
            errors: list[str] = []

            async def click() -> None:
                try:
                    await here.runtime.approve(second, "ann")
                except Exception as error:  # noqa: BLE001
                    errors.append(f"{type(error).__name__}: {error}")

            for _ in range(20):
                group.start_soon(click)
        assert len(errors) == 19 and all("AlreadyDecided" in error and "ann before" in error for error in errors)
        assert [row.status for row in await here.rows(second)] == ["pending"]


async def test_fifty_edit_and_approve_in_five_processes_and_what_runs_is_what_was_approved(dsn: str) -> None:
    async with desk(dsn) as here:
        run = await here.begin()
        async with crowd(dsn, "edit-or-approve", run) as people:
            outcomes = await people.go()
        # After an edit there is a new question, which others of the fifty may have met, and answered or edited again.
        rows = await here.rows(run)
        with anyio.fail_after(PATIENCE):
            while rows[-1].status == "superseded":
                await anyio.sleep(0.02)
                rows = await here.rows(run)
        edits = await here.of(run, ApprovalEdited)
        assert [row.status for row in rows[:-1]] == ["superseded"] * len(edits)
        if rows[-1].status == "pending":
            await here.runtime.approve(run, "ann")
        assert (await here.runtime.resume(run)).status == "completed"
        approvers = [name for name, outcome in outcomes.items() if outcome == "won" and int(name[1:]) % 2 == 0]
        assert len(approvers) <= 1
        [last] = here.paid
        assert last == (json.loads(rows[-1].arguments)["amount"])
        assert [edit.by for edit in edits] == [row.decided_by for row in rows[:-1]]
        await verified(here.runtime, run)


async def past(here: Desk, moment: float) -> None:
    """Wait until it is later than that, by the store's clock."""
    with anyio.fail_after(PATIENCE):
        while await here.runtime.store.now() < moment:  # noqa: ASYNC110 - it is the database's clock
            await anyio.sleep(0.01)


async def let_go(here: Desk, run: str) -> None:
    """Wait until the approval's hold is over and acted upon: what is late by the clock only may come in time."""
    with anyio.fail_after(PATIENCE):
        while {row.status for row in await here.rows(run)} != {"released"}:  # noqa: ASYNC110 - rows raise no event
            await anyio.sleep(0.01)


async def test_taking_back_races_with_the_hold_s_end_and_one_of_them_wins(dsn: str) -> None:
    taken = 0
    async with desk(dsn) as here:
        # The first hold is so long that a busy machine comes in time.
        for hold, late in ((20.0, -20.0), (0.5, -0.02), (0.5, None)):
            here.terms["hold_seconds"] = hold
            run = await here.begin()
            async with crowd(dsn, "take-back", run, processes=2, each=5) as people:
                here.paid.clear()
                ends = (await here.runtime.approve(run, "ann")).release_at
                await (let_go(here, run) if late is None else past(here, ends + late))
                outcomes = await people.go()
            won = [name for name, outcome in outcomes.items() if outcome == "won"]
            assert len(won) <= 1
            taken += len(won)
            if won:
                assert [row.status for row in await here.rows(run)] == ["pending"]
                await past(here, ends + 0.2)
                assert here.paid == []
                await here.runtime.approve(run, "bob")
            else:
                assert all("let go at" in outcome for outcome in outcomes.values())
            assert (await here.runtime.resume(run)).status == "completed"
            assert here.paid == [1]
            assert [one.by for one in await here.of(run, ApprovalTakenBack)] == won
            assert [one.approver for one in await here.of(run, ApprovalGranted)] == ["bob" if won else "ann"]
            await verified(here.runtime, run)
    assert 1 <= taken <= 2, "the first comes in time, and the last too late"
