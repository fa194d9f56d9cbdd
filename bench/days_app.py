"""The application of `bench days`: runs of one step each, whose model and tool do no work."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from callboard import App, ChatMessage, FunctionLLM, LLMResponse, Supervisor, Surroundings, ToolCall, tool
from callboard.actors.agent.desk import agent_tree

RUNS = "/days/run"


@tool
async def look_up(order: int) -> dict[str, object]:
    """The state of an order."""
    return {"order": order, "status": "delivered"}


def _model(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    if any(message.role == "tool" for message in messages):
        return LLMResponse(content="It was delivered.")
    return LLMResponse(tool_calls=(ToolCall("look", "look_up", {"order": 7}),))


@asynccontextmanager
async def opened(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    """The tree."""
    yield agent_tree("days", FunctionLLM(_model), (look_up,))


app = App("days", opened, runs=RUNS)
