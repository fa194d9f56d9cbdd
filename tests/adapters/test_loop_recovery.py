"""Hosted loops whose nodes die, freeze and race: finished steps are answered from the journal, and never done again."""

from typing import Any

import anyio
import pytest

from callboard import InMemoryStore, NodeSettings, tool
from callboard.actors.adapters.loop import Loop, durable_loop
from callboard.actors.adapters.loop_messages import AttemptOver, KeepOpaque, KeepStep, MakeCalls, WantedCall
from callboard.actors.adapters.loop_runtime import LoopRuntime
from callboard.actors.agent.events import CodeBegun, StepCompleted, ToolCallFailed
from callboard.mailbox.errors import StoreUnavailable
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request

from .stage import Door, LoopStage

pytestmark = pytest.mark.anyio

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


async def act(what: str) -> str:
    done.append(what)
    return f"did {what}"


@tool(side_effect=True, requires_approval=lambda a: True)
async def sign(paper: str, idempotency_key: str) -> str:
    """Sign a paper; always with approval."""
    done.append(f"sign {paper}")
    return f"signed {paper}"


async def test_af01_af03_a_killed_node_s_run_goes_on_at_the_exact_step() -> None:
    door = Door()

    async def slow(what: str) -> str:
        done.append(what)
        await door.wait()
        return what

    async def body(run: Loop, goal: str) -> str:
        one = await run.step("one", act, "one")
        two = await run.step("two", act, "two")
        three = await run.step("three", slow, "three")
        return f"{one}, {two}, {three}"

    async with LoopStage(body) as stage:
        run = await stage.begin()
        assert door.came == 1
        await stage.kill()
        door.opened.set()
        await stage.add_node()
        await stage.advance(5.0)
        state = await stage.state(run)
        assert state.final_answer == "did one, did two, three"
        assert done == ["one", "two", "three", "three"], "only the step that was under way is done again"
        assert [event.attempt for event in await stage.of(run, CodeBegun)] == [1, 2]


async def test_af02_every_step_is_on_disk_before_the_next_begins() -> None:
    async def counts() -> int:
        [run] = [name for name, _ in await stage.runs.list()]
        return len(await stage.of(run, StepCompleted))

    async def body(run: Loop, goal: str) -> str:
        return str([await run.step("count", counts) for _ in range(20)])

    async with LoopStage(body) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).final_answer == str(list(range(20)))


async def test_g3_a_frozen_node_that_wakes_up_writes_nothing() -> None:
    doors = [Door(), Door()]

    async def slow(what: str) -> str:
        mine = doors[0] if not doors[0].came else doors[1]
        await mine.wait()
        return f"{what} by {doors.index(mine) + 1}"

    async def body(run: Loop, goal: str) -> str:
        answer = await run.step("slow", slow, "it")
        return str(await run.step("then", act, answer))

    async with LoopStage(body, nodes=2) as stage:
        run = await stage.begin()
        [frozen] = [node for node in stage.nodes if node.life is not None and node.life.pools["/loop/code"].running]
        assert frozen.life is not None
        frozen.life.session.freeze()  # type: ignore[attr-defined]
        await stage.advance(5.0)
        assert doors[1].came == 1, "the other node has taken over, and began the step anew"
        doors[0].opened.set()
        await stage.settle()
        assert done == [], "what the frozen node's attempt goes on to do is refused"
        assert await stage.of(run, StepCompleted) == []
        doors[1].opened.set()
        await stage.settle()
        assert (await stage.state(run)).final_answer == "did it by 2"
        assert done == ["it by 2"]


async def test_g3_every_word_of_an_earlier_attempt_is_refused() -> None:
    door = Door()

    async def body(run: Loop, goal: str) -> None:
        await run.step("slow", door.wait)

    async with LoopStage(body) as stage:
        run = await stage.begin()
        await stage.fail_over()
        assert [event.attempt for event in await stage.of(run, CodeBegun)] == [1, 2]
        before = len(await stage.events(run))
        words: list[Request[Any]] = [
            KeepStep(1, "1", "slow", "d", "late"),
            MakeCalls(1, 1, [WantedCall("9", "sign", {"paper": "x"}, "d")]),
            KeepOpaque(1, "r", 1, 1, "text"),
        ]
        answers: list[Message] = []

        async def say(word: Request[Any]) -> None:
            answers.append(await stage.runtime.client.ask(stage.runs.address(run), word, seconds=5))

        for word in words:
            await say(word)
        assert [type(answer) for answer in answers] == [AttemptOver] * 3
        assert len(await stage.events(run)) == before
        door.opened.set()
        await stage.settle()


async def test_w01_two_nodes_race_on_one_run_and_do_everything_once() -> None:
    @durable_loop
    async def code(run: Loop, goal: str) -> str:
        return " ".join([str(await run.step("act", act, str(number))) for number in range(10)])

    # A node that a busy machine starves is superseded when its lease is over, and does its step once more.
    store, settings = InMemoryStore(), NodeSettings(lease_seconds=60)
    first, second = [LoopRuntime(store, code, settings=settings) for _ in range(2)]
    run = await first.create("one")
    async with anyio.create_task_group() as group:
        for runtime in (first, second):
            group.start_soon(runtime.resume, run)
    assert (await first.state(run)).status == "completed"
    assert done == [str(number) for number in range(10)]


async def test_nothing_of_a_run_that_waits_is_kept_by_a_node() -> None:
    async def body(run: Loop, goal: str) -> str:
        await run.step("act", act, "before")
        try:
            return str(await run.call(sign, paper=goal))
        except Exception:  # noqa: BLE001 - as people's code has it
            return "caught"

    async with LoopStage(body, [sign]) as stage:
        run = await stage.begin("lease")
        assert (await stage.state(run)).status == "awaiting_approval"
        assert all(not pool.running for node in stage.nodes if node.life for pool in node.life.pools.values())
        await stage.kill()
        await stage.advance(3 * 86_400.0)
        await stage.add_node()
        await stage.advance(5.0)
        await stage.approve(run)
        assert (await stage.state(run)).final_answer == "{'result': 'signed lease'}"
        assert done == ["before", "sign lease"]


async def test_a_bare_except_does_not_keep_a_suspended_code_alive() -> None:
    async def body(run: Loop, goal: str) -> str:
        try:
            return str((await run.call(sign, paper=goal))["result"])
        except BaseException:  # noqa: BLE001 - worst of all
            done.append("swallowed")
        await run.step("act", act, "must not happen")
        return "went on"

    async with LoopStage(body, [sign]) as stage:
        run = await stage.begin("lease")
        assert (await stage.state(run)).status == "awaiting_approval"
        await stage.approve(run)
        assert (await stage.state(run)).final_answer == "signed lease"
        assert done == ["swallowed", "sign lease"]


async def test_cancelled_in_the_middle_of_a_step_the_step_is_on_record_and_nothing_follows() -> None:
    door = Door()

    async def slow() -> str:
        await door.wait()
        return "paid"

    async def body(run: Loop, goal: str) -> None:
        await run.step("slow", slow)
        await run.step("act", act, "must not happen")

    async with LoopStage(body) as stage:
        run = await stage.begin()
        await stage.runtime.cancel(run, by="ann", reason="enough")
        await stage.settle()
        door.opened.set()
        await stage.settle()
        state = await stage.state(run)
        assert (state.status, state.failure_detail) == ("cancelled", "enough")
        assert [event.value for event in await stage.of(run, StepCompleted)] == ["paid"]
        assert done == []


async def test_killed_while_calls_of_a_batch_are_under_way_each_is_made_once() -> None:
    door = Door()

    @tool
    async def look(what: str) -> str:
        """Look."""
        done.append(what)
        await door.wait()
        return what

    async def body(run: Loop, goal: str) -> str:
        results = await run.gather(run.call("look", what="a"), run.step("act", act, "b"), run.call("look", what="c"))
        return str(results)

    async with LoopStage(body, [look]) as stage:
        run = await stage.begin()
        assert door.came == 2
        door.opened.set()
        await stage.fail_over()
        assert (await stage.state(run)).final_answer == "[{'result': 'a'}, 'did b', {'result': 'c'}]"
        assert sorted(done) == ["a", "a", "b", "c", "c"], "reads that were under way are made again, and no step"


async def test_g10_a_run_of_many_steps_costs_the_same_at_each() -> None:
    async def body(run: Loop, goal: str) -> None:
        for number in range(500):
            await run.step("act", act, str(number))

    async with LoopStage(body) as stage:
        stage.checked = False
        run = await stage.begin()
        row = await stage.store.actor(stage.runs.address(run))
        assert row is not None and len(row.state) < 2_000
        assert len(await stage.of(run, StepCompleted)) == 500


async def test_g8_a_store_that_does_not_answer_costs_an_attempt_and_the_code_cannot_swallow_it() -> None:
    async def body(run: Loop, goal: str) -> str:
        try:
            return str(await run.step("act", act, "it"))
        except Exception:  # noqa: BLE001 - as people's code has it
            return "swallowed"

    async with LoopStage(body) as stage:
        send, failed = stage.store.send, Door()

        async def lost(envelopes: Any, *rest: Any) -> Any:
            if envelopes[0].type == "code.keep_step" and not failed.came:
                failed.came += 1
                raise StoreUnavailable("the server is gone")
            return await send(envelopes, *rest)

        stage.store.send = lost  # type: ignore[assignment, method-assign]
        run = await stage.begin()
        await stage.advance(2.0)
        assert (await stage.state(run)).final_answer == "did it"
        assert done == ["it", "it"], "it was not on record"
        assert [event.attempt for event in await stage.of(run, CodeBegun)] == [1, 2]


async def test_cancelled_outright_in_a_step_with_a_side_effect_the_journal_says_so() -> None:
    door = Door()

    async def body(run: Loop, goal: str) -> None:
        await run.step("slow", door.wait, side_effect=True)

    async with LoopStage(body) as stage:
        run = await stage.begin()
        await stage.runtime.client.cancel(stage.runs.address(run), by="ann", reason="enough")
        await stage.settle()
        state = await stage.state(run)
        assert (state.status, state.pending) == ("cancelled", {})
        assert all(not pool.running for node in stage.nodes if node.life for pool in node.life.pools.values())
        assert [event.error for event in await stage.of(run, ToolCallFailed)] == [
            "the run was cancelled while it was under way"
        ]


async def test_calls_that_the_code_does_not_wait_for_are_taken_back_when_it_ends() -> None:
    async def body(run: Loop, goal: str) -> str:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def asks() -> None:
                    await run.call("slow", n=1)

                group.start_soon(asks)
                await door.wait()
                scope.cancel()
        return "no patience"

    door = Door()

    @tool
    async def slow(n: int) -> None:
        """Slow."""
        door.opened.set()
        await anyio.sleep_forever()

    async with LoopStage(body, [slow]) as stage:
        run = await stage.begin()
        state = await stage.state(run)
        assert (state.status, state.final_answer, state.pending) == ("completed", "no patience", {})
        assert [event.error for event in await stage.of(run, ToolCallFailed)] == [
            "the code of the run ended without waiting for it"
        ]
