"""What a run may have done without anybody knowing is not done again by its forks unasked; nor is a past lost."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from callboard import AgentSpec, Budget, FunctionLLM, LLMResponse, tool
from callboard.actors.agent.events import ApprovalRequested
from callboard.actors.guard.profiles import PROFILES, Cap
from callboard.actors.llm.client import ChatMessage, ToolSpec

from .stage import Stage, asks, says, script

pytestmark = pytest.mark.anyio

DONE: list[int] = []
STAGE: list[Stage] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@tool(side_effect=True)
async def wire(n: int) -> str:
    """Pay; it never comes back the first time."""
    DONE.append(n)
    if len(DONE) == 1:
        await STAGE[0].port.sleep(1e6)
    return "done"


@tool(side_effect=True)
async def pay(n: int) -> str:
    """Pay."""
    DONE.append(n)
    return "paid"


@tool(side_effect=True, requires_approval=True)
async def refund(amount: int) -> str:
    """Refund."""
    DONE.append(amount)
    return "refunded"


@tool
async def look(n: int) -> str:
    """Look."""
    return "seen"


async def asked_in_fork(stage: Stage, run: str, at: int) -> list[ApprovalRequested]:
    fork = await stage.runtime.fork(run, at)
    await stage.settle()
    return await stage.of(fork, ApprovalRequested)


async def test_what_an_agent_did_before_it_failed_needs_a_person_in_the_fork() -> None:
    child = script(asks(("pay", {"n": 5})), *[asks(("look", {"n": 1}))] * 9)
    expert = AgentSpec("expert", "Pays.", tools=(pay, look), llm=child, budget=Budget(max_iterations=3))
    parent = script(asks(("expert", {"goal": "pay"})), lambda messages: says(messages[-1].content))
    async with Stage(parent, agents=[expert]) as stage:
        run = await stage.begin(run_id="o")
        assert (await stage.state("o.1")).status == "failed" and DONE == [5]
        fork = await stage.runtime.fork(run, 1, new_id="f")
        await stage.settle()
        (asked,) = await stage.of(f"{fork}.1", ApprovalRequested)
        assert asked.reason.startswith("call 1 of run o.1 is this very call") and DONE == [5]


async def test_a_call_that_was_in_doubt_when_its_run_was_cancelled_needs_a_person_in_the_fork() -> None:
    async with Stage(script(asks(("wire", {"n": 1})), says("ok")), [wire]) as stage:
        STAGE[:] = [stage]
        run = await stage.begin(run_id="o")
        await stage.kill()
        await stage.add_node()
        await stage.advance(20)
        assert (await stage.state(run)).status == "awaiting_approval"
        await stage.runtime.cancel(run, by="ann")
        await stage.settle()
        assert len(await asked_in_fork(stage, run, 1)) == 1 and DONE == [1]
        # At the end as well: the answer that the model reads there says that nobody knows.
        fork = await stage.runtime.fork(run, say="go on", new_id="f")
        await stage.settle()
        assert (await stage.state(fork)).elsewhere


async def test_a_call_under_way_when_its_run_was_cancelled_at_once_needs_a_person_in_the_fork() -> None:
    async with Stage(script(asks(("wire", {"n": 1})), says("ok")), [wire]) as stage:
        STAGE[:] = [stage]
        run = await stage.begin(run_id="o")
        await stage.runtime.client.cancel(stage.runs.address(run), by="ann", reason="enough")
        await stage.settle()
        assert (await stage.state(run)).status == "cancelled"
        assert len(await asked_in_fork(stage, run, 1)) == 1 and DONE == [1]
        stage.checked = False  # the answer of the call finds nobody


async def test_a_call_that_was_only_held_when_its_run_was_cancelled_was_surely_not_made() -> None:
    async with Stage(script(asks(("refund", {"amount": 1})), says("ok")), [refund]) as stage:
        run = await stage.begin(run_id="o")
        await stage.runtime.cancel(run, by="ann")
        await stage.settle()
        (asked,) = await asked_in_fork(stage, run, 1)
        assert "is this very call" not in asked.reason


async def test_a_fork_of_a_fork_that_was_cancelled_before_it_began_has_its_whole_past() -> None:
    seen: list[list[str]] = []

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        seen.append([message.content for message in messages])
        return asks(("look", {"n": 2})) if len(messages) == 1 else says("ok")

    async with Stage(FunctionLLM(answer), [look]) as stage:
        run = await stage.begin(run_id="o")
        await stage.kill()
        await stage.runtime.fork(run, 3, new_id="f")
        await stage.runtime.cancel("f", by="ann")
        await stage.add_node()
        await stage.advance(20)
        assert (await stage.kinds("f"))[:2] == ["CancelRequested", "RunForked"]
        assert [message["content"] for message in (await stage.runtime.snapshot("f")).messages][:1] == ["go"]
        await stage.runtime.fork("f", new_id="g", say="go on")
        await stage.settle()
        assert (await stage.state("g")).status == "completed"
        assert seen[-1][0] == "go" and seen[-1][-1] == "go on"


async def test_a_call_that_the_origin_still_holds_uses_up_no_limit_of_the_fork() -> None:
    capped = PROFILES["standard"].with_(name="capped", caps={"refund": {"amount": Cap(total=Decimal(100))}})

    def again(messages: Sequence[ChatMessage]) -> Any:
        return asks(("refund", {"amount": 100}))

    llm = script(asks(("refund", {"amount": 100})), again, says("ok"))
    async with Stage(llm, [refund], guardrail_profiles=[capped], guardrail_profile="capped") as stage:
        run = await stage.begin(run_id="o")
        fork = await stage.runtime.fork(run, new_id="f")
        await stage.settle()
        assert [call.arguments for call in (await stage.state(fork)).pending_approvals] == [{"amount": 100}]
        assert (await stage.state(fork)).counted.amounts == {"refund.amount": Decimal(100)}


async def test_a_fork_of_a_run_at_work_asks_for_what_that_run_may_do_as_well() -> None:
    def quicker(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        if any(message.content == "go on" for message in messages):
            return asks(("pay", {"n": 5})) if messages[-1].content == "go on" else says("ok")
        answers = (asks(("refund", {"amount": 1})), asks(("pay", {"n": 5})), says("ok"))
        return answers[sum(message.role == "tool" for message in messages)]

    async with Stage(FunctionLLM(quicker), [refund, pay]) as stage:
        run = await stage.begin(run_id="o")
        assert (await stage.state(run)).status == "awaiting_approval"
        fork = await stage.runtime.fork(run, say="go on", new_id="f")
        await stage.settle()
        (asked,) = await stage.of(fork, ApprovalRequested)
        assert asked.reason.startswith("run o was still at work when this run was forked") and asked.policy == "fork"
        await stage.approve(run)
        assert DONE == [1, 5] and (await stage.state(run)).status == "completed"
        await stage.deny(fork, "the other one has paid")
        assert DONE == [1, 5] and (await stage.state(fork)).status == "completed"


async def test_a_fork_of_a_run_whose_agent_is_at_work_asks_for_what_that_agent_may_do_as_well() -> None:
    child = script(asks(("refund", {"amount": 1})), asks(("pay", {"n": 5})), says("ok"))
    expert = AgentSpec("expert", "Pays.", tools=(refund, pay), llm=child)
    parent = script(asks(("expert", {"goal": "pay"})), asks(("pay", {"n": 5})), says("ok"))
    async with Stage(parent, [pay], agents=[expert]) as stage:
        run = await stage.begin(run_id="o")
        assert (await stage.state("o.1")).status == "awaiting_approval"
        fork = await stage.runtime.fork(run, new_id="f")
        await stage.settle()
        (asked,) = await stage.of(fork, ApprovalRequested)
        assert "was still at work" in asked.reason and DONE == []
        await stage.deny(fork, "not now")
        assert (await stage.state(fork)).status == "completed"
        again = await stage.runtime.fork(fork, 1, new_id="g")
        await stage.settle()
        (asked,) = await stage.of(again, ApprovalRequested)
        assert "run o was still at work" in asked.reason and DONE == []


async def test_a_fork_of_a_run_that_has_ended_is_asked_for_nothing_new() -> None:
    model = script(asks(("look", {"n": 1})), says("seen"), asks(("pay", {"n": 5})), says("ok"))
    async with Stage(model, [look, pay]) as stage:
        run = await stage.begin(run_id="o")
        fork = await stage.runtime.fork(run, say="and pay", new_id="f")
        await stage.settle()
        assert await stage.of(fork, ApprovalRequested) == [] and DONE == [5]
