"""Cancelling a run: nothing new begins, what ran is recorded, and it ends; and what people say to a live run."""

from typing import Any

import anyio
import pytest

from callboard import FunctionLLM, LLMResponse, tool
from callboard.actors.agent.events import (
    CancelRequested,
    LLMCallCompleted,
    LLMCallFailed,
    MessageTold,
    RunCancelled,
    ToolCallCompleted,
    ToolCallFailed,
)
from callboard.actors.agent.messages import CancelRun
from callboard.actors.llm.client import TransientModelError
from callboard.mailbox.errors import AlreadyDecided, Conflict
from callboard.mailbox.lane import Lane

from .stage import Stage, asks, attempts, says, script

pytestmark = pytest.mark.anyio


class Slow:
    """A tool and a model that wait until they are let go."""

    def __init__(self) -> None:
        self.go = anyio.Event()
        self.made: list[Any] = []

        @tool(side_effect=True)
        async def slow(n: int) -> int:
            """Take one's time."""
            await self.go.wait()
            self.made.append(n)
            return n

        @tool(side_effect=True, requires_approval=True)
        async def pay(amount: int) -> int:
            """Pay."""
            self.made.append(f"pay {amount}")
            return amount

        self.tools = [slow, pay]

    async def answer(self, *_: Any) -> LLMResponse:
        self.made.append("asked")
        await self.go.wait()
        return asks(("slow", {"n": 1}), ("pay", {"amount": 1}))


async def cancel(stage: Stage, run: str) -> None:
    await stage.runtime.cancel(run, by="mara", reason="wrong customer")
    await stage.settle()


async def ended(stage: Stage, run: str) -> None:
    state = await stage.state(run)
    assert (state.status, state.failure_detail, state.pending) == ("cancelled", "wrong customer", {})
    last = (await stage.events(run))[-1]
    assert isinstance(last, RunCancelled) and (last.by, last.reason) == ("mara", "wrong customer")
    row = await stage.store.actor(stage.runs.address(run))
    assert row is not None and row.status == "cancelled"
    with pytest.raises(Conflict, match="is cancelled"):
        await stage.runtime.cancel(run)


async def test_while_the_model_is_asked_its_answer_is_recorded_and_nothing_of_it_is_done() -> None:
    slow = Slow()
    async with Stage(FunctionLLM(slow.answer), slow.tools) as stage:
        run = await stage.begin()
        await cancel(stage, run)
        assert (await stage.state(run)).status == "running"
        slow.go.set()
        await stage.settle()
        await ended(stage, run)
        assert slow.made == ["asked"]
        assert len(await stage.of(run, LLMCallCompleted)) == 1
        failed = await stage.of(run, ToolCallFailed)
        assert [(event.call, event.error) for event in failed] == [(n, "the run was cancelled") for n in (1, 2)]
        assert await stage.decisions(run) == []


async def test_while_a_tool_runs_its_outcome_is_recorded() -> None:
    slow = Slow()
    llm = script(asks(("slow", {"n": 1}), ("pay", {"amount": 1})))
    async with Stage(llm, slow.tools) as stage:
        run = await stage.begin()
        await cancel(stage, run)
        assert [row.status for row in await stage.decisions(run)] == ["superseded"]
        await cancel(stage, run)
        assert len(await stage.of(run, CancelRequested)) == 1
        slow.go.set()
        await stage.settle()
        await ended(stage, run)
        assert slow.made == [1]
        assert len(await stage.of(run, ToolCallCompleted)) == 1
        assert llm.call_count == 1


async def test_while_a_call_is_held_its_decision_is_superseded_and_it_never_goes() -> None:
    slow = Slow()
    async with Stage(script(asks(("pay", {"amount": 1}))), slow.tools, approval_seconds=60.0) as stage:
        run = await stage.begin()
        await cancel(stage, run)
        await ended(stage, run)
        assert [row.status for row in await stage.decisions(run)] == ["superseded"]
        with pytest.raises(AlreadyDecided, match="superseded"):
            await stage.approve(run, call=1)
        assert await stage.store.peek(stage.runs.address(run)) == []
        await stage.advance(70)
        assert slow.made == []


async def test_during_the_release_hold_the_call_never_goes() -> None:
    slow = Slow()
    async with Stage(script(asks(("pay", {"amount": 1}))), slow.tools) as stage:
        run = await stage.begin()
        await stage.approve(run, hold_seconds=30.0)
        await cancel(stage, run)
        await ended(stage, run)
        assert [row.status for row in await stage.decisions(run)] == ["superseded"]
        await stage.advance(60)
        assert slow.made == []


async def test_a_provider_that_is_down_is_not_waited_for() -> None:
    for after in (0.0, 40.0):
        llm = attempts(TransientModelError("429", retry_after_seconds=30.0))
        async with Stage(llm, max_llm_attempts=0) as stage:
            run = await stage.begin()
            await stage.advance(after)
            made = llm.call_count
            await cancel(stage, run)
            await ended(stage, run)
            await stage.advance(100)
            assert llm.call_count == made
            assert (await stage.of(run, LLMCallFailed))[-1].final
            assert await stage.store.peek(stage.runs.address(run)) == []


async def test_an_attempt_that_fails_after_the_cancel_is_the_last_one() -> None:
    go = anyio.Event()
    calls: list[int] = []

    async def answer(*_: Any) -> LLMResponse:
        calls.append(1)
        await go.wait()
        raise TransientModelError("529")

    async with Stage(FunctionLLM(answer), max_llm_attempts=0) as stage:
        run = await stage.begin()
        await cancel(stage, run)
        go.set()
        await stage.advance(100)
        await ended(stage, run)
        assert len(calls) == 1


async def test_a_tool_s_retry_is_not_waited_for() -> None:
    calls: list[int] = []

    @tool
    async def look(n: int) -> int:
        """Look."""
        calls.append(n)
        raise ConnectionError("no route")

    async with Stage(script(asks(("look", {"n": 1}))), [look], retry_base_delay_seconds=5.0) as stage:
        run = await stage.begin()
        await cancel(stage, run)
        await stage.advance(100)
        await ended(stage, run)
        assert len(calls) == 2
        assert [event.final for event in await stage.of(run, ToolCallFailed)] == [False, True]


@pytest.mark.parametrize("before", [True, False])
async def test_a_call_in_doubt_is_recorded_as_that(before: bool) -> None:
    slow = Slow()
    async with Stage(script(asks(("slow", {"n": 1}))), slow.tools) as stage:
        run = await stage.begin()
        if before:
            await cancel(stage, run)
        await stage.kill()
        await stage.add_node()
        await stage.advance(5)
        if not before:
            assert (await stage.state(run)).status == "awaiting_approval"
            await cancel(stage, run)
        await ended(stage, run)
        assert "did slow happen?" in (await stage.of(run, ToolCallFailed))[-1].error
        assert all(row.status == "superseded" for row in await stage.decisions(run))


async def test_a_run_that_was_only_recorded_is_cancelled_before_it_begins() -> None:
    llm = script(says("ok"))
    async with Stage(llm, nodes=0) as stage:
        run = await stage.runtime.create("go")
        await stage.runtime.cancel(run, by="mara", reason="wrong customer")
        await stage.add_node()
        await stage.advance(2)
        await ended(stage, run)
        assert llm.call_count == 0
        assert (await stage.state(run)).goal == "go"


async def test_resume_waits_for_the_cancel() -> None:
    slow = Slow()
    async with Stage(script(asks(("pay", {"amount": 1}))), slow.tools) as stage:
        run = await stage.begin()
        await stage.runtime.cancel(run, by="mara", reason="wrong customer")
        state = await stage.runs.rest(run, seconds=5)
        assert state.status == "cancelled"


async def test_a_failed_attempt_that_was_final_ends_a_cancelled_run_as_cancelled() -> None:
    go = anyio.Event()

    async def answer(*_: Any) -> LLMResponse:
        await go.wait()
        raise KeyError("bug")

    async with Stage(FunctionLLM(answer), max_llm_attempts=1) as stage:
        run = await stage.begin()
        await cancel(stage, run)
        go.set()
        await stage.settle()
        await ended(stage, run)


async def test_a_cancel_of_a_finished_run_is_refused() -> None:
    async with Stage(script(says("ok"))) as stage:
        run = await stage.begin()
        with pytest.raises(Conflict, match="is completed and cannot be cancelled"):
            await stage.runtime.cancel(run)
        before = await stage.events(run)
        await stage.runtime.client.send(stage.runs.address(run), CancelRun(), lane=Lane.REPLY)
        await stage.settle()
        assert await stage.events(run) == before
        assert [letter.reason for letter in await stage.store.dead_letters()] == ["recipient-ended"]
        stage.checked = False


# telling


async def test_a_word_while_the_model_is_asked_is_read_at_the_next_iteration() -> None:
    slow = Slow()
    seen: list[list[tuple[str, str]]] = []

    async def answer(messages: Any, *_: Any) -> LLMResponse:
        seen.append([(message.role, message.content) for message in messages])
        if len(seen) == 1:
            await slow.go.wait()
        return says(f"answer {len(seen)}")

    async with Stage(FunctionLLM(answer)) as stage:
        run = await stage.begin()
        await stage.runtime.tell(run, "and hurry", by="mara")
        await stage.settle()
        slow.go.set()
        await stage.settle()
        assert (await stage.state(run)).final_answer == "answer 2"
        assert seen[1] == [("user", "go"), ("assistant", "answer 1"), ("user", "and hurry")]
        assert [(event.text, event.by) for event in await stage.of(run, MessageTold)] == [("and hurry", "mara")]


async def test_a_word_while_calls_are_held_comes_after_their_answers() -> None:
    slow = Slow()
    llm = script(asks(("pay", {"amount": 1})), says("ok"))
    async with Stage(llm, slow.tools) as stage:
        run = await stage.begin()
        await stage.runtime.tell(run, "one")
        await stage.runtime.tell(run, "two\ud800")
        await stage.settle()
        assert ((await stage.state(run)).status, llm.call_count) == ("awaiting_approval", 1)
        await stage.approve(run)
        said = [(message.role, message.content) for message in llm.last_messages]
        assert said[-3:] == [("tool", '{"result":1}'), ("user", "one"), ("user", "two\ufffd")]
        assert (await stage.state(run)).status == "completed"


async def test_a_word_before_the_run_begins_is_read_with_the_goal() -> None:
    llm = script(says("ok"), says("ok again"))
    async with Stage(llm, nodes=0) as stage:
        run = await stage.runtime.create("go")
        await stage.runtime.tell(run, "fast")
        await stage.add_node()
        await stage.advance(2)
        assert (await stage.state(run)).status == "completed"
        assert ("user", "fast") in [(message.role, message.content) for message in llm.last_messages]


async def test_a_word_to_a_finished_run_is_refused() -> None:
    async with Stage(script(says("ok"))) as stage:
        run = await stage.begin()
        with pytest.raises(Conflict, match="is completed and cannot be told anything"):
            await stage.runtime.tell(run, "hello")


async def cancel_at_once(stage: Stage, run: str) -> None:
    await stage.runs.client.cancel(stage.runs.address(run), by="mara", reason="wrong customer")
    await stage.settle()


@pytest.mark.parametrize("hold_seconds", [None, 30.0])
async def test_cancelled_at_once_a_run_leaves_no_call_and_no_open_approval(hold_seconds: float | None) -> None:
    slow = Slow()
    async with Stage(script(asks(("slow", {"n": 1}), ("pay", {"amount": 1}))), slow.tools) as stage:
        run = await stage.begin()
        if hold_seconds:
            await stage.approve(run, call=2, hold_seconds=hold_seconds)
        await cancel_at_once(stage, run)
        await ended(stage, run)
        assert [row.status for row in await stage.decisions(run)] == ["superseded"]
        failed = await stage.of(run, ToolCallFailed)
        assert sorted((event.call, event.final) for event in failed) == [(1, True), (2, True)]
        assert await stage.store.calls(stage.runs.address(run)) == []
        slow.go.set()
        await stage.advance(60)
        assert slow.made == [], "what ran was stopped, what was held never goes"


async def test_cancelled_at_once_a_run_does_not_wait_for_its_model() -> None:
    slow = Slow()
    async with Stage(FunctionLLM(slow.answer), slow.tools) as stage:
        run = await stage.begin()
        await cancel_at_once(stage, run)
        await ended(stage, run)
        assert [event.final for event in await stage.of(run, LLMCallFailed)] == [True]
        assert (await stage.runs.rest(run, seconds=1)).status == "cancelled"


async def test_cancelled_at_once_after_it_was_asked_to_end_a_run_says_who_asked_first() -> None:
    slow = Slow()
    async with Stage(FunctionLLM(slow.answer), slow.tools) as stage:
        run = await stage.begin()
        await cancel(stage, run)
        assert (await stage.state(run)).status == "running"
        await stage.runs.client.cancel(stage.runs.address(run), by="jo")
        await stage.settle()
        await ended(stage, run)
        assert len(await stage.of(run, CancelRequested)) == 1
