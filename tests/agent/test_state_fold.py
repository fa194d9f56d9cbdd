"""A run's state is the fold of its journal, for every prefix of any journal (G9)."""

from collections.abc import Sequence
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import Budget, fold
from callboard.actors.agent import events as module
from callboard.actors.agent.budget import FailureReason
from callboard.actors.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    CancelRequested,
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    MessageTold,
    RequestedCall,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
    ToolVersion,
)
from callboard.actors.agent.state import RunState, apply
from callboard.actors.agent.transcript import Transcript
from callboard.actors.context import Event
from callboard.mailbox import codec
from callboard.mailbox.message import Message, decode_tagged, encode, tag

PAY = RequestedCall("c1", "pay", {"amount": 5}, "", "o")
LIMITS = Budget(max_cost_usd=Decimal("1.50"))

# One of each, every field with a value of its own.
EVERY: Sequence[Event] = (
    RunStarted("r", "go", 5.0, LIMITS, "m", "be kind", "sha256:x", "mara", [ToolVersion("pay", "1")], 3),
    LLMCallRequested(1, 11, 2),
    LLMCallFailed(1, 1, "529", False, Decimal("0.1")),
    LLMCallCompleted(1, "text\x00", [PAY], "tool_calls", 10, 20, Decimal("0.25"), 7, "p", 2, True),
    ToolCallRequested(1, 1, "pay", {"amount": 5}, "key", 12, "d", "c1", "r.1", 2),
    ToolCallFailed(1, 1, "pay", "no route", 1, False, "key", "c1"),
    ToolCallCompleted(1, 1, "pay", {"paid": 5, "\ud800": "\x00"}, "key", 9, 2, True, True, "c1"),
    ApprovalRequested(1, 2, "pay", {"amount": 6}, "much", "r.2", "d2", 13, "key2", "c2", 60.0),
    ApprovalGranted(2, "r.2", "ann", "fine"),
    ApprovalDenied(1, 2, "pay", "r.2", "ann", "no"),
    ApprovalExpired(1, 2, "pay", "r.2"),
    ToolCallInDoubt(1, 1, "pay", "r.1.doubt-9", "d3", "did it happen?"),
    ToolCallSettled(1, 1, "pay", True, "ann", "seen", 0, 2),
    ToolCallSettled(1, 1, "pay", False, "ann", "not seen", 15, 2),
    MessageTold("hello", "mara"),
    CancelRequested("mara", "why"),
    RunCompleted("ok", 1, 30, Decimal("0.25")),
    RunFailed("max_cost_exceeded", "spent"),
    RunCancelled("mara", "why"),
)


def kinds() -> set[type[Event]]:
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Event)]
    return {kind for kind in found if kind is not Event}


def test_there_is_one_of_each_kind() -> None:
    assert {type(event) for event in EVERY} == kinds()


@pytest.mark.parametrize("event", EVERY, ids=lambda event: tag(type(event)))
def test_every_event_comes_back_as_it_went(event: Event) -> None:
    assert decode_tagged(tag(type(event)), encode(event)) == event


def test_tags_are_distinct_and_none_is_a_message_s() -> None:
    tags = [tag(kind) for kind in kinds()]
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize("kind", kinds(), ids=tag)
def test_an_event_without_what_was_added_later_still_loads(kind: type[Event]) -> None:
    required = {field.name: field for field in msgspec.structs.fields(kind) if field.required}
    full = next(event for event in EVERY if type(event) is kind)
    old = {name: value for name, value in msgspec.to_builtins(full).items() if name in required or name == "type"}
    again = decode_tagged(tag(kind), codec.encode(old))
    apply(RunState(), again)


def any_event() -> st.SearchStrategy[Message]:
    """Any event about one of a few calls: in any order, that is more than any run would write."""
    call, text = st.integers(1, 3), st.sampled_from(["", "r.1", "x"])
    number, flag, cost = st.integers(0, 30), st.booleans(), st.sampled_from([Decimal(0), Decimal("0.25")])
    args: st.SearchStrategy[dict[str, int]] = st.sampled_from([{}, {"a": 1}])
    reasons: tuple[FailureReason, ...] = ("max_steps_exceeded", "unrecoverable_error")
    asked = st.sampled_from(
        [[], [RequestedCall("c", "pay", {})], [RequestedCall("", "a", {}), RequestedCall("", "b", {})]]
    )
    return st.one_of(
        st.just(EVERY[0]),
        st.builds(LLMCallRequested, number, number, number),
        st.builds(LLMCallFailed, number, number, text, flag, cost),
        st.builds(LLMCallCompleted, number, text, asked, text, number, number, cost),
        st.builds(ToolCallRequested, number, call, text, args, text, number, text, text, text, number),
        st.builds(ToolCallFailed, number, call, text, text, number, flag),
        st.builds(ToolCallCompleted, number, call, text, args),
        st.builds(ApprovalRequested, number, call, text, args, text, text, text, number),
        st.builds(ApprovalGranted, call, text, text),
        st.builds(ApprovalDenied, number, call, text, text, text),
        st.builds(ApprovalExpired, number, call, text, text),
        st.builds(ToolCallInDoubt, number, call, text, text, text, text),
        st.builds(ToolCallSettled, number, call, text, flag, text, text, number, number),
        st.builds(MessageTold, text),
        st.just(CancelRequested()),
        st.builds(RunCompleted, text, number, number, cost),
        st.builds(RunFailed, st.sampled_from(reasons), text),
        st.just(RunCancelled()),
    )


JOURNALS = st.lists(any_event(), max_size=20)


@given(JOURNALS, st.integers(0, 20))
@settings(max_examples=100, deadline=None)
def test_g9_every_prefix_of_every_journal_folds_and_always_to_the_same(journal: list[Message], cut: int) -> None:
    head, tail = journal[:cut], journal[cut:]
    before = [encode(event) for event in journal]
    state = fold(head)
    assert state == fold(head)
    for event in tail:
        apply(state, event)
    assert state == fold(journal)
    assert before == [encode(event) for event in journal], "folding changed an event"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=RunState) == state
    transcript = Transcript()
    transcript.feed(journal)
    assert transcript.seq == len(journal)


@given(JOURNALS)
@settings(max_examples=40, deadline=None)
def test_g9_a_journal_read_back_folds_to_the_same(journal: list[Message]) -> None:
    read = [decode_tagged(tag(type(event)), encode(event)) for event in journal]
    assert fold(read) == fold(journal)


@given(JOURNALS)
@settings(max_examples=40, deadline=None)
def test_what_waits_for_people_only_is_awaiting_and_what_has_ended_stays_so(journal: list[Message]) -> None:
    state = fold([EVERY[0], *journal])
    ended = [event for event in journal if isinstance(event, RunCompleted | RunFailed | RunCancelled)]
    assert state.finished == bool(ended) or any(isinstance(event, RunStarted) for event in journal)
    if state.status == "awaiting_approval":
        assert state.pending and not state.model_message
        assert state.pending_approvals == list(state.pending.values())


def test_an_empty_journal_is_a_run_that_has_not_started() -> None:
    assert fold([]) == RunState()
    assert RunState().status == "not_started"


def test_what_was_asked_and_not_answered_is_under_way() -> None:
    started, asked = EVERY[0], EVERY[1]
    state = fold([started, asked])
    assert (state.status, state.model_message, state.model_node, state.step) == ("running", 11, 2, 1)
    state = fold([started, asked, EVERY[3], EVERY[4]])
    assert (state.model_message, state.pending[1].status, state.pending[1].message) == (0, "running", 12)
    assert (state.total_tokens, state.total_cost_usd) == (30, Decimal("0.25"))
    state = fold([started, asked, EVERY[3], EVERY[4], EVERY[6]])
    assert state.pending == {}


def test_a_doubt_keeps_what_was_approved() -> None:
    state = fold([EVERY[0], EVERY[4], EVERY[11]])
    assert (state.status, state.pending[1].digest, state.pending[1].approved) == ("awaiting_approval", "d3", "d")
    apply(state, EVERY[13])
    call = state.pending[1]
    assert (state.status, call.digest, call.approved, call.message) == ("running", "d", "", 15)


def test_defaults_are_not_shared() -> None:
    first, second = RunState(), RunState()
    apply(first, EVERY[4])
    assert second.pending == {}
