"""Whatever models and tools say is recorded once, and stops no run (W-05, W-16)."""

import asyncio
import sys
from decimal import Decimal
from typing import Any

import pytest

from callboard import LLMResponse, Runtime, tool
from callboard.actors.agent.events import LLMCallCompleted, ToolCallCompleted, ToolCallFailed
from callboard.actors.llm.client import LLMClient, ToolCall
from callboard.persistence.memory import MemoryStore

from .stage import Stage, asks, results, says, script, verified

pytestmark = pytest.mark.anyio


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no")


def nested(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = [value]
    return value


CYCLE: list[Any] = []
CYCLE.append(CYCLE)

RETURNED: dict[str, Any] = {
    "nul": "\x00",
    "surrogate": "\ud800",
    "nan": float("nan"),
    "infinity": [float("inf")],
    "none": None,
    "bytes": b"\xff",
    "decimal": Decimal("1.5"),
    "set": {3, 1, 2},
    "cycle": CYCLE,
    "deep": nested(200),
    "hostile": Hostile(),
    "huge integer": 1 << 9_999,
    "too large": "x" * (1 << 21),
    "just too large for a message": "x" * ((1 << 20) - 100),
    "large with a surrogate": "\ud800" + "é" * 400_000,
    "large in escapes": "\x00" * 150_000,
    "keys": {("a", 1): 1, None: 2, "\ud800": 3},
}


@pytest.mark.parametrize("kind", RETURNED)
async def test_w05_whatever_a_tool_returns_its_effect_happens_once_and_is_recorded_once(kind: str) -> None:
    made: list[str] = []

    @tool(side_effect=True)
    async def act(kind: str) -> Any:
        """Act, without a key."""
        made.append(kind)
        return RETURNED[kind]

    llm = script(asks(("act", {"kind": kind})), says("ok"))
    async with Stage(llm, [act]) as stage:
        run = await stage.begin()
        await stage.advance(5)
        assert (await stage.state(run)).status == "completed"
        assert (made, llm.call_count) == ([kind], 2)
        assert len(await stage.of(run, ToolCallCompleted)) == 1
        results(llm.last_messages)[0].encode()


@pytest.mark.parametrize(
    "answer",
    [
        LLMResponse("a\ud800b"),
        LLMResponse("\ud83d\ude00 \x00"),
        LLMResponse("x" * (1 << 21)),
        LLMResponse("\x00" * 500_000),
        LLMResponse("ok", input_tokens=1 << 80, output_tokens=1 << 70, latency_ms=1 << 70),
        LLMResponse("ok", stop_reason="\ud800" * 9_999, provider_request_id="\x00" * 9_999),
    ],
)
async def test_w05_whatever_a_model_says_is_bought_once(answer: LLMResponse) -> None:
    llm = script(answer)
    async with Stage(llm) as stage:
        run = await stage.begin()
        await stage.advance(5)
        state = await stage.state(run)
        assert (state.status, llm.call_count) == ("completed", 1)
        assert state.final_answer
        state.final_answer.encode()


async def test_w05_broken_text_in_a_call_reaches_the_tool_repaired() -> None:
    got: list[Any] = []

    @tool(requires_approval=lambda a: True)
    async def act(text: str, more: dict[str, Any]) -> str:
        """Act."""
        got.append((text, more))
        return "done"

    call = ToolCall("\ud800", "act", {"text": "a\ud800b\x00", "more": {"\udfff": ["\ud800"]}}, opaque="\ud800")
    llm = script(LLMResponse("\ud800", [call]), says("ok"))
    async with Stage(llm, [act]) as stage:
        run = await stage.begin()
        await stage.approve(run)
        assert (await stage.state(run)).status == "completed"
        assert got == [("a\ufffdb\x00", {"\ufffd": ["\ufffd"]})]
        for message in llm.last_messages:
            message.content.encode()


async def test_broken_text_from_people_is_repaired() -> None:
    llm = script(says("ok"))
    async with Stage(llm, system_prompt="be\ud800kind") as stage:
        run = await stage.begin("go\ud800\x00", requested_by="\x00mara\ud800")
        assert (await stage.state(run)).status == "completed"
        assert (llm.last_messages[0].content, llm.last_system_prompt) == ("go\ufffd\x00", "be\ufffdkind")


class Unsaid(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def cancelled_inside() -> None:
    inner = asyncio.ensure_future(asyncio.sleep(60))
    inner.cancel()
    await inner


@pytest.mark.parametrize("kind", ["exit", "cancelled", "hostile", "thread exit", "stop"])
async def test_w05_however_a_tool_ends_it_is_an_error_for_the_model_and_no_second_effect(kind: str) -> None:
    made: list[str] = []

    @tool(side_effect=True)
    async def act(kind: str) -> str:
        """Act."""
        made.append(kind)
        match kind:
            case "exit":
                sys.exit(3)
            case "cancelled":
                await cancelled_inside()
            case "stop":
                raise StopAsyncIteration
        raise Unsaid

    @tool(side_effect=True, name="thread")
    def thread() -> str:
        """Act in a thread."""
        made.append("thread exit")
        sys.exit(3)

    call = ("thread", {}) if kind == "thread exit" else ("act", {"kind": kind})
    llm = script(asks(call), says("ok"))
    store = MemoryStore()
    async with Runtime(store, llm, [act, thread]) as runtime:
        run = await runtime.start("go")
        assert (run.state.status, made) == ("completed", [kind])
        assert results(llm.last_messages)[0].startswith("Error: ")
        await verified(runtime, run.id)
    assert await store.dead_letters() == []


class Client(LLMClient):
    """A client with a fault of its own at the first call."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.calls = 0

    async def call(self, messages: Any, tools: Any, system_prompt: str = "") -> Any:
        self.calls += 1
        if self.calls == 1:
            match self.kind:
                case "exit":
                    sys.exit(3)
                case "cancelled":
                    await cancelled_inside()
                case "hostile":
                    raise Unsaid
                case "nothing":
                    return None
        return says("ok")


@pytest.mark.parametrize("kind", ["exit", "cancelled", "hostile", "nothing"])
async def test_a_fault_of_the_client_is_a_failed_attempt_and_nothing_else(kind: str) -> None:
    client = Client(kind)
    async with Stage(client) as stage:
        run = await stage.begin()
        await stage.advance(5)
        assert (await stage.state(run)).status == "completed"
        assert client.calls == 2
        assert "LLMCallFailed" in await stage.kinds(run)


async def test_a_sync_tool_works_once() -> None:
    made: list[int] = []

    @tool(side_effect=True)
    def act(n: int) -> dict[str, int]:
        """Act."""
        made.append(n)
        return {"n": n}

    async with Runtime(MemoryStore(), script(asks(("act", {"n": 1})), says("ok")), [act]) as runtime:
        run = await runtime.start("go")
        assert (run.state.status, made) == ("completed", [1])
        await verified(runtime, run.id)


async def test_a_hundred_poisoned_runs_do_not_keep_a_healthy_one_from_its_end() -> None:
    """W-06: whatever is wrong with them."""
    made: list[str] = []

    @tool(requires_approval=True)
    async def act(kind: str) -> Any:
        """Act."""
        made.append(kind)
        return RETURNED[kind]

    def answer(messages: Any) -> LLMResponse:
        if "poison" in messages[0].content:
            return LLMResponse("\ud800" * 10, [ToolCall("\ud800", "act", {"kind": "\ud800", "x": float("nan")})])
        return asks(("act", {"kind": "nul"}))

    async with Stage(script(answer, says("ok"), says("ok")), [act]) as stage:
        poisoned = [await stage.runtime.create(f"poison {n}") for n in range(100)]
        healthy = await stage.begin("healthy")
        await stage.approve(healthy)
        assert (await stage.state(healthy)).status == "completed"
        assert {(await stage.state(run)).status for run in poisoned} == {"completed"}


async def test_a_run_whose_own_turn_fails_stands_still_with_a_reason_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of ours: it must neither loop, nor look alive, nor take its supervisor down with it."""

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug")

    @tool(requires_approval=True)
    async def act() -> str:
        """Act."""
        return "done"

    llm = script(asks(("act", {})), says("ok"))
    async with Stage(llm, [act]) as stage:
        good = await stage.begin()
        with monkeypatch.context() as patched:
            patched.setattr("callboard.actors.agent.run_calls.judge_all", broken)
            bad = [await stage.begin() for _ in range(6)]
            await stage.advance(60)
        for run in bad:
            row = await stage.store.actor(stage.runs.address(run))
            assert row is not None and (row.status, row.reason) == ("failed", "RuntimeError: a bug")
            letters = await stage.store.dead_letters(recipient=row.address)
            assert [letter.envelope.type for letter in letters] == ["model.answered"]
        await stage.approve(good)
        assert (await stage.state(good)).status == "completed"
        assert llm.call_count == 2 + 6
        stage.checked = False


async def test_a_call_that_cannot_be_answered_at_all_is_an_error_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool answers AskFailed where a worker's reply cannot be kept; nothing else will ever come."""
    made: list[str] = []

    @tool(side_effect=True)
    async def act(n: int) -> str:
        """Act."""
        made.append("act")
        return "x" * ((1 << 20) - 60)

    llm = script(asks(("act", {"n": 1})), says("ok"))
    async with Stage(llm, [act]) as stage:
        with monkeypatch.context() as patched:
            patched.setattr("callboard.actors.agent.result.MAX_BYTES", 1 << 21)
            patched.setattr("callboard.actors.agent.tool.normalise", lambda value: {"result": value})
            run = await stage.begin()
            await stage.advance(30)
        assert (made, (await stage.state(run)).status) == (["act"], "completed")
        failed = (await stage.of(run, ToolCallFailed))[0]
        assert failed.final and "no answer" in failed.error
        stage.checked = False  # the call is a dead letter

    async with Stage(script(says("x" * (1 << 21)))) as stage:
        monkeypatch.setattr("callboard.actors.agent.answer.MAX_CONTENT_BYTES", 1 << 30)
        run = await stage.begin()
        await stage.advance(30)
        assert (await stage.state(run)).failure_reason == "unrecoverable_error"
        assert await stage.of(run, LLMCallCompleted) == []
        stage.checked = False


async def test_a_call_after_one_that_was_cut_off_is_not_taken_for_cut_off_itself() -> None:
    """Both may be made by the same task, which remembers that it was cancelled once."""

    @tool(timeout=1.0, attempts=1)
    async def hang() -> str:
        """Hang."""
        await asyncio.sleep(9_999)
        return "never"

    @tool(attempts=1)
    async def cancelled() -> str:
        """Cancel something inside."""
        await cancelled_inside()
        return "never"

    llm = script(asks(("hang", {})), asks(("cancelled", {})), asks(("cancelled", {})), says("ok"))
    async with Stage(llm, [hang, cancelled]) as stage:
        run = await stage.begin()
        await stage.advance(5)
        assert (await stage.state(run)).status == "completed"
        assert ["timed out" in said or "cancelled" in said for said in results(llm.last_messages)] == [True] * 3
