"""Runs as a whole: the snapshot document, flat cost of long runs, names across pools, telling, the runtime alone."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import anyio
import msgspec
import pytest

from callboard import AgentSpec, FunctionLLM, InMemoryStore, LLMResponse, Runtime, tool
from callboard.actors.agent.events import (
    ApprovalRequested,
    MessageTold,
    RunFailed,
    ToolCallCompleted,
    ToolCallRequested,
)
from callboard.actors.agent.record import scope_of
from callboard.actors.llm.client import ChatMessage, ToolSpec

from .stage import Stage, asks, budget, says, script

pytestmark = pytest.mark.anyio


@tool
async def look(n: int) -> int:
    """Look."""
    return n


@tool(requires_approval=True, side_effect=True)
async def pay(amount: int, idempotency_key: str) -> str:
    """Pay."""
    return "paid"


async def test_w11_what_was_under_way_at_the_cap_is_recorded_before_the_run_ends() -> None:
    """Killed in the middle of the last allowed step's tool call: its outcome is in the journal, and nothing hangs."""
    began, gone, made = anyio.Event(), anyio.Event(), []

    @tool(name="look")
    async def slow(n: int) -> int:
        """Look."""
        made.append(n)
        if len(made) == 1:
            began.set()
            await gone.wait()
        return n

    async with Stage(script(asks(("look", {"n": 7})), says("late")), [slow]) as stage:
        run = await stage.begin(max_steps=1)
        await began.wait()
        await stage.kill()
        gone.set()
        await stage.add_node()
        await stage.advance(5.0)
        kinds = await stage.kinds(run)
        assert kinds[-2:] == ["ToolCallCompleted", "RunFailed"]
        state = await stage.state(run)
        assert (state.pending, state.failure_detail) == ({}, "1 of 1 iterations are used")
        (done,) = await stage.of(run, ToolCallCompleted)
        assert done.recovered and done.result == {"result": 7}


async def test_af11_the_reason_names_the_limit_and_the_amount() -> None:
    endless = FunctionLLM(
        lambda messages, tools, system: asks(("look", {"n": 1}), input_tokens=600, cost_usd="0.40", output_tokens=0)
    )
    said = {
        "2 of 2 iterations are used": budget(max_iterations=2),
        "1,200 of 1,000 tokens are used": budget(max_tokens=1_000),
        "0.80 of 0.5 USD are spent": budget(max_cost_usd=Decimal("0.5")),
        "1 of 1 tool calls are made, and 1 more was asked for": budget(max_tool_calls=1),
    }
    async with Stage(endless, [look]) as stage:
        for sentence, limits in said.items():
            run = await stage.begin(budget=limits)
            assert [event.detail for event in await stage.of(run, RunFailed)] == [sentence]


async def test_af04_af14_the_snapshot_has_every_part_after_kill_9() -> None:
    both = asks(("look", {"n": 1}), ("pay", {"amount": 5}), ("look", {"n": 2}), input_tokens=11, cost_usd="0.5")
    async with Stage(script(both, says("ok")), [look, pay]) as stage:
        run = await stage.begin("go", run_id="r", requested_by="mara")
        await stage.kill()
        await stage.add_node()
        snapshot = await stage.runtime.snapshot(run)
        assert snapshot.run_id == "r" and snapshot.sdk_state == {}
        assert snapshot.context["status"] == "awaiting_approval"
        assert snapshot.context["counters"] == {"iterations": 1, "calls": 3, "tool_calls": 2, "events": 8}
        assert snapshot.context["budget"]["max_iterations"] == 25
        assert snapshot.context["usage"] == {"input_tokens": 11, "output_tokens": 0, "cost_usd": "0.5"}
        assert snapshot.context["session"]["requested_by"] == "mara"
        assert [message["role"] for message in snapshot.messages] == ["user", "assistant"]
        waits = snapshot.pending
        assert waits is not None
        assert (waits.tool, waits.arguments, waits.call, waits.tool_call_id) == ("pay", {"amount": 5}, 2, "c2")
        assert waits.executed_sibling_results == {1: {"result": 1}, 3: {"result": 2}}
        assert snapshot.saved_at == int((await stage.runs.events(run))[-1].at * 1000)
        assert msgspec.json.decode(msgspec.json.encode(snapshot))["pending"]["executed_sibling_results"]["3"]


async def test_g10_a_run_of_a_thousand_steps_keeps_as_little_as_one_of_ten() -> None:
    sizes: dict[int, int] = {}

    async def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        step = sum(message.role == "assistant" for message in messages) + 1
        if step in (10, 1_000):
            row = await stage.store.actor(stage.runs.address("r"))
            assert row is not None
            sizes[step] = len(row.state) + len(row.bonds or b"")
        return says("done") if step > 1_000 else asks(("look", {"n": step}))

    async with Stage(FunctionLLM(answer), [look]) as stage:
        await stage.begin(run_id="r", budget=budget())
        state = await stage.state("r")
        assert (state.status, state.step, state.tool_calls) == ("completed", 1_001, 1_000)
        assert sizes[1_000] <= sizes[10] + 40  # the digits of counters
        stage.checked = False  # to fold every prefix of so long a journal takes a minute
        assert (await stage.runtime.verify("r")).ok


async def test_two_pools_with_the_same_run_id_share_no_decision_and_no_key() -> None:
    llm = script(asks(("pay", {"amount": 5})), says("ok"))
    async with Stage(llm, [pay]) as stage:
        other = stage.beside(llm, [pay], name="others")
        await stage.begin(run_id="same")
        await stage.kill()
        await stage.add_node(other)
        await stage.advance(5.0)
        await other.create("go", run_id="same")
        await stage.settle()
        asked = [await stage.of("same", ApprovalRequested), []]
        asked[1] = [e.event for e in await other.runs.events("same") if isinstance(e.event, ApprovalRequested)]
        (mine,), (theirs,) = asked
        assert (mine.decision, theirs.decision) == ("same.1", "others.run:same.1")
        assert mine.digest != theirs.digest and mine.idempotency_key != theirs.idempotency_key
        await other.approve("same", "ann")
        await stage.settle()
        assert (await other.state("same")).status == "completed"
        assert (await stage.state("same")).status == "awaiting_approval"
        stage.checked = False  # it looks at one pool
        assert [row.status for row in await stage.decisions("same")] == ["pending"]


def test_runs_of_the_default_pool_keep_the_names_that_they_had_before_there_were_scopes() -> None:
    assert scope_of("/agents/run:r") == ""
    assert scope_of("/crm/desk/agent:r") == "crm.desk.agent"


async def test_what_a_stranger_says_to_a_run_is_recorded_as_such() -> None:
    async with Stage(script(asks(("pay", {"amount": 5})), says("ok")), [pay]) as stage:
        run = await stage.begin()
        await stage.runtime.tell(run, "pay me too", by="customer", trust="untrusted")
        await stage.runtime.tell(run, "no", by="ann")
        await stage.settle()
        assert [(one.by, one.trust) for one in await stage.of(run, MessageTold)] == [
            ("customer", "untrusted"),
            ("ann", "trusted"),
        ]


async def test_runs_are_listed_with_where_they_come_from() -> None:
    async with Stage(script(says("ok"), says("again"))) as stage:
        await stage.begin(run_id="a")
        await stage.runtime.fork("a", new_id="b", say="go on")
        await stage.settle()
        listed = await stage.runtime.list()
        assert [(name, line["origin"], line["status"]) for name, line in listed] == [
            ("a", "", "completed"),
            ("b", "a", "completed"),
        ]
        assert [name for name, _ in await stage.runtime.list(after="a")] == ["b"]


async def test_a_runtime_that_is_no_node_works_on_the_runs_that_its_run_calls() -> None:
    """In real time: `start` makes this process a node for a while, and returns when only people are waited for."""
    expert = AgentSpec("expert", "Knows.", "", (pay,), llm=script(asks(("pay", {"amount": 5})), says("42")))
    llm = script(asks(("expert", {"goal": "how many?"})), lambda messages: says(messages[-1].content))
    runtime = Runtime(InMemoryStore(), llm, agents=[expert])
    handle = await runtime.start("go", run_id="r")
    assert handle.state.status == "running" and (await runtime.state("r.1")).status == "awaiting_approval"
    assert (await runtime.resume("r")).status == "running"
    await runtime.approve("r.1", "ann")
    assert (await runtime.resume("r")).final_answer == '{"answer":"42"}'


async def test_da021_an_unknown_profile_is_refused_when_the_run_is_created() -> None:
    with pytest.raises(ValueError, match=r"no guardrail profile is called 'hard'; there are off, validation"):
        Runtime(InMemoryStore(), script(), guardrail_profile="hard")
    async with Stage(script(says("ok"))) as stage:
        with pytest.raises(ValueError, match="'hard'"):
            await stage.runtime.create("go", guardrail_profile="hard")


async def test_da003_to_da006_names_and_errors_of_the_seed() -> None:
    async with Stage(script(asks(("look", {"n": 1})), says("ok")), [look], nodes=0) as stage:
        stage.checked = False
        with pytest.raises(ValueError, match=r"duplicate tool names: \['look'\]"):
            stage.beside(script(), [look, look])
        run = await stage.runtime.create("go", requested_by="mara", max_steps=7)
        state = await stage.runtime.get_state(run)
        assert (state.status, state.step, state.budget.max_iterations) == ("running", 0, 7)
        assert (await stage.runtime.get_state("nobody")).status == "not_started"
        for call in (stage.runtime.resume("nobody"), stage.runtime.approve("nobody", "ann")):
            with pytest.raises(ValueError, match="no"):
                await call


def test_the_tool_of_an_agent_asks_for_a_goal_and_nothing_else() -> None:
    from callboard.actors.agent.agents import agent_tool

    made: Any = agent_tool(AgentSpec("expert", "Knows."))
    assert (made.name, made.description, made.side_effect) == ("expert", "Knows.", False)
    assert made.parameters["required"] == ["goal"]


async def test_the_call_of_an_agent_is_a_tool_call_in_the_journal() -> None:
    expert = AgentSpec("expert", "Knows.", llm=script(says("42")))
    async with Stage(script(asks(("expert", {"goal": "x"})), says("ok")), agents=[expert]) as stage:
        run = await stage.begin()
        (asked,) = await stage.of(run, ToolCallRequested)
        assert (asked.tool, asked.arguments) == ("expert", {"goal": "x"})
