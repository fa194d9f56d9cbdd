"""A stage for hosted loops: as the agents' (hand-driven time, nodes that are killed), with a code for a model."""

from collections.abc import Sequence
from typing import Any

import anyio

from callboard import Runtime, Tool
from callboard.actors.adapters.loop import Body, Code
from callboard.actors.adapters.loop_runtime import LoopRuntime
from tests.agent.stage import Stage


class LoopStage(Stage):
    """Runs of one code."""

    def __init__(self, body: Body | Code, tools: Sequence[Tool] = (), **options: Any) -> None:
        code: Any = body if isinstance(body, Code) else Code("loop", body, tuple(tools))
        super().__init__(code, **options)

    def beside(self, llm: Any, tools: Sequence[Tool] = (), **options: Any) -> Runtime:
        """Another runtime on the same store: another code, or a later version of this one."""
        code = llm if isinstance(llm, Code) else Code("loop", llm, tuple(tools))
        return LoopRuntime(self.store, code, port=self.port, name="loop", **options)

    async def fail_over(self) -> None:
        """The node is killed, and another one takes over."""
        await self.kill()
        await self.add_node()
        await self.advance(5.0)


class Door:
    """Where a step waits until a test lets it go on; counts who came."""

    def __init__(self) -> None:
        self.came = 0
        self.opened = anyio.Event()

    async def wait(self) -> None:
        self.came += 1
        await self.opened.wait()
