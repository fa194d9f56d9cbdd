"""Routes of the inspector under /v1: actors, mailboxes, messages and dead letters. Looking changes nothing.

Addresses have slashes in them, so they are query parameters or stand in bodies, never in paths. Values that look like
secrets are not shown here, whoever asks: revealing them is for a terminal.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from litestar import Response
from litestar.params import FromQuery, JSONBody, PathParameter, QueryParameter

from ...persistence.operating import MailboxOrder, MessageSearch, MessageState
from ..operations import resuming
from ..operations.actors import Inspection, actor_item, mailbox_document, message_item
from ..operations.dead import DeadLetters, Settled, dead_item, dead_letter_document
from ..operations.giving_up import GivingUp
from ..operations.mailboxes import Mailboxes
from ..operations.message_views import GivenUp, mailboxes_document, message_document
from ..operations.subtree import Subtree, ToldBelow
from .desk import Desk, Req, route
from .inspector_shapes import (
    ActorAccepted,
    ActorOut,
    ActorPage,
    ActorRequest,
    DeadLetterDetail,
    DeadLetterOut,
    GivenUpOut,
    MailboxDetail,
    MailboxOut,
    MailboxPage,
    MessageDetail,
    MessagePage,
    NoteRequest,
    PlaceAccepted,
    PlaceRequest,
    SettledOut,
    actor_out,
    dead_letter_detail,
    dead_letter_out,
    message_detail,
    message_out,
    shaped,
)
from .once import Key
from .pages import Cursor, Limit, Page, read_cursor, write_cursor

Address = Annotated[str, QueryParameter(min_length=2, max_length=500, pattern="^/", description="Such as /crm/desk.")]
State = Annotated[MessageState | Literal[""], QueryParameter(name="state", description="How it waits.")]
Word = Annotated[str, QueryParameter(max_length=500)]
Number = Annotated[int, PathParameter(ge=0, le=(1 << 63) - 1)]
_SETTLE = ("not-found",)


class InspectorRoutes:
    """The routes over one desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def routes(self) -> list[Any]:
        """All of them, for an application."""
        letter, message = "/dead-letters/{number:int}", "/messages/{message_id:int}"
        return [
            route("get", "/actors", self.list_actors, "read"),
            route("post", "/actors/pause", self.pause_actors, "operate", "not-found", status=202),
            route("post", "/actors/resume", self.resume_actors, "operate", "not-found", status=202),
            route("get", "/actor", self.get_actor, "read", "not-found"),
            route("post", "/actor/pause", self.pause_actor, "operate", "not-found", status=202),
            route("post", "/actor/resume", self.resume_actor, "operate", "not-found", status=202),
            route("post", "/actor/cancel", self.cancel_actor, "operate", "not-found", status=202),
            route("post", "/actor/kill", self.kill_actor, "operate", "not-found", status=202),
            route("get", "/mailboxes", self.list_mailboxes, "read"),
            route("get", "/mailbox", self.get_mailbox, "read", "not-found"),
            route("get", "/messages", self.search_messages, "read"),
            route("get", message, self.get_message, "read", "not-found"),
            route("post", f"{message}/discard", self.discard_message, "operate", *_SETTLE),
            route("post", f"{message}/quarantine", self.quarantine_message, "operate", *_SETTLE),
            route("get", "/dead-letters", self.list_dead_letters, "read"),
            route("get", letter, self.get_dead_letter, "read", "not-found"),
            route("post", f"{letter}/requeue", self.requeue_dead_letter, "operate", *_SETTLE),
            route("post", f"{letter}/discard", self.discard_dead_letter, "operate", *_SETTLE),
        ]

    # --- actors ------------------------------------------------------------------------------------------------

    async def list_actors(
        self,
        request: Req,
        *,
        limit: Limit = 50,
        cursor: Cursor = "",
        prefix: Word = "",
        kind: Word = "",
        stuck: FromQuery[bool] = False,
    ) -> ActorPage:
        """List actors by address, each with why it does not move.

        `stuck`: only those that stand still or whose mailbox does not move, longest waiting first (one page).
        """
        inspection = Inspection(self.desk.operations(request))
        if stuck:
            lines, complete = await inspection.stuck(prefix=prefix, limit=limit)
            return ActorPage([actor_out(actor_item(line)) for line in lines], None, complete)
        after = read_cursor("actors", cursor, str)[0] if cursor else ""
        rows = await self.desk.store.actors(kind=kind, prefix=prefix, limit=limit + 1, after=after)
        more = write_cursor("actors", rows[limit - 1].address) if len(rows) > limit else None
        lines = [await inspection.actor(row.address) for row in rows[:limit]]
        return ActorPage([actor_out(actor_item(line)) for line in lines], more, complete=True)

    async def get_actor(self, request: Req, address: Address) -> ActorOut:
        """Show one actor, and why it does not move."""
        return actor_out(actor_item(await Inspection(self.desk.operations(request)).actor(address)))

    async def pause_actor(
        self, request: Req, data: JSONBody[ActorRequest], idempotency_key: Key
    ) -> Response[ActorAccepted]:
        """Let an actor take no more messages until it is resumed."""
        operations = self.desk.operations(request)
        return await self._asked(
            request, idempotency_key, data, lambda: resuming.pause(operations, data.address, reason=data.reason)
        )

    async def resume_actor(
        self, request: Req, data: JSONBody[ActorRequest], idempotency_key: Key
    ) -> Response[ActorAccepted]:
        """Let a parked, paused or failed actor take messages again."""
        operations = self.desk.operations(request)
        return await self._asked(
            request, idempotency_key, data, lambda: resuming.resume(operations, data.address, reason=data.reason)
        )

    async def cancel_actor(
        self, request: Req, data: JSONBody[ActorRequest], idempotency_key: Key
    ) -> Response[ActorAccepted]:
        """End an actor for good.

        What it is doing is undone. Of a run: better `POST /v1/runs/{run_id}/cancel`.
        """
        inspection = Inspection(self.desk.operations(request))
        return await self._asked(request, idempotency_key, data, lambda: inspection.cancel(data.address, data.reason))

    async def kill_actor(
        self, request: Req, data: JSONBody[ActorRequest], idempotency_key: Key
    ) -> Response[ActorAccepted]:
        """End this incarnation of an actor now, as a crash would.

        Its supervisor decides what becomes of it.
        """
        inspection = Inspection(self.desk.operations(request))
        return await self._asked(request, idempotency_key, data, lambda: inspection.kill(data.address))

    async def pause_actors(
        self, request: Req, data: JSONBody[PlaceRequest], idempotency_key: Key
    ) -> Response[PlaceAccepted]:
        """Let all active actors at a place and below take no more messages until they are resumed.

        Supervisors go on, and instances of a pool that begin later are not paused. No more than 10,000 are told in one
        go (`complete`).
        """
        subtree = Subtree(self.desk.operations(request))
        return await self._told(request, idempotency_key, lambda: subtree.pause(data.place, data.reason))

    async def resume_actors(
        self, request: Req, data: JSONBody[PlaceRequest], idempotency_key: Key
    ) -> Response[PlaceAccepted]:
        """Let all paused actors at a place and below go on.

        What is parked or has failed is left to be looked at, one by one.
        """
        subtree = Subtree(self.desk.operations(request))
        return await self._told(request, idempotency_key, lambda: subtree.resume(data.place, data.reason))

    async def _told(self, request: Req, key: str, ask: Callable[[], Awaitable[ToldBelow]]) -> Response[PlaceAccepted]:
        what = request.url.path.rpartition("/")[2]

        async def work() -> PlaceAccepted:
            told = await ask()
            return PlaceAccepted(told.place, f"{what}-asked", told.actors, told.complete)

        return await self.desk.once.answered(request, key, self.desk.operations(request).who, work, status=202)

    async def _asked(
        self, request: Req, key: str, data: ActorRequest, ask: Callable[[], Awaitable[Any]]
    ) -> Response[ActorAccepted]:
        what = request.url.path.rpartition("/")[2]

        async def work() -> ActorAccepted:
            await ask()
            return ActorAccepted(data.address, f"{what}-asked")

        return await self.desk.once.answered(request, key, self.desk.operations(request).who, work, status=202)

    # --- mailboxes and messages --------------------------------------------------------------------------------

    async def list_mailboxes(
        self, request: Req, *, limit: Limit = 50, prefix: Word = "", order: FromQuery[MailboxOrder] = "depth"
    ) -> MailboxPage:
        """List mailboxes with messages.

        The deepest first, those whose oldest message waits longest (`age`), or by address.
        """
        found = await Mailboxes(self.desk.operations(request)).list(prefix=prefix, order=order, limit=limit)
        items: Any = mailboxes_document(found)["items"]
        return MailboxPage([shaped(one, MailboxOut) for one in items], found.complete)

    async def get_mailbox(self, request: Req, address: Address, limit: Limit = 50) -> MailboxDetail:
        """Look into a mailbox without touching it: each message, and why it was not handled yet."""
        view = await Inspection(self.desk.operations(request)).mailbox(address, limit=limit)
        document: dict[str, Any] = mailbox_document(view)
        return MailboxDetail(
            actor_out(document["actor"]),
            [message_out(one) for one in document["messages"]],
            [message_out(one) for one in document["calls"]],
            view.complete,
        )

    async def search_messages(
        self,
        request: Req,
        *,
        limit: Limit = 50,
        text: Word = "",
        type: Word = "",
        recipient: Word = "",
        sender: Word = "",
        waits_as: State = "",
    ) -> MessagePage:
        """Look for messages that wait.

        All that is given has to fit, and something has to be; addresses by their beginning.
        """
        wanted = MessageSearch(text=text, type=type, recipient=recipient, sender=sender, state=waits_as)
        lines, complete = await Mailboxes(self.desk.operations(request)).search(wanted, limit=limit)
        return MessagePage([message_out(message_item(line)) for line in lines], complete)

    async def get_message(self, request: Req, message_id: Number, recipient: Word = "") -> MessageDetail:
        """Show one message, what it came from and what it led to.

        `recipient` helps to find one that was handled long ago.
        """
        found = await Mailboxes(self.desk.operations(request)).message(message_id, recipient=recipient)
        return message_detail(message_document(found))

    async def discard_message(
        self, request: Req, message_id: Number, data: JSONBody[NoteRequest], idempotency_key: Key
    ) -> Response[GivenUpOut]:
        """Have a message given up for good.

        Its owner does it. A held one is decided on instead, a worker's call ends with whoever made it: 409.
        """
        giving = GivingUp(self.desk.operations(request))
        return await self._given(request, idempotency_key, lambda: giving.discard(message_id, reason=data.note))

    async def quarantine_message(
        self, request: Req, message_id: Number, data: JSONBody[NoteRequest], idempotency_key: Key
    ) -> Response[GivenUpOut]:
        """Have a message put among the dead letters, to be looked at and sent again perhaps."""
        giving = GivingUp(self.desk.operations(request))
        return await self._given(request, idempotency_key, lambda: giving.quarantine(message_id, reason=data.note))

    async def _given(self, request: Req, key: str, ask: Callable[[], Awaitable[GivenUp]]) -> Response[GivenUpOut]:
        async def work() -> GivenUpOut:
            done = await ask()
            return GivenUpOut(str(done.id), done.recipient, done.how, done.dead_letter, done.text)

        return await self.desk.once.answered(request, key, self.desk.operations(request).who, work)

    # --- dead letters ------------------------------------------------------------------------------------------

    async def list_dead_letters(
        self,
        request: Req,
        *,
        limit: Limit = 50,
        cursor: Cursor = "",
        all: FromQuery[bool] = False,
        recipient: Word = "",
        reason: Word = "",
    ) -> Page[DeadLetterOut]:
        """List dead letters, newest first.

        Those that nobody has settled, unless `all`. A page may have fewer than `limit` where `reason` leaves some out.
        """
        before = read_cursor("dead-letters", cursor, int)[0] if cursor else 0
        # One more than is shown says where to go on; those that `reason` leaves out have no number here.
        found = await DeadLetters(self.desk.operations(request)).find(
            open_only=not all, recipient=recipient, before=before, limit=limit
        )
        items = [dead_letter_out(dead_item(line)) for line in found.items if reason in ("", line.reason)]
        more = None if found.complete or not found.items else write_cursor("dead-letters", found.items[-1].number)
        return Page(items, more)

    async def get_dead_letter(self, request: Req, number: Number) -> DeadLetterDetail:
        """Show one dead letter, and whether it may be sent again."""
        found = await DeadLetters(self.desk.operations(request)).show(number)
        return dead_letter_detail(dead_letter_document(found))

    async def requeue_dead_letter(
        self, request: Req, number: Number, data: JSONBody[NoteRequest], idempotency_key: Key
    ) -> Response[SettledOut]:
        """Send a dead letter's message again, as one that never failed.

        409 where somebody settled it before, or where it may not be sent again; the text says what to do instead.
        """
        dead = DeadLetters(self.desk.operations(request))
        return await self._settled(request, idempotency_key, lambda: dead.requeue(number, note=data.note))

    async def discard_dead_letter(
        self, request: Req, number: Number, data: JSONBody[NoteRequest], idempotency_key: Key
    ) -> Response[SettledOut]:
        """Leave a dead letter for good.

        It is kept, and counts as settled.
        """
        dead = DeadLetters(self.desk.operations(request))
        return await self._settled(request, idempotency_key, lambda: dead.discard(number, note=data.note))

    async def _settled(self, request: Req, key: str, ask: Callable[[], Awaitable[Settled]]) -> Response[SettledOut]:
        async def work() -> SettledOut:
            done = await ask()
            return SettledOut(dead_letter_out(dead_item(done.letter)), str(done.new_id or ""))

        return await self.desk.once.answered(request, key, self.desk.operations(request).who, work)
