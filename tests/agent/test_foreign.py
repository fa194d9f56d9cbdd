"""However foreign code ends, it is an ordinary exception for whoever called it."""

import asyncio
import sys
from typing import Any

import anyio
import pytest

from callboard import tool
from callboard.actors.agent.foreign import Gone, contained

from .stage import Stage, asks, results, says, script

pytestmark = pytest.mark.anyio


class Evil(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def ends(kind: str) -> None:
    match kind:
        case "evil":
            raise Evil
        case "group":
            raise BaseExceptionGroup("all", [Evil(), ValueError("x")])
        case "exit":
            sys.exit(3)
        case "cancelled":
            raise asyncio.CancelledError
        case "huge":
            raise ValueError("x" * 5_000_000)


@pytest.mark.parametrize("kind", ["evil", "group", "exit", "cancelled"])
async def test_w05_what_is_no_exception_becomes_one(kind: str) -> None:
    with pytest.raises(Gone):
        await contained(ends(kind))


async def test_a_cancellation_from_outside_goes_through() -> None:
    with anyio.move_on_after(0) as scope:
        await contained(anyio.sleep_forever())
    assert scope.cancelled_caught


@pytest.mark.parametrize("kind", ["evil", "group", "huge"])
@pytest.mark.parametrize("blocking", [True, False])
async def test_w05_a_tool_that_raises_what_is_no_exception_ends_no_node(kind: str, blocking: bool) -> None:
    made: list[str] = []

    def act(kind: str) -> Any:
        """Act."""
        made.append(kind)
        return asyncio.run(ends(kind))

    async def act_async(kind: str) -> Any:
        """Act."""
        made.append(kind)
        await ends(kind)

    acting = tool(act if blocking else act_async, name="act", side_effect=True)
    llm = script(asks(("act", {"kind": kind})), says("ok"))
    async with Stage(llm, [acting]) as stage:
        run = await stage.begin()
        with anyio.fail_after(30):
            while (await stage.state(run)).status != "completed":
                await anyio.lowlevel.checkpoint()
        assert made == [kind]
        (said,) = results(llm.last_messages)
        assert said.startswith("Error: ")
        assert len(said) < 2_100
