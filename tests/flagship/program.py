"""One process of a flagship test: `python -m tests.flagship.program MODE ...`, the DSN in DATABASE_URL.

    start GOAL RUN          create the run and work on it until it rests; prints its status
    approve RUN             record an approval, work on nothing
    resume RUN              work on the run until it rests; prints its status and answer
    serve                   be a node until killed; prints "ready" and its number
    create GOAL RUN...      record runs, work on nothing

KILL_AFTER_EVENT=N       kill -9 itself as soon as the N-th event of any run is on disk, before anything follows from it
KILL_AFTER_EFFECT=1      kill -9 itself between a refund's effect and its record, once (KILL_MARK names a file)
KILL_IN_MODEL=#N         kill -9 itself in the middle of the model call that sees N answers of tools, once
HOST=native|loop|graph   whose loop it is: Callboard's, a `while` loop of somebody's own, or a LangGraph graph
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import psycopg

from callboard import (
    ChatMessage,
    FunctionLLM,
    LLMResponse,
    NodeSettings,
    PostgresStore,
    Runtime,
    tool,
)
from callboard.actors import committer
from callboard.actors.adapters.loop_runtime import LoopRuntime
from callboard.actors.agent.budget import Budget

DSN = os.environ.get("DATABASE_URL", "")
SLOW_SECONDS = float(os.environ.get("SLOW_SECONDS", "0"))


_connection: list[psycopg.AsyncConnection[Any]] = []


async def note(table: str, what: str, key: str, conflict: str = "") -> None:
    """A row in one of the tables that are counted afterwards."""
    if not _connection:
        _connection.append(await psycopg.AsyncConnection.connect(DSN, autocommit=True))
    statement = f"insert into {table} (what, key, pid) values (%s, %s, %s) {conflict}"
    await _connection[0].execute(statement.encode(), [what, key, os.getpid()])


def first_time() -> bool:
    """Whether this is the first process to come here."""
    mark = Path(os.environ["KILL_MARK"])
    if mark.exists():
        return False
    mark.touch()
    return True


@tool(side_effect=True, requires_approval=lambda a: a["amount"] > 5000)
async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, Any]:
    """Refund an order; above 5000 with approval."""
    await note("attempt", order_id, idempotency_key)
    await note("refund", order_id, idempotency_key, "on conflict (key) do nothing")
    if os.environ.get("KILL_AFTER_EFFECT") and first_time():
        os.kill(os.getpid(), signal.SIGKILL)
    return {"refund": f"RF-{order_id}", "amount": amount}


@tool
async def look_up(order_id: str) -> dict[str, Any]:
    """The state of an order; counted, and without a key: each call leaves a row."""
    await note("effect", order_id, "")
    return {"order_id": order_id, "status": "delivered"}


@tool
async def slow(order_id: str) -> dict[str, Any]:
    """Takes its time."""
    await note("effect", f"slow {order_id}", "")
    await anyio.sleep(SLOW_SECONDS)
    return {"slept": SLOW_SECONDS}


def refund_call(order: str, amount: int) -> dict[str, Any]:
    return {"id": f"c-{order}", "name": "issue_refund", "arguments": {"order_id": order, "amount": amount}}


async def policy(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    """A model that is a pure function of the conversation; every call of it is paid for with a row."""
    goal = messages[0].content
    answered = [message for message in messages if message.role == "tool"]
    await note("model_call", f"{goal} #{len(answered)}", "")
    if os.environ.get("KILL_IN_MODEL") == f"#{len(answered)}" and first_time():
        os.kill(os.getpid(), signal.SIGKILL)
    kind, _, rest = goal.partition(" ")
    if kind == "refund" and not answered:
        return LLMResponse(tool_calls=[refund_call(rest, 6400)])
    if kind == "batch" and not answered:
        looks = [{"id": f"l-{n}", "name": "look_up", "arguments": {"order_id": f"{rest}-{n}"}} for n in (1, 2)]
        return LLMResponse(tool_calls=[refund_call(rest, 6400), *looks])
    if kind == "three" and not answered:
        return LLMResponse(tool_calls=[refund_call(f"{rest}-{n}", 10 * n) for n in (1, 2, 3)])
    if kind == "ten" and len(answered) < 10:
        call = {"id": f"l{len(answered)}", "name": "look_up", "arguments": {"order_id": f"{rest}-{len(answered)}"}}
        return LLMResponse(tool_calls=[call])
    if kind == "slow" and not answered:
        return LLMResponse(tool_calls=[{"id": "s", "name": "slow", "arguments": {"order_id": rest}}])
    if kind == "batch":
        return LLMResponse(content=" ".join(message.content for message in answered))
    return LLMResponse(content=f"done after {len(answered)} answers")


def kill_after_event(number: int) -> None:
    """Die the moment event `number` of a run is durable: nothing of what follows from it has happened yet."""
    landed = committer.Committer._landed

    def dying(self: committer.Committer, batch: Any, result: Any) -> None:
        for index, entry in enumerate(batch):
            if index not in result.rejected and any(event.seq >= number for event in entry.unit.events):
                os.kill(os.getpid(), signal.SIGKILL)
        landed(self, batch, result)

    committer.Committer._landed = dying  # type: ignore[method-assign]


def make_runtime() -> Runtime:
    settings = NodeSettings(
        lease_seconds=float(os.environ.get("LEASE_SECONDS", NodeSettings().lease_seconds)),
        label=os.environ.get("NODE_LABEL", ""),
    )
    budget = Budget(max_iterations=50, max_tokens=None)
    tools = [issue_refund, look_up, slow]
    store = PostgresStore(DSN)
    match os.environ.get("HOST", "native"):
        case "loop":
            from .own_loop import code

            return LoopRuntime(store, code, tools=tools, name="agents", settings=settings)
        case "graph":
            from .own_graph import runtime

            return runtime(store, tools, settings)
    return Runtime(store, FunctionLLM(policy), tools, budget=budget, settings=settings)


async def main(arguments: list[str]) -> None:
    mode, *rest = arguments
    if os.environ.get("KILL_AFTER_EVENT"):
        kill_after_event(int(os.environ["KILL_AFTER_EVENT"]))
    runtime = make_runtime()
    match mode:
        case "start":
            run = await runtime.start(rest[0], run_id=rest[1])
            print(json.dumps({"status": run.state.status, "answer": run.state.final_answer}), flush=True)
        case "create":
            async with runtime.store:
                for run_id in rest[1:]:
                    await runtime.create(f"{rest[0]} {run_id}", run_id=run_id)
        case "approve":
            await runtime.approve(rest[0], "dana@example.com")
        case "resume":
            state = await runtime.resume(rest[0])
            print(json.dumps({"status": state.status, "answer": state.final_answer}), flush=True)
        case "serve":
            async with runtime:
                assert runtime._node is not None and runtime._node.life is not None
                print(json.dumps({"ready": runtime._node.life.session.number}), flush=True)
                await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
