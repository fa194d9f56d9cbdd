"""Graphs as runs.

    async with GraphRuntime(store, builder, tools=[issue_refund]) as runtime:
        run = await runtime.start({"order": "A-8891"})
        run.state.status, run.state.final_answer          # the graph's values, as JSON

The code of such a run drives its graph, with a checkpointer whose records are in the run's journal: after a crash the
graph goes on from its last checkpoint, on whatever node. An `interrupt(value)` is a call that is held until somebody
decides: approved, the graph is resumed with {"approved": True, "by": …, "note": …}; denied, with {"approved": False,
"by": …, "reason": …}.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt

from ....mailbox import codec
from ....persistence.store import Store
from ...agent.result import normalise
from ...agent.runtime import RunHandle, RunId
from ...agent.tool import Tool, tool
from ..loop import Body, Code, Loop
from ..loop_messages import WantedCall
from ..loop_replay import Outcome
from ..loop_runtime import LoopRuntime
from ..loop_values import digest_of
from .saver import CallboardSaver
from .shelf import RunShelf
from .tools import HELD, Inside, inside

Graph = CompiledStateGraph[Any, Any, Any, Any]
Builder = StateGraph[Any, Any, Any, Any] | Callable[[BaseCheckpointSaver[str]], Graph]
"""A graph that is not compiled, or a function that makes a compiled one with the checkpointer it is given."""

INTERRUPT = "interrupt"
RECURSION_LIMIT = 10_000
"""Supersteps of one graph; LangGraph's own 25 is counted anew at each resume. Budgets are what limits a run."""


def _why(arguments: Mapping[str, Any]) -> str:
    """The question is the reason that people see. Never "", which would mean that nobody has to be asked."""
    question = arguments["question"]
    return question if isinstance(question, str) and question.strip() else codec.encode(question)


@tool(name=INTERRUPT, requires_approval=_why)
async def ask_person(question: Any, interrupt_id: str = "", answer: Any = None) -> dict[str, Any]:
    """A question of a graph's to a person: its `interrupt(value)`. Who edits the call can give an answer."""
    return {"approved": True} if answer is None else {"approved": True, "answer": answer}


def graph_code(
    builder: Builder,
    *,
    name: str = "graph",
    tools: Sequence[Tool] = (),
    to_input: Callable[[str], Any] = msgspec.json.decode,
    to_answer: Callable[[Any], Any] = lambda values: values,
) -> Code:
    """A graph as the code of hosted runs.

    `to_input` makes the graph's input of the run's goal (by default JSON), `to_answer` the run's answer of the graph's
    last values.
    """

    async def drive(run: Loop, goal: str) -> Any:
        saver = CallboardSaver(RunShelf(run.attempt))
        graph = builder.compile(checkpointer=saver) if isinstance(builder, StateGraph) else builder(saver)
        token = inside.set(Inside(run))
        try:
            return to_answer(await _drive(graph, run, lambda: to_input(goal)))
        finally:
            inside.reset(token)

    body: Body = drive
    return Code(name, body, (*tools, ask_person), keyed=True)


async def _drive(graph: Graph, run: Loop, first: Callable[[], Any]) -> Any:
    """Execute a graph to its end; its values."""
    config: Any = {"configurable": {"thread_id": run.id}, "recursion_limit": RECURSION_LIMIT}
    state = await graph.aget_state(config)
    work: Any = first() if state.created_at is None else None
    while state.created_at is None or state.next or state.interrupts:
        if state.interrupts:
            work = await _answers(run, state.interrupts)
            await run.go_on()
        await graph.ainvoke(work, config, durability="sync")
        state, work = await graph.aget_state(config), None
    return state.values


async def _answers(run: Loop, interrupts: Sequence[Interrupt]) -> Any:
    """What resumes a graph that was interrupted; None where it was for held calls only, which it makes again."""
    questions = [one for one in interrupts if not _is_held(one)]
    outcomes = await run.outcomes([_question(one) for one in questions])
    answers = {one.id: _answer(outcome) for one, outcome in zip(questions, outcomes, strict=True)}
    return Command(resume=answers) if answers else None


def _is_held(one: Interrupt) -> bool:
    # By its id, which is made here and by LangGraph: the value may hold whatever a model has said.
    return one.id.startswith(f"{HELD}/")


def _question(one: Interrupt) -> WantedCall:
    plain = normalise({"question": one.value, "interrupt_id": one.id})
    if "question" not in plain:  # too large to be asked whole
        plain = {"question": plain, "interrupt_id": one.id}
    return WantedCall(f"{INTERRUPT}/{one.id}", INTERRUPT, plain, digest_of((), plain))


def _answer(outcome: Outcome) -> dict[str, Any]:
    if outcome.came == "answered":
        return {**outcome.value, "by": outcome.by, "note": outcome.note}
    return {"approved": False, "by": outcome.by, "reason": outcome.error}


class GraphRuntime(LoopRuntime):
    """Hosts one graph over a store. Options as `graph_code` and `LoopRuntime`."""

    def __init__(
        self,
        store: Store,
        builder: Builder,
        *,
        tools: Sequence[Tool] = (),
        to_input: Callable[[str], Any] = msgspec.json.decode,
        to_answer: Callable[[Any], Any] = lambda values: values,
        name: str = "graph",
        **options: Any,
    ) -> None:
        code = graph_code(builder, name=name, tools=tools, to_input=to_input, to_answer=to_answer)
        super().__init__(store, code, name=name, **options)

    async def start(self, goal: Any, *, run_id: RunId | None = None, **options: Any) -> RunHandle:
        """Create a run and work on it until it rests. `goal`: the graph's input, or text that `to_input` reads."""
        return await super().start(_text(goal), run_id=run_id, **options)

    async def create(self, goal: Any, **options: Any) -> str:
        """Record a run; its id. `goal` as in `start`."""
        return await super().create(_text(goal), **options)


def _text(goal: Any) -> str:
    return goal if isinstance(goal, str) else msgspec.json.encode(goal).decode()
