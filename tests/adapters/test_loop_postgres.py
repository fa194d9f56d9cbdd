"""Hosted loops on PostgreSQL: what the memory store cannot show, since there everything is a value in a dict."""

from typing import Any

import anyio
import pytest

from callboard import NodeSettings, PostgresStore, create_schema, tool
from callboard.actors.adapters.loop import Loop, durable_loop
from callboard.actors.adapters.loop_runtime import LoopRuntime
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.invariants import breaches

pytestmark = pytest.mark.anyio


@tool(side_effect=True, requires_approval=lambda a: a["amount"] > 10)
async def pay(amount: int) -> dict[str, Any]:
    """Pay."""
    return {"paid": amount}


HOSTILE = {"nul": "\x00", "half": "\ud800", "big": "y" * 100_000, "n": 2**60}


async def hostile() -> dict[str, Any]:
    return HOSTILE


async def fails() -> None:
    raise ValueError("with \x00 and \ud800")


@durable_loop(tools=[pay])
async def code(run: Loop, goal: str) -> str:
    assert await run.step("hostile", hostile) == HOSTILE
    with pytest.raises(ValueError, match="with  and"):
        await run.step("fails", fails)
    await run.step("effect", hostile, side_effect=True)
    paid = await run.gather(run.call(pay, amount=11), run.call(pay, amount=2), run.call(pay, amount=12))
    await run.remember([HOSTILE], HOSTILE)
    return str([one["paid"] for one in paid])


async def test_a_loop_with_hostile_values_and_two_approvals(dsn: str) -> None:
    await create_schema(dsn)
    async with LoopRuntime(PostgresStore(dsn), code, settings=NodeSettings(drain_seconds=0.5)) as runtime:
        run = await runtime.start("go \x00 \ud800")
        assert run.state.status == "awaiting_approval", run.state.failure_detail
        assert len(run.state.pending_approvals) == 2
        for waits in list(run.state.pending_approvals):
            await runtime.approve(run.id, "ann", call=waits.call)
        state = await runtime.resume(run.id)
        assert (state.status, state.final_answer) == ("completed", "[11, 2, 12]"), state.failure_detail
        verification = await runtime.verify(run.id)
        assert verification.ok, verification.differences
        assert (await runtime.snapshot(run.id)).sdk_state == HOSTILE
        assert await runtime.store.dead_letters() == []
        async with await Database.open(dsn) as database:
            # What its last turn has sent is handled first: a node that leaves begins nothing.
            with anyio.fail_after(60):
                while any(one.number == "I13" for one in await breaches(database)):  # noqa: ASYNC110 - rows raise no event
                    await anyio.sleep(0.05)
    async with await Database.open(dsn) as database:
        assert await breaches(database) == []


async def test_a_run_that_is_cancelled_outright_leaves_no_question_behind(dsn: str) -> None:
    await create_schema(dsn)
    async with LoopRuntime(PostgresStore(dsn), code, settings=NodeSettings(drain_seconds=0.5)) as runtime:
        run = await runtime.start("go")
        await runtime.client.cancel(runtime.runs.address(run.id), by="ann", reason="enough")
        assert (await runtime.resume(run.id)).status == "cancelled"
        rows = await runtime.store.decisions(run=runtime.runs.address(run.id))
        assert {row.status for row in rows} == {"superseded"}
        assert (await runtime.verify(run.id)).ok
