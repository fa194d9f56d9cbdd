"""The rows that a table holds, and where its cursor and its first line in sight are: the part that draws nothing.

It is a window of a list that may be endless. Whatever is put in, taken away or put elsewhere, the cursor stays on its
key, and its row on its line of the screen; the only thing that can move it there is that fewer rows are left above it
than there are lines. What comes in out of sight is counted, above and below, until it has been seen.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .text import Line

CAP = 2_000
"""Rows held; where pages are put on one side, as many go on the other, out of sight."""


class Column(NamedTuple):
    """A column. Widths are in cells."""

    key: str
    title: str
    width: int
    grow: int = 0
    """Its share of what is left over."""
    right: bool = False
    drop: int = 0
    """Where there is no room, columns go in the order of this number, greatest first; 0 never goes."""
    whole: bool = False
    """Never cut: as wide as the widest of its cells so far. For sums of money."""
    most: int = 0
    """It grows no wider than this; 0: as wide as there is room."""
    tail: bool = False
    """What is too long keeps its end: for addresses, which differ there."""


class Row(NamedTuple):
    """A row: one line of pieces for each column."""

    key: str
    cells: Sequence[Line]
    markable: bool = False


class Rows:
    """A window of rows, a cursor on one of them, and the lines in sight.

    Invariant: `top <= at < top + lines` where there are rows, so that the cursor is always in sight; `top` may leave
    lines empty below the last row where it has to, for the sake of the cursor's line.
    """

    def __init__(self) -> None:
        self.held: list[Row] = []
        self.index: dict[str, int] = {}
        self.at = 0
        self.top = 0
        self.lines = 1
        self.start = self.end = True
        self.unseen_above: set[str] = set()
        self.unseen_below: set[str] = set()

    @property
    def key(self) -> str:
        """Of the row under the cursor; "" where there is none."""
        return self.held[self.at].key if self.held else ""

    @property
    def in_sight(self) -> range:
        """Numbers of the rows that are in sight."""
        return range(self.top, min(self.top + self.lines, len(self.held)))

    # -- what there is

    def replace(self, rows: Iterable[Row], *, start: bool, end: bool) -> None:
        """Hold these, in this order; `start`, `end`: there is nothing before the first, after the last."""
        known, was_start, was_end = self.index, self.start, self.end
        self.start, self.end = start, end
        self._hold(list({row.key: row for row in rows}.values()))
        if known and any(key in self.index for key in known):
            self._notice(known, above=was_start, below=was_end)
        else:
            self.unseen_above.clear()
            self.unseen_below.clear()

    def clear(self) -> None:
        """Hold nothing, and stand at the beginning of what comes."""
        self.replace((), start=True, end=True)
        self.top = 0

    def extend(self, rows: Iterable[Row], *, below: bool, more: bool) -> None:
        """Put a page after the last row, or before the first; `more`: there is more beyond it.

        A row that is held already is put in the place of the old one. Beyond `CAP`, rows go on the other side.
        """
        page = {row.key: row for row in rows}
        kept = [page.pop(row.key, row) for row in self.held]
        fresh = list(page.values())
        if below:
            self.end = not more
            spare = max(0, min(len(kept) + len(fresh) - CAP, self.top - self.lines))
            self.start = self.start and not spare
            self._hold([*kept[spare:], *fresh])
        else:
            self.start = not more
            spare = max(0, min(len(kept) + len(fresh) - CAP, len(kept) - self.top - 2 * self.lines))
            self.end = self.end and not spare
            self._hold([*fresh, *kept[: len(kept) - spare]])

    def change(self, rows: Iterable[Row]) -> list[int]:
        """Put these in the place of those with the same keys; the numbers of those that differ."""
        changed = []
        for row in rows:
            number = self.index.get(row.key)
            if number is not None and self.held[number] != row:
                self.held[number] = row
                changed.append(number)
        return changed

    def _hold(self, rows: list[Row]) -> None:
        line = self.at - self.top
        old, at, known = self.held, self.at, self.index
        # What is as it was stays the same object: by that the one who draws it knows that there is nothing to draw.
        self.held = [
            row if (number := known.get(row.key)) is None or (was := old[number]) != row else was for row in rows
        ]
        self.index = {row.key: number for number, row in enumerate(rows)}
        if not rows:
            self.at = self.top = 0
            return
        self.at = self.index.get(old[at].key, -1) if old else 0
        if self.at < 0:
            self.at = min(self._heir(old, at), len(rows) - 1)
        self.top = max(0, self.at - line)
        self.unseen_above &= self.index.keys()
        self.unseen_below &= self.index.keys()

    def _heir(self, old: list[Row], at: int) -> int:
        """Where the cursor goes whose row is gone: to the next one after it that is left, else to the last before."""
        for row in (*old[at + 1 : at + 1 + CAP], *old[max(0, at - CAP) : at][::-1]):
            if (number := self.index.get(row.key)) is not None:
                return number
        return at

    # -- what has not been seen

    def _notice(self, known: dict[str, int], *, above: bool, below: bool) -> None:
        """Count what is new and out of sight; beyond an edge that was no end, nothing is new."""
        numbers = [self.index[key] for key in known if key in self.index]
        first, last = (0 if above else min(numbers)), (len(self.held) if below else max(numbers))
        for number in (*range(first, self.top), *range(self.top + self.lines, last)):
            key = self.held[number].key
            if key not in known:
                (self.unseen_above if number < self.top else self.unseen_below).add(key)
        self.look()

    def look(self) -> None:
        """What is in sight has been seen, and what lies beyond may have changed sides."""
        unseen = self.unseen_above | self.unseen_below
        if unseen:
            sight = self.in_sight
            self.unseen_above = {key for key in unseen if self.index[key] < sight.start}
            self.unseen_below = {key for key in unseen if self.index[key] >= sight.stop}

    # -- moving

    def go(self, number: int) -> None:
        """Put the cursor on a row, and bring it to sight by the shortest way."""
        self.at = max(0, min(number, len(self.held) - 1))
        self.top = max(0, min(self.top, self.at), self.at - self.lines + 1)
        self.look()

    def scroll(self, top: int) -> None:
        """Bring this row to the first line; the cursor stays where it is as long as it is in sight."""
        self.top = max(0, min(top, len(self.held) - self.lines))
        self.at = max(0, min(max(self.at, self.top), self.top + self.lines - 1, len(self.held) - 1))
        self.look()

    def resize(self, lines: int) -> None:
        """There is room for so many rows now."""
        self.lines = max(1, lines)
        self.top = max(0, min(self.top, len(self.held) - self.lines), self.at - self.lines + 1)
        self.look()
