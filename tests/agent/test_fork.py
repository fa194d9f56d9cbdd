"""Forks: a run that goes on from any event of another one, which does not notice; nothing is done twice unasked."""

from collections.abc import Sequence
from typing import Any

import pytest

from callboard import AgentSpec, Budget, FunctionLLM, LLMResponse, tool
from callboard.actors.agent import forking
from callboard.actors.agent.events import (
    ApprovalRequested,
    LLMCallCompleted,
    RunForked,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from callboard.actors.llm.client import ChatMessage, ToolSpec
from callboard.mailbox.errors import Conflict, UsageError

from .stage import Stage, asks, budget, results, says, script

pytestmark = pytest.mark.anyio

PAID: list[tuple[int, str]] = []


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


@tool(side_effect=True)
async def pay(amount: int, idempotency_key: str) -> str:
    """Pay."""
    PAID.append((amount, idempotency_key))
    return f"paid {amount}"


@tool
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


TWICE = script(
    asks(("look", {"n": 1})),
    asks(("pay", {"amount": 5})),
    lambda messages: says(messages[-1].content),
    lambda messages: says(f"and: {messages[-1].content}"),
)


async def seq_of(stage: Stage, run: str, kind: type[Any], nth: int = 1) -> int:
    """Number of the nth event of a kind."""
    return [r.seq for r in await stage.runs.events(run) if isinstance(r.event, kind)][nth - 1]


async def forked(stage: Stage, run: str, at: int | None = None, **options: Any) -> str:
    fork = await stage.runtime.fork(run, at, **options)
    await stage.settle()
    return fork


async def test_a_fork_goes_on_from_the_event_and_the_origin_is_unharmed() -> None:
    async with Stage(TWICE, [look, pay]) as stage:
        run = await stage.begin(run_id="o")
        before = await stage.runs.events(run)
        fork = await forked(stage, run, await seq_of(stage, run, ToolCallCompleted), new_id="f", note="what if")
        (first, *_) = await stage.events(fork)
        assert isinstance(first, RunForked)
        assert (first.origin, first.note) == (stage.runs.address("o"), "what if")
        assert await stage.runs.events(run) == before
        state = await stage.state(fork)
        assert (state.goal, state.origin, state.run_id, state.status) == ("go", first.origin, "f", "awaiting_approval")
        assert [(5, PAID[0][1])] == PAID  # by the origin; the fork asks first


async def test_the_same_side_effect_needs_a_person_in_the_fork_and_another_one_does_not() -> None:
    amounts = iter([5, 5, 6])

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        if len(messages) == 1:
            return asks(("pay", {"amount": next(amounts)}))
        return says(messages[-1].content)

    async with Stage(FunctionLLM(answer), [pay]) as stage:
        run = await stage.begin(run_id="o")
        same = await forked(stage, run, 1)
        (asked,) = await stage.of(same, ApprovalRequested)
        assert asked.reason == "call 1 of run o is this very call, asked for after the event where this run was forked"
        assert [row.policy for row in await stage.decisions(same)] == ["fork"]
        assert len(PAID) == 1
        await stage.approve(same)
        assert (await stage.state(same)).status == "completed"
        assert len({key for _, key in PAID}) == 2  # another call, with a key of its own
        other = await forked(stage, run, 1)
        assert (await stage.state(other)).final_answer == '{"result":"paid 6"}'


@pytest.mark.parametrize("nth", [1, 2])
async def test_a_call_that_was_unanswered_is_answered_by_what_became_of_it_there(nth: int) -> None:
    """At the model's answer, before the call is on record, and at the record of the call."""
    async with Stage(TWICE, [look, pay]) as stage:
        run = await stage.begin(run_id="o")
        kind = LLMCallCompleted if nth == 1 else ToolCallRequested
        fork = await forked(stage, run, await seq_of(stage, run, kind, 2))
        (failed,) = await stage.of(fork, ToolCallFailed)
        there = 'call 2 of run o: completed there with {"result":"paid 5"}; it was not made in this fork'
        if nth == 2:
            assert failed.error == there
        assert (await stage.state(fork)).final_answer == f"Error: {failed.error}"
        assert len(PAID) == 1


async def test_a_run_can_be_forked_at_every_event_and_every_fork_verifies() -> None:
    async with Stage(TWICE, [look, pay]) as stage:
        run = await stage.begin()
        events = await stage.runs.events(run)
        for recorded in events[:-1]:
            fork = await forked(stage, run, recorded.seq)
            for row in await stage.decisions(fork):
                await stage.approve(fork, call=int(row.call))
            assert (await stage.state(fork)).status == "completed", recorded
            snapshot = await stage.runtime.snapshot(fork)
            roles = [message["role"] for message in snapshot.messages]
            assert roles[0] == "user" and roles[-1] == "assistant"
            asked = sum(len(m.get("tool_calls", [])) for m in snapshot.messages)
            assert asked == sum(role == "tool" for role in roles)


async def test_a_completed_run_goes_on_in_a_fork_that_is_told_something() -> None:
    async with Stage(TWICE, [look, pay]) as stage:
        run = await stage.begin(run_id="o")
        with pytest.raises(Conflict, match=r"callboard fork o --say TEXT"):
            await stage.runtime.tell(run, "and now?")
        with pytest.raises(UsageError, match=r"run o is completed at event \d+: say what"):
            await stage.runtime.fork(run)
        fork = await forked(stage, run, say="and now?")
        assert (await stage.state(fork)).final_answer == "and: and now?"
        assert len(PAID) == 1


async def test_a_fork_of_a_fork_reads_the_whole_chain() -> None:
    talk = script(*[lambda messages: says(str(len(messages)))] * 4)
    async with Stage(talk) as stage:
        first = await stage.begin()
        second = await forked(stage, first, say="two")
        third = await forked(stage, second, say="three")
        assert (await stage.state(third)).final_answer == "5"
        texts = [message["content"] for message in (await stage.runtime.snapshot(third)).messages]
        assert texts == ["go", "1", "two", "3", "three", "5"]
        again = await forked(stage, third, 1, say="four")
        assert (await stage.state(again)).final_answer == "5"


async def test_a_fork_s_budget_counts_anew() -> None:
    endless = FunctionLLM(lambda messages, tools, system: asks(("look", {"n": 1}), input_tokens=10))
    async with Stage(endless, [look]) as stage:
        run = await stage.begin(budget=budget(max_iterations=3))
        fork = await forked(stage, run)
        state = await stage.state(fork)
        assert (state.failure_detail, state.step, state.total_tokens) == ("3 of 3 iterations are used", 6, 30)
        state = await stage.state(await forked(stage, run, budget=budget(max_iterations=1)))
        assert (state.failure_detail, state.tool_calls) == ("1 of 1 iterations are used", 1)


async def test_a_run_that_waits_for_a_person_can_be_forked_and_goes_on_waiting() -> None:
    @tool(requires_approval=True, name="pay")
    async def gated(amount: int) -> str:
        """Pay."""
        return "paid"

    llm = script(asks(("pay", {"amount": 5})), lambda messages: says(results(messages)[0]))
    async with Stage(llm, [gated]) as stage:
        run = await stage.begin(run_id="o")
        fork = await forked(stage, run)
        said = "Error: call 1 of run o: it has no outcome there yet; it was not made in this fork"
        assert (await stage.state(fork)).final_answer == said
        await stage.approve(run)
        assert (await stage.state(run)).final_answer == '{"result":"paid"}'


async def test_an_event_that_is_not_there_is_refused_and_so_is_a_run() -> None:
    async with Stage(TWICE, [look, pay]) as stage:
        run = await stage.begin(run_id="o")
        count = len(await stage.events(run))
        for at in (0, -1, count + 1):
            with pytest.raises(UsageError, match=rf"run o has events 1 to {count} and cannot be forked at {at}"):
                await stage.runtime.fork(run, at)
        with pytest.raises(ValueError, match="no run 'nobody'"):
            await stage.runtime.fork("nobody")
        with pytest.raises(UsageError, match="max_tokens=0"):
            await stage.runtime.fork(run, 1, budget=Budget(max_tokens=0))
    async with Stage(TWICE, nodes=0) as stage:
        await stage.runtime.create("go", run_id="o")
        with pytest.raises(UsageError, match="has no events yet"):
            await stage.runtime.fork("o")
        stage.checked = False


async def test_a_fork_survives_its_node() -> None:
    async with Stage(TWICE, [look, pay]) as stage:
        run = await stage.begin(run_id="o")
        await stage.kill()
        fork = await stage.runtime.fork(run, 1)
        assert (await stage.state(fork)).status == "running"  # recorded only
        await stage.add_node()
        await stage.advance(5.0)
        assert (await stage.state(fork)).status == "awaiting_approval"
        await stage.kill()
        await stage.add_node()
        await stage.approve(fork)
        await stage.advance(5.0)
        assert (await stage.state(fork)).status == "completed"


async def test_what_the_origin_s_agents_did_is_not_done_again_unasked_by_the_fork_s() -> None:
    child = script(asks(("pay", {"amount": 5})), lambda messages: says(results(messages)[0]))
    agent = AgentSpec("payer", "Pays.", "", (pay,), llm=child)
    llm = script(asks(("payer", {"goal": "pay 5"})), lambda messages: says(results(messages)[0]))
    async with Stage(llm, [], agents=[agent]) as stage:
        run = await stage.begin(run_id="o")
        assert len(PAID) == 1
        await forked(stage, run, 1, new_id="f")
        (asked,) = await stage.of("f.1", ApprovalRequested)
        assert asked.reason.startswith("call 1 of run o.1 is this very call")
        await stage.deny("f.1")
        assert len(PAID) == 1 and (await stage.state("f")).status == "completed"


async def test_what_a_fork_s_origin_did_stays_remembered_in_forks_of_the_fork() -> None:
    async with Stage(TWICE, [look, pay]) as stage:
        run = await stage.begin(run_id="o")
        fork = await forked(stage, run, 1)
        again = await forked(stage, fork, 1)
        assert "of run o is this very call" in (await stage.of(again, ApprovalRequested))[0].reason
        assert len(PAID) == 1


async def test_beyond_a_thousand_calls_every_call_of_the_tool_needs_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "MAX_ELSEWHERE", 2)
    many = asks(*[("pay", {"amount": n}) for n in range(4)])
    amounts = iter([9])

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        if len(messages) == 1:
            return many if not PAID else asks(("pay", {"amount": next(amounts)}))
        return says("ok")

    async with Stage(FunctionLLM(answer), [pay]) as stage:
        run = await stage.begin()
        fork = await forked(stage, run, 1)
        assert len((await stage.state(fork)).elsewhere) == 3
        assert (await stage.state(fork)).status == "awaiting_approval" and len(PAID) == 4


async def test_a_fork_of_an_agent_that_is_gone_fails_and_says_so() -> None:
    agent = AgentSpec("payer", "Pays.", llm=script(says("paid")))
    async with Stage(script(), [], agents=[agent]) as stage:
        run = await stage.begin(agent="payer")
        await stage.kill()
        await stage.add_node(stage.beside(script()))
        await stage.advance(5.0)
        fork = await forked(stage, run, 1)
        assert (await stage.state(fork)).failure_detail == "there is no agent 'payer' here; known are: none"
