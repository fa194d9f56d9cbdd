"""An application whose model, tools and customers write what a terminal would obey, wherever they may write."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from callboard import App, ChatMessage, FunctionLLM, LLMResponse, Supervisor, Surroundings, ToolCall, agent_tree, tool

EVIL = (
    "\x1b[2J\x1b]52;c;aGFoYQ==\x07\x1b]0;title\x1b\\ \x9b31m \x85 \u2028 \u2029 \u202eesrever\u2066 ze\u200bro \ufeff"
    " \U000e0041 \r\n\nforged\tline of somebody else\n 宽宽宽 👩\u200d👩\u200d👧 [bold]markup[/bold] {brace} %s end"
)
"""Cursor, clipboard, title, C1, directions, zero width, tags, line breaks, wide characters, markup."""


def _model(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    answers = [message.content for message in messages if message.role == "tool"]
    if messages[0].content.startswith("fail"):
        raise ValueError(EVIL)
    if not answers:
        calls = (
            ToolCall("c1", "look", {"text": EVIL, EVIL: EVIL}),
            ToolCall("c2", "look", {"text": EVIL}),
            ToolCall("c3", "break_down", {"text": EVIL}),
            ToolCall("c4", EVIL, {"text": EVIL}),
        )
        return LLMResponse(content=EVIL, tool_calls=calls)
    if len(answers) == 4:
        return LLMResponse(content=EVIL, tool_calls=(ToolCall("c5", "pay", {"to": EVIL, "amount_cents": 12900}),))
    return LLMResponse(content=EVIL)


@tool
async def look(text: str) -> dict[str, str]:
    """Look."""
    return {"found": text, text: text}


@tool
async def break_down(text: str) -> str:
    """Break."""
    raise RuntimeError(text)


@tool(side_effect=True, requires_approval=True)
async def pay(to: str, amount_cents: int, idempotency_key: str) -> dict[str, str]:
    """Pay."""
    return {"to": to}


@asynccontextmanager
async def open_desk(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    yield agent_tree("evil", FunctionLLM(_model), (look, break_down, pay))


app = App("evil", open_desk, runs="/evil/run", system_prompt=EVIL)
