"""A `while` loop of your own, made durable: the model in `run.step`, the tools in `run.call`.

    python docs/examples/loop_of_your_own.py

The refund needs a person. While it waits nothing of the loop is in memory; after the approval it runs again from its
beginning, its finished steps are answered from the journal, and it goes on. The model is asked twice, not three times.
"""

from collections.abc import Sequence

import anyio

from callboard import ChatMessage, FunctionLLM, InMemoryStore, LLMResponse, tool
from callboard.actors.adapters.loop import Loop, durable_loop, said, user
from callboard.actors.adapters.loop_errors import CallDenied
from callboard.actors.adapters.loop_runtime import LoopRuntime


@tool(side_effect=True, requires_approval=lambda a: a["amount"] > 50)
async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, object]:
    """Refund an order. Needs approval above 50."""
    print(f"(refunding {order_id})")
    return {"refund_id": f"RF-{order_id}"}


def model(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    """Stands for any client of any vendor."""
    print("(the model is asked)")
    if messages[-1].role == "tool":
        return LLMResponse(f"Done: {messages[-1].content}")
    return LLMResponse(tool_calls=[{"name": "issue_refund", "arguments": {"order_id": "A-8891", "amount": 64}}])


llm = FunctionLLM(model)


@durable_loop(tools=[issue_refund])
async def my_agent(run: Loop, goal: str) -> str:
    messages = [user(goal)]
    while True:
        answer = await run.step("model", llm.call, messages, [issue_refund.spec()])
        if not answer.tool_calls:
            return str(answer.content)
        messages.append(said(answer))
        for call in answer.tool_calls:
            try:
                result = str(await run.call(call.name, **call.arguments))
            except CallDenied as denied:
                result = f"denied: {denied.reason}"
            messages.append(ChatMessage("tool", result, tool_name=call.name, tool_call_id=call.id))


async def main() -> None:
    async with LoopRuntime(InMemoryStore(), my_agent) as runtime:
        run = await runtime.start("Refund order A-8891, it arrived damaged.")
        print(run.state.status)
        await runtime.approve(run.id, "dana@example.com")
        state = await runtime.resume(run.id)
        print(state.status, "-", state.final_answer)


anyio.run(main)
