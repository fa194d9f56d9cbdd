"""Pictures: they are well-formed whatever the names are, say every number, and come out the same every time."""

import re
import xml.etree.ElementTree as ET

import pytest

from callboard.evals.svg import WIDTH, Bars, Chart, Point, Points, Value, drawn

NASTY = "<script>&\"'\x00\x1b[31m\ud800 ]]>"
BARS = Bars(
    "Bars", ("one", "two"), (("a", (Value(0.5, 0.4, 0.6), None)), ("b", (Value(0.0), Value(1.0)))), axis="share"
)
POINTS = Points(
    "Points",
    ("ours", "theirs"),
    (
        Point("first", Value(0.01, 0.0, 0.02), Value(0.6, 0.5, 0.7)),
        Point("second", Value(0.0101, 0.0, 0.02), Value(0.601, 0.5, 0.7), 1),
        Point("third", Value(0.05), Value(0.2), 1),
    ),
    "wrong",
    "found",
)


def texts(picture: str) -> list[str]:
    """What the picture says, in order."""
    return [one.text or "" for one in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("chart", [BARS, POINTS])
def test_a_picture_is_one_document_that_says_its_names_and_numbers(chart: Chart) -> None:
    picture = drawn("A title", [chart])
    root = ET.fromstring(picture)
    assert root.attrib["width"] == str(WIDTH) and root.attrib["role"] == "img"
    said = " ".join(texts(picture))
    assert chart.title in said
    for name in ("a", "50 %", "100 %", "–") if isinstance(chart, Bars) else ("first", "60 % at 1.0 %", "wrong", "1, 2"):
        assert name in said


def test_names_of_strangers_are_text_and_never_markup() -> None:
    chart = Bars(NASTY, (NASTY,), ((NASTY, (Value(0.1, text=NASTY),)),), axis=NASTY)
    picture = drawn(NASTY, [chart, Points(NASTY, (NASTY,), (Point(NASTY, Value(0.1), Value(0.1)),), NASTY, NASTY)])
    tags = {one.tag.rpartition("}")[2] for one in ET.fromstring(picture).iter()}
    assert tags <= {"svg", "title", "style", "rect", "g", "text", "path", "circle"}
    assert "<script" not in picture and "\x1b" not in picture and picture.encode()


def test_a_picture_brings_nothing_from_elsewhere_and_has_colours_for_both_kinds_of_page() -> None:
    picture = drawn("t", [BARS, POINTS])
    assert re.findall(r"https?://[^\"]*", picture) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme:dark" in picture and 'class="paper"' in picture


def test_the_same_charts_give_the_same_bytes() -> None:
    assert drawn("t", [BARS, POINTS]) == drawn("t", [BARS, POINTS])


def test_bars_stay_inside_the_picture_and_grow_with_their_values() -> None:
    values = (0.0, 0.02, 0.3, 0.999, 1.0)
    picture = drawn("t", [Bars("b", ("s",), tuple((f"{at}", (Value(at, at, 1.0),)) for at in values))])
    widths = [float(width) for width in re.findall(r'<rect class="s0" x="260"[^>]* width="([\d.]+)"', picture)]
    assert widths == sorted(widths) and len(widths) == len(values)
    assert all(260 + width <= WIDTH for width in widths)


@pytest.mark.parametrize(
    ("largest", "last"), [(0, "1"), (1, "1"), (7, "8"), (10, "10"), (47, "50"), (1152, "1,200"), (12.5, "15")]
)
def test_an_axis_of_numbers_ends_at_a_round_one_beyond_the_largest(largest: float, last: str) -> None:
    picture = drawn("t", [Bars("b", ("s",), (("a", (Value(largest, text="x"),)),), unit="number")])
    heading, series, *ticks = texts(picture)[:-2]
    assert (heading, series, ticks[0], ticks[-1]) == ("b", "s", "0", last)


def test_charts_of_nothing_are_left_out_and_groups_that_do_not_fit_are_refused() -> None:
    empty = Bars("nothing at all", ("s",), ())
    assert "nothing at all" not in drawn("t", [empty, Points("none", ("s",), (), "x", "y"), BARS])
    assert ET.fromstring(drawn("t", []))
    with pytest.raises(ValueError, match="needs 2 values"):
        drawn("t", [Bars("b", ("one", "two"), (("a", (Value(1.0),)),))])
