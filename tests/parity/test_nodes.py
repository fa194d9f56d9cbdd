"""What replaces the seed's worker: nodes, which are told nothing and wait for nothing (A6, W-10, W-13)."""

from collections import Counter

import anyio
import pytest

from callboard import Node, tool
from callboard.actors.agent.events import LLMCallCompleted, ToolCallCompleted, ToolCallRequested
from tests.agent.stage import Stage, asks, says, script

pytestmark = pytest.mark.anyio


async def test_da101_new_and_decided_runs_go_on_at_once_and_finished_and_waiting_ones_are_left_alone() -> None:
    @tool(requires_approval=True)
    async def pay(amount: int) -> int:
        """Pay."""
        return amount

    llm = script(asks(("pay", {"amount": 1})), says("ok"))
    async with Stage(llm, [pay], nodes=2) as stage:
        waits, done = await stage.begin(), await stage.begin()
        assert (await stage.state(waits)).status == "awaiting_approval", "and no time has passed"
        await stage.approve(done)
        assert (await stage.state(done)).status == "completed", "and no time has passed"
        before = [await stage.store.turns(stage.runs.address(run)) for run in (waits, done)]
        for _ in range(3):
            await stage.add_node()
            await stage.kill(stage.nodes[0])
            await stage.advance(600)
        assert llm.call_count == 3
        assert [await stage.store.turns(stage.runs.address(run)) for run in (waits, done)] == before


async def test_da103_an_idle_node_that_is_told_to_stop_has_ended_before_any_time_passes() -> None:
    async with Stage(script(says("ok")), nodes=0) as stage, anyio.create_task_group() as group:
        node = Node(stage.store, stage.runtime.tree, stage.port, stage.runtime.settings)
        ended = anyio.Event()

        async def host() -> None:
            await node.run()
            ended.set()

        group.start_soon(host)
        await stage.settle()
        assert (await stage.state(await stage.begin())).status == "completed"
        await stage.advance(100)
        node.stop()
        await stage.settle()
        assert ended.is_set()


async def test_w10_a_node_that_leaves_hands_its_waiting_and_running_runs_over_within_its_drain_limit() -> None:
    """Nothing is lost to a wait for silence: who is left goes on as soon as the other one has gone."""
    made: Counter[int] = Counter()

    @tool
    async def slow(n: int) -> int:
        """Take long, the first time."""
        made[n] += 1
        if made[n] == 1:
            await anyio.sleep_forever()
        return n

    async with Stage(script(asks(("slow", {"n": 1})), says("ok")), [slow], nodes=1) as stage:
        run = await stage.begin()
        await stage.add_node()
        stage.nodes[0].stop()
        await stage.advance(stage.runtime.settings.drain_seconds + 0.5)
        assert ((await stage.state(run)).status, made[1]) == ("completed", 2)


async def test_w13_recovered_is_said_of_what_another_node_took_over_and_of_nothing_else() -> None:
    go = anyio.Event()

    @tool
    async def look(n: int) -> int:
        """Look."""
        await go.wait()
        return n

    async with Stage(script(asks(("look", {"n": 1}), ("look", {"n": 2})), says("ok")), [look], nodes=3) as stage:
        runs = [await stage.begin(f"run {n}") for n in range(24)]
        victim = stage.nodes[0].life
        assert victim is not None
        number = victim.session.number
        await stage.kill(stage.nodes[0])
        await stage.advance(5)
        go.set()
        await stage.advance(5)
        seen: Counter[tuple[bool, bool]] = Counter()
        for run in runs:
            assert (await stage.state(run)).status == "completed"
            asked = {event.call: event.node for event in await stage.of(run, ToolCallRequested)}
            for event in await stage.of(run, ToolCallCompleted):
                seen[asked[event.call] == number, event.recovered] += 1
            assert not any(event.recovered for event in await stage.of(run, LLMCallCompleted))
        assert set(seen) == {(True, True), (False, False)}, seen
        assert sum(seen.values()) == 48
