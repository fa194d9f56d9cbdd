"""Routes of the system under /v1: whether all is well, and who did what; and /livez, which is open to everybody."""

from typing import Annotated, Any

from litestar import get
from litestar.params import QueryParameter

from ..operations.audit import AuditTrail, audit_line
from ..operations.health import health_document, status
from .desk import Desk, Req, route
from .inspector_shapes import AuditOut, HealthOut, shaped
from .pages import Cursor, Limit, Page, read_cursor, write_cursor

Word = Annotated[str, QueryParameter(max_length=500)]


class SystemRoutes:
    """The routes over one desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def routes(self) -> list[Any]:
        """All of them, for an application."""
        return [
            get("/livez", tags=["health"], operation_id="livez")(self.livez),
            route("get", "/health", self.get_health, "read"),
            route("get", "/audit", self.list_audit, "read"),
        ]

    async def livez(self) -> dict[str, str]:
        """Say that this process answers."""
        return {"status": "ok"}

    async def get_health(self) -> HealthOut:
        """Say whether the system is healthy, check by check, with what to do next.

        Always 200 where the server itself answers: `ok` is false where something is bad, a database that is away too.
        """
        return shaped(health_document(await status(self.desk.store, self.desk.port)), HealthOut)

    async def list_audit(
        self,
        request: Req,
        *,
        limit: Limit = 50,
        cursor: Cursor = "",
        object: Word = "",
        who: Word = "",
        action: Word = "",
    ) -> Page[AuditOut]:
        """List who did what, newest first.

        `object` is the beginning of what it was done to, or a run, with whose rows come those of its decisions.
        """
        before = read_cursor("audit", cursor, int)[0] if cursor else 0
        rows = await AuditTrail(self.desk.operations(request)).list(
            object=object, who=who, action=action, before=before, limit=limit + 1
        )
        more = write_cursor("audit", rows[limit - 1].number) if len(rows) > limit else None
        return Page([shaped(dict(audit_line(row)), AuditOut) for row in rows[:limit]], more)
