"""The part of the list of actors that is held: what needs attention, and a stretch in order of address, page by page.

The store gives windows next to an address; here they are put together into one list without gaps and without doubles.
Words of the filter that the store can serve are asked for; the others are judged here, over a bounded number of rows
each time. A search that has found too little goes on where it stopped, each time that somebody looks (`enough`), and
how far it looked is known (`looked`). No widgets, and no clock: whoever shows it says when to read.
"""

from collections.abc import Sequence

import msgspec

from callboard.service.operations.filters import Filter
from callboard.service.operations.watching import ActorGlance, ActorWindow, Watching, Word

from .rows import lies_below, value_of

PAGE = 100
CAP = 1_600
"""Rows of the stretch that are held; a page at one end drops as many at the other."""
ENOUGH = 40
"""Rows that fill a screen: a search goes on until it has so many, or has looked at WINDOWS windows."""
WINDOWS = 5
LOOKED_AT = 2_500
"""Actors that a look goes on to search among, at least, and as many more as `WINDOWS` windows look at."""
BEYOND = chr(0x10FFFF)
"""After any address."""


class Wish(msgspec.Struct, frozen=True):
    """What the list shall show."""

    place: str = "/"
    """Of the tree."""
    prefix: str = ""
    """What addresses of that place begin with."""
    filter: Filter = Filter()
    by_address: bool = False
    turned: bool = False
    """By address, backwards."""

    @property
    def begins(self) -> str | None:
        """What all addresses begin with; None: nothing can fit."""
        mine = self.filter.prefix("address")
        longer, shorter = (mine, self.prefix) if len(mine) >= len(self.prefix) else (self.prefix, mine)
        return longer if longer.startswith(shorter) else None

    def fits(self, glance: ActorGlance, now: float) -> bool:
        """Whether it is to be shown."""
        return lies_below(glance.address, self.place) and self.filter.fits(lambda name: value_of(glance, name, now))


class Listing:
    """The rows that are held for one wish."""

    def __init__(self, watching: Watching, wish: Wish) -> None:
        self.watching = watching
        self.wish = wish
        self.front: list[ActorGlance] = []
        self.rest: list[ActorGlance] = []
        self.known = False
        """Whether anything was read yet."""
        self._low = self._high = ""
        """Between which addresses it was looked: all that fits there is in `rest`."""
        self._from_start = self._to_end = False
        self.looked = 0
        """So many actors were looked at for what is held."""
        self._owed: bool | None = None
        """Below or above, where more was asked for and nothing was found so far."""
        self._again = ""
        """Up to where it was looked once more."""

    # -- what there is

    @property
    def items(self) -> list[ActorGlance]:
        """In the order in which they are shown."""
        return [*self.front, *(reversed(self.rest) if self.wish.turned else self.rest)]

    @property
    def start(self) -> bool:
        """There is nothing before the first."""
        return self._to_end if self.wish.turned else self._from_start

    @property
    def end(self) -> bool:
        """There is nothing after the last."""
        return self._from_start if self.wish.turned else self._to_end

    @property
    def whole(self) -> bool:
        """All that there is, is held."""
        return self._from_start and self._to_end

    @property
    def searching(self) -> bool:
        """It has found less than was asked for, and goes on."""
        return self.known and not self.whole and (self._owed is not None or len(self.items) < ENOUGH)

    # -- reading

    async def first(self, now: float) -> None:
        """Read the beginning of the list again; what is held beyond it stays."""
        if self.known and not self.start:
            return
        await (self._tail(now) if self.wish.turned else self._head(now))

    async def last(self, now: float) -> None:
        """Hold the end of the list, whatever lies between."""
        if not self.end:
            self._forget()
            await (self._head(now) if self.wish.turned else self._tail(now))

    async def beginning(self, now: float) -> None:
        """Hold the beginning of the list, whatever lies between."""
        if not self.start:
            self._forget()
            await self.first(now)

    async def more(self, now: float, *, below: bool) -> None:
        """Hold more of it, after the last row or before the first."""
        held = len(self.front) + len(self.rest)
        if below != self.wish.turned:
            await self._onward(now)
        else:
            await self._back(now)
        found = len(self.front) + len(self.rest) != held
        self._owed = None if found or (self.end if below else self.start) else below

    async def around(self, address: str, now: float) -> None:
        """Hold what is next to an address, instead of the beginning of the list."""
        window = await self._window(before=address)
        _, rest, edge = self._parts(window, now, backward=True)
        self._forget()
        self.rest = rest[-ENOUGH:]
        self._from_start = window.start and len(rest) <= ENOUGH
        self._low = self.rest[0].address if self.rest else edge
        self._high = self.rest[-1].address if self.rest else ""
        self.known = True
        await self._onward(now)

    async def enough(self, now: float) -> bool:
        """Go on with a search that has found less than a screen, or nothing when more was asked for; whether there was
        one."""
        if not self.searching:
            return False
        if self._owed is not None:
            await self.more(now, below=self._owed)
        else:
            await (self._onward(now) if not self._to_end else self._back(now))
        return True

    async def search(self, now: float) -> bool:
        """Go on with a search for as much as one look may cost; whether there was one."""
        before, goes_on = self.looked, await self.enough(now)
        found = goes_on
        while goes_on and self.looked - before < LOOKED_AT:
            goes_on = await self.enough(now)
        return found

    async def again(self, now: float) -> bool:
        """Look once more at a part of what was searched, each time at the next, for what fits by now; whether it did.

        What fits no more is seen where it is in sight; what has come to fit is seen by nobody who does not look.
        """
        if not self.wish.filter or not self.known:
            return False
        begin, end = max(self._low, self._again), BEYOND if self._to_end else self._high
        window = await self._window(after=begin)
        _, rest, edge = self._parts(window, now)
        edge = end if window.end or edge >= end else edge
        taken = {one.address for one in self.front}
        fits = [one for one in rest if one.address <= edge and one.address not in taken]
        kept = [one for one in self.rest if not begin < one.address <= edge]
        self.rest = sorted([*kept, *fits], key=lambda one: one.address)
        self._again = "" if edge >= end else edge
        return True

    def update(self, fresh: dict[str, ActorGlance], asked: Sequence[str], now: float = 0.0) -> bool:
        """Put these in the place of the same actors; those that were asked for and are gone, or fit no more, are left
        out. Whether any are."""
        held = len(self.items)
        gone = set(asked) - fresh.keys()
        gone |= {address for address, one in fresh.items() if self.wish.filter and not self.wish.fits(one, now)}
        for part in (self.front, self.rest):
            part[:] = [fresh.get(one.address, one) for one in part if one.address not in gone]
        return len(self.items) != held

    # -- inside

    def _forget(self) -> None:
        self.front, self.rest, self._low, self._high = [], [], "", ""
        self._from_start = self._to_end = self.known = False
        self.looked, self._owed, self._again = 0, None, ""

    async def _head(self, now: float) -> None:
        window = await self._window()
        front, rest, edge = self._parts(window, now)
        beyond: list[ActorGlance] = []
        if window.end or not self.known or self._high <= edge:
            self._high, self._to_end, self.looked = edge, window.end, window.looked
        else:
            beyond = [one for one in self.rest if one.address > edge]
            beyond = sorted([*beyond, *await self._calmed(front, edge, now)], key=lambda one: one.address)
        taken = {one.address for one in front}
        self.rest = [*rest, *(one for one in beyond if one.address not in taken)]
        self.front, self._from_start, self.known = front, True, True

    async def _calmed(self, front: list[ActorGlance], edge: str, now: float) -> list[ActorGlance]:
        """Those that need nobody any more, and belong into what is held beyond the first window."""
        left = {one.address for one in self.front} - {one.address for one in front}
        left = {one for one in left if one > edge and (self._to_end or one <= self._high)}
        fresh = await self.watching.glances(sorted(left)) if left else {}
        return [one for one in fresh.values() if self.wish.fits(one, now)]

    async def _tail(self, now: float) -> None:
        window = await self._window(last=True)
        front, rest, edge = self._parts(window, now, backward=True)
        beyond: list[ActorGlance] = []
        if window.start or not self.known or self._low >= edge:
            self._low, self._from_start, self.looked = edge, window.start, window.looked
        else:
            beyond = [one for one in self.rest if one.address < edge]
        self.front, self.rest = front, [*beyond, *rest]
        self._to_end, self.known = True, True

    async def _onward(self, now: float) -> None:
        found: list[ActorGlance] = []
        for _ in range(WINDOWS):
            if self._to_end:
                break
            window = await self._window(after=self._high)
            _, rest, edge = self._parts(window, now)
            self._high, self._to_end = edge or self._high, window.end
            self.looked += window.looked
            found += rest
            if len(found) >= ENOUGH:
                break
        taken = {one.address for one in self.front}
        self.rest += [one for one in found if one.address not in taken]
        if (spare := len(self.rest) - CAP) > 0 and found:
            self.rest = self.rest[spare:]
            self.front, self._from_start, self._low = [], False, self.rest[0].address

    async def _back(self, now: float) -> None:
        for _ in range(WINDOWS):
            if self._from_start:
                break
            window = await self._window(before=self._low)
            front, rest, edge = self._parts(window, now, backward=True)
            self._low, self._from_start = edge or self._low, window.start
            self.looked += window.looked
            self.front = front
            taken = {one.address for one in front}
            self.rest = [one for one in (*rest, *self.rest) if one.address not in taken]
            if len(rest) >= ENOUGH:
                break
        if len(self.rest) > CAP:
            self.rest = self.rest[:CAP]
            self._to_end, self._high = False, self.rest[-1].address

    def _parts(
        self, window: ActorWindow, now: float, *, backward: bool = False
    ) -> tuple[list[ActorGlance], list[ActorGlance], str]:
        """What fits of a window: for attention, and the others; and the address up to which it was looked."""
        front, rest = window.items[: window.attention], window.items[window.attention :]
        edge = window.reached or (rest[0 if backward else -1].address if rest else "")
        fits = self.wish.fits
        return [one for one in front if fits(one, now)], [one for one in rest if fits(one, now)], edge

    async def _window(self, *, after: str = "", before: str = "", last: bool = False) -> ActorWindow:
        begins = self.wish.begins
        if begins is None:
            return ActorWindow([])
        words: list[Word] = list(self.wish.filter.pick("state"))  # type: ignore[arg-type]  # its choices are words
        kinds = self.wish.filter.pick("kind")
        return await self.watching.actors(
            prefix=begins,
            kind=kinds[0] if len(kinds) == 1 else "",
            words=words,
            order="address" if self.wish.by_address else "attention",
            after=after,
            before=before,
            last=last,
            limit=PAGE,
        )
