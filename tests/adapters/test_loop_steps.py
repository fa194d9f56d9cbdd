"""What a step gives to its code, now and on replay; and what becomes of one that nobody knows the outcome of."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from callboard import Budget, LLMResponse, TransientModelError, tool
from callboard.actors.adapters.loop import SNAPSHOT, Loop
from callboard.actors.adapters.loop_errors import CallFailed, StepError
from callboard.actors.agent.events import CodeBegun, StepCompleted, ToolCallCompleted, ToolCallRequested

from .stage import Door, LoopStage

pytestmark = pytest.mark.anyio

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


@dataclass
class Order:
    id: str
    amount: int


class Paper(msgspec.Struct):
    title: str
    pages: int = 1


@tool(requires_approval=lambda a: True)
async def pause() -> str:
    """Wait for a person; what comes before it is replayed then."""
    return "on"


async def replayed(stage: LoopStage, run: str) -> str:
    """Let the code of a run that waits in `pause` run again; its answer."""
    await stage.approve(run)
    state = await stage.state(run)
    assert state.status == "completed", state.failure_detail
    assert [event.attempt for event in await stage.of(run, CodeBegun)] == [1, 2]
    return state.final_answer or ""


async def test_results_come_back_as_what_they_were() -> None:
    async def order() -> Order:
        return Order("A", 5)

    async def model() -> LLMResponse:
        return LLMResponse("hi", [{"id": "c", "name": "look", "arguments": {"n": 1}}], input_tokens=3, cost_usd="0.1")

    async def hostile() -> Any:
        return {"nan": float("nan"), "nul": "\x00", "half": "\ud800", "set": {2, 1}, "bytes": b"x"}

    seen: list[Any] = []

    async def body(run: Loop, goal: str) -> None:
        seen.append(
            [
                await run.step("order", order, returns=Order),
                await run.step("papers", lambda: [Paper("x"), Paper("y", 2)], returns=list[Paper]),
                await run.step("model", model),
                await run.step("hostile", hostile),
                await run.step("nothing", lambda: None),
                await run.step("number", lambda: 7),
            ]
        )
        await run.call(pause)

    async with LoopStage(body, [pause]) as stage:
        run = await stage.runtime.create("go")
        while not seen:  # blocking steps are in threads
            await stage.settle()
        await stage.settle()
        await replayed(stage, run)
    first, second = seen
    assert first == second
    assert first[0] == Order("A", 5) and first[1] == [Paper("x"), Paper("y", 2)]
    assert first[2].tool_calls[0].arguments == {"n": 1} and str(first[2].cost_usd) == "0.1"
    assert first[3] == {"nan": "nan", "nul": "\x00", "half": "\ud800", "set": [1, 2], "bytes": "x"}
    assert first[4:] == [None, 7]


async def test_an_exception_of_a_step_is_raised_again_on_replay_as_the_same() -> None:
    class Odd(Exception):
        pass

    async def fails(kind: str) -> None:
        done.append(kind)
        raise {"value": ValueError("bad"), "odd": Odd("so"), "key": KeyError("k")}[kind]

    seen: list[Any] = []

    async def body(run: Loop, goal: str) -> str:
        for kind in ("value", "odd", "key"):
            try:
                await run.step(kind, fails, kind)
            except (ValueError, KeyError, StepError) as error:
                seen.append((type(error), str(error)))
        await run.call(pause)
        return "end"

    async with LoopStage(body, [pause]) as stage:
        await replayed(stage, await stage.begin())
    assert seen[:3] == seen[3:] == [(ValueError, "bad"), (StepError, "so"), (KeyError, "\"'k'\"")]
    assert done == ["value", "odd", "key"]


async def test_w12_transient_errors_are_tried_again_and_others_are_not() -> None:
    async def flaky() -> str:
        done.append("flaky")
        if len(done) < 3:
            raise TransientModelError("overloaded", 2.0)
        return "at last"

    async def body(run: Loop, goal: str) -> str:
        return str(await run.step("flaky", flaky))

    async with LoopStage(body) as stage:
        run = await stage.begin()
        await stage.advance(5.0)
        assert (await stage.state(run)).final_answer == "at last"
        assert [event.attempt for event in await stage.of(run, StepCompleted)] == [3]


async def test_a_code_that_takes_another_way_on_replay_fails_with_a_sentence_that_names_both() -> None:
    turns: list[int] = []

    async def body(run: Loop, goal: str) -> None:
        turns.append(1)
        if goal == "name":
            await run.step("one" if len(turns) == 1 else "other", done.append, "x")
        elif goal == "arguments":
            await run.step("one", done.append, len(turns))
        elif len(turns) == 1:
            await run.step("one", done.append, "x")
        if goal != "less" or len(turns) == 1:
            await run.call(pause)

    said = {
        "name": "at position 1 it did 'one' before, and now asks for 'other'",
        "arguments": "at position 1 it did 'one' before, and now asks for 'one' with other arguments",
        "less": "it returned without 'one', which it did before at position 1",
    }
    for goal, sentence in said.items():
        turns.clear()
        async with LoopStage(body, [pause]) as stage:
            run = await stage.runtime.create(goal)
            while (await stage.state(run)).status != "awaiting_approval":
                await stage.settle()
            await stage.approve(run)
            while not (await stage.state(run)).finished:
                await stage.settle()
            state = await stage.state(run)
            assert state.status == "failed" and sentence in state.failure_detail
    assert len(done) == 3


async def test_objects_in_arguments_are_no_divergence() -> None:
    class Connection:
        """Whose text is another one in every process."""

    async def use(connection: Connection, order: Order) -> str:
        return order.id

    async def body(run: Loop, goal: str) -> str:
        answer = await run.step("use", use, Connection(), Order("A", 1))
        await run.call(pause)
        return str(answer)

    async with LoopStage(body, [pause]) as stage:
        assert await replayed(stage, await stage.begin()) == "A"


class Charge:
    """A step with a side effect, whose node dies in the middle of its first attempt."""

    def __init__(self) -> None:
        self.door = Door()
        self.keys: list[str] = []

    async def plain(self, amount: int) -> str:
        done.append(f"charge {amount}")
        if not self.door.came:
            await self.door.wait()
        return f"charged {amount}"

    async def keyed(self, amount: int, idempotency_key: str) -> str:
        self.keys.append(idempotency_key)
        return await self.plain(amount)


async def killed_in(stage: LoopStage) -> str:
    run = await stage.begin()
    await stage.kill()
    await stage.add_node()
    await stage.advance(5.0)
    return run


@pytest.mark.parametrize("happened", [True, False])
async def test_g4_a_step_in_doubt_is_a_person_s_to_say(happened: bool) -> None:
    charge = Charge()

    async def body(run: Loop, goal: str) -> str:
        return str(await run.step("charge", charge.plain, 5, side_effect=True))

    async with LoopStage(body) as stage:
        run = await killed_in(stage)
        state = await stage.state(run)
        assert state.status == "awaiting_approval"
        assert state.pending_approval is not None and "in doubt: did charge happen?" in state.pending_approval.reason
        assert state.pending_approval.arguments == {"args": [5]}
        assert done == ["charge 5"]
        await (stage.approve(run, note="seen it") if happened else stage.deny(run, "not there"))
        state = await stage.state(run)
        assert state.status == "completed", state.failure_detail
        if happened:
            assert state.final_answer == "{'confirmed': 'charge did happen', 'by': 'ann', 'note': 'seen it'}"
            assert done == ["charge 5"]
        else:
            assert state.final_answer == "charged 5"
            assert done == ["charge 5"] * 2
            keys = {event.idempotency_key for event in await stage.of(run, ToolCallRequested)}
            assert len(keys) == 1, "for ever under one key"


async def test_g4_a_step_that_takes_the_key_is_done_again_under_the_same_one() -> None:
    charge = Charge()

    async def body(run: Loop, goal: str) -> str:
        return str(await run.step("charge", charge.keyed, 5, side_effect=True))

    async with LoopStage(body) as stage:
        run = await killed_in(stage)
        assert (await stage.state(run)).final_answer == "charged 5"
        assert len(charge.keys) == 2 and len(set(charge.keys)) == 1
        [recorded] = await stage.of(run, ToolCallCompleted)
        assert recorded.idempotency_key == charge.keys[0]


@pytest.mark.parametrize("found", ["found it", None])
async def test_g4_reconcile_says_whether_a_step_happened(found: str | None) -> None:
    charge = Charge()

    async def look(amount: int) -> str | None:
        done.append(f"look {amount}")
        return found

    async def body(run: Loop, goal: str) -> str:
        return str(await run.step("charge", charge.plain, 5, side_effect=True, reconcile=look))

    async with LoopStage(body) as stage:
        run = await killed_in(stage)
        assert (await stage.state(run)).final_answer == (found or "charged 5")
        assert done == ["charge 5", "look 5", *([] if found else ["charge 5"])]


async def test_a_step_with_a_side_effect_that_runs_out_of_time_is_in_doubt() -> None:
    charge = Charge()

    async def body(run: Loop, goal: str) -> str:
        return str(await run.step("charge", charge.plain, 5, side_effect=True, timeout=10.0))

    async with LoopStage(body) as stage:
        run = await stage.begin()
        await stage.advance(11.0)
        waits = (await stage.state(run)).pending_approval
        assert waits is not None and "timed out after 10 s" in waits.reason
        await stage.approve(run)
        assert (await stage.state(run)).status == "completed"


async def test_budgets_end_a_code_before_its_next_step_and_what_was_paid_is_kept() -> None:
    async def model() -> LLMResponse:
        done.append("model")
        return LLMResponse("more", input_tokens=60)

    async def body(run: Loop, goal: str) -> None:
        while True:
            await run.step("model", model)

    budget = Budget(max_iterations=None, max_tokens=100, max_cost_usd=None)
    async with LoopStage(body, budget=budget) as stage:
        run = await stage.begin()
        state = await stage.state(run)
        assert (state.status, state.failure_reason) == ("failed", "max_tokens_exceeded")
        assert "120 of 100 tokens" in state.failure_detail
        assert done == ["model"] * 2 and state.total_tokens == 120


async def test_an_error_of_the_code_ends_the_run_with_its_text() -> None:
    async def body(run: Loop, goal: str) -> None:
        await run.step("act", done.append, "x")
        raise RuntimeError("the code is broken")

    async with LoopStage(body) as stage:
        run = await stage.runtime.create("go")
        while not (await stage.state(run)).finished:
            await stage.settle()
        state = await stage.state(run)
        assert state.status == "failed"
        assert state.failure_detail == "the code of the run raised RuntimeError: the code is broken"


async def test_a_tool_s_error_is_raised_in_the_code_and_wrong_arguments_too() -> None:
    @tool
    async def breaks(n: int) -> None:
        """Break."""
        raise ValueError("no such thing")

    async def body(run: Loop, goal: str) -> str:
        said: list[str] = []
        for arguments in ({"n": 1}, {"n": "x"}, {}):
            try:
                await run.call(breaks, **arguments)
            except CallFailed as error:
                said.append(str(error)[:20])
        return "; ".join(said)

    async with LoopStage(body, [breaks]) as stage:
        run = await stage.begin()
        await stage.advance(60.0)
        answer = (await stage.state(run)).final_answer or ""
        assert answer.startswith("ValueError: no such ; invalid arguments:")


async def test_af04_af05_a_snapshot_has_the_conversation_and_a_library_s_state_as_they_were_given() -> None:
    state = {"nested": [{"deep": {"x": None}}, 1.5, "\x00"], "n": 2**40}

    async def body(run: Loop, goal: str) -> None:
        await run.remember([{"role": "user", "content": goal}], state)
        await run.call(pause)

    async with LoopStage(body, [pause]) as stage:
        run = await stage.begin("hello")
        await stage.kill()
        found = await stage.runtime.snapshot(run)
        assert found.sdk_state == state
        assert found.messages == [{"role": "user", "content": "hello"}]
        assert found.pending is not None and found.pending.tool == "pause"
        assert {"budget", "usage", "session", "step"} <= set(found.context)
        assert found.run_id == run and found.saved_at > 0
        assert [event.name for event in await stage.of(run, StepCompleted)] == [SNAPSHOT]
