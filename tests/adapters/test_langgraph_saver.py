"""Our checkpointer: LangGraph's own conformance tests, and graphs that other processes go on with."""

import operator
from typing import Annotated, Any, TypedDict

import anyio
import anyio.to_thread
import pytest

from callboard import Client, InMemoryStore, NodeSettings, PostgresStore, create_schema

pytest.importorskip("langgraph.checkpoint.conformance", reason="needs the extra langgraph and its tests")

from langgraph.checkpoint import conformance
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer
from langgraph.graph import END, START, StateGraph

from callboard.actors.adapters.langgraph.saver import CallboardSaver
from callboard.actors.adapters.langgraph.shelf import ThreadShelf, open_shelf
from callboard.mailbox.errors import UsageError
from callboard.persistence.port import RealPort

pytestmark = pytest.mark.anyio


async def passes_everything(shelf: ThreadShelf) -> None:
    async def fresh():  # type: ignore[no-untyped-def]
        yield CallboardSaver(shelf)

    report = await conformance.validate(RegisteredCheckpointer("callboard", fresh))
    failed = {name: result.failures for name, result in report.results.items() if result.passed is not True}
    assert failed == {}
    assert set(report.results) == {
        "put",
        "put_writes",
        "get_tuple",
        "list",
        "delete_thread",
        "delete_for_runs",
        "copy_thread",
        "prune",
    }


async def test_af06_langgraphs_own_conformance_tests_pass_on_the_memory_store() -> None:
    async with open_shelf(InMemoryStore()) as shelf:
        await passes_everything(shelf)


async def test_af06_langgraphs_own_conformance_tests_pass_on_postgres(dsn: str) -> None:
    await create_schema(dsn)
    async with open_shelf(PostgresStore(dsn), settings=NodeSettings(drain_seconds=0.5)) as shelf:
        await passes_everything(shelf)


class Talk(TypedDict):
    said: Annotated[list[str], operator.add]


def talk() -> StateGraph[Talk, Any, Any, Any]:
    builder: StateGraph[Talk, Any, Any, Any] = StateGraph(Talk)

    def listen(state: Talk) -> Any:
        return {"said": [f"heard {state['said'][-1][:20]}"]}

    builder.add_node("listen", listen)
    builder.add_edge(START, "listen")
    builder.add_edge("listen", END)
    return builder


async def test_a_thread_goes_on_in_another_process_also_with_checkpoints_larger_than_a_message() -> None:
    store, port = InMemoryStore(), RealPort()
    large = "x" * (3 << 20)
    config: Any = {"configurable": {"thread_id": "a/b c"}}
    async with open_shelf(store) as shelf:
        first = talk().compile(checkpointer=CallboardSaver(shelf))
        await first.ainvoke({"said": [large]}, config)
        other = talk().compile(checkpointer=CallboardSaver(ThreadShelf(Client(store, port), "/graphs/thread")))
        await other.ainvoke({"said": ["b"]}, config)
        state = await first.aget_state(config)
        assert state.values["said"] == [large, "heard xxxxxxxxxxxxxxxxxxxx", "b", "heard b"]
        assert len([one async for one in first.aget_state_history(config)]) == 6


async def test_a_graph_can_be_invoked_from_a_thread_and_not_from_the_loop_of_its_store() -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    async with open_shelf(InMemoryStore()) as shelf:
        graph = talk().compile(checkpointer=CallboardSaver(shelf))
        found = await anyio.to_thread.run_sync(graph.invoke, {"said": ["a"]}, config)
        assert found == {"said": ["a", "heard a"]}
        assert (await anyio.to_thread.run_sync(graph.get_state, config)).values == found
        with pytest.raises(UsageError, match="ainvoke"):
            graph.invoke({"said": ["b"]}, config)


async def test_pruning_keeps_what_a_delta_channel_is_made_of() -> None:
    delta = pytest.importorskip("langgraph.channels.delta", reason="this LangGraph has no delta channels")

    def add(before: list[str], writes: Any) -> list[str]:
        return [*before, *(text for write in writes for text in write)]

    class Long(TypedDict):
        said: Annotated[list[str], delta.DeltaChannel(add)]

    def listen(state: Long) -> Any:
        return {"said": [f"{len(state['said'])}"]}

    builder: StateGraph[Long, Any, Any, Any] = StateGraph(Long)
    builder.add_node("listen", listen)
    builder.add_edge(START, "listen")
    builder.add_edge("listen", END)
    config: Any = {"configurable": {"thread_id": "t"}}
    async with open_shelf(InMemoryStore()) as shelf:
        saver = CallboardSaver(shelf)
        graph = builder.compile(checkpointer=saver)
        for text in "abc":
            await graph.ainvoke({"said": [text]}, config)
        before = (await graph.aget_state(config)).values
        assert before == {"said": ["a", "1", "b", "3", "c", "5"]}
        await saver.aprune(["t"])
        again = builder.compile(checkpointer=CallboardSaver(shelf))
        assert (await again.aget_state(config)).values == before
