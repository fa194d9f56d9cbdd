"""A LangGraph graph as a run: its checkpoints are in the run's journal, and `interrupt` is a held call.

pip install 'callboard[langgraph]'
python docs/examples/graph_with_approval.py
"""

from typing import Any, TypedDict

import anyio
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from callboard import InMemoryStore, tool
from callboard.actors.adapters.langgraph.runtime import GraphRuntime
from callboard.actors.adapters.langgraph.tools import call_tool


class Case(TypedDict, total=False):
    order: str
    amount: int
    approved: bool
    answer: str


@tool(side_effect=True)
async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, Any]:
    """Refund an order."""
    print(f"(refunding {order_id})")
    return {"refund_id": f"RF-{order_id}"}


async def look_up(case: Case) -> Case:
    print(f"(looking {case['order']} up)")
    return {"amount": 64}


async def ask(case: Case) -> Case:
    decision = interrupt(f"Refund {case['amount']} for {case['order']}?")
    return {"approved": decision["approved"]}


async def refund(case: Case) -> Case:
    if not case["approved"]:
        return {"answer": "No refund."}
    # By `call_tool`, and not by itself: executed again after a crash, this node gets the same refund, not a second one.
    done = await call_tool(issue_refund, order_id=case["order"], amount=case["amount"])
    return {"answer": f"Refunded: {done['refund_id']}."}


graph = StateGraph(Case)
for node in (look_up, ask, refund):
    graph.add_node(node.__name__, node)
graph.add_edge(START, "look_up")
graph.add_edge("look_up", "ask")
graph.add_edge("ask", "refund")
graph.add_edge("refund", END)


async def main() -> None:
    runtime = GraphRuntime(InMemoryStore(), graph, tools=[issue_refund], to_answer=lambda case: case["answer"])
    async with runtime:
        run = await runtime.start({"order": "A-8891"})
        waits = run.state.pending_approval
        print(run.state.status, "-", waits.reason if waits else "")
        await runtime.approve(run.id, "dana@example.com")
        state = await runtime.resume(run.id)
        print(state.status, "-", state.final_answer)


anyio.run(main)
