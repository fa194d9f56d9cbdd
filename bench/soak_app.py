"""The application that is under load in the storms: agents that look an order up, refund it and send a voucher.

A run of order N asks for `refund:N` (above the limit it waits for a person) and `voucher:N` in one breath. A refund
that was interrupted is made again under its key; a voucher that was asks `reconcile` first. Both pay at a provider
outside (`payments.py`), named by the option `payments=FILE`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from callboard import App, ChatMessage, FunctionLLM, LLMResponse, Supervisor, Surroundings, Tool, ToolCall, tool
from callboard.actors.agent.desk import agent_tree
from callboard.bench.payments import Payments

LIMIT_CENTS = 5_000
THINK_SECONDS = 0.1
"""So that storms find models and tools at work."""
RUNS = "/soak/run"


def goal(order: int, amount_cents: int) -> str:
    """What a run is told."""
    return f"refund {order} {amount_cents}"


def items(order: int) -> tuple[str, str]:
    """What is paid for once its run is completed."""
    return f"refund:{order}", f"voucher:{order}"


async def _model(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    await anyio.sleep(THINK_SECONDS)
    _, order, amount = messages[0].content.split()
    answered = sum(message.role == "tool" for message in messages)
    if not answered:
        return LLMResponse(tool_calls=(ToolCall("look", "look_up", {"order": int(order)}),))
    if answered == 1:
        refund = ToolCall("pay", "issue_refund", {"order": int(order), "amount_cents": int(amount)})
        return LLMResponse(tool_calls=(refund, ToolCall("gift", "send_voucher", {"order": int(order)})))
    return LLMResponse(content=f"order {order}: {messages[-1].content}")


def _tools(payments: Payments) -> tuple[Tool, ...]:
    @tool
    async def look_up(order: int) -> dict[str, Any]:
        """The state of an order."""
        await anyio.sleep(THINK_SECONDS)
        return {"order": order, "status": "delivered"}

    async def pay(item: str, amount_cents: int, key: str) -> dict[str, Any]:
        before = await anyio.to_thread.run_sync(payments.pay, item, amount_cents, key)
        await anyio.sleep(THINK_SECONDS)  # paid, and not yet known here: where it is worst to be killed
        return {"item": item, "before": before}

    @tool(side_effect=True, requires_approval=lambda a: a["amount_cents"] > LIMIT_CENTS)
    async def issue_refund(order: int, amount_cents: int, idempotency_key: str) -> dict[str, Any]:
        """Refund an order."""
        return await pay(items(order)[0], amount_cents, idempotency_key)

    async def was_sent(order: int, idempotency_key: str) -> dict[str, Any] | None:
        found = await anyio.to_thread.run_sync(payments.find, f"voucher {idempotency_key}")
        return None if found is None else {"item": found, "before": True}

    @tool(side_effect=True, on_doubt="reconcile", reconcile=was_sent)
    async def send_voucher(order: int, idempotency_key: str) -> dict[str, Any]:
        """Send the customer a voucher."""
        return await pay(items(order)[1], 500, f"voucher {idempotency_key}")

    return look_up, issue_refund, send_voucher


@asynccontextmanager
async def opened(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    """The tree over the provider that the option `payments` names."""
    payments = Payments(Path(surroundings.options["payments"]))
    yield agent_tree("soak", FunctionLLM(_model), _tools(payments))


app = App("soak", opened, runs=RUNS)
