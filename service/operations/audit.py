"""Who did what, when, from where: the audit trail, newest first."""

from collections.abc import Sequence

import msgspec

from ...mailbox.errors import NotFound, UsageError
from ...persistence.operating import AuditRow
from .called import called_runs
from .lookup import find_run
from .runs import Operations
from .views import moment

MAX_ROWS = 10_000
"""Of one list."""
_DECISIONS = 1_000


class AuditTrail:
    """The trail of one store, read as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def list(
        self, *, object: str = "", who: str = "", action: str = "", before: int = 0, limit: int = 100
    ) -> list[AuditRow]:
        """What was done, newest first. `object`: the beginning of what it was done to, or whatever names a run (see
        `find_run`), which brings the rows of its decisions with it, and those of agents that it has called. `before`: a
        row's number to go on from.

        Raises:
            NotAllowed: without the scope `read`. UsageError: a limit that is none.
        """
        self.operations.require("read")
        if not 0 < limit <= MAX_ROWS:
            raise UsageError(f"limit {limit}: expected 1 to {MAX_ROWS:,}")
        objects, is_run = await self._objects(object) if object else ([""], False)
        found: dict[int, AuditRow] = {}
        for one in objects:
            rows = await self.store.audit(object=one, who=who, action=action, before=before, limit=limit)
            # Not of another run whose id begins like this one's.
            found.update({row.number: row for row in rows if not is_run or _is_of(row.object, one)})
        return sorted(found.values(), key=lambda row: -row.number)[:limit]

    async def _objects(self, given: str) -> tuple[Sequence[str], bool]:
        try:
            address = await find_run(self.store, given)
        except (NotFound, UsageError):
            return [given], False
        runs = [address, *await called_runs(self.store, address)]
        decisions = [row for run in runs for row in await self.store.decisions(run=run, limit=_DECISIONS)]
        return [*runs, *(decision.id for decision in decisions)], True


def _is_of(object: str, one: str) -> bool:
    return object == one or object.startswith(f"{one}/")


def audit_line(row: AuditRow) -> dict[str, object]:
    """A row as JSON has it."""
    return {**msgspec.structs.asdict(row), "at": moment(row.at)}


def audit_document(rows: Sequence[AuditRow], *, complete: bool) -> dict[str, object]:
    """`callboard.audit/1`."""
    return {"schema": "callboard.audit/1", "complete": complete, "items": [audit_line(row) for row in rows]}
