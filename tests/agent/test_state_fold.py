"""A run's state is the fold of its journal, for every prefix of any journal (G9)."""

from collections.abc import Sequence
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import Budget, fold
from callboard.actors.agent import approval_events
from callboard.actors.agent import events as module
from callboard.actors.agent.approval_events import (
    ApprovalChecked,
    ApprovalCheckRequested,
    ApprovalEdited,
    ApprovalEditRefused,
    ApprovalSuperseded,
    ApprovalTakenBack,
    Change,
)
from callboard.actors.agent.budget import FailureReason
from callboard.actors.agent.compaction import Cut
from callboard.actors.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    BudgetRaised,
    BudgetSet,
    CancelRequested,
    ChildEnded,
    ChildStarted,
    CodeBegun,
    CodeCalled,
    CodeRequested,
    CodeSuspended,
    Finding,
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    MessageTold,
    OpaqueKept,
    ProviderDown,
    ProviderWaited,
    RequestedCall,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunForked,
    RunStarted,
    StepCompleted,
    StepFailed,
    SummaryRequested,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
    ToolsChanged,
    ToolVersion,
    TranscriptCompacted,
)
from callboard.actors.agent.guard_events import GuardrailTriggered, PlanCommitted
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
    LLMCallFailed(1, 1, "529", False, Decimal("0.1"), "overload", 6.0, 1),
    ProviderWaited(1, "it is down", 6.5),
    ProviderDown(1, 6.0, "529"),
    SummaryRequested(1, 16, 2, "provider"),
    TranscriptCompacted(1, 17, Cut(2, 3, 400, "so far", 9000, 90), "provider", 2, 5, 6, Decimal("0.01")),
    LLMCallCompleted(1, "text\x00", [PAY], "tool_calls", 10, 20, Decimal("0.25"), 7, "p", 2, True),
    ToolCallRequested(1, 1, "pay", {"amount": 5}, "key", 12, "d", "c1", "r.1", 2),
    ToolCallFailed(1, 1, "pay", "no route", 1, False, "key", "c1"),
    ToolCallCompleted(1, 1, "pay", {"paid": 5, "\ud800": "\x00"}, "key", 9, 2, True, True, "c1"),
    ApprovalRequested(1, 2, "pay", {"amount": 6}, "much", "r.2", "d2", 13, "key2", "c2", 60.0),
    ApprovalCheckRequested(2, "r.2", 18, True, "ann", "fine"),
    ApprovalChecked(2, "r.2", [Finding("stock", False, "sold out")], True),
    ApprovalTakenBack(2, "r.2", "ann", "wrong one"),
    ApprovalSuperseded(2, "r.2", "ann", "sold out"),
    ApprovalEdited(2, "r.2", "r.2.again-9", "ann", [Change("amount", 6, 4)], "as agreed"),
    ApprovalEditRefused(2, "r.2", "r.2.again-9", "ann", "nothing was changed"),
    ApprovalGranted(2, "r.2", "ann", "fine"),
    ApprovalDenied(1, 2, "pay", "r.2", "ann", "no"),
    ApprovalExpired(1, 2, "pay", "r.2"),
    ToolCallInDoubt(1, 1, "pay", "r.1.doubt-9", "d3", "did it happen?"),
    ToolCallSettled(1, 1, "pay", True, "ann", "seen", 0, 2),
    ToolCallSettled(1, 1, "pay", False, "ann", "not seen", 15, 2),
    PlanCommitted({"pay": 2}, "caller"),
    GuardrailTriggered(1, "L3_output", "taint", "ESCALATE", "pay: to", 2, 0.5, 1.5),
    MessageTold("hello", "mara"),
    CancelRequested("mara", "why"),
    RunCompleted("ok", 1, 30, Decimal("0.25")),
    RunFailed("max_cost_exceeded", "spent"),
    RunCancelled("mara", "why"),
    RunForked(
        "f", 7.0, "/agents/run:r", 4, {"goal": "go", "step": 1}, LIMITS, {"x": "call 1 of run r"}, "mara", "w", [], "s"
    ),
    BudgetSet("simple", LIMITS, "it is short"),
    BudgetRaised(LIMITS, "1 of 1 iterations are used"),
    ChildStarted(1, "expert", "/agents/run:r.1", LIMITS),
    ChildEnded(1, "expert", "/agents/run:r.1", "completed", 2, 1, 10, 20, Decimal("0.25")),
    ToolsChanged([ToolVersion("a", "1")], [ToolVersion("b", "1")], [ToolVersion("pay", "2")], "v2"),
    CodeRequested(21, 2),
    CodeBegun(1, 2),
    CodeSuspended(1, [1, 2]),
    CodeCalled("pay#1", 1, 1, "pay", "d4"),
    StepCompleted("ask#1", "ask", "d5", {"a": 1}, "llm", 7, 2, 10, 20, Decimal("0.25")),
    StepFailed("ask#2", "ask", "d6", "ValueError", "no", 2),
    OpaqueKept("thread", 1, 2, "blob"),
)


def one_of(kind: type[Event], nth: int = 0) -> Event:
    return [event for event in EVERY if type(event) is kind][nth]


STARTED, ASKED, ANSWERED = one_of(RunStarted), one_of(LLMCallRequested), one_of(LLMCallCompleted)
CALLED, DONE = one_of(ToolCallRequested), one_of(ToolCallCompleted)
DOUBTED, SETTLED = one_of(ToolCallInDoubt), one_of(ToolCallSettled, 1)


def kinds() -> set[type[Event]]:
    values = [*vars(module).values(), *vars(approval_events).values()]
    found = [value for value in values if isinstance(value, type) and issubclass(value, Event)]
    return {kind for kind in found if kind is not Event}


def test_there_is_one_of_each_kind() -> None:
    assert {type(event) for event in EVERY} == kinds()


@pytest.mark.parametrize("event", EVERY, ids=lambda event: tag(type(event)))
def test_every_event_comes_back_as_it_went(event: Event) -> None:
    assert decode_tagged(tag(type(event)), encode(event)) == event


def test_tags_are_distinct_and_none_is_a_message_s() -> None:
    tags = [tag(kind) for kind in kinds()]
    assert len(set(tags)) == len(tags)


IN_ORDER = sorted(kinds(), key=tag)
"""A parametrisation must be in the same order in every process that runs tests."""


@pytest.mark.parametrize("kind", IN_ORDER, ids=tag)
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
        st.builds(LLMCallFailed, number, number, text, flag, cost, text, st.just(5.0), number),
        st.builds(ProviderWaited, number, text, st.just(6.0)),
        st.builds(ProviderDown, number, st.just(5.0), text),
        st.builds(SummaryRequested, number, number),
        st.builds(TranscriptCompacted, number, number, st.builds(Cut, number, number, number, text)),
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
    state = fold([STARTED, ASKED])
    assert (state.status, state.model_message, state.model_node, state.step) == ("running", 11, 2, 1)
    state = fold([STARTED, ASKED, ANSWERED, CALLED])
    assert (state.model_message, state.pending[1].status, state.pending[1].message) == (0, "running", 12)
    assert (state.total_tokens, state.total_cost_usd) == (30, Decimal("0.25"))
    state = fold([STARTED, ASKED, ANSWERED, CALLED, DONE])
    assert state.pending == {}


def test_a_doubt_keeps_what_was_approved() -> None:
    state = fold([STARTED, CALLED, DOUBTED])
    assert (state.status, state.pending[1].digest, state.pending[1].approved) == ("awaiting_approval", "d3", "d")
    apply(state, SETTLED)
    call = state.pending[1]
    assert (state.status, call.digest, call.approved, call.message) == ("running", "d", "", 15)


def test_defaults_are_not_shared() -> None:
    first, second = RunState(), RunState()
    apply(first, EVERY[4])
    assert second.pending == {}
