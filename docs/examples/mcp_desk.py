"""A desk whose tools come from an MCP server, as an application.

    cd docs/examples
    callboard run mcp_desk:app "Reserve 2 lamps."
    callboard daemon mcp_desk:app --nodes 2

Each node process opens a session of its own when it starts, and leaves it when it has drained. Reading is free, to
reserve needs a person.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from callboard import App, ChatMessage, FunctionLLM, LLMResponse, Supervisor, Surroundings, agent_tree
from callboard.actors.adapters.mcp import mcp_tools

SERVER = Path(__file__).with_name("mcp_stock_server.py")


def model(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    """Stands for any client of any vendor: looks, reserves, and says so."""
    answers = [message.content for message in messages if message.role == "tool"]
    match len(answers):
        case 0:
            return LLMResponse(tool_calls=[{"name": "stock_count", "arguments": {"item": "lamp"}}])
        case 1:
            return LLMResponse(tool_calls=[{"name": "stock_reserve", "arguments": {"item": "lamp", "number": 2}}])
    return LLMResponse(f"Stock {answers[0]}, then {answers[1]}.")


@asynccontextmanager
async def open_desk(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    async with mcp_tools(
        command=[sys.executable, str(SERVER)],  # or url="https://…/mcp", headers={…}
        prefix="stock_",
        options={"reserve": {"requires_approval": True, "timeout_seconds": 10}},
    ) as tools:
        yield agent_tree("stock", FunctionLLM(model), tools)


app = App("stock", open_desk, runs="/stock/run")
