"""Effects inside of a graph's nodes: tools and steps of Callboard's, not repeated where a node is executed again.

LangGraph executes a node again from its beginning, after a crash, an interrupt, or for a retry. A call made through
here has a key that stays the same then (the task, and its position in it), so its result is given from the run's
journal. A call that waits for a person interrupts its task as `interrupt` does, while the graph's other tasks go on.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

from langchain_core.tools import StructuredTool, ToolException
from langgraph.errors import GraphInterrupt
from langgraph.runtime import get_runtime
from langgraph.types import Interrupt

from ....mailbox.errors import UsageError
from ...agent.tool import Tool
from ..loop import Loop
from ..loop_errors import CallFailed, error_of

HELD = "callboard.held"
"""Key of an interrupt's value that stands for a held call."""

Execution = tuple[str, int, float | None]


class Inside:
    """A run whose graph is executing, as its nodes see it."""

    def __init__(self, run: Loop) -> None:
        self.run = run
        self.loop = asyncio.get_running_loop()
        self._counts: dict[Execution, int] = {}

    def key(self) -> str:
        """The next key in the task that is executing."""
        info = get_runtime().execution_info
        if info is None:
            raise UsageError("a call of Callboard's is made in a node of a graph, and none is executing here")
        execution = (info.task_id, info.node_attempt, info.node_first_attempt_time)
        self._counts[execution] = count = self._counts.get(execution, 0) + 1
        return f"{info.task_id}/{count}"


inside: ContextVar[Inside] = ContextVar("callboard_graph")


def _here() -> Inside:
    found = inside.get(None)
    if found is None:
        raise UsageError("this graph is not hosted: a tool of Callboard's is called in the nodes of a GraphRuntime's")
    return found


async def call_tool(tool: Tool | str, /, *, call_id: str = "", **arguments: Any) -> Any:
    """In a node: call a tool, by its gate; its result. Executed again, the node gets the same one.

    Raises:
        CallDenied: a person said no. CallFailed: it came to nothing, for another reason.
    """
    here = _here()
    return await _call(here, here.key(), tool, call_id, arguments)


async def _call(here: Inside, key: str, tool: Tool | str, call_id: str, arguments: dict[str, Any]) -> Any:
    asked = here.run.call(tool, call_id=call_id, key=key, **arguments)
    assert asked.call is not None
    outcome = await here.run.outcome_or_wait(asked.call)
    if outcome is None:
        raise GraphInterrupt((Interrupt({HELD: key}, id=f"{HELD}/{key}"),))
    if outcome.came in ("answered", "settled"):
        return outcome.value
    raise error_of(outcome)


async def step(name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """In a node: do something once (`Loop.step`), such as a model call in a node that does more than that."""
    here = _here()
    return await here.run.step(name, function, *args, key=here.key(), **options)


def graph_tool(tool: Tool) -> StructuredTool:
    """A tool of Callboard's as LangChain has them, for `ToolNode`, `bind_tools` and agents.

    Errors and denials are given to the model as its result.
    """

    async def told(here: Inside, key: str, arguments: dict[str, Any]) -> Any:
        try:
            return await _call(here, key, tool, "", arguments)
        except CallFailed as error:
            raise ToolException(f"Error: {error}") from error

    async def called(**arguments: Any) -> Any:
        here = _here()
        return await told(here, here.key(), arguments)

    def called_in_thread(**arguments: Any) -> Any:
        here = _here()
        work: Coroutine[Any, Any, Any] = told(here, here.key(), arguments)
        return asyncio.run_coroutine_threadsafe(work, here.loop).result()

    spec = tool.spec()
    return StructuredTool(
        name=spec.name,
        description=spec.description or spec.name,
        args_schema=spec.parameters,
        coroutine=called,
        func=called_in_thread,
        handle_tool_error=True,
    )
