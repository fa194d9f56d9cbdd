"""Charts as SVG, written by hand: bars and points with their intervals, an axis, and every number as text.

A picture is one or more charts below each other. It has its own background and reads on a light and on a dark page; it
names no file, no font that must be there and no script. The same charts give the same bytes. All text is escaped.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Final, Literal
from xml.sax.saxutils import escape

import msgspec

WIDTH: Final = 900
LABELS: Final = 260
"""So wide is the column of names, in pixels."""
NUMBERS: Final = 150
"""And that of what is written after the longest bar."""
LETTER: Final = 6.4
"""About so wide is a letter: texts are cut by it, as nobody here can measure one."""
BAR: Final = 13
ROW: Final = 16
BETWEEN: Final = 9
PLOT: Final = 340
"""So high is a chart of points."""
TICKS: Final = 6
NEAR: Final = 16
"""Points nearer to each other than this share one label."""
SERIES: Final = 6

Unit = Literal["share", "number"]


class Value(msgspec.Struct, frozen=True):
    """A number with the interval it lies in; without one, `low` and `high` are None."""

    at: float
    low: float | None = None
    high: float | None = None
    text: str = ""
    """What is written at its end; "" means the number itself."""


class Bars(msgspec.Struct, frozen=True):
    """One group of bars for each name, one bar for each series."""

    title: str
    series: tuple[str, ...]
    groups: tuple[tuple[str, tuple[Value | None, ...]], ...]
    """A name, and as many values as there are series; None where there is none."""
    unit: Unit = "share"
    axis: str = ""
    stacked: bool = False
    """One bar for each name, of which each series is a part; the last part's text is written at its end."""


class Point(msgspec.Struct, frozen=True):
    """One thing that was measured in two ways."""

    name: str
    x: Value
    y: Value
    series: int = 0


class Points(msgspec.Struct, frozen=True):
    """Points with their intervals in both directions; they are numbered, and named beside the plot."""

    title: str
    series: tuple[str, ...]
    points: tuple[Point, ...]
    x_axis: str
    y_axis: str


Chart = Bars | Points

_STYLE: Final = """
text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-weight:600;font-size:15px}.small{font-size:11px;fill:#59636e}
.paper{fill:#ffffff}.line{stroke:#d1d9e0;stroke-width:1}.axis{stroke:#59636e;stroke-width:1}
.spread{stroke:#1f2328;stroke-width:1.3;fill:none}
.s0{fill:#0969da}.s1{fill:#d4730b}.s2{fill:#1a7f5a}.s3{fill:#a3366f}.s4{fill:#6e7781}.s5{fill:#8a6d00}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.small{fill:#9aa4af}.paper{fill:#0d1117}.line{stroke:#30363d}.axis{stroke:#9aa4af}
.spread{stroke:#f0f6fc}
.s0{fill:#58a6ff}.s1{fill:#f0a04b}.s2{fill:#4cc38a}.s3{fill:#e37fb4}.s4{fill:#9aa4af}.s5{fill:#d6b73c}
}
"""
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def drawn(title: str, charts: Sequence[Chart]) -> str:
    """The charts below each other, as one document; a chart of nothing is left out.

    Raises:
        ValueError: a group of bars has not one value for each series.
    """
    parts: list[str] = []
    top = 0.0
    for chart in charts:
        if not (chart.groups if isinstance(chart, Bars) else chart.points):
            continue
        lines, height = _bars(chart) if isinstance(chart, Bars) else _points(chart)
        parts.append(f'<g transform="translate(0 {_px(top)})">')
        parts += lines
        parts.append("</g>")
        top += height
    height = max(top, 40.0)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_px(height)}" width="{WIDTH}" '
        f'height="{_px(height)}" role="img">'
    )
    paper = f'<rect class="paper" width="{WIDTH}" height="{_px(height)}"/>'
    return "\n".join([head, f"<title>{_said(title)}</title>", f"<style>{_STYLE}</style>", paper, *parts, "</svg>", ""])


# --- bars ---------------------------------------------------------------------------------------------------------


def _bars(chart: Bars) -> tuple[list[str], float]:
    if any(len(values) != len(chart.series) for _, values in chart.groups):
        raise ValueError(f"{chart.title}: each group of bars needs {len(chart.series)} values")
    lines, top = _heading(chart.title, chart.series)
    every = [value for _, values in chart.groups for value in values if value is not None]
    if chart.stacked:
        every = [Value(sum(value.at for value in values if value is not None)) for _, values in chart.groups]
    limit, ticks = _scale(every, chart.unit)
    left, right = LABELS, WIDTH - NUMBERS

    def across(at: float) -> float:
        return left + (right - left) * min(max(at / limit, 0.0), 1.0)

    begin, rows = top, []
    for name, values in chart.groups:
        if chart.stacked:
            rows += _stack(name, values, top, across)
            top += ROW + BETWEEN
            continue
        rows.append(_text(LABELS - 10, top + ROW * len(values) / 2 + 4, _cut(name, LABELS - 14), "end"))
        for number, value in enumerate(values):
            rows += _bar(value, number, top, across, chart.unit) if value is not None else _nothing(top, left)
            top += ROW
        top += BETWEEN
    lines += _grid(ticks, across, begin - 4, top, chart.unit)
    lines += rows
    if chart.axis:
        lines.append(_text(left, top + 34, chart.axis, kind="small"))
    return lines, top + (48 if chart.axis else 34)


def _bar(value: Value, series: int, top: float, across: Callable[[float], float], unit: Unit) -> list[str]:
    start, end, middle = across(0), across(value.at), top + BAR / 2
    lines = [_rect(start, top, max(end - start, 1.0), BAR, series)]
    if value.low is not None and value.high is not None:
        low, high = across(value.low), across(value.high)
        lines.append(_path(f"M{_px(low)} {_px(middle)}H{_px(high)}", "spread"))
        lines += [_path(f"M{_px(at)} {_px(middle - 4)}v8", "spread") for at in (low, high)]
        end = max(end, high)
    lines.append(_text(end + 7, middle + 4, value.text or _number(value.at, unit)))
    return lines


def _stack(name: str, values: Sequence[Value | None], top: float, across: Callable[[float], float]) -> list[str]:
    lines, at = [_text(LABELS - 10, top + BAR / 2 + 4, _cut(name, LABELS - 14), "end")], 0.0
    for number, value in enumerate(values):
        if value is not None:
            lines.append(_rect(across(at), top, max(across(at + value.at) - across(at), 1.0), BAR, number))
            at += value.at
    said = values[-1].text if values and values[-1] is not None else ""
    return [*lines, _text(across(at) + 7, top + BAR / 2 + 4, said or _number(at, "number"))]


def _nothing(top: float, left: float) -> list[str]:
    return [_text(left + 7, top + BAR / 2 + 4, "–", kind="small")]


def _grid(ticks: Sequence[float], across: Callable[[float], float], top: float, bottom: float, unit: Unit) -> list[str]:
    lines = [_path(f"M{_px(across(at))} {_px(top)}V{_px(bottom)}", "line" if at else "axis") for at in ticks]
    return lines + [_text(across(at), bottom + 16, _number(at, unit), "middle", "small") for at in ticks]


# --- points -------------------------------------------------------------------------------------------------------


def _points(chart: Points) -> tuple[list[str], float]:
    lines, top = _heading(chart.title, chart.series)
    x_limit, x_ticks = _scale([one.x for one in chart.points], "share")
    y_limit, y_ticks = _scale([one.y for one in chart.points], "share")
    left, right, bottom = 60.0, 520.0, top + PLOT

    def across(at: float) -> float:
        return left + (right - left) * min(max(at / x_limit, 0.0), 1.0)

    def up(at: float) -> float:
        return bottom - PLOT * min(max(at / y_limit, 0.0), 1.0)

    lines += _grid(x_ticks, across, top, bottom, "share")
    for at in y_ticks:
        lines.append(_path(f"M{_px(left)} {_px(up(at))}H{_px(right)}", "line" if at else "axis"))
        lines.append(_text(left - 8, up(at) + 4, _number(at, "share"), "end", "small"))
    lines += [line for one in chart.points for line in _cross(one, across, up)]
    lines += _numbers(chart.points, across, up)
    lines.append(_text(left, bottom + 36, chart.x_axis, kind="small"))
    lines.append(_text(left, top - 8, chart.y_axis, kind="small"))
    named, height = _named(chart.points, right + 22, top)
    return lines + named, max(bottom + 50, height + 14)


def _cross(one: Point, across: Callable[[float], float], up: Callable[[float], float]) -> list[str]:
    x, y = across(one.x.at), up(one.y.at)
    lines = []
    if one.x.low is not None and one.x.high is not None:
        lines.append(_path(f"M{_px(across(one.x.low))} {_px(y)}H{_px(across(one.x.high))}", "spread"))
    if one.y.low is not None and one.y.high is not None:
        lines.append(_path(f"M{_px(x)} {_px(up(one.y.low))}V{_px(up(one.y.high))}", "spread"))
    lines.append(f'<circle class="s{one.series % SERIES}" cx="{_px(x)}" cy="{_px(y)}" r="5"/>')
    return lines


def _numbers(points: Sequence[Point], across: Callable[[float], float], up: Callable[[float], float]) -> list[str]:
    """The numbers of the points; points that lie on each other get theirs side by side."""
    places: list[tuple[float, float, list[int]]] = []
    for number, one in enumerate(points, 1):
        x, y = across(one.x.at), up(one.y.at)
        for there_x, there_y, numbers in places:
            if math.hypot(x - there_x, y - there_y) < NEAR:
                numbers.append(number)
                break
        else:
            places.append((x, y, [number]))
    return [_text(x + 8, y - 6, ", ".join(map(str, numbers))) for x, y, numbers in places]


def _named(points: Sequence[Point], left: float, top: float) -> tuple[list[str], float]:
    lines = []
    for number, one in enumerate(points, 1):
        lines.append(_rect(left, top + 2, 9, 9, one.series))
        lines.append(_text(left + 15, top + 11, _cut(f"{number}  {one.name}", WIDTH - left - 20)))
        said = f"{one.y.text or _number(one.y.at, 'share')} at {one.x.text or _number(one.x.at, 'share')}"
        lines.append(_text(left + 15, top + 25, _cut(said, WIDTH - left - 20), kind="small"))
        top += 33
    return lines, top


# --- what both are made of ----------------------------------------------------------------------------------------


def _heading(title: str, series: Sequence[str]) -> tuple[list[str], float]:
    lines = [_text(16, 26, _cut(title, WIDTH - 120), kind="title")]
    left, top = 16.0, 40.0
    for number, name in enumerate(series):
        width = 22 + LETTER * len(name)
        if left + width > WIDTH - 16:
            left, top = 16.0, top + 18
        lines.append(_rect(left, top, 10, 10, number))
        lines.append(_text(left + 15, top + 9, name))
        left += width + 14
    return lines, top + 36


def _scale(values: Sequence[Value], unit: Unit) -> tuple[float, list[float]]:
    """Where the axis ends, and its ticks from 0 on."""
    largest = max((value.high or value.at for value in values), default=0.0)
    if unit == "share" and largest > 0.5:
        return 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    rough = max(largest, 0.01 if unit == "share" else 1.0) / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * many for many in (1, 2, 5, 10) if size * many >= rough - 1e-12)
    if unit == "number":
        step = max(step, 1.0)
    count = math.ceil(max(largest, step) / step - 1e-9)
    return step * count, [round(step * number, 10) for number in range(count + 1)]


def _number(at: float, unit: Unit) -> str:
    if unit == "number":
        return f"{at:,.0f}" if at == int(at) or at >= 100 else f"{at:.2f}"
    return f"{100 * at:.1f} %" if 0 < at < 0.1 else f"{100 * at:.0f} %"


def _cut(text: str, pixels: float) -> str:
    most = max(int(pixels / LETTER), 1)
    return text if len(text) <= most else text[: most - 1] + "…"


def _said(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def _px(at: float) -> str:
    return f"{at:.1f}".removesuffix(".0")


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    placed = f' text-anchor="{anchor}"' if anchor != "start" else ""
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{_px(x)}" y="{_px(y)}"{placed}{named}>{_said(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, series: int) -> str:
    place = f'x="{_px(x)}" y="{_px(y)}" width="{_px(width)}" height="{_px(height)}"'
    return f'<rect class="s{series % SERIES}" {place} rx="2"/>'


def _path(course: str, kind: str) -> str:
    return f'<path class="{kind}" d="{course}"/>'
