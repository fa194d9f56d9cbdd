"""Every kind of error of a model call, and what is done about it (EVALS 8, W-17, W-20)."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import anyio
import httpx
import pytest

from callboard import FunctionLLM, LLMResponse, tool
from callboard.actors.agent.events import LLMCallCompleted, LLMCallFailed, LLMCallRequested, MessageTold, ToolCallFailed
from callboard.actors.llm.client import (
    ChatMessage,
    ErrorKind,
    LLMClient,
    ModelError,
    PermanentModelError,
    ToolCall,
    ToolSpec,
    TransientModelError,
)

from .stage import Stage, asks, attempts, budget, results, says, script

pytestmark = pytest.mark.anyio


@tool
async def look(n: int) -> int:
    """Look."""
    return n


@pytest.mark.parametrize(
    "error",
    [
        PermanentModelError("401", kind="auth"),
        PermanentModelError("429 insufficient_quota", kind="quota"),
        PermanentModelError("blocked", kind="filter"),
        PermanentModelError("400", kind="bad_request"),
        Exception("404 no such model"),
        Exception("400 bad request"),
    ],
)
async def test_w17_what_cannot_succeed_is_not_tried_again(error: Exception) -> None:
    llm = attempts(error)
    async with Stage(llm, max_llm_attempts=0) as stage:
        run = await stage.begin()
        await stage.advance(100)
        assert (llm.call_count, (await stage.state(run)).status) == (1, "failed")
        kind = error.kind if isinstance(error, ModelError) else ""
        assert [event.kind for event in await stage.of(run, LLMCallFailed)] == [kind]


@pytest.mark.parametrize("kind", ["rate_limit", "overload", "connect", "timeout"])
async def test_w17_what_may_pass_is_tried_again(kind: ErrorKind) -> None:
    llm = attempts(TransientModelError("busy", kind=kind), says("ok"))
    async with Stage(llm) as stage:
        run = await stage.begin()
        await stage.advance(5)
        assert (llm.call_count, (await stage.state(run)).status) == (2, "completed")


@pytest.mark.parametrize("error", [Exception("429 Too Many Requests"), TimeoutError(), ConnectionError("503")])
async def test_da067_rate_limits_timeouts_and_503s_do_not_lose_the_run(error: Exception) -> None:
    calls: list[int] = []

    @tool(retry=3)
    async def shaky(n: int) -> int:
        """Fails at first."""
        calls.append(n)
        if len(calls) == 1:
            raise ConnectionError("503 Service Unavailable")
        return n

    llm = attempts(error, asks(("shaky", {"n": 1})), error, says("ok"))
    async with Stage(llm, [shaky]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        assert (await stage.state(run)).final_answer == "ok"
        assert len(calls) == 2


async def test_a_second_timeout_of_a_call_is_waited_after_for_a_minute() -> None:
    llm = attempts(*[TransientModelError("no answer", kind="timeout")] * 3, says("ok"))
    async with Stage(llm, max_llm_attempts=0) as stage:
        run = await stage.begin()
        await stage.advance(2)
        assert llm.call_count == 2
        await stage.advance(57)
        assert llm.call_count == 2
        await stage.advance(62)
        assert (await stage.state(run)).status == "completed"


async def test_w20_a_timeout_books_the_worst_that_it_may_have_cost() -> None:
    told = TransientModelError("no answer", kind="timeout", cost_usd="0.25")
    llm = attempts(asks(("look", {"n": 1}), cost_usd="0.10"), told, TimeoutError(), says("ok", cost_usd="0.05"))
    async with Stage(llm, [look]) as stage:
        run = await stage.begin()
        await stage.advance(120)
        # what the client says; where it says nothing, as much as the dearest answer so far
        assert [event.cost_usd for event in await stage.of(run, LLMCallFailed)] == [Decimal("0.25"), Decimal("0.10")]
        assert (await stage.state(run)).total_cost_usd == Decimal("0.50")


@pytest.mark.parametrize("error", [httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("cut"), ConnectionResetError()])
async def test_w20_a_timeout_of_any_library_books_the_worst_and_is_waited_after(error: Exception) -> None:
    llm = attempts(asks(("look", {"n": 1}), cost_usd="0.10"), error, error, says("ok"))
    async with Stage(llm, [look], max_llm_attempts=0) as stage:
        run = await stage.begin()
        await stage.advance(50)
        assert llm.call_count == 3
        await stage.advance(70)
        failed = await stage.of(run, LLMCallFailed)
        assert [(event.kind, event.cost_usd) for event in failed] == [("timeout", Decimal("0.10"))] * 2
        assert (await stage.state(run)).final_answer == "ok"


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.05, float("nan"), -5.0])
async def test_w17_a_provider_that_says_at_once_over_and_over_is_asked_no_oftener_than_a_silent_one(
    seconds: float,
) -> None:
    said, silent = (attempts(TransientModelError("429", after, kind="rate_limit")) for after in (seconds, None))
    for llm in (said, silent):
        async with Stage(llm, max_llm_attempts=0) as stage:
            await stage.begin()
            await stage.advance(120)
    assert said.call_count == silent.call_count < 30


async def test_w20_failed_attempts_that_cost_too_much_end_the_run_before_another_is_bought() -> None:
    llm = attempts(TransientModelError("cut off", kind="timeout", cost_usd="0.6"))
    async with Stage(llm, max_llm_attempts=0, max_cost_usd=Decimal(1)) as stage:
        run = await stage.begin()
        await stage.advance(500)
        state = await stage.state(run)
        assert (llm.call_count, state.failure_reason) == (2, "max_cost_exceeded")
        assert state.failure_detail == "1.2 of 1 USD are spent"


class Dear(LLMClient):
    """Hangs at its first call, and says what a call costs at most."""

    def __init__(self, worst: str, hangs: int = 1) -> None:
        self.calls = 0
        self.hangs = hangs
        self.worst = Decimal(worst)

    def worst_cost(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str) -> Decimal:
        return self.worst

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        self.calls += 1
        if self.calls <= self.hangs:
            await anyio.sleep_forever()
        return says("ok", cost_usd="0.01")


async def test_w20_a_call_under_way_when_its_node_died_is_booked_and_is_no_attempt() -> None:
    llm = Dear("0.30")
    async with Stage(llm, max_llm_attempts=1) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node()
        await stage.advance(5)
        state = await stage.state(run)
        assert (state.final_answer, state.total_cost_usd) == ("ok", Decimal("0.31"))
        [lost] = await stage.of(run, LLMCallFailed)
        assert (lost.lost, lost.final, lost.cost_usd) == (1, False, Decimal("0.30"))
        assert "its node died" in lost.error
        [answered] = await stage.of(run, LLMCallCompleted)
        assert (answered.attempt, answered.recovered) == (1, True)
        assert len(await stage.of(run, LLMCallRequested)) == 1


async def test_w20_a_lost_call_that_used_up_the_budget_is_not_bought_again() -> None:
    llm = Dear("2.00")
    async with Stage(llm, max_cost_usd=Decimal(1)) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node()
        await stage.advance(5)
        assert (llm.calls, (await stage.state(run)).failure_reason) == (1, "max_cost_exceeded")


async def test_a_lost_call_that_cost_nothing_leaves_no_trace() -> None:
    async with Stage(Dear("0")) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node()
        await stage.advance(5)
        assert (await stage.state(run)).final_answer == "ok"
        assert await stage.of(run, LLMCallFailed) == []


async def test_malformed_arguments_go_back_to_the_model_as_a_step() -> None:
    broken = LLMResponse("", [ToolCall.from_wire("c1", "look", '{"n": 1')])
    async with Stage(script(broken, lambda messages: says(results(messages)[-1])), [look]) as stage:
        run = await stage.begin()
        state = await stage.state(run)
        assert "not valid JSON" in (state.final_answer or "")
        assert (state.step, len(await stage.of(run, ToolCallFailed))) == (2, 1)


@pytest.mark.parametrize("kind", ["malformed", "length"])
async def test_an_answer_that_came_to_nothing_is_told_to_the_model_and_costs_a_step(kind: ErrorKind) -> None:
    asked: list[Sequence[ChatMessage]] = []

    def answer(messages: Sequence[ChatMessage], *_: Any) -> LLMResponse:
        asked.append(messages)
        if len(asked) == 1:
            raise PermanentModelError("unreadable", kind=kind, cost_usd="0.1")
        return says("ok")

    async with Stage(FunctionLLM(answer)) as stage:
        run = await stage.begin()
        state = await stage.state(run)
        assert (state.final_answer, state.step, state.total_cost_usd) == ("ok", 2, Decimal("0.1"))
        [said] = await stage.of(run, MessageTold)
        assert said.by == "callboard"
        assert asked[1][-1].content == said.text


async def test_answers_that_come_to_nothing_end_the_run_after_a_few() -> None:
    llm = attempts(PermanentModelError("unreadable", kind="malformed"))
    async with Stage(llm, max_steps=50) as stage:
        state = await stage.state(await stage.begin())
        assert (llm.call_count, state.status) == (4, "failed")
        assert "unreadable" in state.failure_detail


async def test_an_answer_cut_off_before_it_said_anything_is_no_final_answer() -> None:
    cut = LLMResponse("", stop_reason="length", output_tokens=99, cost_usd="0.2")
    async with Stage(attempts(cut, says("ok"))) as stage:
        run = await stage.begin()
        state = await stage.state(run)
        assert (state.final_answer, state.total_cost_usd) == ("ok", Decimal("0.2"))
        assert "cut off at 99 tokens" in (await stage.of(run, LLMCallFailed))[0].error


async def test_a_call_that_was_cut_off_says_so_to_the_model() -> None:
    cut = LLMResponse("", [ToolCall.from_wire("c1", "look", '{"n": 1')], stop_reason="length")
    async with Stage(script(cut, lambda messages: says(results(messages)[-1])), [look]) as stage:
        state = await stage.state(await stage.begin())
        assert "cut off at its greatest length" in (state.final_answer or "")


async def test_a_text_that_was_cut_off_is_an_answer() -> None:
    async with Stage(attempts(LLMResponse("half of i", stop_reason="length"))) as stage:
        assert (await stage.state(await stage.begin())).final_answer == "half of i"


async def test_time_and_money_are_looked_at_after_each_failed_attempt_but_not_the_iterations() -> None:
    llm = attempts(TransientModelError("503"), says("ok"))
    async with Stage(llm) as stage:
        run = await stage.begin(budget=budget(max_iterations=1, max_cost_usd=Decimal(0)))
        await stage.advance(5)
        assert (await stage.state(run)).final_answer == "ok"
