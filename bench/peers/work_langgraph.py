"""LangGraph: a graph of model and tool that goes round ten times, its history in a checkpoint after each node.

Option: its `durability`, `sync` (a checkpoint is stored before the next node begins) or `async` (beside it).
"""

import asyncio
import importlib
import uuid
from typing import Annotated, Any

PACKAGES = ("langgraph", "langgraph-checkpoint-postgres")
STEPS = 10
CONNECTIONS = 20


def _graph() -> Any:
    messages = importlib.import_module("langchain_core.messages")
    graphs = importlib.import_module("langgraph.graph")
    add_messages: Any = importlib.import_module("langgraph.graph.message").add_messages

    # The functional form: its annotations are values here, and not names that somebody looks up elsewhere.
    typed_dict: Any = importlib.import_module("typing").TypedDict
    state = typed_dict("State", {"messages": Annotated[list[Any], add_messages], "i": int})

    async def model(seen: Any) -> dict[str, Any]:
        call = {"name": "noop", "args": {"q": "abc"}, "id": f"c{seen['i']}"}
        return {"messages": [messages.AIMessage(content="x" * 200, tool_calls=[call])]}

    async def tool(seen: Any) -> dict[str, Any]:
        return {"messages": [messages.ToolMessage(content="y" * 50, tool_call_id=f"c{seen['i']}")], "i": seen["i"] + 1}

    graph = graphs.StateGraph(state)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(graphs.START, "model")
    graph.add_edge("model", "tool")
    graph.add_conditional_edges("tool", lambda seen: graphs.END if seen["i"] >= STEPS else "model")
    return graph


class Work:
    """Runs of an agent."""

    def __init__(self, app: Any, durability: str) -> None:
        self._app = app
        self._durability = durability
        self._human = importlib.import_module("langchain_core.messages").HumanMessage

    async def go(self, count: int, at_once: int) -> None:
        """`count` runs, `at_once` of them at a time."""
        numbers = iter(range(count))

        async def some() -> None:
            for _ in numbers:
                about = {"configurable": {"thread_id": str(uuid.uuid4())}, "recursion_limit": 1_000}
                begin = {"messages": [self._human("go")], "i": 0}
                await self._app.ainvoke(begin, about, durability=self._durability)

        await asyncio.gather(*(some() for _ in range(at_once)))


async def opened(dsn: str, options: list[str]) -> Work:
    """Ready to go."""
    rows = importlib.import_module("psycopg.rows")
    pool = importlib.import_module("psycopg_pool").AsyncConnectionPool(
        dsn,
        min_size=CONNECTIONS,
        max_size=CONNECTIONS,
        open=False,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": rows.dict_row},
    )
    await pool.open()
    saver = importlib.import_module("langgraph.checkpoint.postgres.aio").AsyncPostgresSaver(pool)
    await saver.setup()
    return Work(_graph().compile(checkpointer=saver), options[0])
