"""People approve, deny, edit, take back, cancel, tell and fork in any order while nodes die: what was made was
approved, exactly so and once; and whoever still waits, waits for a question that somebody can answer.
"""

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from anyio.lowlevel import checkpoint

from callboard import AgentSpec, Tool, tool
from callboard.actors.agent.policies import PolicyCall, policy
from callboard.actors.agent.policy import Terms
from callboard.mailbox.errors import CallboardError
from callboard.persistence.memory.invariants import violations

from .stage import Stage, asks, says, script

pytestmark = pytest.mark.anyio

PEOPLE = ("ann", "bob", "cy")


class World:
    """What was done outside."""

    def __init__(self, chance: random.Random) -> None:
        self.made: list[tuple[int, str]] = []
        self.chance = chance

    def tools(self) -> list[Tool]:
        async def fine(amount: int) -> bool:
            return self.chance.random() < 0.8

        @tool(side_effect=True, requires_approval=True, checks=[fine])
        async def pay(amount: int, *, idempotency_key: str) -> str:
            """Pay."""
            self.made.append((amount, idempotency_key))
            return "paid"

        return [pay]


async def act(stage: Stage, chance: random.Random) -> None:
    """One thing that somebody does."""
    runs = [run for run, _ in await stage.runs.list()]
    run, who, call = chance.choice(runs), chance.choice(PEOPLE), chance.choice([None, 1, 2])
    what = chance.choices(
        ["approve", "deny", "edit", "take back", "cancel", "cancel at once", "tell", "fork", "wait", "die"],
        [8, 2, 6, 4, 0.3, 0.2, 1, 0.5, 5, 1.5],
    )[0]
    match what:
        case "approve":
            await stage.runtime.approve(run, who, call=call, hold_seconds=chance.choice([0.0, 0.0, 20.0]))
        case "deny":
            await stage.runtime.deny(run, who, "no", call=call)
        case "edit":
            await stage.runs.edit(run, {"amount": chance.choice([1, 2, 3, "x"])}, who, call=call)
        case "take back":
            await stage.runtime.take_back(run, who, call=call)
        case "cancel":
            await stage.runtime.cancel(run, by=who)
        case "cancel at once":
            if not (await stage.state(run)).finished:
                await stage.runtime.client.cancel(stage.runs.address(run), by=who, reason="enough")
        case "tell":
            await stage.runtime.tell(run, "hello", by=who)
        case "fork":
            if len(runs) < 5:
                last = len(await stage.runs.events(run))
                await stage.runtime.fork(run, chance.randint(1, last), say="on")
        case "wait":
            await stage.advance(chance.choice([0.1, 5.0, 21.0, 59.9, 0.2]))
        case "die":
            await stage.kill()
            if chance.random() < 0.7:
                await stage.advance(chance.choice([0.1, 12.0]))
            await stage.add_node()


@pytest.mark.parametrize("seed", range(20))
async def test_what_was_made_was_approved_so_and_once_and_nobody_waits_for_nobody(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance)

    @policy
    def several(call: PolicyCall) -> Terms:
        needed = 2 if call.arguments["amount"] > 2 else 1
        return Terms("a rule", needed=needed, hold_seconds=10.0 if needed == 1 else 0.0, expires_seconds=60.0)

    expert = AgentSpec(
        "expert", "Pays.", tools=tuple(world.tools()), llm=script(asks(("pay", {"amount": 3})), says("x"))
    )
    turn = asks(("pay", {"amount": 1}), ("pay", {"amount": 5}), ("expert", {"goal": "pay"}))
    options: dict[str, Any] = {"policies": [several], "agents": [expert]}
    async with Stage(script(turn, *[says("ok")] * 9), list(expert.tools), nodes=1 + seed % 2, **options) as stage:
        refused: list[str] = []
        await stage.begin(run_id="r")
        for _ in range(40):
            try:
                await act(stage, chance)
            except CallboardError as error:
                refused.append(str(error))  # too late, or not now
            for _ in range(chance.choice([0, 0, 2, 9])):
                await checkpoint()
            if chance.random() < 0.4:
                await stage.settle()
        await stage.advance(30)
        await agrees(stage, world)
        stage.checked = False  # who was too late for a run that has ended is told by a dead letter
        assert {letter.reason for letter in await stage.store.dead_letters()} <= {"recipient-ended"}
        assert refused


async def agrees(stage: Stage, world: World) -> None:
    """Rows, effects and runs tell the same story."""
    rows = await stage.store.decisions(limit=1_000)
    released = [row for row in rows if row.status == "released" and row.kind == "approval" and row.tool == "pay"]
    keys = Counter(key for _, key in world.made)
    assert len(keys) == len({(row.run, row.call) for row in released}) == len(released)
    assert sorted({key: amount for amount, key in world.made}.values()) == sorted(
        msgspec.json.decode(row.arguments)["amount"] for row in released
    )
    for run, _ in await stage.runs.list():
        state = await stage.state(run)
        for call in state.pending.values():
            if call.child:
                assert not (await stage.state(call.child.partition(":")[2])).finished
                continue
            row = await stage.store.decision(call.decision)
            assert row is not None and row.status in ("pending", "approved"), (run, call, row)
            assert (row.digest, row.message_id) == (call.digest, call.message)
        assert state.finished or state.pending
        waits = {row.id for row in rows if row.run == stage.runs.address(run) and row.status in ("pending", "approved")}
        assert waits == {call.decision for call in state.pending.values() if not call.child}
        assert (await stage.runtime.verify(run)).ok
    assert violations(stage.store.tables, stage.store.cluster, stage.store.clock(), at_rest=False) == []
