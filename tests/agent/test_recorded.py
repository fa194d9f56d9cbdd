"""Any run becomes a fixture that answers as its model did, without a model (PARITY A9: ReplayLLM and `record`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from callboard import FunctionLLM, LLMResponse, tool
from callboard.actors.agent.compaction import Compaction
from callboard.actors.agent.events import LLMCallCompleted, LLMCallFailed, TranscriptCompacted
from callboard.actors.agent.recorded import (
    BadRecording,
    NotRecorded,
    RecordedLLM,
    read_recording,
    recorded_turns,
    write_recording,
)
from callboard.actors.agent.transcript import Transcript
from callboard.actors.llm.client import ChatMessage, ErrorKind, PermanentModelError, ToolSpec, TransientModelError
from callboard.mailbox.message import Message

from .stage import Stage, asks, attempts, says, script

pytestmark = pytest.mark.anyio


@tool
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


def model() -> Any:
    return script(
        asks(("look", {"n": 1}), ("look", {"n": 2}), input_tokens=7, output_tokens=3, cost_usd="0.01"),
        asks(("look", {"n": 3})),
        says("all \x00 seen \ud800", input_tokens=1),
    )


async def recorded_run(**options: Any) -> list[Message]:
    async with Stage(model(), [look], system_prompt="be kind", **options) as stage:
        run = await stage.begin("look around")
        return await stage.events(run)


def kinds(events: list[Message]) -> list[str]:
    return [type(event).__name__ for event in events]


async def test_a_run_replays_from_its_recording_step_by_step(tmp_path: Path) -> None:
    events = await recorded_run()
    path = tmp_path / "run.jsonl"
    assert write_recording(path, events) == 3
    async with Stage(RecordedLLM.from_file(path), [look], system_prompt="be kind") as stage:
        run = await stage.begin("look around")
        again = await stage.events(run)
        assert kinds(again) == kinds(events)
        was = [event for event in events if isinstance(event, LLMCallCompleted)]
        now = [event for event in again if isinstance(event, LLMCallCompleted)]
        same = ("content", "tool_calls", "input_tokens", "output_tokens", "cost_usd", "stop_reason")
        assert [[getattr(e, name) for name in same] for e in now] == [[getattr(e, name) for name in same] for e in was]


async def test_what_is_written_is_read_again_and_is_small(tmp_path: Path) -> None:
    events = await recorded_run()
    path = tmp_path / "run.jsonl"
    write_recording(path, events)
    assert read_recording(path) == recorded_turns(events)
    assert path.read_text().count("look around") == 1  # each turn holds what is new in it


async def test_a_recording_holds_nothing_of_nodes_people_or_providers(tmp_path: Path) -> None:
    llm = attempts(LLMResponse("ok", provider_request_id="req-secret"))
    async with Stage(llm) as stage:
        run = await stage.begin(requested_by="mara")
        write_recording(tmp_path / "r", await stage.events(run))
    text = (tmp_path / "r").read_text()
    assert "req-secret" not in text and "mara" not in text and run not in text


async def test_many_runs_and_a_run_killed_in_the_middle_replay_from_one_recording() -> None:
    events = await recorded_run()
    llm = RecordedLLM.from_events(events)
    async with Stage(llm, [look], system_prompt="be kind", retry_base_delay_seconds=0) as stage:
        runs = [await stage.runtime.create("look around") for _ in range(3)]
        await stage.kill()
        await stage.add_node()
        await stage.advance(10)
        for run in runs:
            assert kinds(await stage.events(run)) == kinds(events)


async def test_a_recording_of_a_run_that_was_cut_off_answers_as_far_as_it_got() -> None:
    events = await recorded_run()
    cut = next(n for n, event in enumerate(events) if isinstance(event, LLMCallCompleted)) + 1
    async with Stage(RecordedLLM.from_events(events[:cut]), [look], system_prompt="be kind") as stage:
        run = await stage.begin("look around")
        state = await stage.state(run)
        assert (state.step, state.status) == (2, "failed")
        assert "record a longer run" in state.failure_detail


async def test_strict_says_which_message_differs() -> None:
    llm = RecordedLLM.from_events(await recorded_run())

    @tool(name="look")
    async def other(n: int) -> str:
        """Look."""
        return f"seen {n} too" if n == 2 else f"seen {n}"

    async with Stage(llm, [other], system_prompt="be kind") as stage:
        run = await stage.begin("look around")
        detail = (await stage.state(run)).failure_detail
        assert "message 4 (tool) differs from the one recorded for answer 2" in detail
        assert "seen 2 too" in detail
    for goal, prompt, said in (("look", "be kind", "message 1 (user)"), ("look around", "be rude", "system prompt")):
        with pytest.raises(NotRecorded, match=said.replace("(", r"\(").replace(")", r"\)")):
            await llm.call([ChatMessage("user", goal)], (), prompt)
    with pytest.raises(NotRecorded, match="recorded for 1 messages, and 2"):
        await llm.call([ChatMessage("user", "look around"), ChatMessage("user", "now")], (), "be kind")


async def test_not_strict_goes_by_the_position() -> None:
    llm = RecordedLLM.from_events(await recorded_run(), strict=False)

    @tool(name="look")
    async def other(n: int) -> str:
        """Look."""
        return "now"

    async with Stage(llm, [other]) as stage:
        run = await stage.begin("look elsewhere")
        assert (await stage.state(run)).final_answer == "all \x00 seen �"


async def test_failed_attempts_and_compaction_replay_without_the_failures() -> None:
    rule = Compaction(max_bytes=900, keep_turns=1)
    looks = [asks(("look", {"n": n})) for n in range(12)]
    llm = attempts(TransientModelError("503"), *looks, says("ok"))
    async with Stage(llm, [look], compaction=rule) as stage:
        run = await stage.begin()
        await stage.advance(5)
        events = await stage.events(run)
    assert "TranscriptCompacted" in kinds(events)
    async with Stage(RecordedLLM.from_events(events), [look], compaction=rule) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).final_answer == "ok"
        assert await stage.of(run, LLMCallFailed) == []


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("kind", ["malformed", "length"])
async def test_answers_that_came_to_nothing_come_to_nothing_again(
    tmp_path: Path, kind: ErrorKind, strict: bool
) -> None:
    unreadable = PermanentModelError("it is nonsense", kind=kind, cost_usd="0.02")
    llm = attempts(unreadable, asks(("look", {"n": 1})), unreadable, unreadable, says("ok"))
    async with Stage(llm, [look]) as stage:
        events = await stage.events(await stage.begin())
    write_recording(tmp_path / "r", events)
    async with Stage(RecordedLLM.from_file(tmp_path / "r", strict=strict), [look]) as stage:
        run = await stage.begin()
        assert await stage.kinds(run) == kinds(events)
        state = await stage.state(run)
        assert (state.final_answer, str(state.total_cost_usd)) == ("ok", "0.06")
        failed = [(event.error, event.kind) for event in await stage.of(run, LLMCallFailed)]
        assert failed == [(event.error, event.kind) for event in events if isinstance(event, LLMCallFailed)]


async def test_summaries_that_a_model_wrote_are_written_again(tmp_path: Path) -> None:
    rule = Compaction(max_bytes=900, keep_turns=1, summary="model")
    written: list[str] = []

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        if not tools:
            written.append(f"summary {len(written) + 1}")
            return LLMResponse(written[-1], input_tokens=11, cost_usd="0.01")
        seen = sum(message.role == "assistant" for message in messages) + 10 * len(written)
        return asks(("look", {"n": seen})) if len(written) < 3 else says("ok")

    async with Stage(FunctionLLM(answer), [look], compaction=rule) as stage:
        events = await stage.events(await stage.begin())
    write_recording(tmp_path / "r", events)
    assert len(written) == 3 and kinds(events).count("TranscriptCompacted") >= 3
    async with Stage(RecordedLLM.from_file(tmp_path / "r"), [look], compaction=rule) as stage:
        run = await stage.begin()
        assert await stage.kinds(run) == kinds(events)
        cuts = [event.cut for event in await stage.of(run, TranscriptCompacted)]
        assert cuts == [event.cut for event in events if isinstance(event, TranscriptCompacted)]
        assert (await stage.state(run)).final_answer == "ok"


@pytest.mark.parametrize("profile", ["off", "validation", "lenient", "standard", "strict"])
async def test_a_run_replays_under_the_guardrails_that_it_was_recorded_under(profile: str) -> None:
    @tool
    async def read(n: int) -> str:
        """Read."""
        return "From ann@example.com: call +1 415 555 0100"

    llm = script(asks(("read", {"n": 1})), asks(("read", {"n": 2})), says("told ann@example.com"))
    goal = "answer bob@example.com"
    async with Stage(llm, [read], guardrail_profile=profile) as stage:
        events = await stage.events(await stage.begin(goal))
    async with Stage(RecordedLLM.from_events(events), [read], guardrail_profile=profile) as stage:
        assert (await stage.state(await stage.begin(goal))).final_answer == "told ann@example.com"


async def test_a_fork_is_recorded_with_its_past_and_refused_without() -> None:
    async with Stage(model(), [look]) as stage:
        run = await stage.begin("look around")
        past = await stage.events(run)
        at = kinds(past).index("ToolCallCompleted") + 1
        fork = await stage.runtime.fork(run, at)
        await stage.settle()
        own = await stage.events(fork)
        with pytest.raises(BadRecording, match=f"is a fork.*journal of run {run}: give the first {at} events"):
            RecordedLLM.from_events(own)
        llm = RecordedLLM.from_events([*past[:at], *own])
    asked = Transcript()
    asked.feed([*past[:at], *own])
    said = await llm.call(asked.messages[:-1], ())
    assert (len(llm.turns), said.content) == (3, asked.messages[-1].content)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no recording"),
        ("{}\n", "no recording"),
        ("\x00", "line 1"),
        ('{"format":"callboard.recording","version":9,"turns":0}\n', "version 9"),
        ('{"format":"callboard.recording","version":1,"turns":2}\n{"content":"a"}\n', "cut off"),
        ('{"format":"callboard.recording","version":1,"turns":1}\n{"content":1}\n', "line 2"),
    ],
)
def test_what_is_no_recording_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "r"
    path.write_text(text)
    with pytest.raises(BadRecording, match=said):
        RecordedLLM.from_file(path)
