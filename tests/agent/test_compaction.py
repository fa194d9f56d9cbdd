"""A conversation that grows too long is made shorter, by an event, and is the same on every node afterwards."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import FunctionLLM, LLMResponse, tool
from callboard.actors.agent.budget import Budget
from callboard.actors.agent.compaction import Compaction, choose, shortened, size_of
from callboard.actors.agent.events import (
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    MessageTold,
    RequestedCall,
    RunStarted,
    SummaryRequested,
    ToolCallCompleted,
    TranscriptCompacted,
)
from callboard.actors.agent.transcript import Transcript
from callboard.actors.llm.client import ChatMessage, PermanentModelError, ToolSpec, TransientModelError
from callboard.mailbox.message import Message

from .stage import Stage, asks, says

LONG = "y" * 1_000


@tool
async def look(n: int) -> str:
    """Look."""
    return f"{n}: {LONG}"


def paired(messages: Sequence[ChatMessage]) -> bool:
    """Whether every call has its answer right behind it, and no answer is without its call."""
    waits: list[str] = []
    for message in messages:
        if message.role == "tool":
            if not waits or message.tool_call_id != waits.pop(0):
                return False
        elif waits:
            return False
        waits = waits or [call.id for call in message.tool_calls]
    return not waits


class Model:
    """Looks `steps` times and then answers; refuses what is longer than `limit` bytes. Keeps what it was asked."""

    def __init__(self, steps: int, limit: int = 10**9) -> None:
        self.asked: list[tuple[ChatMessage, ...]] = []
        self.summaries = 0
        self.looked = 0
        self.steps = steps
        self.limit = limit
        self.llm = FunctionLLM(self._answer)

    def _answer(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        if not tools:
            self.summaries += 1
            return LLMResponse("it has looked a lot", cost_usd="0.01", input_tokens=3, output_tokens=2)
        self.asked.append(tuple(messages))
        if sum(map(size_of, messages)) > self.limit:
            raise PermanentModelError("400: maximum context length is 42", kind="context")
        self.looked += 1
        return says("ok") if self.looked > self.steps else asks(("look", {"n": self.looked}))


@pytest.mark.anyio
async def test_a_conversation_is_made_shorter_by_an_event_before_the_next_call_and_never_exceeds_its_limit() -> None:
    model = Model(40)
    async with Stage(model.llm, [look], max_steps=100, compaction=Compaction(max_bytes=12_000, keep_turns=3)) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).final_answer == "ok"
        cuts = await stage.of(run, TranscriptCompacted)
        assert len(cuts) >= 3
        assert max(sum(map(size_of, messages)) for messages in model.asked) <= 12_000
        assert all(paired(messages) for messages in model.asked)
        assert all(messages[0] == ChatMessage("user", "go") for messages in model.asked)
        assert len(await stage.of(run, LLMCallRequested)) == 41  # the same step goes on
        kinds = await stage.kinds(run)
        assert kinds[kinds.index("TranscriptCompacted") - 1] == "LLMCallRequested"


@pytest.mark.anyio
async def test_the_latest_turns_stay_and_older_results_name_their_call() -> None:
    model = Model(9)
    async with Stage(model.llm, [look], compaction=Compaction(max_bytes=9_500, keep_turns=2)) as stage:
        run = await stage.begin()
        events = await stage.events(run)
        last = [message.content for message in model.asked[-1] if message.role == "tool"]
        assert LONG in last[-1] and LONG in last[-2] and LONG not in last[0]
        stub = next(text for text in last if "left out" in text)
        number = int(stub.split("call ")[1].rstrip("]"))
        [whole] = [event for event in events if isinstance(event, ToolCallCompleted) and event.call == number]
        assert LONG in whole.result["result"]


@pytest.mark.anyio
async def test_every_node_rebuilds_the_same_conversation() -> None:
    model = Model(30)
    async with Stage(model.llm, [look], max_steps=100, compaction=Compaction(max_bytes=10_000)) as stage:
        run = await stage.begin()
        transcript = Transcript()
        asked: list[tuple[ChatMessage, ...]] = []
        for event in await stage.events(run):
            if isinstance(event, LLMCallCompleted):
                asked.append(tuple(transcript.messages))
            transcript.feed([event])
        assert asked == model.asked
        assert transcript.size == sum(map(size_of, transcript.messages))


@pytest.mark.anyio
async def test_a_provider_that_finds_it_too_long_gets_it_shorter_once_and_answers() -> None:
    model = Model(8, limit=6_000)
    async with Stage(model.llm, [look], max_llm_attempts=1) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).final_answer == "ok"
        assert {event.cause for event in await stage.of(run, TranscriptCompacted)} == {"provider"}
        assert await stage.of(run, LLMCallFailed) == []


@pytest.mark.anyio
async def test_what_cannot_be_made_shorter_fails_with_a_sentence_that_says_so() -> None:
    async with Stage(Model(1, limit=10).llm, [look], max_llm_attempts=9) as stage:
        run = await stage.begin("x" * 500)
        state = await stage.state(run)
        assert state.status == "failed"
        assert "cannot be made shorter" in state.failure_detail and "maximum context length" in state.failure_detail
    async with Stage(Model(1).llm, [look], compaction=Compaction(max_bytes=100)) as stage:
        state = await stage.state(await stage.begin("x" * 500))
        assert "for its limit of 100 bytes" in state.failure_detail


@pytest.mark.anyio
async def test_a_provider_that_is_never_content_is_asked_a_few_times_and_no_more() -> None:
    model = Model(50)
    refuses: list[int] = []

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        if len(messages) > 8 or refuses:
            refuses.append(len(messages))
            raise PermanentModelError("too long", kind="context")
        return model.llm._function(messages, tools, system)  # type: ignore[return-value]

    async with Stage(FunctionLLM(answer), [look]) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).status == "failed"
        assert 2 <= len(refuses) <= 3


@pytest.mark.anyio
async def test_the_model_sums_up_in_a_call_of_its_own_whose_cost_counts() -> None:
    model = Model(20)
    rule = Compaction(max_bytes=6_000, keep_turns=2, summary="model")
    async with Stage(model.llm, [look], compaction=rule, max_steps=100) as stage:
        run = await stage.begin()
        state = await stage.state(run)
        asked, cuts = await stage.of(run, SummaryRequested), await stage.of(run, TranscriptCompacted)
        assert model.summaries == len(asked) > 0
        assert any("it has looked a lot" in event.cut.summary for event in cuts)
        assert state.total_cost_usd == Decimal("0.01") * model.summaries
        assert state.total_tokens == 5 * model.summaries
        assert any("it has looked a lot" in message.content for message in model.asked[-1])
        assert state.final_answer == "ok" and state.step == 21


@pytest.mark.anyio
@pytest.mark.parametrize("letter", ["S", "漢"])
async def test_a_summary_of_any_length_keeps_the_conversation_within_its_limit(letter: str) -> None:
    model = Model(30)

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        if not tools:
            return LLMResponse(letter * 20_000)
        assert sum(size_of(message) for message in messages) <= 6_000
        return model.llm._function(messages, tools, system)  # type: ignore[return-value]

    rule = Compaction(max_bytes=6_000, keep_turns=1, summary="model")
    async with Stage(FunctionLLM(answer), [look], compaction=rule, max_steps=100) as stage:
        run = await stage.begin()
        summaries = [event.cut.summary for event in await stage.of(run, TranscriptCompacted) if event.cut.summary]
        assert len(summaries) > 1 and all(letter * 100 in summary for summary in summaries)
        assert (await stage.state(run)).final_answer == "ok"


@pytest.mark.anyio
async def test_what_a_small_model_sums_up_fits_it() -> None:
    model = Model(20, limit=8_000)
    longest: list[int] = []

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        if not tools:
            longest.append(sum(size_of(message) for message in messages))
            return LLMResponse("S" * 20_000)
        return model.llm._function(messages, tools, system)  # type: ignore[return-value]

    rule = Compaction(keep_turns=1, summary="model")
    async with Stage(FunctionLLM(answer), [look], compaction=rule, max_steps=100) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).final_answer == "ok"
        assert longest and max(longest) <= 8_000


@pytest.mark.anyio
async def test_the_limit_is_one_of_bytes_in_any_script() -> None:
    sent: list[int] = []

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        calls = [call.arguments["why"] for message in messages for call in message.tool_calls]
        sent.append(len("".join([system, *calls, *(message.content for message in messages)]).encode()))
        return asks(("look", {"n": len(sent), "why": "漢" * 300})) if len(sent) < 20 else says("ok")

    @tool(name="look")
    async def small(n: int, why: str) -> int:
        """Look."""
        return n

    rule = Compaction(max_bytes=9_000, keep_turns=2)
    async with Stage(FunctionLLM(answer), [small], compaction=rule, system_prompt="漢" * 500) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).final_answer == "ok"
        assert 5_000 < max(sent) <= 9_000


@pytest.mark.anyio
async def test_a_summary_that_cannot_be_had_is_written_by_rule() -> None:
    model = Model(20)

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        if not tools:
            raise TransientModelError("503")
        return model.llm._function(messages, tools, system)  # type: ignore[return-value]

    rule = Compaction(max_bytes=6_000, keep_turns=2, summary="model")
    async with Stage(FunctionLLM(answer), [look], compaction=rule, max_llm_attempts=2, max_steps=100) as stage:
        run = await stage.begin()
        await stage.advance(60)
        assert (await stage.state(run)).final_answer == "ok"
        assert any("you called look" in event.cut.summary for event in await stage.of(run, TranscriptCompacted))


@pytest.mark.anyio
async def test_a_node_that_dies_while_it_is_made_shorter_changes_nothing() -> None:
    model = Model(12)
    async with Stage(model.llm, [look], compaction=Compaction(max_bytes=9_000, keep_turns=2)) as stage:
        seen: list[str] = []

        async def before(number: int, operation: str) -> None:
            rows = stage.store.tables.events.values()
            if (
                operation == "commit"
                and number == 1
                and any(e.type == "llm.transcript_compacted" for r in rows for e in r)
            ):
                seen.append(operation)
                stage.store.before = None
                life = stage.nodes[0].life
                assert life is not None
                life.session.crash()  # type: ignore[attr-defined]

        stage.store.before = before
        run = await stage.begin()
        assert seen
        await stage.kill()
        await stage.add_node()
        await stage.advance(10)
        assert (await stage.state(run)).final_answer == "ok"


def journal(sizes: Sequence[tuple[int, int, int]]) -> list[Message]:
    """A run with a turn for each (calls, bytes of each result, words said to it)."""
    events: list[Message] = [RunStarted("r", "go", 0.0, Budget()), LLMCallRequested(1, 1)]
    number = 0
    for step, (calls, size, words) in enumerate(sizes, 1):
        asked = [RequestedCall(f"c{step}.{n}", "look", {"n": n, "s": "z" * (size // 9)}) for n in range(calls)]
        events.append(LLMCallCompleted(step, "w" * words, asked))
        for _ in range(calls):
            number += 1
            events.append(ToolCallCompleted(step, number, "look", {"r": "x" * size}))
        if words % 2:
            events.append(MessageTold("t" * words))
        events.append(LLMCallRequested(step + 1, 1))
    return events


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3_000), st.integers(0, 500)), max_size=12),
    st.integers(200, 20_000),
    st.integers(0, 6),
)
@settings(max_examples=150, deadline=None)
def test_any_cut_keeps_the_goal_and_every_call_with_its_answer(
    sizes: list[tuple[int, int, int]], limit: int, keep: int
) -> None:
    transcript = Transcript()
    transcript.feed(journal(sizes))
    assert paired(transcript.messages)
    cut = choose(transcript.placed, limit, keep)
    if cut is None:
        return
    again = Transcript()
    again.feed([*journal(sizes), TranscriptCompacted(len(sizes) + 1, 2, cut)])
    assert again.messages == [message for message, _ in shortened(transcript.placed, cut)]
    assert again.size == cut.bytes_after <= limit
    assert again.messages[0] == ChatMessage("user", "go")
    assert paired(again.messages)
    second = choose(again.placed, max(100, cut.bytes_after - 1), keep)
    if second is not None:
        messages = [message for message, _ in shortened(again.placed, second)]
        assert paired(messages) and messages[0].content == "go"
