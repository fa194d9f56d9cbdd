"""The rows of PARITY A4 about model calls, by name: DA-060 to DA-066, W-11, W-17, W-18, W-26.

See also test_model_errors, test_budget and test_tool_retry.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import anyio
import pytest

from callboard import FunctionLLM, LLMResponse, tool
from callboard.actors.agent import model_worker
from callboard.actors.agent.events import (
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    RunCompleted,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
)
from callboard.actors.agent.prompt import prompt_hash
from callboard.actors.agent.transcript import Transcript
from callboard.actors.llm.client import TransientModelError
from callboard.mailbox.message import Message

from .stage import Stage, asks, attempts, budget, results, says, script

pytestmark = pytest.mark.anyio

BUSY = TransientModelError("529 overloaded")


@tool
async def look(n: int) -> int:
    """Look."""
    return n


async def test_da060_a_tool_is_tried_three_times_under_one_key_and_then_its_error_goes_to_the_model() -> None:
    keys: list[str] = []

    @tool(side_effect=True)
    async def pay(n: int, idempotency_key: str) -> int:
        """Pay."""
        keys.append(idempotency_key)
        raise ConnectionError("no route")

    async with Stage(script(asks(("pay", {"n": 1})), lambda messages: says(results(messages)[-1])), [pay]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        failed = await stage.of(run, ToolCallFailed)
        assert [event.final for event in failed] == [False, False, True]
        assert (len(keys), len(set(keys))) == (3, 1)
        assert "no route" in ((await stage.state(run)).final_answer or "")


async def test_da061_a_model_is_tried_three_times_under_one_request_and_then_the_run_fails_with_the_count() -> None:
    async with Stage(attempts(BUSY)) as stage:
        run = await stage.begin()
        await stage.advance(60)
        state = await stage.state(run)
        assert (state.status, state.failure_reason) == ("failed", "unrecoverable_error")
        assert "failed 3 time(s)" in state.failure_detail and "529 overloaded" in state.failure_detail
        assert len(await stage.of(run, LLMCallRequested)) == 1
        assert [event.final for event in await stage.of(run, LLMCallFailed)] == [False, False, True]


async def test_da062_the_wait_comes_before_the_retry_also_for_a_process_that_takes_over() -> None:
    """With jitter, on purpose: its ceiling is base * 2^(attempts - 1), and the stage's chance says half of that."""
    llm = attempts(BUSY)
    async with Stage(llm, retry_base_delay_seconds=20.0) as stage:
        await stage.begin()
        await stage.advance(5)
        await stage.kill()
        await stage.add_node()
        await stage.advance(4)
        assert llm.call_count == 1
        await stage.advance(2)
        assert llm.call_count == 2


async def test_da062_a_base_of_zero_waits_for_nothing() -> None:
    llm = attempts(BUSY)
    async with Stage(llm, retry_base_delay_seconds=0.0) as stage:
        run = await stage.begin()
        await stage.advance(0.2)
        assert (llm.call_count, (await stage.state(run)).status) == (3, "failed")


async def test_da063_a_process_that_takes_over_has_exactly_the_attempts_that_are_left() -> None:
    llm = attempts(BUSY)
    async with Stage(llm, retry_base_delay_seconds=20.0) as stage:
        run = await stage.begin()
        await stage.advance(11)
        assert len(await stage.of(run, LLMCallFailed)) == 2
        await stage.kill()
        again = attempts(BUSY)
        await stage.add_node(stage.beside(again))
        await stage.advance(200)
        assert again.call_count == 1
        assert (await stage.state(run)).status == "failed"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"max_steps": 3}, "max_steps_exceeded"), ({"max_cost_usd": Decimal("0.25")}, "max_cost_exceeded")],
)
async def test_da064_limits_are_looked_at_at_every_turn_of_the_loop(limits: dict[str, Any], reason: str) -> None:
    async with Stage(script(*[asks(("look", {"n": n}), cost_usd="0.10") for n in range(9)]), [look]) as stage:
        run = await stage.begin(**limits)
        state = await stage.state(run)
        assert (state.status, state.failure_reason, state.step) == ("failed", reason, 3)
        assert state.pending == {}


async def test_da065_totals_are_the_sums_of_what_the_answers_cost_and_the_end_carries_them() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5, "cost_usd": "0.1"}
    async with Stage(script(asks(("look", {"n": 1}), **usage), says("ok", **usage)), [look]) as stage:
        run = await stage.begin()
        [end] = await stage.of(run, RunCompleted)
        answered = await stage.of(run, LLMCallCompleted)
        assert end.total_cost_usd == sum(event.cost_usd for event in answered) == Decimal("0.2")
        assert end.total_tokens == sum(event.input_tokens + event.output_tokens for event in answered) == 30
        assert isinstance(end.total_cost_usd, Decimal)


async def test_da066_the_system_prompt_is_on_record_in_full_goes_beside_the_messages_and_survives_a_take_over() -> None:
    llm = script(asks(("look", {"n": 1})), says("ok"))
    async with Stage(llm, [look], system_prompt="be kind, \u00fcber all") as stage:
        run = await stage.runtime.create("go")
        await stage.kill()
        await stage.add_node(stage.beside(llm, [look], system_prompt="something else by now"))
        await stage.advance(5)
        [started] = await stage.of(run, RunStarted)
        assert started.system_prompt == llm.last_system_prompt == "be kind, \u00fcber all"
        assert started.system_prompt_hash == prompt_hash(started.system_prompt)
        assert all(message.role != "system" for message in llm.last_messages)


async def test_w11_killed_in_mid_tool_at_the_limit_the_outcome_is_recorded_and_nothing_is_left_under_way() -> None:
    calls: list[int] = []

    @tool(name="look")
    async def slow(n: int) -> int:
        """Look."""
        calls.append(n)
        if len(calls) == 1:
            await anyio.sleep_forever()
        return n

    async with Stage(script(asks(("look", {"n": 1})), says("never asked")), [slow]) as stage:
        run = await stage.begin(max_steps=1)
        await stage.kill()
        await stage.add_node()
        await stage.advance(5)
        state = await stage.state(run)
        assert (state.status, state.failure_reason, state.pending) == ("failed", "max_steps_exceeded", {})
        assert (await stage.of(run, ToolCallCompleted))[0].recovered


async def test_w17_retry_after_is_kept_and_a_value_error_of_the_client_is_no_outage() -> None:
    llm = attempts(TransientModelError("429", retry_after_seconds=90.0, kind="rate_limit"), ValueError("bad"))
    async with Stage(llm, max_llm_attempts=0) as stage:
        run = await stage.begin()
        await stage.advance(89)
        assert llm.call_count == 1
        await stage.advance(60)
        assert (llm.call_count, (await stage.state(run)).status) == (3, "failed")


async def test_w18_a_run_has_a_deadline_a_token_budget_and_can_be_cancelled_while_its_model_hangs() -> None:
    async def hangs(*_: Any) -> LLMResponse:
        await anyio.sleep_forever()
        return says("never")

    async with Stage(FunctionLLM(hangs)) as stage:
        run = await stage.begin()
        await stage.runtime.cancel(run, by="ann")
        await stage.advance(601)  # the call in hand is waited for, and no longer than a call may take
        assert (await stage.state(run)).status == "cancelled"
        run = await stage.begin(budget=budget(max_duration_seconds=100.0))
        await stage.advance(99)
        assert (await stage.state(run)).status == "running"
        await stage.advance(2)
        assert (await stage.state(run)).failure_reason == "max_duration_exceeded"


async def test_w18_a_deadline_does_not_wait_for_a_provider_that_asks_for_hours() -> None:
    llm = attempts(TransientModelError("429", 7_200.0, kind="rate_limit"))
    async with Stage(llm, max_llm_attempts=0) as stage:
        run = await stage.begin(budget=budget(max_duration_seconds=100.0))
        await stage.advance(101)
        state = await stage.state(run)
        assert (llm.call_count, state.failure_reason) == (1, "max_duration_exceeded")
        assert state.failure_detail == "100.1 of 100 seconds have passed"


async def test_w26_every_event_is_read_once_however_long_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    feed = Transcript.feed

    def counted(self: Transcript, events: Iterable[Message]) -> None:
        some = list(events)
        fed.append(len(some))
        feed(self, some)

    async with Stage(script(*[asks(("look", {"n": n})) for n in range(300)], says("ok")), [look]) as stage:
        monkeypatch.setattr(Transcript, "feed", counted)
        run = await stage.begin(budget=budget())
        monkeypatch.undo()
        events = await stage.events(run)
        assert (await stage.state(run)).step == 301
        assert sum(fed) <= len(events)
        row = await stage.store.actor(stage.runs.address(run))
        assert row is not None and len(row.state) < 2_000


async def test_g10_kept_conversations_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_worker, "KEEP_BYTES", 100_000)
    made: list[model_worker.ModelWorker] = []
    keep = model_worker.ModelWorker._keep

    def watched(self: model_worker.ModelWorker, caller: str, transcript: Transcript) -> None:
        keep(self, caller, transcript)
        made.append(self)
        held = sum(kept.held_bytes for kept, _ in self._transcripts.values())
        assert held <= 100_000 or len(self._transcripts) == 1
        assert caller in self._transcripts

    monkeypatch.setattr(model_worker.ModelWorker, "_keep", watched)
    async with Stage(script(asks(("look", {"n": 1})), says("ok")), [look]) as stage:
        for _ in range(30):
            run = await stage.begin("x" * 10_000)
            assert (await stage.state(run)).status == "completed"
        assert len(made) == 60
        assert 1 <= len(made[-1]._transcripts) < 12
