"""A small application for the tests: an offline model that reads what it shall do from the goal, and two tools.

refund 129.00       issue_refund(order_id, amount_cents), which needs a person above 50.00
close 7             close_ticket(ticket), which needs a person and moves no money; from 100 on two people, from 200 on
                    it is held for ten minutes after the approval, from 300 on who asked may not approve, and a check
                    finds that the customer still waits
slow NAME           wait_for_file(NAME): waits for a file, counts how often it began
fail                the model fails for good
anything else       is answered at once, with the goal in the answer
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from callboard import App, ChatMessage, FunctionLLM, LLMResponse, Supervisor, Surroundings, ToolCall, agent_tree, tool
from callboard.actors.agent.policy_data import policies_from
from callboard.actors.agent.rules import Rules


def _model(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    answers = [message.content for message in messages if message.role == "tool"]
    if answers:
        return LLMResponse(content=f"done: {answers[-1]}")
    goal = messages[0].content
    word, _, rest = goal.partition(" ")
    if word == "refund":
        cents = round(float(rest) * 100)
        return _call("issue_refund", {"order_id": "A-1", "amount_cents": cents})
    if word == "close":
        return _call("close_ticket", {"ticket": int(rest)})
    if word == "slow":
        return _call("wait_for_file", {"name": rest})
    if word == "fail":
        raise ValueError("the model has no answer to that")
    return LLMResponse(content=f"you said: {goal}")


def _call(name: str, arguments: dict[str, Any]) -> LLMResponse:
    return LLMResponse(content="", tool_calls=(ToolCall("c1", name, arguments),))


@tool(side_effect=True, requires_approval=lambda a: a["amount_cents"] > 5000)
async def issue_refund(order_id: str, amount_cents: int, idempotency_key: str) -> dict[str, Any]:
    """Refund an order."""
    return {"refunded": amount_cents, "order": order_id}


async def customer_is_gone(ticket: int) -> tuple[bool, str]:
    return ticket < 300, "the customer still waits" if ticket >= 300 else ""


POLICIES = policies_from([
    {"tool": "close_ticket", "when": [{"field": "ticket", "at_least": 100, "below": 200}], "name": "two", "needed": 2},
    {"tool": "close_ticket", "when": [{"field": "ticket", "at_least": 200, "below": 300}], "name": "slow",
     "hold_seconds": 600, "risk": "high"},
    {"tool": "close_ticket", "when": [{"field": "ticket", "at_least": 300}], "name": "four eyes",
     "not_requester": True},
])  # fmt: skip


@tool(requires_approval=True, checks=[customer_is_gone])
async def close_ticket(ticket: int) -> dict[str, Any]:
    """Close a ticket."""
    return {"closed": ticket}


@asynccontextmanager
async def open_desk(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    folder = Path(surroundings.options.get("folder", "."))

    @tool
    async def wait_for_file(name: str) -> dict[str, Any]:
        """Wait for a file."""
        with (folder / f"{name}.began").open("a") as began:
            began.write(f"{os.getpid()}\n")
        while not (folder / name).exists():  # noqa: ASYNC110 - the file is another process's word
            await anyio.sleep(0.02)
        return {"seen": name}

    tools = (issue_refund, close_ticket, wait_for_file)
    yield agent_tree("desk", FunctionLLM(_model), tools, rules=Rules(policies=POLICIES))


app = App("desk", open_desk, runs="/desk/run", system_prompt="Be brief.")
