"""Many runs, and many nodes on one run: no tool twice, no answer bought twice, one event a number (W-01, W-04)."""

from collections import Counter
from typing import Any

import anyio
import pytest

from callboard import FunctionLLM, InMemoryStore, LLMResponse, NodeSettings, Runtime, tool
from callboard.actors.agent.events import ToolCallCompleted
from callboard.actors.agent.messages import ModelAnswered, ModelFailed, ToolAnswered, ToolDoubted, ToolErred
from callboard.actors.system import AskFailed
from callboard.mailbox.lane import Lane

from .stage import Stage, asks, says, script, verified

pytestmark = pytest.mark.anyio

LONG = NodeSettings(lease_seconds=60)
"""A node that a busy machine starves is superseded when its lease is over, and what it had bought is bought again."""


class Ledger:
    """A tool whose every execution is counted."""

    def __init__(self) -> None:
        self.made: Counter[tuple[str, int]] = Counter()

        @tool(side_effect=True)
        async def act(run: str, n: int) -> int:
            """Act, without a key."""
            self.made[run, n] += 1
            await anyio.lowlevel.checkpoint()
            return n

        self.tools = [act]


def model(calls: int, *, at_once: bool) -> FunctionLLM:
    """Acts so many times, in one turn or in so many, and then says it is done."""

    def answer(messages: Any, *_: Any) -> LLMResponse:
        done = sum(message.role == "tool" for message in messages)
        if done == calls:
            return says("done")
        numbers = range(calls) if at_once else (done,)
        return asks(*(("act", {"run": messages[0].content, "n": n}) for n in numbers))

    return FunctionLLM(answer)


@pytest.mark.parametrize("at_once", [True, False])
async def test_w01_two_runtimes_race_on_one_run_and_do_everything_once(at_once: bool) -> None:
    ledger, llm, store = Ledger(), model(5, at_once=at_once), InMemoryStore()
    first, second = [Runtime(store, llm, ledger.tools, settings=LONG) for _ in range(2)]
    run = await first.create("one")
    states = {}

    async def resume(name: str, runtime: Runtime) -> None:
        states[name] = await runtime.resume(run)

    async with anyio.create_task_group() as group:
        group.start_soon(resume, "first", first)
        group.start_soon(resume, "second", second)
    assert {state.status for state in states.values()} == {"completed"}
    assert ledger.made == {("one", n): 1 for n in range(5)}
    assert llm.call_count == (2 if at_once else 6)
    events = await first.events(run)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    await verified(first, run)


async def test_w01_four_nodes_and_a_hundred_runs_of_ten_calls_each() -> None:
    ledger, llm, store = Ledger(), model(10, at_once=True), InMemoryStore()
    runtimes = [Runtime(store, llm, ledger.tools, settings=LONG) for _ in range(4)]
    done: list[str] = []

    async def start(runtime: Runtime, goal: str) -> None:
        run = await runtime.start(goal)
        assert run.state.final_answer == "done"
        done.append(run.id)

    async with runtimes[0], runtimes[1], runtimes[2], runtimes[3], anyio.create_task_group() as group:
        for n in range(100):
            group.start_soon(start, runtimes[n % 4], f"run {n}")
    assert ledger.made == {(f"run {n}", call): 1 for n in range(100) for call in range(10)}
    assert llm.call_count == 200
    for run in done:
        await verified(runtimes[0], run)
    assert await store.dead_letters() == []


async def test_w01_nodes_that_come_and_go_repeat_nothing_that_was_recorded() -> None:
    ledger, llm = Ledger(), model(3, at_once=False)
    async with Stage(llm, ledger.tools, nodes=2) as stage:
        runs = [await stage.runtime.create(f"run {n}") for n in range(20)]
        for _ in range(6):
            for _ in range(12):
                await anyio.lowlevel.checkpoint()
            await stage.add_node()
            await stage.kill(stage.nodes[0])
            await stage.advance(2.5)
        for run in runs:
            state = await stage.state(run)
            if state.status == "awaiting_approval":
                continue  # in doubt: it was cut off in the middle, and a person is asked
            assert state.status == "completed"
            assert len(await stage.of(run, ToolCallCompleted)) == 3
        assert set(ledger.made.values()) == {1}


async def test_w04_a_frozen_node_that_comes_back_writes_nothing() -> None:
    """Its model call ends after another node has taken the run over."""
    go = anyio.Event()
    calls: list[int] = []

    async def answer(*_: Any) -> LLMResponse:
        calls.append(1)
        if len(calls) == 1:
            await go.wait()
            return says("from the dead")
        return says("ok")

    async with Stage(FunctionLLM(answer), nodes=1) as stage:
        run = await stage.begin()
        life = stage.nodes[0].life
        assert life is not None
        life.session.freeze()  # type: ignore[attr-defined]
        await stage.add_node()
        await stage.advance(5)
        assert (await stage.state(run)).final_answer == "ok"
        before = await stage.events(run)
        life.session.thaw()  # type: ignore[attr-defined]
        go.set()
        await stage.advance(5)
        assert await stage.events(run) == before


LATE: dict[str, Any] = {
    "answer again": ModelAnswered(1, "again"),
    "answer of no step": ModelAnswered(7, "what"),
    "failure after the answer": ModelFailed(1, 1, "late", final=True),
    "failure of no step": ModelFailed(0, 1, "what", final=True),
    "result of no call": ToolAnswered(99, {}),
    "result of a held call": ToolAnswered(2, {"stolen": True}),
    "error of a held call": ToolErred(2, "no"),
    "doubt of a held call": ToolDoubted(2, "hm"),
    "result again": ToolAnswered(1, {"again": True}),
    "error after the result": ToolErred(1, "late"),
    "attempt after the result": ToolErred(1, "late", final=False),
    "doubt after the result": ToolDoubted(1, "hm"),
    "no answer": AskFailed("target-failed", "late"),
}


@pytest.mark.parametrize("name", LATE)
async def test_what_comes_late_or_twice_changes_nothing(name: str) -> None:
    ledger = Ledger()

    @tool(requires_approval=True)
    async def pay(amount: int) -> int:
        """Pay."""
        return amount

    llm = script(asks(("act", {"run": "r", "n": 1}), ("pay", {"amount": 1})), says("ok"))
    async with Stage(llm, [*ledger.tools, pay]) as stage:
        run = await stage.begin()
        before = await stage.events(run)
        await stage.runtime.client.send(stage.runs.address(run), LATE[name], lane=Lane.REPLY)
        await stage.settle()
        assert await stage.events(run) == before
        await stage.approve(run)
        assert (await stage.state(run)).status == "completed"
        assert llm.call_count == 2


@pytest.mark.parametrize("late", [ModelAnswered(1, "stale"), ModelFailed(1, 3, "stale", final=True)])
async def test_a_word_about_an_earlier_step_is_not_one_about_this(late: Any) -> None:
    go = anyio.Event()

    async def answer(messages: Any, *_: Any) -> LLMResponse:
        if len(messages) == 1:
            return asks(("act", {"run": "r", "n": 1}))
        await go.wait()
        return says("ok")

    async with Stage(FunctionLLM(answer), Ledger().tools) as stage:
        run = await stage.begin()
        await stage.runtime.client.send(stage.runs.address(run), late, lane=Lane.REPLY)
        await stage.settle()
        assert (await stage.state(run)).status == "running"
        go.set()
        await stage.settle()
        assert (await stage.state(run)).final_answer == "ok"
