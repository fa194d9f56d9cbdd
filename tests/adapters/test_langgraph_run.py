"""A graph of somebody's own as a run: interrupts are held calls, and nodes that are executed again repeat no effect."""

from typing import Any, TypedDict

import pytest

from callboard import InMemoryStore, tool

pytest.importorskip("langgraph", reason="needs the extra langgraph")

from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, interrupt

from callboard.actors.adapters.langgraph.runtime import GraphRuntime
from callboard.actors.adapters.langgraph.tools import call_tool, step
from callboard.service.operations.runs import Operations
from callboard.service.trace import trace_lines

pytestmark = pytest.mark.anyio

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


class Order(TypedDict, total=False):
    order: str
    amount: int
    said: Any
    refund: Any


@tool(side_effect=True, requires_approval=lambda a: a["amount"] > 5000)
async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, Any]:
    """Refund an order."""
    done.append(f"refund {order_id}")
    return {"refund": order_id}


async def ask(state: Order) -> Order:
    done.append("asks")
    said = interrupt({"question": f"refund {state['order']}?"})
    return {"said": said}


async def refund(state: Order) -> Order:
    done.append("refund node")
    return {"refund": await call_tool(issue_refund, order_id=state["order"], amount=state["amount"])}


def graph(*nodes: Any, **options: Any) -> StateGraph[Any, Any, Any, Any]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Order)
    before = START
    for node in nodes:
        builder.add_node(node.__name__, node, **options)
        builder.add_edge(before, node.__name__)
        before = node.__name__
    builder.add_edge(before, END)
    return builder


async def test_an_interrupt_is_a_held_call_and_its_approval_resumes_the_graph() -> None:
    async with GraphRuntime(InMemoryStore(), graph(ask, refund), tools=[issue_refund]) as runtime:
        run = await runtime.start({"order": "A", "amount": 10})
        assert run.state.status == "awaiting_approval", run.state.failure_detail
        waits = run.state.pending_approval
        assert waits is not None and waits.arguments["question"] == {"question": "refund A?"}
        await runtime.approve(run.id, "ann", note="fine")
        state = await runtime.resume(run.id)
        assert state.status == "completed", state.failure_detail
        assert (
            state.final_answer is not None and '"said":{"approved":true,"by":"ann","note":"fine"}' in state.final_answer
        )
        assert done == ["asks", "asks", "refund node", "refund A"]
        assert (await runtime.verify(run.id)).ok


async def test_a_denied_interrupt_says_so_to_the_graph() -> None:
    async with GraphRuntime(InMemoryStore(), graph(ask), tools=[]) as runtime:
        run = await runtime.start({"order": "A", "amount": 10})
        await runtime.deny(run.id, "ann", "no")
        state = await runtime.resume(run.id)
        assert state.final_answer is not None and '"approved":false' in state.final_answer
        assert '"reason":"no"' in state.final_answer


async def test_a_gated_tool_in_a_node_waits_and_its_node_goes_on_with_the_result() -> None:
    async with GraphRuntime(InMemoryStore(), graph(refund), tools=[issue_refund]) as runtime:
        run = await runtime.start({"order": "A", "amount": 9000})
        assert run.state.status == "awaiting_approval", run.state.failure_detail
        assert done == ["refund node"]
        await runtime.approve(run.id, "ann")
        state = await runtime.resume(run.id)
        assert state.status == "completed", state.failure_detail
        assert done == ["refund node", "refund A", "refund node"]


async def test_g4_a_node_that_langgraph_tries_again_repeats_no_effect() -> None:
    async def shaky(state: Order) -> Order:
        paid = await call_tool(issue_refund, order_id="A", amount=1)
        seen = await step("note", done.append, "step")
        if len(done) < 3:
            done.append("stumbles")
            raise ConnectionError("lost")
        return {"refund": paid, "said": seen}

    builder = graph(shaky, retry_policy=RetryPolicy(initial_interval=0.01, jitter=False))
    async with GraphRuntime(InMemoryStore(), builder, tools=[issue_refund]) as runtime:
        run = await runtime.start({"order": "A"})
        assert run.state.status == "completed", run.state.failure_detail
        assert done == ["refund A", "step", "stumbles"]


async def test_a_hosted_run_can_be_shown_and_its_checkpoints_do_not_fill_the_screen() -> None:
    async with GraphRuntime(InMemoryStore(), graph(refund), tools=[issue_refund]) as runtime:
        run = await runtime.start({"order": "A", "amount": 1})
        operations = Operations(runtime.store, "ann")
        shown = [line.text for line in trace_lines(await operations.trace(run.id))]
        assert (await operations.verify(run.id))[1].ok
        assert any("of a library's own state" in line for line in shown)
        assert any("issue_refund" in line for line in shown)
        assert max(len(line) for line in shown) < 500
