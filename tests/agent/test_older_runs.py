"""Runs that the release before began: their snapshots and messages hold less, and they go on and can be verified."""

from typing import Any

import msgspec
import pytest

from callboard import Tool, tool
from callboard.actors.agent.events import ApprovalRequested

from .stage import Stage, asks, says, script

pytestmark = pytest.mark.anyio

STATE = (
    "status run_id goal model system_prompt requested_by started_at budget max_llm_attempts step calls tool_calls "
    "pending model_message model_node model_attempts input_tokens output_tokens total_cost_usd news cancelling "
    "cancelled_by cancel_reason final_answer failure_reason failure_detail"
)
CALL = (
    "call step tool arguments status message idempotency_key digest tool_call_id decision reason attempts node approved"
)
EVENTS = {
    "run.started": ("run_id goal at budget model system_prompt system_prompt_hash requested_by tools max_llm_attempts"),
    "approval.requested": (
        "step call tool arguments reason decision digest message idempotency_key tool_call_id expires_seconds"
    ),
    "llm.failed": "step attempt error final cost_usd",
    "tool.requested": ("step call tool arguments idempotency_key message digest tool_call_id decision node"),
}
"""What the fields were."""


def made_older(stage: Stage, run: str) -> None:
    """As if the release before had written it."""
    tables, address = stage.store.tables, stage.runs.address(run)
    row = next(actor for actor in tables.actors.values() if actor.address == address)
    state = msgspec.msgpack.decode(row.state)["run"]
    state = {name: value for name, value in state.items() if name in STATE.split()}
    pending = {n: {k: v for k, v in call.items() if k in CALL.split()} for n, call in state["pending"].items()}
    row.state = msgspec.msgpack.encode({"run": {**state, "pending": pending}, "waiters": []})
    for place, event in enumerate(tables.events[address]):
        fields = EVENTS.get(event.type)
        if fields is not None:
            body = {k: v for k, v in msgspec.json.decode(event.body).items() if k in fields.split()}
            tables.events[address][place] = msgspec.structs.replace(event, body=msgspec.json.encode(body).decode())
    for decision in tables.decisions.values():
        decision.policy = decision.provenance = decision.checks = decision.edited_by = ""


def paying() -> tuple[list[int], list[Tool]]:
    paid: list[int] = []

    async def small(amount: int) -> bool:
        return amount < 100

    @tool(side_effect=True, requires_approval=True, checks=[small])
    async def pay(amount: int, *, idempotency_key: str) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    return paid, [pay]


@pytest.mark.parametrize("act", ["approve", "deny", "edit", "cancel", "fork", "expire"])
async def test_a_held_call_of_an_older_run_is_decided_as_ever(act: str) -> None:
    paid, tools = paying()
    model: list[Any] = [asks(("pay", {"amount": 9})), says("ok"), says("ok")]
    async with Stage(script(*model), tools, approval_seconds=1_000.0) as stage:
        run = await stage.begin()
        await stage.kill()
        made_older(stage, run)
        assert (await stage.runtime.verify(run)).ok
        await stage.add_node()
        await stage.advance(20)
        match act:
            case "approve":
                await stage.approve(run)
            case "deny":
                await stage.deny(run)
            case "edit":
                await stage.runs.edit(run, {"amount": 4}, "ann")
                await stage.settle()
                await stage.approve(run, "bob")
            case "cancel":
                await stage.runtime.cancel(run, by="ann")
            case "fork":
                fork = await stage.runtime.fork(run, new_id="f")
                await stage.settle()
                assert (await stage.state(fork)).status == "completed"
                await stage.approve(run)
            case "expire":
                await stage.advance(1_000)
        await stage.advance(1)
        assert (await stage.state(run)).status == ("cancelled" if act == "cancel" else "completed")
        assert paid == {"approve": [9], "fork": [9], "edit": [4]}.get(act, [])
        assert (await stage.runtime.verify(run)).ok


async def test_an_older_run_s_snapshot_that_differs_is_found_all_the_same() -> None:
    _, tools = paying()
    async with Stage(script(asks(("pay", {"amount": 9})), says("ok")), tools) as stage:
        run = await stage.begin()
        made_older(stage, run)
        address = stage.runs.address(run)
        row = next(actor for actor in stage.store.tables.actors.values() if actor.address == address)
        state = msgspec.msgpack.decode(row.state)
        state["run"]["pending"][1]["arguments"] = {"amount": 99}
        row.state = msgspec.msgpack.encode(state)
        verified = await stage.runtime.verify(run)
        assert not verified.ok and verified.differences[0].startswith("pending")
        stage.checked = False


async def test_an_older_run_in_doubt_is_settled() -> None:
    slow: list[int] = []

    @tool(side_effect=True)
    async def wire(n: int) -> str:
        """Pay; it never comes back the first time."""
        slow.append(n)
        if len(slow) == 1:
            await stage.port.sleep(1e6)
        return "wired"

    async with Stage(script(asks(("wire", {"n": 1})), says("ok")), [wire]) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node()
        await stage.advance(20)
        made_older(stage, run)
        await stage.kill()
        await stage.add_node()
        await stage.advance(20)
        await stage.deny(run)
        assert (await stage.state(run)).status == "completed" and slow == [1, 1]
        assert await stage.of(run, ApprovalRequested) == []
