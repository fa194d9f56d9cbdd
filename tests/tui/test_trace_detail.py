"""An event told whole: nothing of it is left out, and no text in it passes for a line of ours."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.events import LLMCallCompleted, RunStarted, ToolCallCompleted, ToolCallRequested
from callboard.tui.text import Line
from callboard.tui.trace_bars import bar, legend
from callboard.tui.trace_detail import MAX_LINES, details
from callboard.tui.trace_fold import fold
from callboard.tui.trace_scale import Scale

from .fallen import HOSTILE, fallen
from .test_trace_fold import BEGAN, START, journal


def text(one: Line) -> str:
    return "".join(part.text for part in one)


def when(at: float) -> str:
    return f"{at - BEGAN:.1f}"


@pytest.mark.anyio
async def test_r7_hostile_text_is_shown_and_not_obeyed_in_goal_arguments_results_and_notes() -> None:
    async with fallen() as stage:
        timeline = fold(await stage.runs.events("r"))
    shown = [text(one) for line in timeline.lines for one in details(line, timeline, 70, when, now=timeline.last_at)]
    scale = Scale(timeline.began, timeline.last_at, 70)
    shown += [text(bar(line, scale, timeline.last_at)) for line in timeline.lines]
    assert not any(character in line for line in shown for character in "\x1b\x07\u202e\u202c\u200b\n")
    assert sum("[2Jgone" in line for line in shown) >= 4, "the goal, the arguments, the result and the note"
    assert any("[red]markup[/red]" in line for line in shown)


@settings(max_examples=60, deadline=None)
@given(st.integers(12, 140), st.text(max_size=300))
def test_r7_no_wrapping_puts_foreign_text_before_its_bar(width: int, said: str) -> None:
    said = f"✓ approved by mara │ {said} call 1 pay completed"
    events = journal(
        (0, 1, START),
        (1, 1, ToolCallRequested(1, 1, "pay", {"memo": said}, "key", 5)),
        (2, 1, ToolCallCompleted(1, 1, "pay", {"said": said})),
    )
    timeline = fold(events)
    found = [text(one) for one in details(timeline.lines[1], timeline, width, when, now=BEGAN + 2)]
    foreign = [one for one in found if "approved by" in one or "mara" in one]
    assert foreign and all(one.startswith("  │ ") for one in foreign)
    assert all(cell_len(one) <= max(width, 12) for one in found)


def test_r5_a_long_result_is_wrapped_to_its_last_word() -> None:
    words = " ".join(f"word{n}" for n in range(400))
    events = journal((0, 1, START), (1, 1, ToolCallCompleted(1, 1, "look", {"text": words})))
    timeline = fold(events)
    found = " ".join(text(one).removeprefix("  │ ") for one in details(timeline.lines[1], timeline, 60, when, now=0.0))
    assert all(f"word{n}" in found for n in range(400))


def test_what_would_take_too_long_to_show_says_where_the_rest_is() -> None:
    events = journal((0, 1, START), (1, 1, LLMCallCompleted(1, "\n".join(f"line {n}" for n in range(MAX_LINES * 2)))))
    timeline = fold(events)
    found = details(timeline.lines[1], timeline, 60, when, now=0.0)
    assert len(found) == MAX_LINES + 1 and "callboard replay RUN --from 2" in text(found[-1])


@pytest.mark.anyio
async def test_a_take_over_says_what_was_kept_and_not_done_again() -> None:
    async with fallen() as stage:
        timeline = fold(await stage.runs.events("r"))
    (taken,) = [one for one in timeline.lines if one.kind == "taken"]
    (lost,) = [one for one in timeline.lines if one.kind == "lost"]
    told = "\n".join(text(one) for one in details(taken, timeline, 100, when, now=0.0))
    assert "kept, not done again: 1 model answer(s), 0 call(s)" in told and "was under way: call 1 look_up" in told
    told = "\n".join(text(one) for one in details(lost, timeline, 100, when, now=0.0))
    assert "it had work in hand" in told


def test_an_event_as_it_is_stored_has_its_number_node_and_type() -> None:
    timeline = fold(journal((0, 3, RunStarted("r", HOSTILE, BEGAN, Budget()))))
    told = "\n".join(text(one) for one in details(timeline.lines[0], timeline, 90, when, now=0.0, raw=True))
    assert '"seq": 1' in told and '"node": 3' in told and '"type": "run.started"' in told and "\x1b" not in told


def test_the_legend_names_what_is_to_be_seen_and_nothing_else() -> None:
    timeline = fold(journal((0, 1, START), (1, 1, ToolCallCompleted(1, 1, "look", {}))))
    (line,) = legend(timeline.lines, lost=False, folded=False, width=100)
    assert "done" in text(line) and "person" not in text(line) and "lost" not in text(line)
