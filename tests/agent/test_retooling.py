"""W-41: which code a run works with is in its journal, and a change of it, once."""

from typing import Any

import anyio
import pytest

from callboard import tool
from callboard.actors.agent.events import RunStarted, ToolCallFailed, ToolsChanged, ToolVersion
from callboard.actors.agent.tool import Tool

from .stage import Stage, asks, results, says, script

pytestmark = pytest.mark.anyio


def look(body: str = "return n", name: str = "look", gate: anyio.Event | None = None, **options: Any) -> Tool:
    names: dict[str, Any] = {"anyio": anyio, "gate": gate}
    exec(f"async def {name}(n: int) -> int:\n    {body}\n", names)
    return tool(names[name], **options)


def version(made: Tool) -> ToolVersion:
    return ToolVersion(made.name, made.version)


def three() -> Any:
    call = ("look", {"n": 1})
    return script(asks(call), asks(call), asks(call), says("ok"))


async def started(*tools: Tool, prompt: str = "", **options: Any) -> RunStarted:
    async with Stage(script(says("ok")), tools, system_prompt=prompt, **options) as stage:
        return (await stage.of(await stage.begin(), RunStarted))[0]


async def test_w41_a_run_records_its_tools_and_the_version_of_the_code() -> None:
    first = await started(look(), prompt="be kind")
    assert first.tools == [version(look())]
    assert len(first.code_version) == 12
    assert (await started(look(), prompt="be kind")).code_version == first.code_version
    for other in (await started(look("return 2"), prompt="be kind"), await started(look(), prompt="be brief")):
        assert other.code_version != first.code_version


async def test_w41_the_version_of_the_code_may_be_given() -> None:
    assert (await started(look(), code_version="2026-11-30.4")).code_version == "2026-11-30.4"


async def test_w41_a_run_that_goes_on_under_other_tools_says_so_once() -> None:
    llm = three()
    hangs = look("await anyio.sleep_forever()")
    other, same, new = look("return 7"), look(name="same"), look(name="new")
    gone = look(name="gone")
    async with Stage(llm, [hangs, same, gone]) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node(stage.beside(llm, [other, same, new], code_version="v2"))
        await stage.advance(5)
        assert (await stage.state(run)).status == "completed"
        changes = await stage.of(run, ToolsChanged)
        assert changes == [ToolsChanged([version(new)], [version(gone)], [version(other)], "v2")]
        assert (await stage.state(run)).tools == {tool.name: tool.version for tool in (other, same, new)}
        kinds = await stage.kinds(run)
        # at the first iteration under them: not in the middle of one
        assert kinds[kinds.index("ToolsChanged") + 1] == "LLMCallRequested"
        assert (await stage.runtime.verify(run)).ok


async def test_w41_the_same_tools_on_another_node_are_no_change() -> None:
    llm, go = three(), anyio.Event()
    async with Stage(llm, [look("await gate.wait()", gate=go)], nodes=1) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node(stage.beside(llm, [look("await gate.wait()", gate=go)]))
        go.set()
        await stage.advance(5)
        assert (await stage.state(run)).status == "completed"
        assert await stage.of(run, ToolsChanged) == []


@pytest.mark.parametrize("held", [True, False])
async def test_a_tool_that_is_gone_while_its_call_waits_is_an_error_and_no_stuck_run(held: bool) -> None:
    llm = script(asks(("look", {"n": 1})), says("ok"))
    async with Stage(llm, [look("await anyio.sleep_forever()", requires_approval=held)]) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node(stage.beside(llm, []))
        await stage.advance(5)
        if held:
            await stage.approve(run)
        await stage.advance(60)
        assert (await stage.state(run)).status == "completed"
        assert [event.final for event in await stage.of(run, ToolCallFailed)] == [True]
        assert "unknown tool: look" in results(llm.last_messages)[0]
