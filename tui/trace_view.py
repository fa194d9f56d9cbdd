"""The waterfall of a run: its timeline as a table, of which only the lines in sight are ever drawn.

Rows are keyed and only added, so the cursor stays where it is while a run goes on. What is asked of it (waits unfolded,
failures only, a text that is looked for, a wider scale) changes what is shown and never what was folded.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, overload

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from callboard.service.operations.filters import Filter

from . import trace_bars
from .table import Column, LineTable, Row
from .text import Line, Piece, block, content, money, piece
from .trace_calls import Stretch
from .trace_detail import plain_text
from .trace_fold import WORK, Timeline
from .trace_scale import Scale, folds, span_text

ZOOMS = (1, 2, 4, 8, 16, 64, 256)
LENGTH_CELLS = 9


class Cells(Sequence[Line]):
    """The cells of a line, drawn when they are asked for."""

    __slots__ = ("_stretch", "_view")

    def __init__(self, view: "TraceView", stretch: Stretch) -> None:
        self._view, self._stretch = view, stretch

    def __len__(self) -> int:
        return 3

    @overload
    def __getitem__(self, number: int) -> Line: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Line]: ...
    def __getitem__(self, number: int | slice) -> Line | Sequence[Line]:
        return tuple(self)[number]

    def __iter__(self) -> Iterator[Line]:
        self._view.drawn += 1
        yield trace_bars.name(self._stretch)
        yield self._view.bar(self._stretch)
        yield trace_bars.length(self._stretch, self._view.now)


class TraceView(Vertical):
    """A timeline, drawn. `show` it whenever it has grown."""

    DEFAULT_CSS = """
    TraceView { height: 1fr; }
    TraceView > LineTable { height: 1fr; }
    TraceView > .legend, TraceView > .totals { height: auto; padding: 0 1; }
    TraceView.-small > .totals { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "fold_waits", "fold waits"),
        Binding("f", "failed_only", "failed only"),
        Binding("plus,equals_sign", "zoom(1)", "zoom in", show=False, key_display="+"),
        Binding("minus", "zoom(-1)", "zoom out", show=False, key_display="-"),
        Binding("right_square_bracket", "step(1)", "next event", show=False, key_display="]"),
        Binding("left_square_bracket", "step(-1)", "previous event", show=False, key_display="["),
    ]

    class Asked(Message):
        """It is shown in another way now: its title should say so."""

    def __init__(self, clock: Callable[[float], str], *, id: str | None = None) -> None:
        """`clock`: a moment as a time of day."""
        super().__init__(id=id)
        self.timeline = Timeline()
        self.now = 0.0
        self.folded, self.failed, self.zoom = True, False, 0
        self.filter = Filter()
        self.drawn = 0
        """Lines drawn so far: what a key costs."""
        self._clock = clock
        self._scale = Scale(0.0, 0.0, 1)
        self._lost: list[int] = []
        self._texts: dict[str, str] = {}
        self._rows: dict[str, Row] = {}
        """They stay the same: what they show is asked of the timeline when it is drawn."""
        self._lines: tuple[int, bool, Filter] = (0, False, Filter())
        """What the table has: how many lines, and of which. Lines are only added."""
        self._drawings = 0
        self.table = LineTable(self._columns(80), id="trace-lines")

    def compose(self) -> ComposeResult:
        yield self.table
        yield Static(classes="legend")
        yield Static(classes="totals")

    # --- what is shown -----------------------------------------------------------------------------------------

    def open(self, timeline: Timeline) -> None:
        """Another run's."""
        self.timeline = timeline
        self.zoom, self.filter, self.failed = 0, Filter(), False
        self._texts.clear()
        self._rows.clear()
        self._lines = (0, False, Filter())
        self.table.show([], fresh=True)

    def show(self, now: float) -> None:
        """Show the timeline as it is at this moment of the store."""
        self.now = self.timeline.ends(now)
        shown = self.lines
        self._measure()
        if (lines := (len(shown), self.failed, self.filter)) != self._lines:
            self._lines = lines
            self.table.show([self._row(one) for one in shown])
        self.table.refresh()
        self.query_one(".totals", Static).update(content(*self._totals()))

    @property
    def lines(self) -> list[Stretch]:
        """The lines that are asked for."""
        found = self.timeline.lines
        if self.failed:
            found = [one for one in found if one.failed or one.kind in ("run", "lost", "taken")]
        if self.filter:
            found = [one for one in found if self.filter.fits(lambda name, one=one: self._value(one, name))]  # type: ignore[misc]
        return found

    @property
    def at(self) -> Stretch | None:
        """The line under the cursor."""
        key = self.table.cursor_key
        number = int(key[1:]) if key else -1
        return self.timeline.lines[number] if 0 <= number < len(self.timeline.lines) else None

    def place(self, stretch: Stretch) -> tuple[int, int]:
        """Which one it is of how many that are shown; from 1."""
        shown = self.lines
        return next((n for n, one in enumerate(shown, 1) if one.key == stretch.key), 0), len(shown)

    def _row(self, stretch: Stretch) -> Row:
        if (row := self._rows.get(stretch.key)) is None:
            row = self._rows[stretch.key] = Row(stretch.key, Cells(self, stretch))
        return row

    def _value(self, stretch: Stretch, name: str) -> str | list[str]:
        match name:
            case "line":
                return f"{stretch.label} {stretch.said}"
            case "event":
                return [one.type for one in stretch.events]
        return self._text(stretch)

    def _text(self, stretch: Stretch) -> str:
        kept = self._texts.get(stretch.key)
        if kept is None:
            kept = plain_text(stretch)
            if stretch.ended is not None:
                self._texts[stretch.key] = kept
        return kept

    def bar(self, stretch: Stretch) -> Line:
        """The bar of a line, between its edges."""
        edge = piece("│", "dim")
        return (edge, *trace_bars.bar(stretch, self._scale, self.now, self._lost), edge)

    def _measure(self) -> None:
        """Lay the scale over the room that there is."""
        width = self.table.size.width or self.size.width
        columns = self._columns(width)
        began, ended = self.timeline.began, self.now
        gaps = folds(self.timeline.all_gaps(self.now), ended - began) if self.folded else []
        middle = self.at.began if self.at is not None else began
        self._scale = Scale(began, ended, columns[1].width - 2, gaps, zoom=self.zoomed, middle=middle)
        self._lost = [cell for at in self.timeline.lost_at if (cell := self._scale.cell(at)) is not None]
        axis = self._scale.axis(self._clock) if self.timeline.lines else ""
        # A blank more, or less: by its columns the table knows that the lines it has drawn are good no more.
        self._drawings += 1
        title = f" {axis}{' ' * (self._drawings % 2)}"
        self.table.columns = (columns[0], columns[1]._replace(title=title), columns[2])
        self.set_class(self.size.height < 16, "-small")
        self._show_legend(bool(gaps))

    def _show_legend(self, folded: bool) -> None:
        legend = self.query_one(".legend", Static)
        legend.display = self.size.height >= 12
        if legend.display:
            known, sight = self.timeline.lines, self.table.shown
            lines = [known[int(key[1:])] for key in sight] or known[:50]
            told = trace_bars.legend(lines, lost=bool(self._lost), folded=folded, width=self.size.width - 2)
            legend.update(block(told[: 1 if self.size.height < 18 else 3]))

    def _columns(self, width: int) -> tuple[Column, Column, Column]:
        label = 27 if width >= 100 else 24 if width >= 70 else 18
        room = max(width - label - LENGTH_CELLS - 6, 6)
        return (
            Column("what", "", label),
            Column("bar", "", room),
            Column("took", "took", LENGTH_CELLS, right=True),
        )

    def _totals(self) -> Iterator[Piece]:
        state, account = self.timeline.marks.state, self.timeline.marks.account(self.now)
        steps, calls = _many(state.step, "step"), _many(state.tool_calls, "call")
        yield piece(f"{steps} · {calls} · {state.total_tokens:,} tokens · ", "dim")
        yield piece(money(state.total_cost_usd, "USD"))
        works = {*WORK, "callboard"}
        worked = sum(seconds for what, seconds in account.parts.items() if what in works)
        waited = {what: seconds for what, seconds in account.parts.items() if what not in works and seconds >= 0.0005}
        yield piece(f" · working {span_text(worked)} · waiting {span_text(sum(waited.values()))}", "dim")
        if waited:
            parts = ", ".join(f"{what} {span_text(waited[what])}" for what in sorted(waited, key=lambda x: -waited[x]))
            yield piece(f" ({parts})", "dim")
        if len(account.nodes) > 1:
            yield piece(f" · nodes {', '.join(map(str, account.nodes))}", "retry")

    # --- what is asked of it -----------------------------------------------------------------------------------

    def look_for(self, filter: Filter) -> None:
        """Show those lines only that fit."""
        self.filter = filter
        self._again()

    def action_fold_waits(self) -> None:
        """Long waits in few cells, or in as many as they took."""
        self.folded = not self.folded
        self._again()

    def action_failed_only(self) -> None:
        """Only what failed, or everything."""
        self.failed = not self.failed
        self._again()

    def action_zoom(self, by: int) -> None:
        """A wider scale around the line under the cursor, or the whole."""
        self.zoom = min(max(self.zoom + by, 0), len(ZOOMS) - 1)
        self._again()

    def action_step(self, by: int) -> None:
        """The next line, or the one before."""
        self.table.action_move(by)

    def _again(self) -> None:
        """Show other lines: that they were not shown before does not make them new."""
        key = self.table.cursor_key
        if (len(self.lines), self.failed, self.filter) != self._lines:
            self.table.show([], fresh=True)
        self.show(self.now)
        self.table.select(key)
        self.post_message(self.Asked())

    @property
    def zoomed(self) -> int:
        """How many times as wide as the room the scale is."""
        return ZOOMS[self.zoom]

    def on_line_table_highlighted(self) -> None:
        if self.zoom:
            self.show(self.now)

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.call_after_refresh(self.show, self.now)


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
