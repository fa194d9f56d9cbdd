"""The part of the list of runs that is held: one stretch, newest first, without gaps and without doubles.

It is read by windows next to a place. What of the filter the store cannot serve is judged here, over a bounded number
of windows each time; where a search gave up, the next one goes on.
"""

import anyio

from callboard.service.operations.filters import Filter
from callboard.service.operations.views import RunLine, RunWindow
from callboard.service.operations.watching import Watching

from .rows import value_of, wish_of

PAGE = 200
CAP = 1_600
"""Runs that are held; a page at one end drops as many at the other."""
ENOUGH = 40
"""Runs that fill a screen: a search goes on until it has so many, or has looked at WINDOWS windows."""
WINDOWS = 5


class Listing:
    """The runs that are held for one filter."""

    def __init__(self, watching: Watching, filter: Filter) -> None:
        self.watching = watching
        self.filter = filter
        self.items: list[RunLine] = []
        self.start = self.end = False
        self.known = False
        """Whether anything was read yet."""
        self._reading = anyio.Lock()
        """One window at a time: what comes from two would be held twice."""
        self._places: list[str] = []
        self._above = ""
        """The place of the first run that was looked at, where that is not the beginning."""
        self._reached = ""
        """How far it was looked, beyond the last of `items`."""

    async def look(self, now: float) -> None:
        """Read again what is held, at first the beginning; go on with a search that has found less than a screen."""
        async with self._reading:
            if not self.known or self.start:
                await self._read(now, max(len(self.items), PAGE))
            else:
                await self._again(now)
            if len(self.items) < ENOUGH and not self.end:
                await self._onward(now)

    async def more(self, now: float, *, below: bool) -> None:
        """Hold more, after the last or before the first."""
        async with self._reading:
            if self.known and below and not self.end:
                await self._onward(now)
            elif self.known and not below and not self.start:
                await self._back(now)

    async def far(self, now: float, *, below: bool) -> None:
        """Hold the end or the beginning, whatever lies between."""
        async with self._reading:
            if not below:
                await self._read(now, PAGE)
            elif self.known and not self.end:
                window = await self.watching.runs(wish_of(self.filter, now), last=True, limit=PAGE)
                self._take(window, now)
                self.start, self.end, self._reached = window.start, True, ""
                self._above = _first(window)

    # -- inside

    async def _read(self, now: float, limit: int) -> None:
        window = await self.watching.runs(wish_of(self.filter, now), limit=min(limit, CAP))
        self._take(window, now)
        self.start, self.end, self._reached = True, window.end, _edge(window)
        self._above, self.known = "", True

    async def _again(self, now: float) -> None:
        """Where it is not the beginning: what comes after the first run that was looked at. That one stays as it is."""
        first = [
            (one, place) for one, place in zip(self.items[:1], self._places[:1], strict=True) if place == self._above
        ]
        window = await self.watching.runs(wish_of(self.filter, now), after=self._above, limit=max(len(self.items), 1))
        self._take(window, now)
        self.items = [*(one for one, _ in first), *self.items]
        self._places = [*(place for _, place in first), *self._places]
        self.end, self._reached = window.end, _edge(window)

    def _take(self, window: RunWindow, now: float) -> None:
        kept = self._fitting(window, now)
        self.items, self._places = [one for one, _ in kept], [place for _, place in kept]

    def _fitting(self, window: RunWindow, now: float) -> list[tuple[RunLine, str]]:
        pairs = zip(window.items, window.cursors, strict=True)
        return [pair for pair in pairs if self.filter.fits(lambda name, one=pair[0]: value_of(one, name, now))]  # type: ignore[misc]

    async def _onward(self, now: float) -> None:
        found = 0
        for _ in range(WINDOWS):
            if self.end or found >= ENOUGH:
                break
            window = await self.watching.runs(wish_of(self.filter, now), after=self._reached, limit=PAGE)
            kept = self._fitting(window, now)
            self.items += [one for one, _ in kept]
            self._places += [place for _, place in kept]
            self._reached, self.end = _edge(window) or self._reached, window.end
            found += len(kept)
        if (spare := len(self.items) - CAP) > 0:
            self.items, self._places, self.start = self.items[spare:], self._places[spare:], False
            self._above = self._places[0]

    async def _back(self, now: float) -> None:
        window = await self.watching.runs(wish_of(self.filter, now), before=self._above, limit=PAGE)
        kept = self._fitting(window, now)
        self.items = [*(one for one, _ in kept), *self.items]
        self._places = [*(place for _, place in kept), *self._places]
        self.start = window.start
        self._above = "" if self.start else _first(window) or self._above
        if len(self.items) > CAP:
            self.items, self._places = self.items[:CAP], self._places[:CAP]
            self._reached, self.end = self._places[-1], False


def _first(window: RunWindow) -> str:
    """From where on it was looked, going back."""
    return window.reached or next((place for place in window.cursors if place), "")


def _edge(window: RunWindow) -> str:
    """Up to where it was looked."""
    return window.reached or next((place for place in reversed(window.cursors) if place), "")
