"""How a row becomes a line of the screen: the width of each column, and the strips of rows, kept as long as they hold.

Pure but for the strips that are kept. A strip is kept by its row's key and is good for as long as the row is the same
object and looks the same (under the cursor, marked); whoever changes colours, columns or the width lets all of them go.
"""

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from .table_rows import Column, Row
from .text import Line, Role, cells, cut, cut_start

Ink = Callable[[Role, str], Style]
"""Role and ground ("" for a row, else a component class) to style."""
LEAST = 4
"""Cells to which a column that grows may shrink where not even those that never go have room."""
KEPT = 1_024
BAR, MARK, MARKABLE = "▐", "■", "·"


def widths(columns: Sequence[Column], room: int, widest: Sequence[int]) -> list[int]:
    """Cells of each column on a line of `room` cells, each with a gap after it; 0: it has gone.

    `widest`: what each needs that is never cut.
    """
    least = [max(column.width, need if column.whole else 0) for column, need in zip(columns, widest, strict=True)]
    kept = set(range(len(columns)))

    def left() -> int:
        return room - sum(least[number] + 1 for number in kept)

    for number in sorted(kept, key=lambda number: (-columns[number].drop, -number)):
        if left() >= 0 or not columns[number].drop:
            break
        kept.discard(number)
    if left() < 0:
        _shrink(columns, kept, least, -left())
    given = [least[number] if number in kept else 0 for number in range(len(columns))]
    _grow(columns, kept, given, left())
    return given


def _shrink(columns: Sequence[Column], kept: set[int], least: list[int], by: int) -> None:
    for number in sorted(kept, key=lambda number: (not columns[number].grow, -number)):
        if not columns[number].whole:
            taken = max(0, min(by, least[number] - LEAST))
            least[number] -= taken
            by -= taken


def _grow(columns: Sequence[Column], kept: set[int], given: list[int], left: int) -> None:
    growing = [number for number in sorted(kept) if columns[number].grow]
    while left > 0 and growing:
        shares = sum(columns[number].grow for number in growing)
        spare, left = left, 0
        for number in list(growing):
            column = columns[number]
            share = spare * column.grow // shares
            if number == growing[-1] or not share:  # the last one has what the division left over
                share = max(share, spare - sum(spare * columns[n].grow // shares for n in growing[:-1]))
            room = column.most - given[number] if column.most else share
            given[number] += max(0, min(share, room))
            if share > room:
                growing.remove(number)
                left += share - max(0, room)


class Painter:
    """Paints the lines of one table."""

    def __init__(self, columns: Sequence[Column], ink: Ink) -> None:
        self.columns = tuple(columns)
        self.marks = False
        """Whether there is a column of marks."""
        self._ink = ink
        self._widest = [0] * len(self.columns)
        self._whole = [number for number, column in enumerate(self.columns) if column.whole]
        self._width = -1
        self._widths: list[int] = []
        self._kept: dict[str, tuple[Row, int, bool, Strip]] = {}

    def forget(self) -> None:
        """Let all strips go: colours, columns or the like have changed."""
        self._kept.clear()
        self._width = -1

    def measure(self, rows: Sequence[Row]) -> None:
        """Make room for what may not be cut in these rows."""
        for number in self._whole:
            need = max((cells(row.cells[number]) for row in rows), default=0)
            if need > self._widest[number]:
                self._widest[number] = need
                self.forget()
        if not self.marks and any(row.markable for row in rows):
            self.marks = True
            self.forget()

    def laid_out(self, width: int) -> list[int]:
        """Cells of each column on a line of `width` cells."""
        if width != self._width:
            self._kept.clear()
            self._width = width
            self._widths = widths(self.columns, width - self.lead - 1, self._widest)
        return self._widths

    @property
    def lead(self) -> int:
        """Cells before the first column."""
        return 3 if self.marks else 1

    def head(self, width: int, note: Line) -> Strip:
        """The titles of the columns, and at their end a note that is read before them."""
        segments = [Segment(" " * self.lead, self._ink("", ""))]
        titles = [(column.title, "cb--head") for column in self.columns]
        for column, size, (title, ground) in zip(self.columns, self.laid_out(width), titles, strict=True):
            if size:
                text = title if len(title) <= size else title[:size]
                text = text.rjust(size) if column.right else text.ljust(size)
                segments.append(Segment(f"{text} ", self._ink("", ground)))
        strip = Strip(segments).adjust_cell_length(width, self._ink("", ""))
        if not note:
            return strip
        note = cut(note, width)
        ends = [Segment(text, self._ink(role, "")) for text, role in note]
        return Strip.join([strip.crop(0, width - cells(note)), Strip(ends)])

    def row(self, row: Row, width: int, *, cursor: int, marked: bool) -> Strip:
        """A row. `cursor`: 0 not under it, 1 under that of a table that has no focus, 2 under it."""
        sizes = self.laid_out(width)
        kept = self._kept.get(row.key)
        if kept is not None and kept[0] is row and kept[1] == cursor and kept[2] == marked:
            return kept[3]
        strip = self._painted(row, sizes, width, cursor, marked)
        if len(self._kept) >= KEPT:
            self._kept.clear()
        self._kept[row.key] = row, cursor, marked, strip
        return strip

    def _painted(self, row: Row, sizes: Sequence[int], width: int, cursor: int, marked: bool) -> Strip:
        ground = ("", "cb--rest", "cb--cursor")[cursor]
        ink, base = self._ink, self._ink("", ground)
        segments = [Segment(BAR if cursor == 2 else " ", ink("info", ground))]
        if self.marks:
            mark = MARK if marked else MARKABLE if row.markable else " "
            segments.append(Segment(f"{mark} ", ink("key" if marked else "dim", ground)))
        for column, size, cell in zip(self.columns, sizes, row.cells, strict=True):
            if not size:
                continue
            shown = cut_start(cell, size) if column.tail else cut(cell, size)
            blank = size - cells(shown)
            if blank and column.right:
                segments.append(Segment(" " * blank, base))
            segments += [Segment(text, ink(role, ground)) for text, role in shown]
            segments.append(Segment(" " * (1 if column.right else blank + 1), base))
        return Strip(segments).adjust_cell_length(width, base)
