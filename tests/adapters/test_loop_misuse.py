"""Code that does what it should not: noticed at once, or harmless; never answered with what belongs elsewhere."""

import asyncio
import functools
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from callboard import InMemoryStore, tool
from callboard.actors.adapters.loop import Code, Loop
from callboard.actors.adapters.loop_runtime import LoopRuntime
from callboard.actors.adapters.loop_values import digest_of

from .stage import LoopStage

pytestmark = pytest.mark.anyio

done: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


@tool(side_effect=True)
async def pay(amount: int) -> int:
    """Pay."""
    done.append(amount)
    return amount


@tool(requires_approval=True)
async def pause() -> str:
    """Wait for a person."""
    return "on"


async def effect(what: Any) -> Any:
    done.append(what)
    await anyio.lowlevel.checkpoint()
    return what


@pytest.mark.parametrize("how", ["gather", "asyncio", "one after the other"])
@pytest.mark.parametrize("what", ["step", "call"])
async def test_g4_what_is_awaited_twice_is_done_once(how: str, what: str) -> None:
    async def body(run: Loop, goal: str) -> str:
        asked = run.step("effect", effect, 5) if what == "step" else run.call(pay, amount=5)
        found: Any
        match how:
            case "gather":
                found = await run.gather(asked, asked)
            case "asyncio":
                found = await asyncio.gather(asked, asked)
            case _:
                found = [await asked, await asked]
        return str(found)

    async with LoopStage(body, [pay]) as stage:
        run = await stage.begin()
        await stage.advance(5)
        state = await stage.state(run)
    assert (state.status, done) == ("completed", [5])
    one = "5" if what == "step" else "{'result': 5}"
    assert state.final_answer == f"[{one}, {one}]"


async def test_steps_in_another_order_are_noticed_also_where_a_partial_hides_their_arguments() -> None:
    orders = [["ann", "ben"], ["ben", "ann"]]

    async def body(run: Loop, goal: str) -> str:
        found = {name: await run.step("pay", functools.partial(effect, name)) for name in orders.pop(0)}
        await run.call(pause)
        return str(found)

    async with LoopStage(body, [pause]) as stage:
        run = await stage.begin()
        await stage.advance(5)
        await stage.approve(run)
        await stage.advance(5)
        state = await stage.state(run)
    assert (state.status, done) == ("failed", ["ann", "ben"])
    assert "at position 1 it did 'pay' before, and now asks for 'pay' with other arguments" in str(state)


async def test_a_run_of_before_a_partial_s_arguments_counted_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(run: Loop, goal: str) -> str:
        found = await run.step("pay", functools.partial(effect, "ann"))
        await run.call(pause)
        return str(found)

    async with LoopStage(body, [pause]) as stage:
        with monkeypatch.context() as older:
            older.setattr("callboard.actors.adapters.loop.bound_in", lambda function, args, kwargs: (args, kwargs))
            run = await stage.begin()
            await stage.advance(5)
        await stage.approve(run)
        await stage.advance(5)
        assert (await stage.state(run)).final_answer == "ann"
    assert done == ["ann"]
    assert digest_of((), {}) != digest_of(("ann",), {})


async def test_a_step_inside_of_a_step_is_refused_when_it_is_made_and_not_after_the_first_crash() -> None:
    async def body(run: Loop, goal: str) -> str:
        async def outer() -> Any:
            return await run.step("inner", effect, 5)

        return str(await run.step("outer", outer))

    async with LoopStage(body) as stage:
        run = await stage.begin()
        await stage.advance(5)
        state = await stage.state(run)
    assert (state.status, done) == ("failed", [])
    assert "a step inside of step 'outer'" in str(state)


async def test_a_generator_is_no_result() -> None:
    async def stream() -> AsyncIterator[int]:
        yield 1

    async def body(run: Loop, goal: str) -> str:
        try:
            await run.step("model", stream)
        except TypeError as error:
            return str(error)
        return "no error"

    async with LoopStage(body) as stage:
        run = await stage.begin()
        await stage.advance(5)
        assert "let it give a list" in str((await stage.state(run)).final_answer)


async def test_code_that_catches_what_ends_it_does_not_stop_the_event_loop(caplog: pytest.LogCaptureFixture) -> None:
    seen = False

    async def body(run: Loop, goal: str) -> str:
        while not seen:
            try:
                await run.call(pause)
            except:  # noqa: E722 - that is what people write
                continue
        return "ended"

    async with (
        LoopRuntime(InMemoryStore(), Code("bare", body, (pause,))) as runtime,
        anyio.create_task_group() as group,
    ):
        group.start_soon(runtime.start, "go")
        with anyio.fail_after(60):
            while not seen:
                await anyio.lowlevel.checkpoint()  # here it stood still for ever
                seen = "catches everything" in caplog.text
        group.cancel_scope.cancel()
    assert seen
