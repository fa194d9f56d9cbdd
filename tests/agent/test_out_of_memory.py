"""A process without memory: no provider and no tool has failed, so the node gives way, and another one goes on."""

from typing import Any

import pytest

from callboard import FunctionLLM, LLMResponse, ToolCall, tool
from callboard.actors.agent.events import LLMCallFailed, ToolCallFailed

from .stage import Stage, results

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("where", ["model", "tool"])
async def test_g8_without_memory_the_node_drains_and_the_run_completes_elsewhere(where: str) -> None:
    full, calls = {where}, {"model": 0, "tool": 0}

    def need_memory(who: str) -> None:
        calls[who] += 1
        if who in full:
            full.clear()
            raise MemoryError

    @tool
    async def look(n: int) -> int:
        """Look."""
        need_memory("tool")
        return n

    def answer(messages: Any, *_: object) -> LLMResponse:
        need_memory("model")
        if results(messages):
            return LLMResponse(content="done")
        return LLMResponse(tool_calls=(ToolCall("1", "look", {"n": 7}),))

    async with Stage(FunctionLLM(answer), [look], nodes=2) as stage:
        run = await stage.begin()
        await stage.advance(60)
        drained = [node.stopped_for for node in stage.nodes if node.stopped_for]
        assert len(drained) == 1 and "out of memory" in drained[0]
        assert (await stage.state(run)).status == "completed"
        assert await stage.of(run, LLMCallFailed) == [] and await stage.of(run, ToolCallFailed) == []
        assert calls == {"model": 2 + (where == "model"), "tool": 1 + (where == "tool")}
