"""An agent with one tool, in memory: no database, no network. `python docs/examples/quickstart.py`"""

import anyio

from callboard import InMemoryStore, LLMResponse, Runtime, ScriptedLLM, tool


@tool(side_effect=True)
async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, str]:
    """Refund an order."""
    return {"refund_id": f"RF-{order_id}", "key": idempotency_key[:8]}


# What a model would say; put OpenAICompatibleClient, OllamaClient or GoogleClient here.
llm = ScriptedLLM(
    [
        LLMResponse(tool_calls=[{"name": "issue_refund", "arguments": {"order_id": "A-8891", "amount": 40}}]),
        LLMResponse("Your refund RF-A-8891 is on its way."),
    ]
)


async def main() -> None:
    async with Runtime(store=InMemoryStore(), llm=llm, tools=[issue_refund]) as runtime:
        run = await runtime.start(goal="Refund order A-8891, it arrived damaged.")
        print(run.state.status, "-", run.state.final_answer)
        for recorded in await runtime.events(run.id):
            print(f"{recorded.seq:3}  {type(recorded.event).__name__}")


anyio.run(main)
