"""What a graph asks a person, when the question is empty, huge, or made of what a model said: a person is asked."""

import operator
from typing import Annotated, Any

import anyio
import pytest

pytest.importorskip("langgraph", reason="needs the extra langgraph")

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from callboard import InMemoryStore
from callboard.actors.adapters.langgraph.runtime import GraphRuntime
from callboard.actors.adapters.langgraph.tools import HELD

pytestmark = pytest.mark.anyio


class State(TypedDict):
    said: Annotated[list[Any], operator.add]


@pytest.mark.parametrize(
    "question",
    ["", " \n", None, 0, False, {}, [], {HELD: "task/1"}, {"interrupt_id": "x"}, "x" * 2_000_000, {"a": ["\x00"] * 9}],
    ids=lambda question: repr(question)[:20],
)
async def test_g5_whatever_a_graph_asks_a_person_answers(question: Any) -> None:
    def ask(state: State) -> dict[str, Any]:
        return {"said": [interrupt(question)["by"]]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    with anyio.fail_after(60):
        async with GraphRuntime(InMemoryStore(), graph) as runtime:
            run = await runtime.start({"said": []})
            assert run.state.status == "awaiting_approval"
            await runtime.approve(run.id, "ann")
            state = await runtime.resume(run.id)
    assert (state.status, state.final_answer) == ("completed", '{"said":["ann"]}')
