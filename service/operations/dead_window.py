"""Windows of the list of dead letters, by their numbers: however many there are, a window costs what it shows.

A number is a dead letter's place in the list for good, so a window is asked for by the number at its edge, and nothing
that is added or settled meanwhile moves what is read next. A filter is narrowed by where the store can, and judged here
on SCANNED letters at most; where that was not enough, the window says how far it looked.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from ...mailbox.envelope import DeadLetter
from .dead import DeadLine, dead_line
from .filters import Field, Filter
from .runs import Operations

SCANNED = 10_000
"""Letters that are looked at for one window, at most."""
PAGE = 500
State = Literal["open", "requeued", "discarded"]
REASONS = (
    "failed",
    "rejected",
    "unreadable",
    "no-such-actor",
    "recipient-ended",
    "recipient-failed",
    "denied",
    "worker_lost",
    "discarded",
    "quarantined",
)
FIELDS = (
    Field("to", "path", "its mailbox"),
    Field("from", "path", "who sent it"),
    Field("type", about="of message"),
    Field("reason", "word", "why it was given up", REASONS),
    Field("error", about="what it died of"),
    Field("tries", "number", "how often it failed"),
    Field("dead", "duration", "for how long it has been dead"),
    Field("state", "word", "what was done about it", ("open", "requeued", "discarded")),
    Field("by", about="who settled it"),
)
"""What the list can be filtered by; without a word for `state` only those are shown that nobody has settled."""


class DeadWindow(msgspec.Struct, frozen=True):
    """Some dead letters, in the order that was asked for."""

    items: list[DeadLine]
    start: bool
    """Nothing that fits comes before the first, in this order."""
    end: bool
    """Nothing that fits comes after the last."""
    short: int = 0
    """Where SCANNED were looked at and the window is not full for that: the number to go on from; 0: it is full."""


class DeadWindows:
    """Windows of the dead letters of one store, as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def window(
        self, wish: Filter | None = None, *, after: int = 0, before: int = 0, last: bool = False,
        newest: bool = True, limit: int = 200,
    ) -> DeadWindow:  # fmt: skip
        """A window from the start; `after`, `before`: what follows, or precedes, the letter of this number in the
        list; `last`: the end. `newest`: the list begins with the newest, else with the oldest."""
        self.operations.require("read")
        fits, wanted = await self._judge(wish)
        forward = not (before or last)
        edge = after or before
        downwards = newest is forward  # towards smaller numbers
        found, whole, at = await (self._older if downwards else self._newer)(edge, limit, fits, wanted)
        items = found if forward else found[::-1]
        if forward:
            return DeadWindow(items, start=not after, end=whole, short=at)
        return DeadWindow(items, start=whole, end=last, short=at)

    async def matching(self, wish: Filter | None = None, *, limit: int = SCANNED) -> tuple[list[DeadLine], bool]:
        """All that fit, newest first, and whether these are all; `limit` and SCANNED at most."""
        self.operations.require("read")
        fits, wanted = await self._judge(wish)
        found, whole, _ = await self._older(0, limit, fits, wanted)
        return found, whole

    async def _judge(self, wish: Filter | None) -> tuple[Callable[[DeadLetter], DeadLine | None], dict[str, Any]]:
        """How a letter is judged (None: it does not fit), and what the store may narrow by."""
        now = await self.store.now()
        wish = wish or None
        states = wish.pick("state") if wish else ()
        named = any(term.field == "state" for term in wish.terms) if wish else False
        open_only = states == ("open",) or not named
        exact = wish.pick("to") if wish else ()
        wanted = {"open_only": open_only, "recipient": exact[0] if len(exact) == 1 else ""}

        def judge(letter: DeadLetter) -> DeadLine | None:
            if open_only and letter.settled:
                return None
            line = dead_line(letter)
            return line if wish is None or wish.fits(partial(value_of, line, now=now)) else None

        return judge, wanted

    async def _older(
        self, before: int, limit: int, judge: Callable[[DeadLetter], DeadLine | None], wanted: dict[str, Any]
    ) -> tuple[list[DeadLine], bool, int]:
        """Downwards from a number (0: from the newest): what fits, whether that is all, and where it gave up."""
        found: list[DeadLine] = []
        seen = 0
        while seen < SCANNED:
            size = min(PAGE, max(limit - len(found) + 1, 50))
            page = await self.store.dead_letters(before=before, limit=size, **wanted)
            found += [line for line in map(judge, page) if line is not None]
            seen += len(page)
            if len(found) > limit:
                return found[:limit], False, 0
            if len(page) < size:
                return found, True, 0
            before = page[-1].number
        return found, False, before

    async def _newer(
        self, after: int, limit: int, judge: Callable[[DeadLetter], DeadLine | None], wanted: dict[str, Any]
    ) -> tuple[list[DeadLine], bool, int]:
        """The same upwards (0: from the oldest). The store reads downwards only, so spans of numbers are read, each
        of so many numbers that one page holds it; where one is empty, it is looked for where the next begin."""
        newest = await self.store.dead_letters(limit=1, **wanted)
        if not newest:
            return [], True, 0
        found: list[DeadLine] = []
        at = after or await self._oldest(newest[0].number, wanted) - 1
        seen = 0
        while at < newest[0].number:
            if seen >= SCANNED:
                return found, False, at
            page = await self.store.dead_letters(before=at + PAGE + 1, limit=PAGE, **wanted)
            page = [letter for letter in page if letter.number > at]
            found += [line for line in map(judge, reversed(page)) if line is not None]
            seen += len(page)
            if len(found) > limit:
                return found[:limit], False, 0
            at = at + PAGE if page else await self._next(at, newest[0].number, wanted) - 1
        return found, True, 0

    async def _oldest(self, newest: int, wanted: dict[str, Any]) -> int:
        return await self._next(0, newest, wanted)

    async def _next(self, after: int, newest: int, wanted: dict[str, Any]) -> int:
        """The least number greater than `after`; there is one, `newest` at last. By halves: some twenty cheap reads."""
        low, high = after, newest
        while low + 1 < high:
            middle = (low + high) // 2
            below = await self.store.dead_letters(before=middle + 1, limit=1, **wanted)
            if below and below[0].number > after:
                high = below[0].number  # between, and nearer
                continue
            low = middle
        return high


def value_of(line: DeadLine, name: str, now: float) -> object:
    """A dead letter's value of a field of FIELDS."""
    match name:
        case "to":
            return line.recipient
        case "from":
            return line.sender
        case "type":
            return line.type
        case "reason":
            return line.reason
        case "error":
            return [line.detail, line.last_error]
        case "tries":
            return line.failures
        case "dead":
            return now - line.at
        case "state":
            return line.settled or "open"
        case _:
            return line.settled_by
