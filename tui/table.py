"""The one long table: drawn line by line, keyed rows, a cursor that stays on its key whatever is put in or taken away.

It holds a window of what there is (`table_rows`), never all of it: its owner shows a window, puts pages to its ends,
and is asked for more (`Wanted`) where the cursor comes near an edge that is no end. Only lines that look otherwise than
before are drawn again (`table_paint`). It never opens or decides by a first click, and never takes the focus by itself.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from .table_paint import Painter
from .table_rows import CAP, Column, Row, Rows
from .text import Line, Piece, Role, piece, wrapped

NEAR = 20
"""Rows from an edge at which more is asked for."""
WHEEL_ROWS = 3
THUMB = "┃"
_ROLES: tuple[Role, ...] = ("dim", "strong", "title", "key", "ok", "needs", "bad", "retry", "info", "cursor")


class LineTable(Widget, can_focus=True):
    """A table of keyed rows. Messages: `Highlighted`, `Opened`, `Wanted`, `Marked`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*(f"cb--{role}" for role in _ROLES), "cb--head", "cb--rest"}
    DEFAULT_CSS = """
    LineTable { background: $background; color: $foreground; height: 1fr; width: 1fr; }
    LineTable .cb--dim, LineTable .cb--head { color: $cb-dim; }
    LineTable .cb--strong { text-style: bold; }
    LineTable .cb--title, LineTable .cb--key { color: $cb-info; text-style: bold; }
    LineTable .cb--ok { color: $cb-ok; }
    LineTable .cb--needs { color: $cb-needs; text-style: bold; }
    LineTable .cb--bad { color: $cb-bad; text-style: bold; }
    LineTable .cb--retry { color: $cb-retry; }
    LineTable .cb--info { color: $cb-info; }
    LineTable .cb--cursor { background: $cb-cursor; }
    LineTable .cb--rest { background: $cb-cursor 45%; }
    .lost LineTable:ansi { color: $cb-dim; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "down", show=False),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("ctrl+d", "page(1)", "half a page down", show=False),
        Binding("ctrl+u", "page(-1)", "half a page up", show=False),
        Binding("pagedown", "page(2)", "a page down", show=False),
        Binding("pageup", "page(-2)", "a page up", show=False),
        Binding("g,home", "first", "first", show=False),
        Binding("G,end", "last", "last", show=False),
        Binding("enter", "open", "open"),
        Binding("space", "mark", "mark", show=False),
    ]

    class Said(Message):
        """What a table says to its owner."""

        def __init__(self, table: "LineTable") -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> "LineTable":
            return self.table

    class Highlighted(Said):
        """The cursor is on another row now ("" where there is none)."""

        def __init__(self, table: "LineTable", key: str) -> None:
            super().__init__(table)
            self.key = key

    class Opened(Highlighted):
        """Enter on a row, or a second click on it."""

    class Marked(Said):
        """The marks have changed."""

    class Wanted(Said):
        """The cursor is near an edge, and there is more beyond: `below` after the last row, else before the first.

        `far`: the very end (or beginning) is wanted, whatever lies between. Said once, until rows come or go.
        """

        def __init__(self, table: "LineTable", *, below: bool, far: bool = False) -> None:
            super().__init__(table)
            self.below, self.far = below, far

    def __init__(self, columns: Sequence[Column], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.marked: set[str] = set()
        """Keys; also of rows that are not held, where what is held is not the whole list."""
        self._held = Rows()
        self._painter = Painter(columns, self._ink)
        self._inks: dict[tuple[Role, str], Style] = {}
        self._painted: list[object] = []
        self._colours: list[Style] = []
        self._restyled = True
        self._lost = False
        self._asked: set[tuple[bool, bool]] = set()
        self._far: bool | None = None
        self._empty: list[Line] = []
        self._shown = False
        self._said_key = ""
        self._clicked = ""
        self._dragging = False

    # -- what is shown

    @property
    def rows(self) -> list[Row]:
        """What is held. Look, do not touch."""
        return self._held.held

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns; others may be put in their place, together with rows that fit them (`show` next)."""
        return self._painter.columns

    @columns.setter
    def columns(self, columns: Sequence[Column]) -> None:
        if tuple(columns) != self._painter.columns:
            if len(columns) != len(self._painter.columns):
                self._held.replace((), start=True, end=True)
            self._painter = Painter(columns, self._ink)
            self._painter.measure(self.rows)
            self._repaint()

    @property
    def cursor_key(self) -> str:
        """Of the row under the cursor; "" where there is none."""
        return self._held.key

    @property
    def shown(self) -> list[str]:
        """Keys of the rows that are in sight."""
        return [self.rows[number].key for number in self._held.in_sight]

    @property
    def sight(self) -> tuple[int, int]:
        """The first and the last row in sight, counted from 1 within what is held; (0, 0) where there is none."""
        sight = self._held.in_sight
        return (sight.start + 1, sight.stop) if sight else (0, 0)

    @property
    def unseen(self) -> tuple[int, int]:
        """How many rows have come in out of sight, above and below, and have not been seen yet."""
        return len(self._held.unseen_above), len(self._held.unseen_below)

    def show(self, rows: Iterable[Row], *, start: bool = True, end: bool = True, fresh: bool = False) -> None:
        """Show this window in the place of the one before; `start`, `end`: there is nothing before it, after it.

        The cursor stays on its key and on its line; where its row is gone, it goes to the next one that is left.
        `fresh`: it is another list (another order or filter), so the cursor goes to its first row.
        """
        if fresh:
            self._held.clear()
        self._held.replace(rows, start=start, end=end)
        if self._far is not None:
            self._held.go(len(self.rows) - 1 if self._far else 0)
        self._shown, self._far = True, None
        if start and end:
            self._keep_marks(self._held.index)
        self._came(self.rows)

    def extend(self, rows: Sequence[Row], *, below: bool, more: bool) -> None:
        """Put a page after the last row, or before the first; `more`: there is more beyond. See `Wanted`.

        Of more than `CAP` rows, those that are farthest on the other side go, and can be wanted again.
        """
        self._held.extend(rows, below=below, more=more)
        self._shown = True
        self._came(rows)

    def update_rows(self, rows: Iterable[Row]) -> None:
        """Show these in the place of those with the same keys; others are left out."""
        if changed := self._held.change(rows):
            self._painter.measure([self.rows[number] for number in changed])
            self._repaint()

    def say_when_empty(self, *lines: Line) -> None:
        """What is said where there are no rows."""
        if self._empty != list(lines):
            self._empty = list(lines)
            self._painted = []
            self._repaint()

    def select(self, key: str) -> bool:
        """Put the cursor on this row; whether it is held."""
        if (number := self._held.index.get(key)) is None:
            return False
        self._go(number)
        return True

    def fill_lines(self) -> None:
        """Leave no line empty that a row could have, after a person has asked for another order: the cursor moves."""
        self._bring(self._held.top)

    def mark(self, keys: Iterable[str]) -> None:
        """Have exactly these marked."""
        self._keep_marks(keys, more=True)
        self._repaint()

    def _keep_marks(self, keys: Iterable[str], *, more: bool = False) -> None:
        marked = set(keys) if more else self.marked.intersection(keys)
        if marked != self.marked:
            self.marked = marked
            self.post_message(self.Marked(self))

    def _came(self, rows: Sequence[Row]) -> None:
        self._asked.clear()
        self._painter.measure(rows)
        self._moved()

    # -- moving

    def action_move(self, by: int) -> None:
        self._go(self._held.at + by)

    def action_page(self, halves: int) -> None:
        line, to = self._held.at - self._held.top, self._held.at + halves * max(self._held.lines // 2, 1)
        self._held.at = max(0, min(to, len(self.rows) - 1))
        self._bring(self._held.at - line)

    def action_first(self) -> None:
        self._far_end(False, self._held.start)
        self._go(0)

    def action_last(self) -> None:
        self._far_end(True, self._held.end)
        self._go(len(self.rows) - 1)

    def action_open(self) -> None:
        if self.cursor_key:
            self.post_message(self.Opened(self, self.cursor_key))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where nothing can be marked, there is no such key."""
        if action == "mark" and self.rows and not self._painter.marks:
            return False
        return super().check_action(action, parameters)

    def action_mark(self) -> None:
        if self.rows and self.rows[self._held.at].markable:
            self.marked = self.marked ^ {self.cursor_key}
            self.post_message(self.Marked(self))
            self._go(self._held.at + 1)

    def _far_end(self, below: bool, is_end: bool) -> None:
        if not is_end:
            self._far = below
            self._want(below, far=True)

    def _bring(self, top: int) -> None:
        self._held.scroll(top)
        self._moved()

    def _go(self, number: int) -> None:
        self._held.go(number)
        self._moved()

    def _moved(self) -> None:
        """Tell and draw what has changed with the cursor, the rows or the view."""
        if self.cursor_key != self._said_key:
            self._said_key = self.cursor_key
            self.post_message(self.Highlighted(self, self.cursor_key))
        if self._shown:
            if not self._held.end and self._held.top + self._held.lines > len(self.rows) - NEAR:
                self._want(True)
            if not self._held.start and self._held.top < NEAR:
                self._want(False)
        self._repaint()

    def _want(self, below: bool, *, far: bool = False) -> None:
        if (below, far) not in self._asked:
            self._asked.add((below, far))
            self.post_message(self.Wanted(self, below=below, far=far))

    # -- the mouse

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll(event, WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll(event, -WHEEL_ROWS)

    def _scroll(self, event: events.MouseEvent, by: int) -> None:
        event.stop()
        event.prevent_default()
        self._bring(self._held.top + by)

    def on_click(self, event: events.Click) -> None:
        """A first click puts the cursor there and no more; a second one on the same row opens it, or marks it."""
        place = event.get_content_offset(self)
        number = self._held.top + place.y - 1 if place else -1
        if place is None or place.y < 1 or number >= len(self.rows) or place.x >= self.size.width - 1:
            return
        before, self._clicked = self._clicked, self.rows[number].key
        again = before == self._clicked == self.cursor_key
        self._go(number)
        if again and self._painter.marks and place.x < self._painter.lead:
            self.action_mark()
        elif again and event.chain > 1:
            self.action_open()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.x >= self.size.width - 1 and self._thumb():
            self._dragging = True
            self.capture_mouse()
            self._drag(event.y)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging:
            self._drag(event.y)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._dragging:
            self._dragging = False
            self.release_mouse()

    def _drag(self, y: int) -> None:
        lines = self._held.lines
        share = (y - 1) / max(lines - 1, 1)
        self._bring(round(share * max(0, len(self.rows) - lines)))

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        if not has_focus:
            self._clicked = ""
        self._repaint()

    def on_resize(self, event: events.Resize) -> None:
        self._held.resize(self.size.height - 1)
        self._moved()

    # -- drawing

    def notify_style_update(self) -> None:
        """Colours may have changed."""
        super().notify_style_update()
        self._restyled = True

    def _look_at_colours(self) -> None:
        """Let go of what was painted in other colours. Styles are put on far more often than they change."""
        if not self._restyled:
            return
        names = (*(f"cb--{role}" for role in _ROLES), "cb--head", "cb--rest")
        colours = [self.rich_style, *(self.get_component_rich_style(name, partial=True) for name in names)]
        self._restyled = False
        if colours != self._colours or self.screen.has_class("lost") != self._lost:
            self._colours, self._lost = colours, self.screen.has_class("lost")
            self._inks.clear()
            self._painter.forget()

    def _ink(self, role: Role, ground: str) -> Style:
        style = self._inks.get((role, ground))
        if style is None:
            style = self.rich_style
            if ground:
                style += self.get_component_rich_style(ground, partial=True)
            if role and not (self._lost and self.app.native_ansi_color):  # sixteen colours have no paler ones
                own = self.get_component_rich_style(f"cb--{role}", partial=True)
                # Where the row is turned around its colours would be patches; what is bold stays so.
                style += Style(bold=own.bold) if style.reverse else own
            self._inks[role, ground] = style
        return style

    def _thumb(self) -> range:
        """The lines of the bar that says where in the rows that are held we are; none where all are in sight."""
        held = self._held
        total, lines = max(len(held.held), held.top + held.lines), held.lines
        if total <= lines and held.start and held.end:
            return range(0)
        size = max(1, lines * lines // max(total, 1)) if total > lines else lines - 1
        free = lines - size
        # At the very ends only where there is nothing beyond.
        first, last = int(held.top > 0 or not held.start), free - int(held.top + lines < total or not held.end)
        first = max(0, min(max(first, free * held.top // max(total - lines, 1)), last))
        return range(first, first + size)

    def _note(self) -> Line:
        above, below = self.unseen
        parts = [f"{above} new ↑"] * bool(above) + [f"{below} new ↓"] * bool(below)
        return (piece(" "), piece("  ".join(parts), "key")) if parts else ()

    def _looks(self) -> list[object]:
        """What each line looks like, in things that are quickly compared."""
        held, focus, thumb = self._held, 2 if self.has_focus else 1, self._thumb()
        looks: list[object] = [
            (self.unseen, self._shown, not held.held, self._painter.lead, *self._painter.laid_out(self.size.width))
        ]
        for line in range(held.lines):
            number = held.top + line
            if number >= len(held.held):
                looks.append(line in thumb)
                continue
            row = held.held[number]
            looks.append((row, focus if number == held.at else 0, row.key in self.marked, line in thumb))
        return looks

    def _repaint(self) -> None:
        """Have those lines drawn again that look otherwise than before."""
        width = self.size.width
        if not self.is_mounted or not width:
            return
        before, self._painted = self._painted, self._looks()
        if len(before) != len(self._painted) or before[0] != self._painted[0]:
            self.refresh()
            return
        changed = [
            Region(0, number, width, 1)
            for number, (old, new) in enumerate(zip(before, self._painted, strict=True))
            if old != new
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        self._look_at_colours()
        width = self.size.width
        base = self._ink("", "")
        if not self.rows:
            return self._empty_line(y - 1, width, base)
        if y == 0:
            return Strip.join([self._painter.head(width - 1, self._note()), Strip.blank(1, base)])
        number = y - 1 + self._held.top
        thumb = Strip([Segment(THUMB if y - 1 in self._thumb() else " ", self._ink("dim", ""))])
        if number >= len(self.rows):
            return Strip.join([Strip.blank(width - 1, base), thumb])
        row = self.rows[number]
        cursor = 0 if number != self._held.at else 2 if self.has_focus else 1
        strip = self._painter.row(row, width - 1, cursor=cursor, marked=row.key in self.marked)
        return Strip.join([strip, thumb])

    def _empty_line(self, number: int, width: int, base: Style) -> Strip:
        lines = [part for one in self._empty for part in wrapped(one, max(width - 4, 2))] if self._shown else []
        if not 0 <= number < len(lines):
            return Strip.blank(width, base)
        segments = [Segment(text, self._ink(role, "")) for text, role in (piece("  "), *lines[number])]
        return Strip(segments).adjust_cell_length(width, base)


__all__ = ["CAP", "NEAR", "Column", "LineTable", "Piece", "Row"]
