"""A journal as lines on a time axis: retries, waits, crash and take-over are in it, and nothing once shown moves."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.agent.approval_events import ApprovalChecked, ApprovalCheckRequested, ApprovalTakenBack
from callboard.actors.agent.budget import Budget
from callboard.actors.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    CancelRequested,
    ChildStarted,
    GuardrailTriggered,
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    MessageTold,
    ProviderDown,
    ProviderWaited,
    RunCancelled,
    RunCompleted,
    RunStarted,
    StepCompleted,
    SummaryRequested,
    ToolAsked,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
)
from callboard.actors.agent.runs import Recorded
from callboard.mailbox.message import wire
from callboard.tui.trace_fold import Timeline, fold

from .fallen import fallen

BEGAN = 1_800_000_000.0
START = RunStarted("r", "do it", BEGAN, Budget())
HELD = ApprovalRequested(1, 1, "pay", {"amount": 7}, "much", "r.1", "d", 5, "key")


def journal(*told: tuple[float, int, Any]) -> list[Recorded]:
    """(seconds from the beginning, node, event) as a journal."""
    return [
        Recorded(seq, BEGAN + at, node, wire(type(event)).name, event) for seq, (at, node, event) in enumerate(told, 1)
    ]


def told(timeline: Timeline) -> list[str]:
    return [f"{one.glyph} {one.label}".strip() for one in timeline.lines]


def test_a_tool_that_asks_by_itself_is_shown_as_called_asked_for_and_called_again() -> None:
    asks = ApprovalRequested(1, 1, "pay", {"amount": 7}, "much", "r.1", "d", 5, "key", by_tool=ToolAsked("much"))
    timeline = fold(
        journal(
            (0, 1, START),
            (1, 1, ToolCallRequested(1, 1, "pay", {"amount": 7}, "key", 4)),
            (3, 1, asks),
            (60, 1, ApprovalGranted(1, "r.1", "ann")),
            (60, 1, ToolCallRequested(1, 1, "pay", {"amount": 7}, "key", 5, decision="r.1")),
            (62, 1, ToolCallCompleted(1, 1, "pay", {"paid": 7}, "key", 2_000)),
        )
    )
    shown = [(one.label, one.fill, one.failed) for one in timeline.lines if "pay" in one.label]
    assert shown == [("pay", "done", False), ("approval pay", "person", False), ("pay", "done", False)]


@pytest.mark.anyio
async def test_a_run_that_lost_its_node_tells_retry_crash_take_over_recovery_and_decision() -> None:
    async with fallen() as stage:
        timeline = fold(await stage.runs.events("r"))
    assert told(timeline) == [
        "▾ r",
        "model 1",
        "look_up",
        "↻ waits for try 2",
        "✗ node 1 lost",
        "⇡ node 2 goes on",
        "⇡ look_up try 2",
        "model 2",
        "✓ approval pay",
        "pay",
        "model 3",
        "✓ completed",
    ]
    lines = {f"{one.glyph} {one.label}".strip(): one for one in timeline.lines}
    failed, taken = lines["look_up"], lines["⇡ node 2 goes on"]
    assert (failed.fill, failed.failed, failed.said.startswith("RuntimeError: upstream 503")) == ("failed", True, True)
    assert timeline.lost_at == [failed.ended]
    assert taken.move is not None and (taken.move.answers, taken.move.before, taken.move.after) == (1, 1, 2)
    again = lines["⇡ look_up try 2"]
    assert again.said == "recovered by node 2" and again.seconds(0.0) == pytest.approx(0.084, abs=1e-5)
    approval = lines["✓ approval pay"]
    assert approval.said == "mara approved" and 720 < approval.seconds(0.0) < 800
    assert lines["▾ r"].ended == lines["✓ completed"].ended


def test_an_attempt_begins_as_long_before_its_outcome_as_it_took_and_the_rest_was_waiting() -> None:
    timeline = fold(
        journal(
            (0, 1, START),
            (0, 1, LLMCallRequested(1, 4)),
            (1, 1, LLMCallFailed(1, 1, "429\nslow down")),
            (5, 1, LLMCallFailed(1, 2, "429")),
            (31.5, 1, LLMCallCompleted(1, "hi", latency_ms=500, attempt=3)),
        )
    )
    spans = [(one.label, one.began - BEGAN, (one.ended or 0) - BEGAN, one.fill) for one in timeline.lines[1:]]
    assert spans == [
        ("model 1", 0, 1, "failed"),
        ("waits for try 2", 1, 5, "retry"),
        ("model 1 try 2", 5, 5, "failed"),
        ("waits for try 3", 5, 31, "retry"),
        ("model 1 try 3", 31, 31.5, "done"),
    ]
    assert timeline.lines[1].said == "429"


def test_a_call_that_waits_for_nobody_any_more_says_who_decided_and_how() -> None:
    for event, glyph, said in (
        (ApprovalGranted(1, "r.1", "ann"), "✓", "ann approved"),
        (ApprovalDenied(1, 1, "pay", "r.1", "ann", "no"), "✗", "ann denied"),
        (ApprovalExpired(1, 1, "pay", "r.1"), "✗", "nobody decided"),
    ):
        line = fold(journal((0, 1, START), (1, 1, HELD), (725, 1, event))).lines[1]
        assert (line.glyph, line.said, line.seconds(0.0)) == (glyph, said, 724)
        assert line.failed == (glyph == "✗")
    line = fold(journal((0, 1, START), (1, 1, HELD))).lines[1]
    assert line.ended is None and line.seconds(BEGAN + 61) == 60


def test_a_call_in_doubt_is_cut_off_and_asked_about_and_made_again_where_it_had_not_happened() -> None:
    timeline = fold(
        journal(
            (0, 1, START),
            (1, 1, ToolCallRequested(1, 1, "pay", {}, "key", 5)),
            (2, 2, ToolCallInDoubt(1, 1, "pay", "r.1", "d", "its node died")),
            (302, 2, ToolCallSettled(1, 1, "pay", False, "bo")),
            (303, 2, ToolCallCompleted(1, 1, "pay", {})),
        )
    )
    assert told(timeline)[-2:] == ["? in doubt pay", "pay again"]
    assert timeline.lines[-2].said == "bo said it had not happened" and timeline.lines[-1].ended == BEGAN + 303


def test_a_change_of_node_with_nothing_in_hand_is_no_crash() -> None:
    timeline = fold(
        journal((0, 1, START), (1, 1, HELD), (60, 2, ApprovalGranted(1, "r.1", "ann")), (60, 2, CancelRequested("ann")))
    )
    assert timeline.lost_at == [] and "⇡ node 2 goes on" in told(timeline)
    assert not any("lost" in one for one in told(timeline))


def test_a_run_of_an_agent_is_not_cut_off_by_its_parents_node() -> None:
    timeline = fold(
        journal(
            (0, 1, START),
            (1, 1, ToolCallRequested(1, 1, "expert", {}, "key", 5)),
            (1, 1, ChildStarted(1, "expert", "/agents/expert:x", Budget())),
            (9, 2, ToolCallCompleted(1, 1, "expert", {})),
        )
    )
    assert timeline.lost_at == []
    (line,) = [one for one in timeline.lines if one.label == "agent expert"]
    assert (line.fill, line.seconds(0.0)) == ("done", 8)


def test_only_time_in_which_nobody_worked_may_be_folded() -> None:
    timeline = fold(
        journal(
            (0, 1, START),
            (0, 1, LLMCallRequested(1, 4)),
            (100, 1, LLMCallCompleted(1, "")),
            (100, 1, HELD),
            (400, 1, ApprovalGranted(1, "r.1", "ann")),
        )
    )
    assert timeline.gaps == [(BEGAN + 100, BEGAN + 400)]
    timeline = fold(journal((0, 1, START), (1, 1, HELD)))
    assert timeline.all_gaps(BEGAN + 900) == [(BEGAN, BEGAN + 1), (BEGAN + 1, BEGAN + 900)]


_EVENTS: tuple[Any, ...] = (
    START,
    LLMCallRequested(1, 4),
    LLMCallFailed(1, 1, "503"),
    LLMCallFailed(1, 2, "503", final=True),
    LLMCallCompleted(1, "hi", latency_ms=700, attempt=2),
    ProviderWaited(1, "503", BEGAN),
    ProviderDown(1, BEGAN, "503"),
    SummaryRequested(1, 3),
    ToolCallRequested(1, 1, "pay", {"a": 1}, "key", 5),
    ToolCallRequested(1, 2, "look", {}, "key-2", 6),
    ToolCallFailed(1, 1, "pay", "no", attempt=1, final=False),
    ToolCallFailed(1, 2, "look", "no", attempt=0, final=True),
    ToolCallCompleted(1, 1, "pay", {}, duration_ms=90, attempt=2, recovered=True),
    ToolCallInDoubt(1, 1, "pay", "r.9", "d", "gone"),
    ToolCallSettled(1, 1, "pay", False, "bo"),
    HELD,
    ApprovalCheckRequested(1, "r.1", 9),
    ApprovalChecked(1, "r.1", []),
    ApprovalTakenBack(1, "r.1", "ann"),
    ApprovalGranted(1, "r.1", "ann"),
    ApprovalDenied(1, 1, "pay", "r.1", "ann"),
    ChildStarted(2, "expert", "/a:x", Budget()),
    GuardrailTriggered(1, "L1_input", "rule", "BLOCK"),
    MessageTold("hello", "ann"),
    StepCompleted("k", "step", "d", duration_ms=40),
    CancelRequested("ann", "enough"),
    RunCompleted("done", 1, 0, Decimal(0)),
    RunCancelled("ann"),
)
_told = st.tuples(st.floats(0, 5_000, allow_nan=False, width=32), st.integers(1, 3), st.sampled_from(_EVENTS))


@settings(max_examples=200, deadline=None)
@given(st.lists(_told, max_size=40))
def test_r4_any_journal_folds_and_lines_are_only_ever_added(some: list[tuple[float, int, Any]]) -> None:
    """Whatever order events come in: no line that was shown goes, changes its key or its beginning by more than the
    attempt that it turned out to be."""
    events = journal(*sorted(some, key=lambda one: one[0]))
    timeline = Timeline()
    seen: list[str] = []
    for event in events:
        timeline.feed(event)
        keys = [one.key for one in timeline.lines]
        assert keys[: len(seen)] == seen and len(set(keys)) == len(keys)
        seen = keys
        if isinstance(event.event, RunCompleted | RunCancelled):
            at_work = [one for one in timeline.lines if one.kind in ("work", "again") and one.ended is None]
            assert not at_work, "nothing is at work in a run that has ended"
    for line in timeline.lines:
        assert line.ended is None or line.ended >= line.began
        assert line.seconds(BEGAN + 9_999) >= 0
    assert all(a < b for a, b in timeline.gaps)
