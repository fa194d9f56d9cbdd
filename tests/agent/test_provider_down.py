"""A provider that is away for long: the run says so, waits, and goes on by itself (DESIGN 6.5)."""

from typing import Any

import anyio
import pytest

from callboard import FunctionLLM, LLMResponse, Node
from callboard.actors.agent.events import LLMCallCompleted, LLMCallFailed, ProviderDown, ProviderWaited
from callboard.actors.llm.client import LLMClient, TransientModelError
from callboard.actors.llm.provider import Breaker, Provider
from callboard.actors.testing import CALM, ManualPort

from .stage import Stage, attempts, budget, says

pytestmark = pytest.mark.anyio

BUSY = TransientModelError("503 away")


class Away:
    """A provider that is away until it is told to be back."""

    def __init__(self) -> None:
        self.back = False
        self.asked = 0
        self.llm = FunctionLLM(self._answer)

    def _answer(self, *_: Any) -> LLMResponse:
        self.asked += 1
        if not self.back:
            raise BUSY
        return says("ok")


def endless(llm: LLMClient, **options: Any) -> Stage:
    """A stage whose runs retry for ever."""
    return Stage(llm, **{"max_llm_attempts": 0, "max_cost_usd": None, "settings": CALM, **options})


def quick(llm: LLMClient, **options: Any) -> Stage:
    """The same, where a provider counts as down after five minutes."""
    return endless(llm, provider_down_seconds=300.0, **options)


async def test_after_an_hour_of_failures_the_run_says_provider_down_and_goes_on_by_itself() -> None:
    away = Away()
    async with endless(away.llm) as stage:
        run = await stage.begin()
        await stage.advance(3_500)
        assert (await stage.state(run)).status == "running"
        await stage.advance(160)
        state = await stage.state(run)
        assert (state.status, state.finished) == ("provider_down", False)
        [down] = await stage.of(run, ProviderDown)
        [first, *_] = await stage.of(run, LLMCallFailed)
        assert (down.since, down.error) == (first.at, "TransientModelError: 503 away")
        away.back = True
        await stage.advance(61)
        state = await stage.state(run)
        assert (state.status, state.final_answer, state.down_since) == ("completed", "ok", 0.0)


async def test_while_it_is_down_it_is_asked_about_every_minute_and_the_journal_does_not_grow() -> None:
    away = Away()
    async with quick(away.llm) as stage:
        run = await stage.begin()
        await stage.advance(400)
        asked, events = away.asked, len(await stage.events(run))
        await stage.advance(3_600)
        assert 3_600 / 61 <= away.asked - asked <= 3_600 / 7
        assert len(await stage.events(run)) == events
        away.back = True
        await stage.advance(61)
        [answered] = await stage.of(run, LLMCallCompleted)
        assert answered.attempt == away.asked  # counted all the same


async def test_a_run_whose_provider_is_down_is_at_rest_and_resume_tries_once() -> None:
    away = Away()
    async with quick(away.llm) as stage:
        run = await stage.begin()
        await stage.advance(400)
        asked = away.asked
        states: list[str] = []
        async with anyio.create_task_group() as group:

            async def resume() -> None:
                states.append((await stage.runs.rest(run)).status)

            group.start_soon(resume)
            await stage.advance(61)
            assert states == ["provider_down"]
        assert away.asked > asked


async def test_what_waits_for_a_provider_is_shown_with_the_reason() -> None:
    async with quick(Away().llm) as stage:
        run = await stage.begin()
        await stage.advance(400)
        [(_, summary)] = await stage.runs.list()
        assert (summary["status"], summary["detail"]) == ("provider_down", "TransientModelError: 503 away")
        await stage.runtime.cancel(run, by="ann")
        await stage.settle()
        assert (await stage.state(run)).status == "cancelled"


async def test_a_limit_of_attempts_ends_the_run_before_its_provider_counts_as_down() -> None:
    async with quick(Away().llm, max_llm_attempts=3) as stage:
        run = await stage.begin()
        await stage.advance(500)
        assert (await stage.state(run)).status == "failed"
        assert await stage.of(run, ProviderDown) == []


async def test_a_run_s_own_deadline_ends_it_while_its_provider_is_down() -> None:
    async with quick(Away().llm) as stage:
        run = await stage.begin(budget=budget(max_duration_seconds=600.0))
        await stage.advance(560)
        assert (await stage.state(run)).status == "provider_down"
        await stage.advance(80)
        state = await stage.state(run)
        assert (state.status, state.failure_reason) == ("failed", "max_duration_exceeded")


async def test_a_provider_that_asks_for_hours_is_down_at_once() -> None:
    llm = attempts(TransientModelError("429", 600.0, kind="rate_limit"), says("ok"))
    async with quick(llm) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).status == "provider_down"
        await stage.advance(599)
        assert llm.call_count == 1
        await stage.advance(2)
        assert (await stage.state(run)).status == "completed"


async def test_a_take_over_does_not_start_the_hour_anew() -> None:
    away = Away()
    async with quick(away.llm) as stage:
        run = await stage.begin()
        await stage.advance(240)
        await stage.kill()
        await stage.add_node()
        await stage.advance(130)
        assert (await stage.state(run)).status == "provider_down"


async def test_an_open_breaker_charges_no_attempt_and_is_in_the_journal_once() -> None:
    away = Away()
    provider = Provider(away.llm, breaker=Breaker(failures=2, open_seconds=30, cap_seconds=30))
    async with quick(provider, max_llm_attempts=2) as stage:
        first = await stage.begin()  # opens it, with both its attempts
        await stage.advance(2)
        assert (await stage.state(first)).status == "failed"
        second = await stage.begin()
        assert (away.asked, await stage.kinds(second)) == (2, ["RunStarted", "LLMCallRequested", "ProviderWaited"])
        third = await stage.begin()
        away.back = True
        await stage.advance(65)
        for run in (second, third):
            assert (await stage.state(run)).status == "completed"
            assert await stage.of(run, LLMCallFailed) == []
            assert len(await stage.of(run, ProviderWaited)) == 1
            assert (await stage.of(run, LLMCallCompleted))[0].attempt == 1


async def test_a_breaker_that_stays_open_for_an_hour_is_a_provider_that_is_down() -> None:
    away = Away()
    provider = Provider(away.llm, breaker=Breaker(failures=1, open_seconds=60, cap_seconds=60))
    async with quick(provider) as stage:
        runs = [await stage.begin() for _ in range(3)]
        await stage.advance(430)
        assert [(await stage.state(run)).status for run in runs] == ["provider_down"] * 3
        assert away.asked <= 430 / 60 + 2  # one probe each time, not one for each run
        await stage.runtime.cancel(runs[0], by="ann")
        await stage.settle()
        assert (await stage.state(runs[0])).status == "cancelled"
        away.back = True
        await stage.advance(125)
        assert [(await stage.state(run)).status for run in runs[1:]] == ["completed"] * 2


async def test_waiting_for_a_slot_is_no_attempt_and_no_timeout() -> None:
    gate = anyio.Event()

    async def answer(*_: Any) -> LLMResponse:
        await gate.wait()
        return says("ok")

    provider = Provider(FunctionLLM(answer), concurrency=1, wait_seconds=300)
    async with quick(provider, max_llm_attempts=1) as stage:
        runs = [await stage.begin() for _ in range(3)]
        await stage.advance(299)
        gate.set()
        await stage.advance(5)
        for run in runs:
            assert (await stage.state(run)).status == "completed"
            assert await stage.of(run, LLMCallFailed) == []


class Skewed:
    """A port of a machine whose wall clock is wrong."""

    def __init__(self, port: ManualPort, seconds: float) -> None:
        self._port, self._seconds = port, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def wall(self) -> float:
        return self._port.wall() + self._seconds


@pytest.mark.parametrize("seconds", [-3_600, -59, 0, 59, 61, 3_600])
async def test_a_run_s_deadline_is_that_of_the_store_whatever_the_clock_of_its_node_says(seconds: float) -> None:
    down = FunctionLLM(lambda messages, tools, system: says("ok") if messages[0].content == "well" else fail())
    async with Stage(down, nodes=0, max_llm_attempts=0) as stage:
        node = Node(stage.store, stage.runtime.tree, Skewed(stage.port, seconds), stage.runtime.settings)
        assert stage._group is not None
        stage._group.start_soon(node.run)
        await stage.settle()
        well = await stage.begin("well", budget=budget(max_duration_seconds=60))
        assert (await stage.state(well)).status == "completed"
        run = await stage.begin("down", budget=budget(max_duration_seconds=60))
        await stage.advance(58)
        assert (await stage.state(run)).status == "running"
        await stage.advance(4)
        assert (await stage.state(run)).failure_reason == "max_duration_exceeded"


def fail() -> Any:
    raise TransientModelError("503", kind="overload")
