"""durable-agents: its own runtime with a model that asks for a tool ten times, every event in PostgreSQL."""

import asyncio
import importlib
from decimal import Decimal
from typing import Any

PACKAGES = ("durable-agents",)
STEPS = 10
CONNECTIONS = 20


class Work:
    """Runs of an agent."""

    def __init__(self, pool: Any) -> None:
        peer = importlib.import_module("durable_agents")
        protocol = importlib.import_module("durable_agents.llm.protocol")

        async def call(self: Any, messages: Any, tools: Any, system_prompt: str = "") -> Any:
            """Asks for the tool, and then ends the run."""
            step = sum(message.role == "tool" for message in messages)
            calls = [peer.ToolCallInvocation(id=f"c{step}", name="noop", arguments={"q": f"abc{step}"})]
            return protocol.LLMResponse(
                content="x" * 200,
                tool_calls=calls if step < STEPS else [],
                stop_reason="tool_use" if step < STEPS else "end_turn",
                input_tokens=1,
                output_tokens=1,
                cost_usd=Decimal(0),
                latency_ms=0,
                provider_request_id="r",
            )

        async def noop(q: str) -> dict[str, Any]:
            """Does nothing."""
            return {"ok": True, "result": "y" * 50}

        store = peer.PostgresEventStore(pool)
        model = type("Model", (peer.LLMClient,), {"call": call})()
        self._runtime = peer.Runtime(store, model, [peer.tool()(noop)], max_steps=100_000, max_cost_usd="1000")

    async def go(self, count: int, at_once: int) -> None:
        """`count` runs, `at_once` of them at a time."""
        numbers = iter(range(count))

        async def some() -> None:
            for _ in numbers:
                run = await self._runtime.start("go")
                assert run.state.status == "completed", run.state

        await asyncio.gather(*(some() for _ in range(at_once)))


async def opened(dsn: str, options: list[str]) -> Work:
    """Ready to go."""
    pool = await importlib.import_module("asyncpg").create_pool(dsn, min_size=CONNECTIONS, max_size=CONNECTIONS)
    await importlib.import_module("durable_agents").create_schema(dsn)
    return Work(pool)
