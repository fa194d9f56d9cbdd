"""Tool calls of a run: side by side, answered in order, whatever the model calls them and whatever becomes of them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from callboard import LLMResponse, Tool, tool
from callboard.actors.agent.events import LLMCallCompleted, ToolCallCompleted, ToolCallFailed, ToolCallRequested
from callboard.actors.llm.client import ChatMessage, ToolCall

from .stage import Stage, asks, results, says, script

pytestmark = pytest.mark.anyio


class Box:
    """Tools that remember their calls."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.keys: list[str] = []
        self.failing = 0

        @tool
        async def look(n: int) -> int:
            """Look."""
            self.done.append(n)
            return n

        @tool(side_effect=True)
        async def pay(amount: int, idempotency_key: str) -> dict[str, Any]:
            """Pay."""
            self.keys.append(idempotency_key)
            if len(self.keys) <= self.failing:
                raise ConnectionError("no route")
            self.done.append(amount)
            return {"paid": amount}

        self.look, self.pay = look, pay
        self.tools: list[Tool] = [look, pay]


def look(n: Any) -> tuple[str, dict[str, Any]]:
    return "look", {"n": n}


async def test_every_call_of_a_batch_is_made_and_the_batch_is_one_step() -> None:
    box = Box()
    llm = script(asks(look(1), look(2), ("pay", {"amount": 3})), says("ok"))
    async with Stage(llm, box.tools) as stage:
        run = await stage.begin()
        state = await stage.state(run)
        assert (state.status, state.step, state.tool_calls, llm.call_count) == ("completed", 2, 3, 2)
        assert Counter(box.done) == {1: 1, 2: 1, 3: 1}
        requested = await stage.of(run, ToolCallRequested)
        assert box.keys == [event.idempotency_key for event in requested if event.tool == "pay"]
        assert len({event.idempotency_key for event in requested}) == 3


async def test_calls_run_side_by_side_and_are_answered_in_their_order() -> None:
    begun: list[int] = []
    gates = {n: anyio.Event() for n in (1, 2, 3)}

    @tool
    async def wait(n: int) -> int:
        """Wait."""
        begun.append(n)
        await gates[n].wait()
        return n

    llm = script(asks(*(("wait", {"n": n}) for n in (1, 2, 3))), says("ok"))
    async with Stage(llm, [wait]) as stage:
        run = await stage.begin()
        assert sorted(begun) == [1, 2, 3]
        for n in (3, 1, 2):
            assert llm.call_count == 1
            gates[n].set()
            await stage.settle()
        completed = [event.result["result"] for event in await stage.of(run, ToolCallCompleted)]
        assert completed == [3, 1, 2]
        assert results(llm.last_messages) == ['{"result":1}', '{"result":2}', '{"result":3}']


@pytest.mark.parametrize("ids", [["", "", ""], ["same", "same", "same"], ["a", "", "a"], ["x" * 5000, "y", "z"]])
async def test_empty_and_repeated_ids_of_the_model_lose_no_call(ids: Sequence[str]) -> None:
    box = Box()
    calls = [ToolCall(name, "look", {"n": n}) for n, name in enumerate(ids, 1)]
    llm = script(LLMResponse("", calls), says("ok"))
    async with Stage(llm, box.tools) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).status == "completed"
        assert sorted(box.done) == [1, 2, 3]
        assert results(llm.last_messages) == ['{"result":1}', '{"result":2}', '{"result":3}']
        asked = next(m for m in llm.last_messages if m.tool_calls)
        answered = [m.tool_call_id for m in llm.last_messages if m.role == "tool"]
        assert answered == [call.id for call in asked.tool_calls] == [name[:256] for name in ids]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (ToolCall("c", "nonsense", {}), "unknown tool: nonsense; known are look, pay"),
        (ToolCall("c", "nonsense\ud800" * 9999, {}), "unknown tool: nonsense"),
        (ToolCall.from_wire("c", "look", "{not json"), "not valid JSON"),
        (ToolCall.from_wire("c", "look", "[1]"), "must be a JSON object"),
        (ToolCall.from_wire("c", "look", {"n": float("nan")}), "nan"),
        (ToolCall.from_wire("c", "look", {"n": object()}), "not valid JSON"),
        (ToolCall.from_wire("c", "look", {("a",): 1}), "not valid JSON"),
        (ToolCall.from_wire("c", "look", '{"n": ' + "[" * 300 + "]" * 300 + "}"), "nested deeper"),
        (ToolCall("c", "look", {"n": "x" * 300_000}), "too long"),
        (ToolCall("c", "look", {"n": "many"}), "argument 'n'"),
        (ToolCall("c", "look", {}), "argument 'n' is missing"),
        (ToolCall("c", "look", {"n": 1, "m": 2}), "unknown argument 'm'"),
    ],
)
async def test_what_cannot_be_called_goes_back_to_the_model_and_costs_a_step(call: ToolCall, error: str) -> None:
    box = Box()
    llm = script(LLMResponse("", [call, ToolCall("d", "look", {"n": 7})]), says("ok"))
    async with Stage(llm, box.tools) as stage:
        run = await stage.begin()
        state = await stage.state(run)
        assert (state.status, state.step, box.done) == ("completed", 2, [7])
        bad, good = results(llm.last_messages)
        assert error in bad
        assert good == '{"result":7}'
        failed = await stage.of(run, ToolCallFailed)
        assert [(event.final, event.attempt, event.idempotency_key) for event in failed] == [(True, 0, "")]


async def test_a_model_that_only_asks_for_nonsense_ends_at_its_budget() -> None:
    llm = script(*[asks(("nonsense", {}))] * 9)
    async with Stage(llm, Box().tools, max_steps=4) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).failure_reason == "max_steps_exceeded"
        assert llm.call_count == 4


async def test_more_calls_than_anybody_needs_are_cut() -> None:
    box = Box()
    llm = script(asks(*(look(n) for n in range(1000))), says("ok"))
    async with Stage(llm, box.tools) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).status == "completed"
        assert sorted(box.done) == list(range(64))
        assert len(results(llm.last_messages)) == len(next(m for m in llm.last_messages if m.tool_calls).tool_calls)


async def test_a_failing_tool_is_tried_again_under_the_same_key_and_every_attempt_is_journaled() -> None:
    box = Box()
    box.failing = 2
    llm = script(asks(("pay", {"amount": 1})), says("ok"))
    async with Stage(llm, box.tools) as stage:
        run = await stage.begin()
        await stage.advance(30)
        assert (len(box.keys), len(set(box.keys)), box.done) == (3, 1, [1])
        failed = await stage.of(run, ToolCallFailed)
        assert [(event.attempt, event.final) for event in failed] == [(1, False), (2, False)]
        completed = (await stage.of(run, ToolCallCompleted))[0]
        assert (completed.attempt, completed.idempotency_key, completed.recovered) == (3, box.keys[0], False)


async def test_a_tool_that_keeps_failing_is_an_error_for_the_model_and_its_siblings_go_on() -> None:
    box = Box()
    box.failing = 99
    llm = script(asks(("pay", {"amount": 1}), look(2)), says("ok"))
    async with Stage(llm, box.tools) as stage:
        run = await stage.begin()
        await stage.advance(30)
        assert (len(box.keys), len(set(box.keys)), box.done) == (3, 1, [2])
        failed = await stage.of(run, ToolCallFailed)
        assert [(event.attempt, event.final) for event in failed] == [(1, False), (2, False), (3, True)]
        assert results(llm.last_messages) == ["Error: ConnectionError: no route", '{"result":2}']
        assert (await stage.state(run)).status == "completed"


async def test_retries_wait_longer_each_time() -> None:
    box = Box()
    box.failing = 99
    async with Stage(script(asks(("pay", {"amount": 1})), says("ok")), box.tools) as stage:
        await stage.begin()
        made = [(0, 1)]
        for tenth in range(1, 40):
            await stage.advance(0.1)
            if len(box.keys) > made[-1][1]:
                made.append((tenth, len(box.keys)))
        # 1 s and 2 s, less half of the jitter's quarter: 0.75 s and 1.5 s with the port's chance of one half
        assert made == [(0, 1), (8, 2), (23, 3)]


async def test_a_run_s_answers_are_recorded_as_the_model_gave_them() -> None:
    box = Box()
    llm = script(asks(look(1), input_tokens=10, output_tokens=5, cost_usd="0.25", provider_request_id="r1"), says("ok"))
    async with Stage(llm, box.tools) as stage:
        run = await stage.begin()
        answer = (await stage.of(run, LLMCallCompleted))[0]
        assert (answer.input_tokens, answer.output_tokens, str(answer.cost_usd)) == (10, 5, "0.25")
        assert (answer.provider_request_id, answer.attempt, answer.recovered) == ("r1", 1, False)
        assert (await stage.state(run)).total_tokens == 15


async def test_a_repeated_effect_that_the_provider_noticed_is_marked() -> None:
    @tool(side_effect=True)
    async def pay(amount: int, idempotency_key: str) -> dict[str, Any]:
        """Pay."""
        return {"dedup_hit": amount > 1}

    async with Stage(script(asks(("pay", {"amount": 1}), ("pay", {"amount": 2})), says("ok")), [pay]) as stage:
        run = await stage.begin()
        hits = {event.call: event.provider_dedup_hit for event in await stage.of(run, ToolCallCompleted)}
        assert hits == {1: False, 2: True}


async def test_what_a_client_does_to_its_messages_stays_with_it() -> None:
    box = Box()
    seen: list[int] = []

    def meddling(messages: Sequence[ChatMessage]) -> LLMResponse:
        seen.append(len(messages))
        assert isinstance(messages, tuple)
        return asks(look(len(seen))) if len(seen) < 4 else says("ok")

    async with Stage(script(*[meddling] * 4), box.tools) as stage:
        await stage.begin()
    assert seen == [1, 3, 5, 7]
