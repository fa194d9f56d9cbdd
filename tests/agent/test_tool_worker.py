"""One tool call: what is tried again, how often, and what the model is told. Doubts: test_run_doubt.py."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from callboard import Fatal, Park, Reject, Runtime, Transient, tool
from callboard.actors.agent.events import (
    ToolCallFailed,
)
from callboard.actors.agent.tool_worker import ToolboxError, toolbox
from callboard.persistence.memory import MemoryStore

from .stage import Stage, asks, results, says, script

pytestmark = pytest.mark.anyio


def pays() -> Any:
    return script(asks(("pay", {"amount": 5})), says("ok"))


async def test_a_timeout_of_a_harmless_tool_is_tried_again_and_then_told() -> None:
    begun: list[int] = []

    @tool(timeout=2.0)
    async def look(n: int) -> int:
        """Look."""
        begun.append(n)
        await anyio.sleep_forever()
        return n

    llm = script(asks(("look", {"n": 1})), says("ok"))
    async with Stage(llm, [look]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        assert len(begun) == 3
        assert results(llm.last_messages) == ["Error: timed out after 2 s"]
        assert [e.final for e in await stage.of(run, ToolCallFailed)] == [False, False, True]


async def test_an_error_of_a_side_effect_without_key_is_told_and_not_repeated() -> None:
    made: list[int] = []

    @tool(side_effect=True)
    async def pay(amount: int) -> int:
        """Pay."""
        made.append(amount)
        raise ValueError("no such account")

    llm = pays()
    async with Stage(llm, [pay]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        assert (made, (await stage.state(run)).status) == ([5], "completed")
        assert results(llm.last_messages) == ["Error: ValueError: no such account"]


@pytest.mark.parametrize("kind", [Reject, Park, Fatal])
async def test_a_tool_that_says_it_is_hopeless_is_not_tried_again(kind: Callable[[str], Exception]) -> None:
    made: list[int] = []

    @tool
    async def look(n: int) -> int:
        """Look."""
        made.append(n)
        raise kind("closed for good")

    llm = script(asks(("look", {"n": 1})), says("ok"))
    async with Stage(llm, [look]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        assert (made, (await stage.state(run)).status) == ([1], "completed")
        assert "closed for good" in results(llm.last_messages)[0]


async def test_a_tool_may_say_when_to_try_again() -> None:
    made: list[int] = []

    @tool(attempts=2)
    async def look(n: int) -> int:
        """Look."""
        made.append(n)
        try:
            raise Park("inside")
        except Park as error:
            raise Transient("busy", after_seconds=40.0) from error

    llm = script(asks(("look", {"n": 1})), says("ok"))
    async with Stage(llm, [look]) as stage:
        await stage.begin()
        await stage.advance(39)
        assert made == [1]
        await stage.advance(2)
        assert made == [1, 1]
        assert "busy" in results(llm.last_messages)[0]


async def test_a_retry_of_a_tool_survives_a_crash_with_its_count() -> None:
    keys: list[str] = []

    @tool(side_effect=True)
    async def pay(amount: int, idempotency_key: str) -> int:
        """Pay."""
        keys.append(idempotency_key)
        raise ConnectionError("no route")

    llm = pays()
    async with Stage(llm, [pay], retry_base_delay_seconds=10.0) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node()
        await stage.advance(100)
        assert (len(keys), len(set(keys))) == (3, 1)
        failed = await stage.of(run, ToolCallFailed)
        assert [(event.attempt, event.final) for event in failed] == [(1, False), (2, False), (3, True)]


async def test_g8_a_crash_spends_no_attempt() -> None:
    begun: list[int] = []

    @tool(attempts=1)
    async def look(n: int) -> int:
        """Look."""
        begun.append(n)
        if len(begun) < 5:
            await anyio.sleep_forever()
        return n

    async with Stage(script(asks(("look", {"n": 1})), says("ok")), [look]) as stage:
        run = await stage.begin()
        for _ in range(4):
            await stage.kill()
            await stage.add_node()
            await stage.advance(5)
        assert (len(begun), (await stage.state(run)).status) == (5, "completed")
        assert await stage.of(run, ToolCallFailed) == []


async def test_a_tool_that_was_removed_is_an_error_for_the_model() -> None:
    llm = script(asks(("act", {})), says("ok"))

    @tool(requires_approval=True)
    async def act() -> str:
        """Act."""
        return "done"

    async with Stage(llm, [act]) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.approve(run)
        await stage.add_node(stage.beside(llm))
        await stage.advance(5)
        assert (await stage.state(run)).status == "completed"
        assert results(llm.last_messages) == ["Error: unknown tool: act"]


async def test_arguments_reach_a_tool_as_its_types() -> None:
    got: list[Any] = []

    @tool
    async def look(n: int, names: list[str]) -> str:
        """Look."""
        got.append((n, names))
        return "ok"

    async with Stage(script(asks(("look", {"n": "5", "names": ["a"]})), says("ok")), [look]) as stage:
        await stage.begin()
    assert got == [(5, ["a"])]


async def test_g7_a_tool_slower_than_the_lease_runs_once_beside_another_node() -> None:
    begun: list[int] = []
    finish = anyio.Event()

    @tool(side_effect=True)
    async def pay(amount: int) -> int:
        """Pay."""
        begun.append(amount)
        await finish.wait()
        return amount

    async with Stage(pays(), [pay], nodes=2) as stage:
        run = await stage.begin()
        await stage.advance(30)
        assert begun == [5]
        finish.set()
        await stage.settle()
        assert ((await stage.state(run)).status, begun) == ("completed", [5])


async def test_a_sync_tool_that_times_out_is_not_waited_for() -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    # Long enough for a thread to begin: of one that has not, something else is told.
    @tool(timeout=1.0, attempts=1)
    def slow() -> str:
        """Wait in a thread."""
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
        return "late"

    llm = script(asks(("slow", {})), says("ok"))
    async with Runtime(MemoryStore(), llm, [slow]) as runtime:
        run = await runtime.start("go")
        release.set()
    assert run.state.status == "completed"
    assert results(llm.last_messages) == ["Error: timed out after 1 s"]


def test_a_toolbox_takes_tools_only() -> None:
    with pytest.raises(ToolboxError, match="put @tool on the function"):
        toolbox([test_a_toolbox_takes_tools_only])  # type: ignore[list-item]
