"""The part of the audit trail that is held: one stretch by number, newest first. The trail is only added to.

Rows are read by their numbers. What of the filter the store cannot serve is judged here, over a bounded number of
windows each time. What rows are about (`audit_records`) is read for those in sight, once, until it is settled.
"""

from collections.abc import Sequence

import anyio

from callboard.persistence.operating import AuditRow
from callboard.service.operations.audit import AuditTrail
from callboard.service.operations.audit_records import AuditRecord, about_a_call, did_of, records
from callboard.service.operations.filters import Filter

from .rows import value_of

PAGE = 200
CAP = 1_600
ENOUGH = 40
WINDOWS = 5
"""Windows that are read for one look, where few rows fit."""


class Listing:
    """The rows that are held for one filter."""

    def __init__(self, trail: AuditTrail, filter: Filter) -> None:
        self.trail = trail
        self.filter = filter
        self.items: list[AuditRow] = []
        self.start = True
        self.end = False
        self.known = False
        self._reading = anyio.Lock()
        """One window at a time: what comes from two would be held twice."""
        self._about: dict[int, AuditRecord] = {}
        self._top = self._low = 0
        """The numbers between which it was looked, both included."""

    async def look(self) -> None:
        """Read what is new, and go on with a search that has found less than a screen."""
        async with self._reading:
            if not self.known or self.start:
                await self._look()
            if len(self.items) < ENOUGH and not self.end:
                await self._older()

    async def _look(self) -> None:
        fresh = await self._read()
        if self.known and fresh and fresh[-1].number > self._top + 1 and len(fresh) == PAGE:
            self.items, self.known = [], False  # more has come than is read in one go: begin again at the newest
        if not self.known:
            self._low, self.end, self.known = fresh[-1].number if fresh else 0, len(fresh) < PAGE, True
            self.items = self._fitting(fresh)
        else:
            self.items = [*self._fitting([row for row in fresh if row.number > self._top]), *self.items]
        self._top = max(self._top, fresh[0].number if fresh else 0)
        self._bound(below=False)

    async def more(self, *, below: bool) -> None:
        """Hold more: older ones, or newer ones."""
        async with self._reading:
            if self.known:
                await (self._older() if below else self._newer())

    async def far(self, *, below: bool) -> None:
        """Hold the oldest, or the newest, whatever lies between."""
        async with self._reading:
            if below and self.known and not self.end:
                await self._oldest()
            elif not below and not self.start:
                self.items, self.start, self.end, self.known, self._top = [], True, False, False, 0
                await self._look()

    async def _oldest(self) -> None:
        rows = await self._read(before=PAGE + 1)  # numbers begin at 1
        if rows:  # else the oldest are not kept any more: on by windows
            self.items, self._top, self._low = self._fitting(rows), PAGE, 1
            self.start, self.end = False, True

    def record(self, row: AuditRow) -> AuditRecord:
        """A row with what is known of what it is about."""
        return self._about.get(row.number) or AuditRecord(row, did_of(row))

    async def read_about(self, rows: Sequence[AuditRow]) -> bool:
        """Read what these are about, where it is not known or may have changed; whether anything was read."""
        wanted = [
            row
            for row in rows
            if (known := self._about.get(row.number)) is None or (about_a_call(row) and not known.settled)
        ]
        for record in await records(self.trail.operations, wanted) if wanted else ():
            self._about[record.row.number] = record
        return bool(wanted)

    # -- inside

    async def _read(self, before: int = 0) -> list[AuditRow]:
        return await self.trail.list(before=before, limit=PAGE)

    def _fitting(self, rows: Sequence[AuditRow]) -> list[AuditRow]:
        return [row for row in rows if self.filter.fits(lambda name, row=row: value_of(row, name))]  # type: ignore[misc]

    async def _older(self) -> None:
        found = 0
        for _ in range(WINDOWS):
            if self.end or found >= ENOUGH:
                break
            rows = await self._read(before=self._low)
            kept = self._fitting(rows)
            self.items += kept
            self._low, self.end = rows[-1].number if rows else self._low, len(rows) < PAGE
            found += len(kept)
        self._bound(below=True)

    async def _newer(self) -> None:
        found = 0
        for _ in range(WINDOWS):
            if self.start or found >= ENOUGH:
                break
            rows = [row for row in await self._read(before=self._top + PAGE + 1) if row.number > self._top]
            kept = self._fitting(rows)
            self.items = [*kept, *self.items]
            self._top += PAGE
            newest = await self.trail.list(limit=1)
            if not newest or newest[0].number <= self._top:
                self.start, self._top = True, newest[0].number if newest else self._top
            found += len(kept)
        self._bound(below=False)

    def _bound(self, *, below: bool) -> None:
        """Let rows go on the other side."""
        if len(self.items) <= CAP:
            return
        if below:
            self.items, self.start = self.items[-CAP:], False
            self._top = self.items[0].number
        else:
            self.items, self.end = self.items[:CAP], False
            self._low = self.items[-1].number
        self._about = {row.number: known for row in self.items if (known := self._about.get(row.number))}
