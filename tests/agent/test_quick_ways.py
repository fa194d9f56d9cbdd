"""The quick ways of a step give exactly what the general ways give, or leave it to them."""

import dataclasses
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.agent import result, state
from callboard.actors.agent.arguments import InvalidArguments, validate
from callboard.actors.agent.call import Call
from callboard.actors.agent.events import (
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    RequestedCall,
    RunStarted,
    ToolCallCompleted,
    ToolCallRequested,
)
from callboard.actors.agent.foreign import is_async, never_waits
from callboard.actors.agent.result import normalise
from callboard.actors.agent.run_base import RunSnapshot
from callboard.actors.agent.state import RunState, fold, spelled_out
from callboard.actors.agent.text import row_text, well_formed
from callboard.actors.agent.tool import Tool, tool
from callboard.actors.agent.transcript import Transcript
from callboard.actors.context import Event
from callboard.mailbox.message import tag

from .test_state_fold import EVERY

SURROGATES = st.characters(categories=["Cs"])
TEXTS = st.text(st.characters(exclude_categories=[])) | st.sampled_from(["5", "true", "null", "", "a", '\x00\x7f"\\'])
SCALARS = (
    TEXTS
    | st.none()
    | st.booleans()
    | st.integers(-(1 << 66), 1 << 66)
    | st.sampled_from([-(1 << 63), (1 << 64) - 1, 1 << 64])
    | st.floats()
)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(TEXTS, SCALARS, max_size=2)


@tool
def plain(
    *,
    text: str,
    number: int,
    amount: float,
    sure: bool,
    size: Literal["s", "m"] = "s",
    note: str | None = None,
    many: int | None = 3,
    rate: float = 1,
    word: str = "é",
) -> None: ...


@tool
def mixed(text: str, tags: list[str]) -> None: ...


NAMES = [parameter.name for parameter in plain.inputs]
FITTING = st.fixed_dictionaries(
    {"text": TEXTS, "number": st.integers(-5, 5), "amount": st.floats(allow_nan=False), "sure": st.booleans()},
    optional={
        "size": st.sampled_from(["s", "m"]),
        "note": TEXTS | st.none(),
        "many": st.integers() | st.none(),
        "rate": st.floats() | st.integers(),
        "word": TEXTS,
    },
)


def outcome(declared: Tool, raw: Any, *, quick: bool) -> Any:
    try:
        found = declared.validate(raw) if quick else validate(declared.inputs, raw)
    except InvalidArguments as error:
        return error.problem
    exact = {name: (type(value), repr(value)) for name, value in found.values.items()}
    return list(found.plain.items()), repr(found.plain), list(exact.items()), found.canonical


@given(FITTING | st.dictionaries(st.sampled_from([*NAMES, "other"]), VALUES, max_size=9))
@settings(max_examples=400, deadline=None)
def test_w19_arguments_are_the_same_by_both_ways(raw: dict[str, Any]) -> None:
    assert outcome(plain, raw, quick=True) == outcome(plain, raw, quick=False)


def test_what_nearly_all_calls_are_takes_the_quick_way() -> None:
    asked = {"amount": 1.5, "text": "a", "sure": True, "number": 5}
    found = plain.validate({**asked, "rate": 0.5})
    assert found.scalar
    assert not plain.validate({**asked, "number": "5"}).scalar
    assert not plain.validate(asked).scalar, "the default of `rate` is no float"
    assert not mixed.validate({"text": "a", "tags": []}).scalar


def test_the_values_of_the_quick_way_are_fresh_each_time() -> None:
    found = plain.validate({"amount": 1.5, "text": "a", "sure": True, "number": 5, "rate": 0.5})
    values = plain.values(found)
    values["text"] = found.values["text"] = "changed"
    assert (found.plain["text"], plain.values(found)["text"]) == ("a", "a")


# --- results -----------------------------------------------------------------------------------------------------

RESULTS = st.recursive(
    SCALARS | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(TEXTS | st.integers(), inner, max_size=3)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=12,
)


def walked(value: object, monkeypatch: pytest.MonkeyPatch, max_bytes: int = result.MAX_BYTES) -> dict[str, Any]:
    with monkeypatch.context() as patched:
        patched.setattr(result, "_quickly", lambda value, max_bytes: None)
        return normalise(value, max_bytes)


@given(RESULTS, st.sampled_from([20, 100, result.MAX_BYTES]))
@settings(max_examples=400, deadline=None)
def test_results_are_the_same_by_both_ways(value: object, max_bytes: int) -> None:
    quick = normalise(value, max_bytes)
    with pytest.MonkeyPatch.context() as patched:
        assert repr(quick) == repr(walked(value, patched, max_bytes))


def test_a_result_shares_nothing_with_what_the_tool_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    inner: dict[str, Any] = {"list": [1, {"a": "b"}]}
    found = normalise(inner)
    inner["list"][1]["a"] = "changed"
    inner["list"].append(2)
    assert found == {"list": [1, {"a": "b"}]}


def test_cycles_deep_and_wide_results_are_left_to_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    cycle: dict[str, Any] = {}
    cycle["again"] = cycle
    deep: Any = "end"
    for _ in range(30):
        deep = [deep]
    shared: Any = ["x"]
    for _ in range(7):
        shared = [shared] * 20
    for value in (cycle, deep, list(range(5_000))):
        assert normalise(value) == walked(value, monkeypatch)
    assert "truncated_bytes" in normalise(shared)


# --- texts -------------------------------------------------------------------------------------------------------


@given(TEXTS, st.integers(0, 5))
def test_texts_are_the_same_by_both_ways(text: str, limit: int) -> None:
    assert row_text(text, limit) == well_formed(text).replace("\x00", "")[:limit]
    well_formed(text).encode()


# --- the transcript ----------------------------------------------------------------------------------------------

STEP = [
    LLMCallRequested(1, 11),
    LLMCallCompleted(1, "look", [RequestedCall("a", "f", {"n": 1}), RequestedCall("b", "f", {"n": 2})]),
    ToolCallRequested(1, 1, "f", {"n": 1}, "k1", 12),
    ToolCallRequested(1, 2, "f", {"n": 2}, "k2", 13),
    ToolCallCompleted(1, 2, "f", {"result": 2}),
    ToolCallCompleted(1, 1, "f", {"result": 1}),
    LLMCallRequested(2, 14),
]


@pytest.mark.parametrize("journal", [STEP, EVERY, [*EVERY, *STEP]])
def test_a_transcript_is_the_same_where_events_are_not_read(journal: list[Event]) -> None:
    read, unread = Transcript(), Transcript()
    skipped = 0
    for event in journal:
        read.take(event)
        taken = unread.take_unread(tag(type(event)))
        skipped += taken
        if not taken:
            unread.take(event)
        assert (unread.messages, unread.seq, unread.size) == (read.messages, read.seq, read.size)
    assert skipped


# --- time --------------------------------------------------------------------------------------------------------


async def at_once(n: int) -> int:
    return n


async def waits() -> None:
    await at_once(1)


def blocks() -> None: ...


class Callable:
    async def __call__(self) -> None: ...


def test_only_what_cannot_wait_goes_without_a_limit() -> None:
    assert never_waits(at_once)
    assert [never_waits(one) for one in (waits, blocks, Callable())] == [False, False, False]
    assert [is_async(one) for one in (at_once, waits, blocks, Callable())] == [True, True, False, True]


def test_a_tool_with_a_call_of_its_own_has_its_limit() -> None:
    class Elsewhere(Tool):
        async def call(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return {}

    here = tool(at_once)
    fields = {one.name: getattr(here, one.name) for one in dataclasses.fields(here)}
    assert here.never_waits
    assert not Elsewhere(**fields).never_waits


# --- the state ---------------------------------------------------------------------------------------------------


def test_g9_the_defaults_of_a_state_are_for_ever() -> None:
    """What has its default is not stored, so another default would change what stored states say."""
    plain_state = spelled_out(RunState())
    assert {name: value for name, value in plain_state.items() if value} == {
        "status": "not_started",
        "budget": {
            "max_iterations": 50,
            "max_tokens": 150_000,
            "max_duration_seconds": None,
            "max_cost_usd": None,
            "max_tool_calls": None,
        },
        "guardrails": "validation",
        "goal_trust": "trusted",
        "total_cost_usd": "0",
    }
    nothing = {"final_answer", "failure_reason", "own_budget", "tools"}
    assert {name for name, value in plain_state.items() if value is None} == nothing
    call = spelled_out(RunState(pending={1: Call(1, 1, "f", {}, "held", 2)}))["pending"][1]
    assert {name for name, value in call.items() if value} == {"call", "step", "tool", "status", "message"}
    assert {name for name, value in call.items() if value is None} == {"granted", "question"}
    assert RunSnapshot() == RunSnapshot(RunState(), [], ("", 0), [], None)


@pytest.mark.parametrize("end", range(1, len(EVERY) + 1))
def test_g9_a_state_read_back_says_all_that_it_said(end: int) -> None:
    folded = fold(EVERY[:end])
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(RunSnapshot(folded)), type=RunSnapshot).run
    assert kept == folded
    assert spelled_out(kept) == spelled_out(folded)
    assert list(spelled_out(kept)) == list(RunState.__struct_fields__)


def test_g9_a_number_that_is_back_at_its_default_is_no_difference() -> None:
    started = next(event for event in EVERY if isinstance(event, RunStarted))
    failed = LLMCallFailed(1, 1, "busy", at=5.0)
    folded = fold([started, LLMCallRequested(1, 11), failed, LLMCallCompleted(1, "")])
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(folded), type=RunState)
    assert spelled_out(kept) == spelled_out(folded)
    assert spelled_out(kept)["failing_since"] == 0.0


def test_g9_only_these_events_change_no_more_than_a_count() -> None:
    silent = {type(event).__name__ for event in EVERY if type(event) not in state._CHANGES}
    assert silent == {
        "ApprovalEditRefused",
        "ApprovalEdited",
        "ApprovalGranted",
        "ApprovalSuperseded",
        "ApprovalTakenBack",
        "GuardrailTriggered",
        "OpaqueKept",
        "PlanCommitted",
        "StepFailed",
    }
