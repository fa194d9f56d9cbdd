"""Graphs whose nodes die, freeze and wait: they go on from their checkpoint, and no finished effect is repeated."""

import operator
from typing import Annotated, Any, TypedDict

import anyio
import anyio.to_thread
import pytest

from callboard import Reject, Runtime, Tool, tool

pytest.importorskip("langgraph", reason="needs the extra langgraph")

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

from callboard.actors.adapters.langgraph.runtime import GraphRuntime
from callboard.actors.adapters.langgraph.tools import call_tool, graph_tool
from callboard.actors.agent.events import CodeBegun, OpaqueKept, ToolCallCompleted
from tests.agent.stage import Stage

from .stage import Door

pytestmark = pytest.mark.anyio

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


class State(TypedDict, total=False):
    said: Annotated[list[Any], operator.add]


class GraphStage(Stage):
    """Runs of one graph."""

    def __init__(self, builder: Any, tools: Any = (), **options: Any) -> None:
        super().__init__(builder, tools, **options)

    def beside(self, llm: Any, tools: Any = (), **options: Any) -> Runtime:
        return GraphRuntime(self.store, llm, tools=tools, port=self.port, **options)

    async def fail_over(self) -> None:
        """The node is killed, and another one takes over."""
        await self.kill()
        await self.add_node()
        await self.advance(5.0)

    async def threads(self, run: str, *ends: str) -> None:
        """Until a run whose graph has blocking parts, which are in threads, comes to one of these."""
        with anyio.fail_after(60):
            while (await self.state(run)).status not in ends:
                await anyio.to_thread.run_sync(lambda: None)
                await self.settle()

    async def answer(self, run: str) -> str:
        await self.threads(run, "completed", "failed")
        state = await self.state(run)
        assert state.status == "completed", (state.status, state.failure_detail)
        return state.final_answer or ""


def side_by_side(*nodes: Any) -> StateGraph[Any, Any, Any, Any]:
    """A graph whose nodes are all executed in one superstep."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
        builder.add_edge(node.__name__, END)
    return builder


@tool(side_effect=True, requires_approval=lambda a: a["amount"] > 10)
async def pay(amount: int, idempotency_key: str) -> dict[str, Any]:
    """Pay."""
    done.append(f"pay {amount}")
    return {"paid": amount}


START_STATE = '{"said": []}'


async def test_af06_killed_in_a_superstep_its_finished_tasks_are_not_executed_again() -> None:
    door = Door()

    async def quick(state: State) -> State:
        done.append("quick")
        return {"said": ["quick"]}

    async def slow(state: State) -> State:
        done.append("slow")
        paid = await call_tool(pay, amount=5)
        await door.wait()
        return {"said": [paid["paid"]]}

    async with GraphStage(side_by_side(quick, slow), [pay]) as stage:
        run = await stage.begin(START_STATE)
        assert sorted(done) == ["pay 5", "quick", "slow"]
        await stage.kill()
        door.opened.set()
        await stage.add_node()
        await stage.advance(5.0)
        assert await stage.answer(run) == '{"said":["quick",5]}'
        assert sorted(done) == ["pay 5", "quick", "slow", "slow"], "the effect of the one that died is not repeated"
        assert len(await stage.of(run, ToolCallCompleted)) == 1


async def test_two_interrupts_wait_side_by_side_and_each_gets_its_own_decision() -> None:
    async def left(state: State) -> State:
        return {"said": [["left", interrupt("left?")]]}

    async def right(state: State) -> State:
        return {"said": [["right", interrupt("right?")]]}

    async with GraphStage(side_by_side(left, right)) as stage:
        run = await stage.begin(START_STATE)
        waits = {call.reason: call.call for call in (await stage.state(run)).pending_approvals}
        assert set(waits) == {"left?", "right?"}
        await stage.approve(run, call=waits["right?"])
        assert (await stage.state(run)).status == "awaiting_approval"
        await stage.fail_over()
        await stage.deny(run, "not that one", call=waits["left?"])
        answer = await stage.answer(run)
        assert '["left",{"approved":false,"by":"ann","reason":"not that one"}]' in answer
        assert '["right",{"approved":true,"by":"ann","note":""}]' in answer


async def test_interrupts_one_after_the_other_in_a_node_are_two_decisions() -> None:
    async def asks(state: State) -> State:
        return {"said": [interrupt("one?")["approved"], interrupt("two?")["approved"]]}

    async with GraphStage(side_by_side(asks)) as stage:
        run = await stage.begin(START_STATE)
        await stage.approve(run)
        await stage.fail_over()
        waits = (await stage.state(run)).pending_approval
        assert waits is not None and waits.reason == "two?"
        await stage.deny(run)
        assert await stage.answer(run) == '{"said":[true,false]}'
        assert len(await stage.decisions(run)) == 2


async def test_af09_a_gated_tool_in_a_task_lets_the_other_tasks_go_on() -> None:
    async def gated(state: State) -> State:
        return {"said": [await call_tool(pay, amount=50)]}

    async def other(state: State) -> State:
        return {"said": [await call_tool(pay, amount=5)]}

    async with GraphStage(side_by_side(gated, other), [pay]) as stage:
        run = await stage.begin(START_STATE)
        assert done == ["pay 5"]
        await stage.fail_over()
        await stage.approve(run)
        assert await stage.answer(run) == '{"said":[{"paid":50},{"paid":5}]}'
        assert done == ["pay 5", "pay 50"]


async def test_g3_a_frozen_node_s_checkpoints_are_refused() -> None:
    doors = [Door(), Door()]

    async def slow(state: State) -> State:
        mine = doors[0] if not doors[0].came else doors[1]
        await mine.wait()
        return {"said": [doors.index(mine) + 1]}

    async with GraphStage(side_by_side(slow), nodes=2) as stage:
        run = await stage.begin(START_STATE)
        [frozen] = [node for node in stage.nodes if node.life and node.life.pools["/graph/code"].running]
        assert frozen.life is not None
        frozen.life.session.freeze()  # type: ignore[attr-defined]
        await stage.advance(5.0)
        assert doors[1].came == 1
        before = len(await stage.of(run, OpaqueKept))
        doors[0].opened.set()
        await stage.settle()
        assert len(await stage.of(run, OpaqueKept)) == before
        doors[1].opened.set()
        await stage.settle()
        assert await stage.answer(run) == '{"said":[2]}'
        assert [event.attempt for event in await stage.of(run, CodeBegun)] == [1, 2]


async def test_a_node_that_asks_for_something_else_on_its_second_pass_fails_the_run() -> None:
    amounts = [5, 6]
    door = Door()

    async def fickle(state: State) -> State:
        await call_tool(pay, amount=amounts.pop(0))
        await door.wait()
        return {}

    async with GraphStage(side_by_side(fickle), [pay]) as stage:
        run = await stage.begin(START_STATE)
        await stage.fail_over()
        state = await stage.state(run)
        assert state.status == "failed"
        assert "it did 'pay' before, and now asks for 'pay' with other arguments" in state.failure_detail
        assert done == ["pay 5"]


async def test_a_tool_node_of_langgraph_s_with_denied_and_failing_tools_answers_the_model() -> None:
    @tool
    async def breaks() -> None:
        """Break."""
        raise Reject("no such thing")  # no other attempt

    def model(state: MessagesState) -> Any:
        answers = [str(message.content) for message in state["messages"] if message.type == "tool"]
        if answers:
            return {"messages": [AIMessage(" | ".join(answers))]}
        calls: Any = [
            {"id": "a", "name": "pay", "args": {"amount": 50}},
            {"id": "b", "name": "breaks", "args": {}},
            {"id": "c", "name": "pay", "args": {"amount": 5}},
        ]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    async def model_node(state: MessagesState) -> Any:
        return model(state)

    tools: list[Tool] = [pay, breaks]
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("model", model_node)
    builder.add_node("tools", ToolNode([graph_tool(one) for one in tools]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    options: Any = {
        "to_input": lambda goal: {"messages": [HumanMessage(goal)]},
        "to_answer": lambda values: values["messages"][-1].content,
        "retry_base_delay_seconds": 0.1,
    }
    async with GraphStage(builder, tools, **options) as stage:
        run = await stage.begin("go")
        await stage.threads(run, "awaiting_approval")
        assert done == ["pay 5"]
        await stage.fail_over()
        await stage.deny(run, "too much")
        answer = await stage.answer(run)
        assert answer.startswith("Error: approval of pay denied by ann: too much | Error: Reject: no such thing | ")
        assert done == ["pay 5"]


async def test_a_blocking_node_calls_tools_from_its_thread() -> None:
    pays = graph_tool(pay)

    def blocking(state: State) -> State:
        return {"said": [pays.invoke({"amount": 5})]}

    async with GraphStage(side_by_side(blocking), [pay]) as stage:
        run = await stage.runtime.create(START_STATE)
        assert await stage.answer(run) == '{"said":[{"paid":5}]}'


async def test_a_state_larger_than_a_message_is_kept_in_parts() -> None:
    door = Door()
    large = "x" * (2 << 20)

    async def makes(state: State) -> State:
        return {"said": [large]}

    async def counts(state: State) -> State:
        await door.wait()
        return {"said": [len(state["said"][-1])]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("makes", makes)
    builder.add_node("counts", counts)
    builder.add_edge(START, "makes")
    builder.add_edge("makes", "counts")
    builder.add_edge("counts", END)
    async with GraphStage(builder, to_answer=lambda values: str(values["said"][-1])) as stage:
        run = await stage.begin(START_STATE)
        await stage.kill()
        door.opened.set()
        await stage.add_node()
        await stage.advance(5.0)
        assert await stage.answer(run) == str(len(large))
