"""Routes of approvals under /v1: what waits for people, and deciding it, bound to what was looked at.

409 says who was first and when, 410 that it expired, 412 that the arguments are other ones, 403 that a policy wants
somebody else. The rules are those of `operations.decisions`; what is here only says them in HTTP.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypeVar

from litestar import Response
from litestar.params import FromPath, JSONBody, QueryParameter

from ...mailbox.errors import AlreadyDecided, NotFound
from ..operations.argument_paths import REMOVED
from ..operations.called import called_runs
from ..operations.decisions import Answer, Decisions, Expired
from ..operations.lookup import find_run, is_text, run_id_of
from ..operations.views import ApprovalView, approval_view, moment
from .approval_shapes import (
    ApprovalOut,
    ApprovalStatus,
    DecisionRequest,
    Edited,
    EditRequest,
    TakeBackRequest,
    amounts_of,
    approval_out,
)
from .desk import Desk, Req, route
from .once import Key
from .pages import Cursor, Limit, Page, read_cursor, write_cursor
from .problems import ProblemError

T = TypeVar("T")
LOOKED_AT = 5_000
"""Approvals of one status that are looked at for a page: what waits are few."""
Status = Annotated[ApprovalStatus | Literal["any"], QueryParameter(description="Which; those that wait unless said.")]
Word = Annotated[str, QueryParameter(max_length=500)]


class ApprovalRoutes:
    """The routes over one desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def routes(self) -> list[Any]:
        """All of them, for an application."""
        one = "/approvals/{approval_id:str}"
        decided = ("not-found", "already-decided", "expired", "digest-differs", "not-allowed")
        return [
            route("get", "/approvals", self.list_approvals, "read", "not-found"),
            route("get", one, self.get_approval, "read", "not-found"),
            route("post", f"{one}/decision", self.decide_approval, "approve", *decided),
            route("post", f"{one}/take-back", self.take_back_approval, "approve", *decided),
            route("post", f"{one}/edit", self.edit_approval, "approve", *decided),
        ]

    async def list_approvals(
        self, limit: Limit = 50, cursor: Cursor = "", status: Status = "pending", run: Word = "", tool: Word = ""
    ) -> Page[ApprovalOut]:
        """List calls that wait for people, oldest first.

        Or those of another status; of one run and the agents that it has called, or of one tool, where that is said.
        """
        store, wanted = self.desk.store, None if status == "any" else status
        address = await find_run(store, run) if run else ""
        runs = [address, *(await called_runs(store, address) if run else ())]
        rows = [row for one in runs for row in await store.decisions(status=wanted, run=one, limit=LOOKED_AT)]
        found = sorted((row for row in rows if tool in ("", row.tool)), key=lambda row: row.requested_at)
        if cursor:
            # What stood there may have another status by now; what is asked later is later all the same.
            at, last = read_cursor("approvals", cursor, float, str)
            ids = [row.id for row in found]
            start = ids.index(last) + 1 if last in ids else sum(row.requested_at <= at for row in found)
            found = found[start:]
        page = found[:limit]
        more = write_cursor("approvals", page[-1].requested_at, page[-1].id) if len(found) > limit else None
        return Page([approval_out(approval_view(row, run_id_of(row.run))) for row in page], more)

    async def get_approval(self, approval_id: FromPath[str]) -> ApprovalOut:
        """Show one approval, with everything that a decision covers."""
        return approval_out(await self._view(approval_id))

    async def decide_approval(
        self, request: Req, approval_id: FromPath[str], data: JSONBody[DecisionRequest], idempotency_key: Key
    ) -> Response[ApprovalOut]:
        """Approve or deny a held call, exactly as it was looked at.

        Where several people have to approve, it is pending until the last of them has. A call in doubt: `approve` says
        that it happened, `deny` that it did not.
        """
        operations = self.desk.operations(request)

        async def work() -> ApprovalOut:
            view = await self._looked_at(approval_id, data.args_digest)
            status: Literal["approved", "denied"] = "approved" if data.decision == "approve" else "denied"
            answer = Answer(status, amounts_of(data.amount, view), data.args_digest, data.reason)
            return approval_out(await Decisions(operations).decide(view.id, answer))

        return await self._answered(request, idempotency_key, approval_id, work)

    async def take_back_approval(
        self, request: Req, approval_id: FromPath[str], data: JSONBody[TakeBackRequest], idempotency_key: Key
    ) -> Response[ApprovalOut]:
        """Take back an approval while it is held.

        The call waits for people again, and nobody has approved it.
        """
        operations = self.desk.operations(request)

        async def work() -> ApprovalOut:
            view = await self._view(approval_id)
            return approval_out(await Decisions(operations).take_back(view.id, note=data.note))

        return await self._answered(request, idempotency_key, approval_id, work)

    async def edit_approval(
        self, request: Req, approval_id: FromPath[str], data: JSONBody[EditRequest], idempotency_key: Key
    ) -> Response[Edited]:
        """Ask for a held call with other arguments.

        Nobody can approve the old ones any more; the run asks anew, as another approval with another digest. Where the
        change does not fit the tool, it is asked for as it was, and `diff` of that is empty.
        """
        operations = self.desk.operations(request)
        changed = {**data.set, **dict.fromkeys(data.unset, REMOVED)}
        if not changed:
            raise ProblemError("usage", "nothing to change: give `set` or `unset`")

        async def work() -> Edited:
            view = await self._looked_at(approval_id, data.args_digest)
            wish = Answer("approved", (), data.args_digest, data.note)
            old, new = await Decisions(operations).edit(view.id, changed, wish, seconds=data.wait_seconds)
            return Edited(approval_out(old), None if new is None else approval_out(new))

        return await self._answered(request, idempotency_key, approval_id, work)

    async def _answered(
        self, request: Req, key: str, approval_id: str, work: Callable[[], Awaitable[T]]
    ) -> Response[T]:
        async def told() -> T:
            try:
                return await work()
            except AlreadyDecided as error:
                raise await self._told(approval_id, error) from error

        return await self.desk.once.answered(request, key, self.desk.operations(request).who, told)

    async def _told(self, approval_id: str, error: AlreadyDecided) -> Exception:
        """A refusal with who was first, and when, as members."""
        view = await self._view(approval_id)
        who: dict[str, Any] = {}
        if view.status != "pending":
            who = {"decided_by": view.decided_by, "decided_at": moment(view.decided_at)}
        name = "expired" if isinstance(error, Expired) else "already-decided"
        return ProblemError(name, str(error), approval=view.id, **{key: text for key, text in who.items() if text})

    async def _view(self, approval_id: str) -> ApprovalView:
        row = await self.desk.store.decision(approval_id) if is_text(approval_id) and "\0" not in approval_id else None
        if row is None:
            raise NotFound(f"no approval {approval_id[:80]!r}; GET /v1/approvals lists what waits")
        return approval_view(row, run_id_of(row.run))

    async def _looked_at(self, approval_id: str, digest: str) -> ApprovalView:
        """The approval, if its arguments are those that were looked at; a row's never change, so this holds later too.

        Raises:
            NotFound; ProblemError: 412. Not of one that is decided: who was first is more to the point.
        """
        view = await self._view(approval_id)
        if view.status == "pending" and view.digest != digest:
            raise ProblemError(
                "digest-differs",
                f"approval {view.id}: the digest on record is {view.digest}, not {digest}; look at it again, nothing "
                "was decided",
                approval=view.id,
            )
        return view
