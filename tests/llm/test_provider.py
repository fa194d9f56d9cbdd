"""A provider's limits by hand-driven time: slots, rates, Retry-After for all, and a breaker with one probe."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pytest

from callboard.actors.llm.client import (
    ChatMessage,
    LLMClient,
    LLMResponse,
    PermanentModelError,
    ToolSpec,
    TransientModelError,
)
from callboard.actors.llm.provider import Breaker, NotSent, Provider
from callboard.actors.testing import ManualPort, all_tasks_wait
from callboard.mailbox.errors import UsageError

pytestmark = pytest.mark.anyio

DOWN = TransientModelError("503", kind="overload")


class Model(LLMClient):
    """Answers when told to, with what it is told."""

    def __init__(self) -> None:
        self.gates: list[anyio.Event] = []
        self.outcome: LLMResponse | Exception = LLMResponse("ok", input_tokens=10, output_tokens=10)
        self.waits = False

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        gate = anyio.Event()
        self.gates.append(gate)
        if self.waits:
            await gate.wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Calls:
    """Calls through a provider, each in its own task."""

    def __init__(self, group: anyio.abc.TaskGroup, **limits: Any) -> None:
        self.port = ManualPort()
        self.model = Model()
        self.provider = Provider(self.model, port=self.port, **limits)
        self.outcomes: dict[int, LLMResponse | Exception] = {}
        self.scopes: list[anyio.CancelScope] = []
        self._group = group

    async def make(self, count: int = 1, text: str = "hi") -> None:
        for _ in range(count):
            scope = anyio.CancelScope()
            self.scopes.append(scope)
            self._group.start_soon(self._one, len(self.scopes) - 1, scope, text)
            await all_tasks_wait()

    async def _one(self, number: int, scope: anyio.CancelScope, text: str) -> None:
        with scope:
            try:
                self.outcomes[number] = await self.provider.call([ChatMessage("user", text)], ())
            except Exception as error:  # noqa: BLE001 - looked at by the test
                self.outcomes[number] = error

    @property
    def sent(self) -> int:
        return len(self.model.gates)

    async def answer(self, number: int) -> None:
        self.model.gates[number].set()
        await all_tasks_wait()

    def refusal(self, number: int) -> NotSent:
        outcome = self.outcomes[number]
        assert isinstance(outcome, NotSent), outcome
        return outcome


@asynccontextmanager
async def calls(**limits: Any) -> AsyncIterator[Calls]:
    async with anyio.create_task_group() as group:
        yield Calls(group, **limits)
        group.cancel_scope.cancel()


async def test_no_more_calls_at_once_than_slots_and_those_that_wait_go_in_their_order() -> None:
    async with calls(concurrency=2) as c:
        c.model.waits = True
        await c.make(5)
        assert c.sent == 2
        await c.answer(0)
        assert (c.sent, sorted(c.outcomes)) == (3, [0])
        for number in range(1, 5):
            await c.answer(number)
        assert sorted(c.outcomes) == [0, 1, 2, 3, 4]
        assert c.provider.under_way == 0


async def test_a_call_that_waits_can_be_cancelled_and_leaves_no_slot_taken() -> None:
    async with calls(concurrency=1) as c:
        c.model.waits = True
        await c.make(3)
        c.scopes[1].cancel()  # waits
        c.scopes[0].cancel()  # is under way
        await all_tasks_wait()
        assert c.sent == 2
        await c.answer(1)
        assert list(c.outcomes) == [2]
        assert c.provider.under_way == 0


async def test_waiting_for_a_slot_is_bounded_and_nothing_was_sent() -> None:
    async with calls(concurrency=1, wait_seconds=20) as c:
        c.model.waits = True
        await c.make(2)
        await c.port.advance(19)
        assert not c.outcomes
        await c.port.advance(2)
        assert c.refusal(1).kind == "rate_limit"
        assert c.sent == 1
        await c.answer(0)
        assert c.provider.under_way == 0


async def test_requests_a_minute_are_kept_and_the_wait_is_as_long_as_it_must_be() -> None:
    async with calls(requests_per_minute=3) as c:
        await c.make(5)
        assert c.sent == 3
        await c.port.advance(19)
        assert c.sent == 3
        await c.port.advance(2)
        assert c.sent == 4
        await c.port.advance(20)
        assert (c.sent, len(c.outcomes)) == (5, 5)


async def test_a_wait_that_would_be_too_long_is_refused_at_once_and_takes_nothing() -> None:
    async with calls(requests_per_minute=1, wait_seconds=90) as c:
        await c.make(3)
        assert c.sent == 1
        refused = c.refusal(2)
        assert refused.retry_after_seconds is not None and 120 <= refused.retry_after_seconds <= 122
        await c.port.advance(61)
        assert c.sent == 2
        await c.port.advance(60)
        await c.make(1)
        assert c.sent == 3


async def test_tokens_a_minute_are_settled_with_what_was_used() -> None:
    async with calls(tokens_per_minute=100) as c:
        c.model.outcome = LLMResponse("ok", input_tokens=60, output_tokens=40)
        await c.make(1, "x" * 40)  # is thought to take 10, and takes 100
        await c.make(1, "x" * 40)
        assert c.sent == 1
        await c.port.advance(5)
        assert c.sent == 1
        await c.port.advance(2)
        assert c.sent == 2


async def test_a_call_greater_than_a_minute_s_tokens_goes_when_the_minute_is_whole() -> None:
    async with calls(tokens_per_minute=10) as c:
        await c.make(1, "x" * 4_000)
        assert c.sent == 1


async def test_a_usage_that_cannot_be_stops_the_others_for_no_longer_than_a_minute_more() -> None:
    async with calls(tokens_per_minute=100, wait_seconds=200) as c:
        c.model.outcome = LLMResponse("ok", input_tokens=10**15, output_tokens=10**15)
        await c.make(1, "x" * 40)
        c.model.outcome = LLMResponse("ok")
        await c.make(1, "x" * 40)
        await c.port.advance(61)
        assert c.sent == 2


@pytest.mark.parametrize("asked", [1e300, float("inf"), 1.8e9])
async def test_a_retry_after_that_nobody_can_mean_ends_after_a_day(asked: float) -> None:
    async with calls() as c:
        c.model.outcome = TransientModelError("429", asked, kind="rate_limit")
        await c.make(1)
        c.model.outcome = LLMResponse("ok")
        await c.make(1)
        assert 86_000 < (c.refusal(1).retry_after_seconds or 0) <= 86_400
        await c.port.advance(86_401)
        await c.make(1)
        assert c.sent == 2


async def test_retry_after_of_one_call_holds_for_all() -> None:
    async with calls() as c:
        c.model.outcome = TransientModelError("429", 30.0, kind="rate_limit")
        await c.make(1)
        c.model.outcome = LLMResponse("ok")
        await c.make(2)
        assert c.sent == 1
        await c.port.advance(29)
        assert c.sent == 1
        await c.port.advance(2)
        assert c.sent == 3


async def test_a_long_retry_after_refuses_with_the_time_that_is_left() -> None:
    async with calls(wait_seconds=10) as c:
        c.model.outcome = TransientModelError("429", 3_000.0, kind="rate_limit")
        await c.make(1)
        await c.port.advance(1_000)
        await c.make(1)
        assert c.sent == 1
        after = c.refusal(1).retry_after_seconds
        assert after is not None and 2_000 <= after <= 2_002


async def test_the_breaker_opens_after_so_many_failures_in_a_row_and_fails_fast() -> None:
    async with calls(breaker=Breaker(failures=3, open_seconds=30)) as c:
        c.model.outcome = DOWN
        await c.make(2)
        c.model.outcome = LLMResponse("ok")
        await c.make(1)  # in between: not in a row
        c.model.outcome = DOWN
        await c.make(2)
        await c.make(1)
        assert (c.sent, c.provider.is_open) == (6, True)
        await c.port.advance(10)
        await c.make(1)
        assert c.sent == 6
        after = c.refusal(6).retry_after_seconds
        assert after is not None and 20 <= after <= 22


async def test_exactly_one_probe_goes_through_a_half_open_breaker() -> None:
    async with calls(breaker=Breaker(failures=1, open_seconds=30)) as c:
        c.model.outcome = DOWN
        await c.make(1)
        await c.port.advance(30)
        c.model.waits, c.model.outcome = True, LLMResponse("ok")
        await c.make(5)
        assert c.sent == 2
        assert [type(c.outcomes[n]) for n in (2, 3, 4, 5)] == [NotSent] * 4
        await c.answer(1)
        assert not c.provider.is_open
        c.model.waits = False
        await c.make(3)
        assert c.sent == 5


async def test_a_probe_that_fails_opens_it_for_longer_up_to_the_cap() -> None:
    async with calls(breaker=Breaker(failures=1, open_seconds=30, cap_seconds=100)) as c:
        c.model.outcome = DOWN
        await c.make(1)
        for opened in (30, 60, 100, 100):
            sent = c.sent
            await c.port.advance(opened - 1)
            await c.make(1)
            assert c.sent == sent
            await c.port.advance(1)
            await c.make(1)
            assert c.sent == sent + 1


async def test_a_probe_that_is_cancelled_leaves_the_next_call_to_be_the_probe() -> None:
    async with calls(breaker=Breaker(failures=1, open_seconds=30)) as c:
        c.model.outcome = DOWN
        await c.make(1)
        await c.port.advance(30)
        c.model.waits, c.model.outcome = True, LLMResponse("ok")
        await c.make(1)
        c.scopes[1].cancel()
        await all_tasks_wait()
        await c.make(1)
        await c.answer(2)
        assert isinstance(c.outcomes[2], LLMResponse) and not c.provider.is_open


@pytest.mark.parametrize(
    "error",
    [
        PermanentModelError("400"),
        TransientModelError("429", kind="rate_limit"),
        KeyError("a bug"),
    ],
)
async def test_what_does_not_speak_against_the_provider_does_not_open_it(error: Exception) -> None:
    async with calls(breaker=Breaker(failures=2)) as c:
        c.model.outcome = error
        await c.make(6)
        assert c.sent == 6


async def test_without_a_breaker_every_call_is_sent() -> None:
    async with calls(breaker=None) as c:
        c.model.outcome = DOWN
        await c.make(20)
        assert c.sent == 20


async def test_limits_are_divided_by_the_nodes_that_share_them() -> None:
    async with calls(concurrency=8, nodes=4) as c:
        c.model.waits = True
        await c.make(5)
        assert c.sent == 2


async def test_streams_pass_the_same_doors() -> None:
    async with calls(requests_per_minute=1, wait_seconds=1) as c:
        pieces: list[str] = []
        assert (await c.provider.stream([], (), "", pieces.append)).content == "ok"
        assert pieces == ["ok"]
        with pytest.raises(NotSent):
            await c.provider.stream([], (), "", pieces.append)


@pytest.mark.parametrize("name", ["concurrency", "requests_per_minute", "tokens_per_minute", "nodes"])
def test_a_limit_that_lets_nothing_through_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        Provider(Model(), **{name: 0})  # type: ignore[arg-type]
