"""What waits for people's decisions, held by one who looks again and again: all of it, however much that is.

Which decisions wait is read whole at each look, in pages from one to the next, as ids with a mark; so the count and
the order are right whatever was decided meanwhile, anywhere in the list. What is asked for is read once, and again
where its mark is another one: at once for what is in sight, a bounded number of others at each look, until all are
known. Invariant: what is held waited at the last look. Neighbour: `Decisions` decides on it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import anyio

from .lookup import run_id_of
from .runs import Operations
from .views import ApprovalView, approval_view

PAGE = 500
"""Requests that are read in one go."""
READ_AT_ONCE = 2_500
"""And at one look, besides those in sight."""
IDS_PAGE = 5_000
MOST = 20_000
"""Requests that are held. Of more the oldest are, which is said."""


class Inbox:
    """What waits, as one principal sees it."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store
        self.changes = 0
        """Grows with each look that found something else than the one before."""
        self.cut = False
        """More than `MOST` wait."""
        self._is_whole = False
        self._looking = anyio.Lock()
        self._marks: dict[str, int] = {}
        self._known: dict[str, tuple[int, ApprovalView]] = {}

    # -- what there is

    @property
    def total(self) -> int:
        """How many wait, as of the last look."""
        return len(self._marks)

    @property
    def ids(self) -> Sequence[str]:
        """Of all that wait, in the order in which they were asked for."""
        return list(self._marks)

    @property
    def views(self) -> list[ApprovalView]:
        """Those that were read so far, in the same order."""
        return [self._known[one][1] for one in self._marks if one in self._known]

    @property
    def whole(self) -> bool:
        """All that wait were read, and nothing of it is known to be another than it was."""
        return self._is_whole

    # -- reading

    async def look(self, in_sight: Iterable[str] = (), *, newest_first: bool = False) -> bool:
        """Look at what waits now, and read what is new of it; whether anything is.

        `in_sight`: ids that are read now, whatever else is to be read. `newest_first`: the others from that end.

        Raises:
            NotAllowed: without `read`.
        """
        self.operations.require("read")
        async with self._looking:  # one that began before another would put back what that one has found gone
            return await self._look(in_sight, newest_first=newest_first)

    async def _look(self, in_sight: Iterable[str], *, newest_first: bool) -> bool:
        marks = await self._asking()
        # What waits is in the order of asking already; a request that was taken back stands where it stood.
        changed = list(marks) != list(self._marks)
        self._marks = marks
        self._known = {one: known for one, known in self._known.items() if one in marks}
        order: Iterator[str] = iter(reversed(marks) if newest_first else marks)
        wanted = dict.fromkeys(one for one in in_sight if self._is_new(one))
        wanted |= dict.fromkeys(islice((one for one in order if self._is_new(one)), READ_AT_ONCE))
        changed = await self._read(list(wanted)) or changed
        self._is_whole = not any(self._is_new(one) for one in self._marks)
        self.changes += changed
        return changed

    async def everything(self) -> None:
        """Look, and read until all that waits is known."""
        await self.look()
        while not self.whole:
            await self.look()

    def _is_new(self, one: str) -> bool:
        mark = self._marks.get(one)
        return mark is not None and (one not in self._known or self._known[one][0] != mark)

    async def _asking(self) -> dict[str, int]:
        marks: dict[str, int] = {}
        after, more = "", True
        while more and len(marks) < MOST:
            page = await self.store.asking(after=after, limit=IDS_PAGE)
            marks |= {one.id: one.mark for one in page}
            after, more = page[-1].id if page else "", len(page) == IDS_PAGE
        self.cut = more
        return marks

    async def _read(self, ids: Sequence[str]) -> bool:
        for start in range(0, len(ids), PAGE):
            found = {row.id: row for row in await self.store.decisions_of(ids[start : start + PAGE])}
            for one in ids[start : start + PAGE]:
                row = found.get(one)
                if row is not None and row.status == "pending":
                    self._known[one] = (self._marks[one], approval_view(row, run_id_of(row.run)))
                else:  # decided between the two
                    self._known.pop(one, None)
                    del self._marks[one]
        return bool(ids)


__all__ = ["Inbox"]
