"""A loop of somebody's own: its steps are done once, its tools pass the gate, and it goes on where it was."""

from collections.abc import Sequence
from typing import Any

import pytest

from callboard import FunctionLLM, InMemoryStore, LLMResponse, NeedsApproval, StepError, tool
from callboard.actors.adapters.loop import Loop, durable_loop, said, user
from callboard.actors.adapters.loop_errors import CallDenied
from callboard.actors.adapters.loop_runtime import LoopRuntime
from callboard.actors.llm.client import ChatMessage

pytestmark = pytest.mark.anyio

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


@tool(side_effect=True, requires_approval=lambda a: a["amount"] > 5000)
async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, Any]:
    """Refund an order."""
    done.append(f"refund {order_id} {idempotency_key}")
    return {"refund": order_id}


@tool
async def look_up(order_id: str) -> dict[str, Any]:
    """The state of an order."""
    done.append(f"look_up {order_id}")
    return {"order_id": order_id}


async def policy(messages: Sequence[ChatMessage], tools: object, system: str) -> LLMResponse:
    """Asks for everything at once, the gated call first; then answers."""
    answers = [message.content for message in messages if message.role == "tool"]
    done.append(f"model #{len(answers)}")
    if answers:
        return LLMResponse(" | ".join(answers), input_tokens=7, cost_usd="0.5")
    calls = [
        {"id": "a", "name": "issue_refund", "arguments": {"order_id": "A", "amount": 6400}},
        {"id": "b", "name": "look_up", "arguments": {"order_id": "B"}},
        {"id": "c", "name": "look_up", "arguments": {"order_id": "C"}},
    ]
    return LLMResponse("", calls, input_tokens=5, cost_usd="0.25")


llm = FunctionLLM(policy)


@durable_loop(tools=[issue_refund, look_up])
async def agent(run: Loop, goal: str) -> str:
    messages = [user(goal)]
    while True:
        answer = await run.step("model", llm.call, messages, [])
        if not answer.tool_calls:
            return str(answer.content)
        messages += [said(answer), *await run.answers(answer.tool_calls)]


async def test_af09_gated_first_the_siblings_execute_and_nothing_is_done_twice_after_the_approval() -> None:
    async with LoopRuntime(InMemoryStore(), agent) as runtime:
        run = await runtime.start("refund A")
        assert run.state.status == "awaiting_approval", run.state.failure_detail
        assert done == ["model #0", "look_up B", "look_up C"]
        pending = (await runtime.snapshot(run.id)).pending
        assert pending is not None and len(pending.executed_sibling_results) == 2
        await runtime.approve(run.id, "ann")
        state = await runtime.resume(run.id)
        assert state.status == "completed", state.failure_detail
        assert state.final_answer == '{"refund":"A"} | {"order_id":"B"} | {"order_id":"C"}'
        assert [one.split()[0] for one in done] == ["model", "look_up", "look_up", "refund", "model"]
        assert state.total_tokens == 12 and str(state.total_cost_usd) == "0.75"
        verification = await runtime.verify(run.id)
        assert verification.ok, verification.differences


async def test_a_denied_call_raises_the_reason_in_the_code() -> None:
    @durable_loop(tools=[issue_refund])
    async def asks(run: Loop, goal: str) -> str:
        try:
            await run.call(issue_refund, order_id="A", amount=9000)
        except CallDenied as denied:
            return f"{denied.by}: {denied.reason}"
        return "refunded"

    async with LoopRuntime(InMemoryStore(), asks) as runtime:
        run = await runtime.start("go")
        await runtime.deny(run.id, "ann", "too much")
        assert (await runtime.resume(run.id)).final_answer == "ann: too much"
        assert done == []


async def test_a_tool_that_asks_by_itself_holds_the_call_of_the_code_and_in_a_step_it_is_an_error() -> None:
    calls: list[tuple[str, str]] = []

    @tool(side_effect=True)
    async def pay(amount: int, idempotency_key: str, approval: str) -> int:
        """Pay."""
        calls.append((idempotency_key, approval))
        if not approval:
            raise NeedsApproval("much")
        return amount

    async def alone() -> None:
        raise NeedsApproval("nobody is asked here")

    @durable_loop(tools=[pay])
    async def code(run: Loop, goal: str) -> str:
        paid = await run.call(pay, amount=7)
        try:
            await run.step("alone", alone)
        except StepError as error:
            return f"{paid} {error.error_type}"
        return "no error"

    async with LoopRuntime(InMemoryStore(), code) as runtime:
        run = await runtime.start("go", run_id="r")
        assert run.state.status == "awaiting_approval", run.state.failure_detail
        await runtime.approve(run.id, "ann")
        state = await runtime.resume(run.id)
        assert (state.status, state.tool_calls) == ("completed", 1), state.failure_detail
        assert state.final_answer == "{'result': 7} NeedsApproval"
        (key, first), (same, second) = calls
        assert key == same and first == "" and second.endswith("r.1")
        verification = await runtime.verify(run.id)
        assert verification.ok, verification.differences


async def test_what_is_said_to_a_run_is_read_by_its_code_once_also_on_replay() -> None:
    seen: list[list[str]] = []

    @durable_loop(tools=[issue_refund])
    async def listens(run: Loop, goal: str) -> None:
        seen.append(await run.told())
        await run.call(issue_refund, order_id="A", amount=9000)
        seen.append(await run.told())
        seen.append(await run.told())

    async with LoopRuntime(InMemoryStore(), listens) as runtime:
        run = await runtime.start("go")
        await runtime.tell(run.id, "hurry")
        await runtime.tell(run.id, "please")
        await runtime.approve(run.id, "ann")
        assert (await runtime.resume(run.id)).status == "completed"
        assert seen == [[], [], ["hurry", "please"], []]
