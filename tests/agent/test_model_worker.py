"""One model call: retried by class, counted durably, paid for once."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import anyio
import pytest

from callboard import FunctionLLM, LLMResponse, tool
from callboard.actors.agent.events import LLMCallCompleted, LLMCallFailed, LLMCallRequested
from callboard.actors.llm.client import PermanentModelError, TransientModelError

from .stage import Stage, asks, attempts, budget, says, script

pytestmark = pytest.mark.anyio

BUSY = TransientModelError("529 overloaded")


async def test_a_transient_failure_is_tried_again_under_one_request_and_journaled() -> None:
    llm = attempts(BUSY, BUSY, says("ok"))
    async with Stage(llm) as stage:
        run = await stage.begin()
        await stage.advance(30)
        assert await stage.kinds(run) == [
            "RunStarted",
            "LLMCallRequested",
            "LLMCallFailed",
            "LLMCallFailed",
            "LLMCallCompleted",
            "RunCompleted",
        ]
        failed = await stage.of(run, LLMCallFailed)
        assert [(event.attempt, event.final) for event in failed] == [(1, False), (2, False)]
        assert (await stage.of(run, LLMCallCompleted))[0].attempt == 3


async def test_the_wait_grows_and_has_jitter() -> None:
    llm = attempts(BUSY)
    async with Stage(llm, max_llm_attempts=0, retry_base_delay_seconds=2.0) as stage:
        await stage.begin()
        made = []
        for half in range(1, 30):
            await stage.advance(0.5)
            made.append(llm.call_count)
            if half == 28:
                break
        # full jitter with the port's chance of one half: 1, 2, 4, 8 s after the attempts
        assert [made.index(count) + 1 for count in (2, 3, 4)] == [2, 6, 14]


async def test_what_the_provider_asks_for_wins() -> None:
    llm = attempts(TransientModelError("429", retry_after_seconds=45.0), says("ok"))
    async with Stage(llm) as stage:
        run = await stage.begin()
        await stage.advance(44)
        assert (llm.call_count, (await stage.state(run)).status) == (1, "running")
        await stage.advance(2)
        assert (llm.call_count, (await stage.state(run)).status) == (2, "completed")


async def test_a_permanent_failure_ends_the_run_at_once() -> None:
    llm = attempts(PermanentModelError("401 bad key"))
    async with Stage(llm, max_llm_attempts=9) as stage:
        run = await stage.begin()
        state = await stage.state(run)
        assert (llm.call_count, state.status, state.failure_reason) == (1, "failed", "unrecoverable_error")
        assert "401 bad key" in state.failure_detail


@pytest.mark.parametrize("limit", [0, 5, 2])
async def test_a_bug_of_the_client_is_tried_three_times_at_most(limit: int) -> None:
    llm = attempts(KeyError("choices"))
    async with Stage(llm, max_llm_attempts=limit) as stage:
        run = await stage.begin()
        await stage.advance(60)
        assert llm.call_count == min(limit or 3, 3)
        failed = await stage.of(run, LLMCallFailed)
        assert [event.final for event in failed] == [False] * (llm.call_count - 1) + [True]
        assert (await stage.state(run)).status == "failed"


@pytest.mark.parametrize("limit", [1, 2, 4])
async def test_a_limit_of_attempts_is_kept(limit: int) -> None:
    llm = attempts(BUSY)
    async with Stage(llm, max_llm_attempts=limit) as stage:
        run = await stage.begin()
        await stage.advance(120)
        state = await stage.state(run)
        assert (llm.call_count, state.status) == (limit, "failed")
        assert f"failed {limit} time(s)" in state.failure_detail


async def test_without_a_limit_a_provider_may_be_down_for_long() -> None:
    llm = attempts(*[BUSY] * 12, says("ok"))
    async with Stage(llm, max_llm_attempts=0) as stage:
        run = await stage.begin()
        await stage.advance(400)
        assert (await stage.state(run)).status == "completed"
        assert len(await stage.of(run, LLMCallFailed)) == 12


async def test_a_restart_inherits_the_attempts() -> None:
    llm = attempts(BUSY)
    async with Stage(llm, max_llm_attempts=3, retry_base_delay_seconds=20.0) as stage:
        run = await stage.begin()
        for _ in range(2):
            await stage.kill()
            await stage.add_node()
        await stage.advance(200)
        assert llm.call_count == 3
        assert [event.attempt for event in await stage.of(run, LLMCallFailed)] == [1, 2, 3]


def _cut_off_after(
    events: int, stage: Stage, reached: anyio.Event, gone: anyio.Event
) -> Callable[[int, str], Awaitable[None]]:
    """The first node's commits get through until there are so many events, and none after that."""

    async def before(number: int, operation: str) -> None:
        rows = stage.store.tables.events.values()
        if operation == "commit" and number == 1 and any(len(some) >= events for some in rows):
            reached.set()
            await gone.wait()

    return before


async def test_g4_an_answer_that_was_recorded_is_never_bought_again() -> None:
    """Killed after every event of the run, in turn."""

    @tool
    async def look(n: int) -> int:
        """Look."""
        return n

    for killed_at in range(1, 12):
        llm = script(asks(("look", {"n": 1})), asks(("look", {"n": 2})), says("ok"))
        async with Stage(llm, [look]) as stage:
            reached, gone = anyio.Event(), anyio.Event()
            stage.store.before = _cut_off_after(killed_at, stage, reached, gone)
            run = await stage.runtime.create("go")
            await stage.settle()
            assert reached.is_set() or killed_at == 11
            if reached.is_set():
                life = stage.nodes[0].life
                assert life is not None
                life.session.crash()  # type: ignore[attr-defined]
                gone.set()
                await stage.kill()
                await stage.add_node()
                await stage.advance(5)
            assert (await stage.state(run)).status == "completed"
            assert [event.step for event in await stage.of(run, LLMCallCompleted)] == [1, 2, 3]
            # what was not recorded when the node died had to be bought again, and nothing else
            assert llm.call_count <= 4


async def test_a_call_under_way_at_a_crash_is_marked_as_recovered() -> None:
    calls: list[int] = []

    async def answer(*_: Any) -> LLMResponse:
        calls.append(1)
        if len(calls) == 1:
            await anyio.sleep_forever()
        return says("ok")

    async with Stage(FunctionLLM(answer)) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node()
        await stage.advance(5)
        assert (await stage.of(run, LLMCallCompleted))[0].recovered is True
        assert len(await stage.of(run, LLMCallRequested)) == 1


async def test_what_failed_attempts_cost_is_counted() -> None:
    llm = attempts(TransientModelError("cut off", cost_usd="0.3"), says("ok", cost_usd="0.2"))
    async with Stage(llm) as stage:
        run = await stage.begin()
        await stage.advance(5)
        assert (await stage.state(run)).total_cost_usd == Decimal("0.5")


async def test_a_call_that_hangs_is_given_up_and_tried_again() -> None:
    calls: list[int] = []

    async def answer(*_: Any) -> LLMResponse:
        calls.append(1)
        if len(calls) == 1:
            await anyio.sleep_forever()
        return says("ok")

    async with Stage(FunctionLLM(answer)) as stage:
        run = await stage.begin()
        await stage.advance(599)
        assert (await stage.state(run)).status == "running"
        await stage.advance(10)
        assert (await stage.state(run)).status == "completed"


async def test_a_run_that_lasts_too_long_does_not_wait_for_a_provider_that_is_down() -> None:
    llm = attempts(BUSY)
    async with Stage(llm, max_llm_attempts=0) as stage:
        run = await stage.begin(budget=budget(max_duration_seconds=20.0))
        await stage.advance(120)
        state = await stage.state(run)
        assert (state.status, state.failure_reason) == ("failed", "max_duration_exceeded")
        made = llm.call_count
        await stage.advance(120)
        assert llm.call_count == made


async def test_g8_an_outage_of_the_store_spends_no_attempt() -> None:
    calls: list[int] = []
    fails = 8

    async def answer(*_: Any) -> LLMResponse:
        calls.append(1)
        if len(calls) == 1:
            await anyio.sleep_forever()
        return says("ok")

    async with Stage(FunctionLLM(answer), max_llm_attempts=1) as stage:

        async def before(number: int, operation: str) -> None:
            nonlocal fails
            if operation == "journal" and fails:
                fails -= 1
                stage.store.restart()

        run = await stage.begin()
        await stage.kill()
        stage.store.before = before  # a node that was not there from the beginning has to read the journal
        await stage.add_node()
        await stage.advance(60)
        assert (fails, len(calls), (await stage.state(run)).status) == (0, 2, "completed")
        assert await stage.of(run, LLMCallFailed) == []


async def test_a_long_run_reads_only_what_is_new() -> None:
    reads: list[int] = []

    @tool
    async def look(n: int) -> int:
        """Look."""
        return n

    llm = script(*[asks(("look", {"n": n})) for n in range(60)], says("ok"))
    async with Stage(llm, [look], max_steps=100) as stage:

        async def before(number: int, operation: str) -> None:
            if operation == "journal":
                reads.append(number)

        stage.store.before = before
        run = await stage.begin()
        assert (await stage.state(run)).status == "completed"
        assert len(reads) <= 2
        assert len(llm.last_messages) == 1 + 2 * 60
