"""The time axis: moments keep their order and stay on the line, long waits take few cells, and it can be zoomed."""

import itertools
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.tui.trace_scale import MAX_FOLDS, Scale, folds, span_text

DAY = 86_400.0


def clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def test_a_wait_of_more_than_a_tenth_is_folded_and_its_length_is_told_above_it() -> None:
    found = folds([(10.0, 734.0), (740.0, 741.0)], 760.0)
    assert found == [(10.0, 734.0)]
    scale = Scale(0.0, 760.0, 60, found)
    first, after = scale.span(10.0, 734.0) or (0, 0)
    assert after - first <= 13 and "≈ 12m 04s ≈" in scale.axis(clock)
    assert "00:00:00" in scale.axis(clock)


def test_waits_are_folded_until_none_takes_a_tenth_of_what_is_left() -> None:
    assert folds([(0.0, 43_200.0), (43_210.0, 43_930.0)], 43_960.0) == [(0.0, 43_200.0), (43_210.0, 43_930.0)]
    assert len(folds([(float(n * 100), n * 100 + 99.0) for n in range(40)], 4_000.0)) <= MAX_FOLDS


_moment = st.floats(0, 10 * DAY, allow_nan=False).map(lambda at: round(at, 6))  # no clock tells more than that
_times = st.lists(_moment, min_size=4, max_size=24, unique=True).map(sorted)


@settings(max_examples=300, deadline=None)
@given(_times, st.integers(1, 200), st.sampled_from([1, 2, 16, 256]), st.integers(0, 23))
def test_moments_keep_their_order_and_the_whole_is_on_the_line(
    times: list[float], cells: int, zoom: int, middle: int
) -> None:
    gaps = [(a, b) for a, b in zip(times[1::2], times[2::2], strict=False)]
    scale = Scale(
        times[0], times[-1], cells, folds(gaps, times[-1] - times[0]), zoom=zoom, middle=times[middle % len(times)]
    )
    places = [scale.position(at) for at in times]
    assert all(a <= b + 1e-6 for a, b in itertools.pairwise(places))
    if zoom == 1:
        assert places[0] >= -1e-6 and places[-1] <= cells + 1e-6
    assert scale.cell(times[middle % len(times)]) is not None, "what is in the middle is in sight"
    for began, ended in itertools.pairwise(times):
        span = scale.span(began, ended)
        assert span is None or 0 <= span[0] < span[1] <= cells
    assert len(scale.axis(clock)) == cells


def test_a_run_in_which_no_time_passed_is_drawn_all_the_same() -> None:
    scale = Scale(5.0, 5.0, 20)
    assert scale.span(5.0, 5.0) == (0, 1) and scale.cell(5.0) == 0 and len(scale.axis(clock)) == 20


def test_spans_of_time_are_short_and_say_their_unit() -> None:
    told = [span_text(s) for s in (0.0, 0.041, 0.9996, 2.2, 59.96, 724, 11_520, 2 * DAY + 4 * 3600)]
    assert told == ["0ms", "41ms", "1.0s", "2.2s", "1m 00s", "12m 04s", "3h 12m", "2d 4h"]
