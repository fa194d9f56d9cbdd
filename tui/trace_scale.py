"""Where a moment lies on a line of so many cells: a time axis on which long waits are folded, and which can be zoomed.

A wait is folded where it takes more than a tenth of the time that is shown, the longest first; what is left is shared
out in proportion. Folding leaves the order of moments as it is, and every moment inside the line. Pure.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

FOLDED_SHARE = 0.1
MAX_FOLDS = 12
FOLD_CELLS = 12
"""Room for `≈ 12m 04s ≈`."""
TICK_CELLS = 14
"""From one time on the axis to the next."""


class Part(NamedTuple):
    """A piece of time, and its cells."""

    began: float
    ended: float
    first: float
    cells: float
    folded: bool


def folds(gaps: Iterable[tuple[float, float]], seconds: float) -> list[tuple[float, float]]:
    """Which of these gaps are folded on an axis of so many seconds, in order of time."""
    found: list[tuple[float, float]] = []
    left = seconds
    for gap in sorted(gaps, key=lambda gap: gap[0] - gap[1]):
        long = gap[1] - gap[0]
        if len(found) == MAX_FOLDS or long <= FOLDED_SHARE * left:
            break
        found.append(gap)
        left -= long
    return sorted(found)


class Scale:
    """From moments to cells, counted from 0."""

    def __init__(
        self,
        began: float,
        ended: float,
        cells: int,
        folded: Sequence[tuple[float, float]] = (),
        *,
        zoom: int = 1,
        middle: float = 0.0,
    ) -> None:
        """`zoom`: so many times as wide as it has room for, with the moment `middle` in the middle as far as goes."""
        self.cells = max(cells, 1)
        self.began, self.ended = began, max(ended, began)
        self.parts = self._parts(folded)
        self._starts = [part.began for part in self.parts]
        self._share = 1 / max(zoom, 1)
        self._low = min(max(self._whole(middle) / self.cells - self._share / 2, 0.0), 1 - self._share)

    def _parts(self, folded: Sequence[tuple[float, float]]) -> list[Part]:
        edges = [self.began, *(at for gap in folded for at in gap), self.ended]
        # Summed up, as the difference of two long times may be less than the parts that are laid out in it.
        rest = sum(b - a for a, b in zip(edges[::2], edges[1::2], strict=True))
        for_folds = min(FOLD_CELLS * len(folded), self.cells * (0.5 if rest > 0 else 1.0)) if folded else 0.0
        each = for_folds / len(folded) if folded else 0.0
        per_second = (self.cells - for_folds) / rest if rest > 0 else 0.0
        parts: list[Part] = []
        at, cell = self.began, 0.0
        for a, b in folded:
            parts.append(Part(at, a, cell, (a - at) * per_second, False))
            cell += parts[-1].cells
            parts.append(Part(a, b, cell, each, True))
            cell, at = cell + each, b
        parts.append(Part(at, self.ended, cell, (self.ended - at) * per_second, False))
        return parts

    def _whole(self, at: float) -> float:
        at = min(max(at, self.began), self.ended)
        part = self.parts[max(bisect_right(self._starts, at) - 1, 0)]
        long = part.ended - part.began
        return part.first + (part.cells * (at - part.began) / long if long > 0 else 0.0)

    def position(self, at: float) -> float:
        """In cells from the left edge; below 0 or above `cells` where it is out of sight."""
        return (self._whole(at) - self._low * self.cells) / self._share

    def cell(self, at: float) -> int | None:
        """The cell of a moment; None: out of sight."""
        position = self.position(at)
        return min(int(position), self.cells - 1) if -1e-6 <= position <= self.cells + 1e-6 else None

    def span(self, began: float, ended: float) -> tuple[int, int] | None:
        """First cell and the one after the last: at least one cell; None: out of sight."""
        low, high = self.position(began), self.position(ended)
        if high < 0 or low > self.cells:
            return None
        first = min(max(int(low), 0), self.cells - 1)
        return first, min(max(int(high + 0.5), first + 1), self.cells)

    def axis(self, clock: Callable[[float], str]) -> str:
        """The line above: times where there is room for them, and what is folded."""
        line = [" "] * self.cells
        for part in self.parts:
            if part.folded:
                _put(line, self.position(part.began), f"≈ {span_text(part.ended - part.began)} ≈")
        for part in self.parts:
            if not part.folded:
                self._ticks(line, part, clock)
        return "".join(line)

    def _ticks(self, line: list[str], part: Part, clock: Callable[[float], str]) -> None:
        low, high = self.position(part.began), self.position(part.ended)
        cell, said = max(low, 0.0), ("", "")
        while cell < min(high, self.cells):
            share = (cell - low) / (high - low)
            at = part.began + share * (part.ended - part.began)
            text = clock(at)
            more = f"+{span_text(at - self.began)}"
            if more not in said:
                _put(line, cell, more if text in said else text)
            cell, said = cell + TICK_CELLS, (text, more)
        if part is self.parts[0] and high <= low:
            _put(line, cell, clock(part.began))


def _put(line: list[str], at: float, text: str) -> None:
    """Write where there is room."""
    first = int(at)
    room = slice(max(first - 1, 0), first + len(text) + 1)
    if first >= 0 and first + len(text) <= len(line) and all(one == " " for one in line[room]):
        line[first : first + len(text)] = text


def span_text(seconds: float) -> str:
    """A time span in few cells: `41ms`, `2.2s`, `12m 04s`, `3h 12m`, `2d 4h`."""
    if seconds < 0.9995:
        return f"{max(seconds, 0.0) * 1000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = int(seconds + 0.5)
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3600}h"
