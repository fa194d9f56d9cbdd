"""A line of a timeline, told whole: which events it is made of, when, where, and everything they say. Pure.

What models, tools and people said stands behind a bar, on every line that it takes: no text in it can pass for a line
of ours, however it is wrapped.
"""

import json
from collections.abc import Callable, Iterable, Iterator

from callboard.service.operations.views import event_document
from callboard.service.trace import Line as Told
from callboard.service.trace import event_lines
from callboard.service.trace_summary import moved_lines
from callboard.service.trace_text import Style

from .text import Line, Role, grid, line, piece, wrapped
from .trace_calls import Stretch
from .trace_fold import Timeline
from .trace_scale import span_text

MAX_LINES = 2_000
"""Of what is shown; more is for `callboard replay`."""
ROLES: dict[Style, Role] = {
    "title": "strong",
    "section": "strong",
    "event": "",
    "data": "",
    "good": "ok",
    "bad": "bad",
    "waits": "needs",
}
_BAR = "│ "


def details(
    stretch: Stretch, timeline: Timeline, width: int, when: Callable[[float], str], *, now: float, raw: bool = False
) -> list[Line]:
    """A line of a timeline as lines of this width. `raw`: its events as JSON."""
    pairs = list(_facts(stretch, timeline, when, now))
    told = _raw(stretch) if raw else _told(stretch)
    found = [*grid(pairs, width), *(one for part in told for one in _wrapped(part, width))]
    if len(found) > MAX_LINES:
        left = len(found) - MAX_LINES
        first = stretch.events[0].seq if stretch.events else 1
        more = f"… {left:,} more lines: callboard replay RUN --from {first}, or callboard record RUN"
        found = [*found[:MAX_LINES], line(piece(more, "needs"))]
    return found


def _facts(
    stretch: Stretch, timeline: Timeline, when: Callable[[float], str], now: float
) -> Iterator[tuple[str, Line]]:
    if stretch.events:
        types = " → ".join(f"{one.type} #{one.seq}" for one in stretch.events[:4])
        yield "event", line(types + (f" … #{stretch.events[-1].seq}" if len(stretch.events) > 4 else ""))
    offset = span_text(max(0.0, stretch.began - timeline.began))
    yield "at", line(when(stretch.began), piece(f"  (+{offset})", "dim"))
    nodes = sorted({one.node for one in stretch.events})
    if nodes:
        yield "node", line(", ".join(str(node) for node in nodes))
    if stretch.ended is None:
        yield "so far", line(piece(f"{span_text(stretch.seconds(now))}, and goes on", stretch.role or "info"))
    elif stretch.ended > stretch.began:
        yield "took", line(span_text(stretch.seconds(now)))
    if stretch.fill == "cut":
        yield "outcome", line(piece("none: its node was gone before there was one", "bad"))
    if stretch.kind == "again" and not stretch.events:
        yield "goes on", line("under the key it had, so that what had happened is not done twice")


def _told(stretch: Stretch) -> Iterator[Told]:
    if stretch.move is not None:
        yield from (Told(one.text.strip(" ─"), one.style) for one in moved_lines(stretch.move))
        if stretch.kind == "lost":
            yield Told("it had work in hand: it crashed, was cut off, or was drained by time", "bad")
    yield from event_lines(stretch.events)


def _raw(stretch: Stretch) -> Iterator[Told]:
    for one in stretch.events:
        text = json.dumps(event_document(one), ensure_ascii=False, indent=2)
        yield from (Told(f"      {_BAR}{part}", "data") for part in text.split("\n"))


def _wrapped(told: Told, width: int) -> Iterable[Line]:
    role = ROLES[told.style]
    text = told.text.lstrip(" ")
    if told.style == "data" and text.startswith("│"):
        bar = piece(f"  {_BAR}", "dim")
        inner = piece(text.removeprefix("│").removeprefix(" ").expandtabs(4))
        return [(bar, *part) for part in wrapped((inner,), max(width - 4, 8))]
    indent = "  " if told.text.startswith(" ") else ""
    return wrapped(line(piece(indent + text, role)), max(width, 8), hang=len(indent) + 2)


def plain_text(stretch: Stretch) -> str:
    """What `/` looks into: everything a line is and says."""
    said: Iterable[str] = (one.text for one in _told(stretch))
    return "\n".join((stretch.label, stretch.said, *(one.type for one in stretch.events), *said)).casefold()
