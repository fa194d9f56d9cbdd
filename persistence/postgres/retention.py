"""The PostgreSQL store's retention (S22): see functions/8_retention.sql."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ..operating import AuditEntry
from ..retention import Old, OldKind, OldPage, Removed
from .auditing import audit_json
from .connect import Row


class PostgresRetention(ABC):
    """What is old enough to go."""

    @abstractmethod
    async def _run(self, query: str, params: dict[str, Any] | None = None) -> list[Row]: ...

    async def old(
        self, kind: OldKind, *, before: float, after: str = "", limit: int = 500, records: bool = False
    ) -> OldPage:
        """See `RetentionStore.old`."""
        wanted = {"kind": kind, "before": before, "after": after or "[]", "limit": max(1, limit), "records": records}
        *found, (place, end, *_) = await self._run("old", wanted)
        items = [Old(key, rows, size, record) for key, rows, size, record, _ in found]
        return OldPage(items, place, bool(end))

    async def remove_old(self, kind: OldKind, keys: Sequence[str], *, before: float, entry: AuditEntry) -> Removed:
        """See `RetentionStore.remove_old`."""
        if not keys:
            return Removed()
        wanted = {"kind": kind, "before": before, "keys": f"[{','.join(keys)}]", "audits": audit_json([entry])}
        [row] = await self._run("remove_old", wanted)
        return Removed(*row)
