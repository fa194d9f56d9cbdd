"""The smallest loop that lets a model work a ticket: no runtime, no durability, one conversation."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio

from callboard.actors.agent.faults import NeedsApproval
from callboard.actors.agent.tool import Tool
from callboard.actors.llm.client import ChatMessage, LLMClient, ToolCall
from callboard.crm.policy import policy_text

MAX_ITERATIONS = 12
DENIED = {"error": "approval denied: not this time"}

Decide = Callable[[str], bool]
Result = dict[str, Any]


def approve_all(reason: str) -> bool:
    return True


def deny_all(reason: str) -> bool:
    return False


async def in_thread(function: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(function)


async def work(
    model: LLMClient,
    tools: Sequence[Tool],
    ticket_id: str,
    *,
    decide: Decide = approve_all,
    system_prompt: str | None = None,
    around: Callable[[ToolCall, Callable[[], Awaitable[Result]]], Awaitable[Result]] | None = None,
) -> list[ChatMessage]:
    """Work one ticket to the model's final sentence; siblings run together and answer in reverse order."""
    by_name = {tool.name: tool for tool in tools}
    messages = [ChatMessage("user", f"Work ticket {ticket_id}.")]
    for _ in range(MAX_ITERATIONS):
        prompt = policy_text() if system_prompt is None else system_prompt
        response = await model.call(messages, [tool.spec() for tool in tools], prompt)
        messages.append(ChatMessage("assistant", response.content, response.tool_calls))
        if not response.tool_calls:
            return messages
        results: dict[str, ChatMessage] = {}

        async def answer(call: ToolCall, into: dict[str, ChatMessage] = results) -> None:
            async def run() -> Result:
                return await _run(by_name[call.name], call, f"{ticket_id}/{call.id}", decide)

            result = await (run() if around is None else around(call, run))
            into[call.id] = ChatMessage("tool", json.dumps(result), tool_name=call.name, tool_call_id=call.id)

        async with anyio.create_task_group() as group:
            for call in response.tool_calls:
                group.start_soon(answer, call)
        messages.extend(results[call.id] for call in reversed(response.tool_calls))
    raise AssertionError(f"ticket {ticket_id} took more than {MAX_ITERATIONS} iterations: {messages}")


async def _run(tool: Tool, call: ToolCall, key: str, decide: Decide) -> Result:
    arguments = tool.validate(call.arguments)
    reason, approval = tool.gate(arguments), ""
    if reason is not None:
        if not decide(reason):
            return DENIED
        approval = "by the gate"
    try:
        return await tool.call(arguments, key, in_thread, approval)
    except NeedsApproval as asks:
        return await tool.call(arguments, key, in_thread, "by the tool") if decide(asks.reason) else DENIED


def called(messages: Sequence[ChatMessage]) -> list[str]:
    """Names of all tools that the model called, in order."""
    return [call.name for message in messages for call in message.tool_calls]
