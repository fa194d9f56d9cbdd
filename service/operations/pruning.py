"""Retention: what is old goes, in small transactions beside working nodes, archived first where that is wanted.

A batch is looked for, archived, made durable, and only then removed; the store judges again what may go. So whatever
ends this in between, a run is there or in the archive, perhaps in both, and the next time goes on. Batches grow and
shrink so that each transaction stays well below a second.
"""

import time
from collections.abc import Callable, Sequence

import msgspec

from ...mailbox.errors import UsageError
from ...persistence.operating import AuditEntry
from ...persistence.retention import OLD_KINDS, Old, OldKind, Removed
from ..archive import SCHEMAS, Archive
from .runs import Operations

USUAL: tuple[OldKind, ...] = tuple(kind for kind in OLD_KINDS if kind != "audit")
"""All but the audit trail, which has to be named: whoever prunes it removes what tells of pruning."""
BATCH = 500
"""Things that one transaction removes, at most."""
MOST_ROWS = 20_000
"""Rows that one transaction removes at most, unless a single run has more."""
LOOK = 1_000
"""Things that one look judges."""
SLOW_SECONDS, QUICK_SECONDS = 0.5, 0.1
"""A transaction that took longer is followed by one of half its size; one that was quicker, by one of twice."""
OBJECT = "retention"


class PrunedKind(msgspec.Struct):
    """What of a kind went, or would go."""

    kind: OldKind
    items: int = 0
    rows: int = 0
    bytes: int = 0
    """Of the rows, as the database kept them."""
    batches: int = 0


class Pruned(msgspec.Struct):
    """What came of it."""

    before: float
    """What ended before that (seconds since 1970) went."""
    dry_run: bool
    complete: bool
    """False: the time that it had was over."""
    kinds: list[PrunedKind]
    place: str = ""
    """Where it was in the last of the kinds when the time was over; opaque."""


Told = Callable[[PrunedKind], None]


class Pruning:
    """Removing what is old, as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def prune(
        self, older_than_seconds: float, kinds: Sequence[OldKind] = USUAL, *, dry_run: bool = False,
        archive: Archive | None = None, batch: int = BATCH, within_seconds: float | None = None,
        since: Pruned | None = None, told: Told | None = None,
    ) -> Pruned:  # fmt: skip
        """Remove what ended so long ago and nothing needs any more, oldest first.

        `within_seconds`: begin no more batches after that. `since`: go on where that one ran out of time. `told` is
        called after each batch.

        Raises:
            UsageError: a time below 0, or no kind that there is. NotAllowed: without `admin`; for a dry run without
                `read`. OSError: the archive; nothing of the batch was removed. StoreError: the database role may not.
        """
        self.operations.require("read" if dry_run else "admin")
        wanted = [kind for kind in OLD_KINDS if kind in kinds]
        place = ""
        if since is not None and since.place and since.kinds[-1].kind in wanted:
            place = since.place
            wanted = wanted[wanted.index(since.kinds[-1].kind) :]
        if older_than_seconds < 0 or batch < 1 or not wanted or not set(kinds) <= set(OLD_KINDS):
            raise UsageError(f"expected an age, a batch, and some of {', '.join(OLD_KINDS)}")
        before = await self.store.now() - older_than_seconds
        until = None if within_seconds is None else time.monotonic() + within_seconds
        report = Pruned(before, dry_run, complete=True, kinds=[])
        for kind in wanted:
            of_kind = PrunedKind(kind)
            report.kinds.append(of_kind)
            kept = archive if kind in SCHEMAS else None
            work = _Batches(self, of_kind, before, archive=kept, batch=batch, told=told, dry_run=dry_run)
            report.place = await work(place, until)
            if report.place:
                report.complete = False
                break
            place = ""
        return report

    def entry(self, kind: OldKind, before: float) -> AuditEntry:
        """What the trail says of a batch; the store adds how many."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(before))
        return self.operations.entry("prune", OBJECT, before=f"{kind} that ended before {when}")


class _Batches:
    """The batches of one kind."""

    def __init__(
        self, pruning: Pruning, report: PrunedKind, before: float, *, archive: Archive | None, batch: int,
        told: Told | None, dry_run: bool,
    ) -> None:  # fmt: skip
        self.pruning, self.report, self.before = pruning, report, before
        self.archive, self.batch, self.told = archive, batch, told
        self.dry_run = dry_run
        self.size = batch

    async def __call__(self, after: str, until: float | None) -> str:
        """Work through all that is old from a place on; "" when done, else where it was when the time was over."""
        kind, store = self.report.kind, self.pruning.store
        waiting: list[Old] = []
        looked = False
        while True:
            if until is not None and looked and time.monotonic() >= until:
                return after  # what was found and is not removed yet is found again in the next round
            looked = True
            look = min(LOOK, self.size) if kind == "runs" else LOOK
            page = await store.old(
                kind, before=self.before, after=after, limit=look, records=self.archive is not None and not self.dry_run
            )
            waiting += page.items
            while self._is_full(waiting):
                waiting = await self._some(waiting)
            if page.end:
                while waiting:
                    waiting = await self._some(waiting)
                return ""
            after = page.after

    def _is_full(self, waiting: Sequence[Old]) -> bool:
        return len(waiting) >= self.size or sum(item.rows for item in waiting) >= MOST_ROWS

    async def _some(self, waiting: list[Old]) -> list[Old]:
        """One batch of them: archived, then removed; what is left."""
        count = rows = 0
        for item in waiting[: self.size]:
            rows += item.rows
            if count and rows > MOST_ROWS:
                break
            count += 1
        items, rest = waiting[:count], waiting[count:]
        if not items:
            return rest
        if self.dry_run:
            self._count(Removed(len(items), sum(item.rows for item in items), sum(item.bytes for item in items)))
            return rest
        if self.archive is not None:
            await self.archive.keep(self.report.kind, items)
        await self._remove([item.key for item in items])
        return rest

    async def _remove(self, keys: list[str]) -> None:
        entry = self.pruning.entry(self.report.kind, self.before)
        began = time.monotonic()
        self._count(await self.pruning.store.remove_old(self.report.kind, keys, before=self.before, entry=entry))
        took = time.monotonic() - began
        if took > SLOW_SECONDS:
            self.size = max(1, self.size // 2)
        elif took < QUICK_SECONDS:
            self.size = min(self.batch, self.size * 2)

    def _count(self, removed: Removed) -> None:
        report = self.report
        report.items, report.rows = report.items + removed.items, report.rows + removed.rows
        report.bytes, report.batches = report.bytes + removed.bytes, report.batches + 1
        if self.told is not None:
            self.told(report)
