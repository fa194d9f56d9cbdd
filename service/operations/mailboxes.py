"""The mailbox inspector: what waits where and why, and what a message came from and led to.

Looking changes nothing. Neighbours: `giving_up` has what an operator may do to a message, `message_views` how all of it
is shown.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

import msgspec

from ...mailbox.address import CLIENT_PREFIX, parse
from ...mailbox.envelope import DeadLetter, headers_of
from ...mailbox.errors import NotFound, StoreUnavailable, UsageError
from ...persistence.operating import MailboxOrder, MailboxSummary, MessageSearch, MessageState, Trail
from ...persistence.rows import MessageView
from ...persistence.store import Store
from .actors import MessageLine, message_line
from .facts import facts_of, holder_of, is_call, run_of
from .message_views import MailboxLine, MailboxList, MessageDetail, exported_document
from .redaction import Body, body_of, redacted_text
from .runs import Operations
from .why import Facts, Why, actor_why, call_why, message_why

CHAIN = 20
"""How far up it is told what caused a message."""
DEAD_LOOKED_AT = 1_000
"""Dead letters of one mailbox among which a message is looked for."""
MERGED = 1_000
"""Mailboxes by shard that are put together, as a worker's are in many."""
EXPORTED = 100_000
"""Messages of one mailbox that are exported at a time."""


class Mailboxes:
    """The mailboxes of one store, as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def search(self, wanted: MessageSearch, *, limit: int = 50) -> tuple[list[MessageLine], bool]:
        """Messages that wait and fit, in order of id, and whether these are all.

        Raises:
            UsageError: nothing was asked for.
        """
        self.operations.require("read")
        if wanted == MessageSearch():
            raise UsageError("a search needs something to look for: a text, a type, a state, a sender, a key …")
        views = await self.store.search(wanted, limit=limit + 1)
        known: dict[str, Facts] = {}
        lines = [message_line(view, *(await why_of(self.store, view, known))) for view in views[:limit]]
        return lines, len(views) <= limit

    async def message(self, id: int, *, recipient: str = "", reveal: bool = False) -> MessageDetail:
        """One message, and what it came from and led to; `recipient` helps to find one that was handled long ago.

        `reveal`: nothing is redacted, which is audited. Raises NotFound; NotAllowed: reveal takes `operate`.
        """
        self.operations.require("read")
        view = await self.store.message(id)
        if view is None:
            return await self._past(id, parse(recipient) if recipient else "", reveal=reveal)
        await self._note_reveal(id, reveal=reveal)
        envelope, headers = view.envelope, headers_of(view.envelope)
        why, facts = await why_of(self.store, view, {})
        caused, whole = await self.caused(id)
        body = body_of(envelope.body, reveal=reveal)
        decision = next((one.id for one in facts.decisions if one.message_id == id), "")
        line = message_line(view, why, facts)
        return MessageDetail(
            id,
            envelope.type,
            line.state,
            envelope.recipient,
            envelope.sender,
            view.sent_at,
            why,
            envelope.causation,
            await self.causes(envelope.causation, envelope.sender),
            caused,
            whole,
            line=line,
            holder=holder_of(envelope.shard, await self.store.owner(envelope.shard)),
            body=body,
            sender_seq=envelope.sender_seq,
            correlation=envelope.correlation,
            reply_to=envelope.reply_to,
            failing_seconds=envelope.failing_seconds,
            timeouts=envelope.timeouts,
            client_id=await self.store.client_id(envelope.recipient, id),
            idempotency_key=_idempotency_key(body),
            traceparent=headers.traceparent,
            requeued_from=headers.requeued,
            decision=decision,
            run=run_of(facts),
        )

    async def _past(self, id: int, recipient: str, *, reveal: bool) -> MessageDetail:
        trail = await self.store.trail(id, recipient=recipient)
        if trail is None:
            raise NotFound(
                f"no message {id} waits, and none that was handled is on record still; `callboard mailbox search` "
                "finds those that wait, and --to ADDRESS helps with one that was handled long after it was sent"
            )
        letter = await letter_of(self.store, trail) if trail.state == "dead" else None
        if letter is not None:
            await self._note_reveal(id, reveal=reveal)
        caused, whole = await self.caused(id)
        facts = await facts_of(self.store, trail.recipient, await self.store.actor(trail.recipient), limit=1)
        return MessageDetail(
            id,
            trail.type,
            trail.state,
            trail.recipient,
            trail.sender,
            trail.at,
            _ended(trail, letter),
            trail.causation,
            await self.causes(trail.causation, trail.sender),
            caused,
            whole,
            body=None if letter is None else body_of(letter.envelope.body, reveal=reveal),
            dead_letter=0 if letter is None else letter.number,
            requeued_from=0 if letter is None else headers_of(letter.envelope).requeued,
            run=run_of(facts),
        )

    async def _note_reveal(self, id: int, *, reveal: bool) -> None:
        if reveal:
            self.operations.require("operate")
            await self.store.note(self.operations.entry("reveal", f"message:{id}"))

    async def causes(self, causation: int, recipient: str) -> list[Trail]:
        """The chain of causes, nearest first: the message whose turn sent it, that one's cause, …"""
        found: list[Trail] = []
        while causation and len(found) < CHAIN:
            # Whoever sent a message is who handled its cause.
            cause = await self._trail(causation, recipient)
            if cause is None:
                break
            found.append(cause)
            causation, recipient = cause.causation, cause.sender
        return found

    async def _trail(self, id: int, recipient: str) -> Trail | None:
        found = await self.store.trail(id, recipient=recipient) if recipient else None
        try:
            return found or await self.store.trail(id)
        except StoreUnavailable:
            return None  # too much happened at that time to look through

    async def caused(self, id: int) -> tuple[list[Trail], bool]:
        """What the turn of a message has sent, and whether it could be looked for everywhere in time."""
        try:
            return await self.store.caused(id), True
        except StoreUnavailable:
            return [], False

    async def export(
        self, address: str, *, state: MessageState | Literal[""] = "", reveal: bool = False
    ) -> AsyncIterator[dict[str, Any]]:
        """All of a mailbox as documents, each a `callboard.message/1`: whole bodies, and audited.

        Raises:
            NotAllowed: it takes `operate`. NotFound: nothing is there.
        """
        self.operations.require("operate")
        views = await self.store.peek(parse(address), limit=EXPORTED)
        if not views:
            raise NotFound(f"nothing waits for {address}; `callboard mailbox` lists mailboxes with messages")
        note = "whole" if reveal else "redacted"
        await self.store.note(self.operations.entry("export", address, note=f"{len(views)} message(s), {note}"))
        known: dict[str, Facts] = {}
        for view in views:
            if state in ("", view.state):
                yield exported_document(
                    view, message_line(view, *(await why_of(self.store, view, known))), reveal=reveal
                )

    async def list(self, *, prefix: str = "", order: MailboxOrder = "depth", limit: int = 50) -> MailboxList:
        """Mailboxes with messages: deepest, longest waiting, or by address first. Outside askers' are left out."""
        boxes, complete = await self.summaries(prefix=prefix, order=order, limit=limit)
        return MailboxList([await self.line(box) for box in boxes], complete=complete)

    async def summaries(
        self, *, prefix: str = "", order: MailboxOrder = "depth", limit: int = MERGED
    ) -> tuple[Sequence[MailboxSummary], bool]:
        """The same without who serves them and why they wait, which `line` says of one: at the cost of one read,
        for lists of which only a part is in sight; and whether these are all."""
        self.operations.require("read")
        found = await self.store.mailboxes(prefix=prefix, order=order, limit=MERGED)
        boxes = [box for box in _merged(found, order) if not box.address.startswith(CLIENT_PREFIX)]
        return boxes[:limit], len(boxes) <= limit and len(found) < MERGED

    async def line(self, box: MailboxSummary) -> MailboxLine:
        """A mailbox with who serves it, and why it waits."""
        self.operations.require("read")
        row = await self.store.actor(box.address)
        first = await self.store.peek(box.address, limit=1)
        worker = bool(first) and is_call(first[0], row)
        if worker:
            asker = first[0].envelope.sender
            facts = await facts_of(self.store, asker, await self.store.actor(asker), limit=100)
            lines, why = [message_line(view, call_why(view, facts), facts) for view in first], call_why(first[0], facts)
            in_turn = sum(line.state == "in turn" for line in lines)
        else:
            facts = await facts_of(self.store, box.address, row, limit=100)
            in_turn = sum(message_line(view, actor_why(facts), facts).state == "in turn" for view in facts.waiting)
            why = actor_why(facts)
        return MailboxLine(
            address=box.address,
            depth=box.depth,
            in_turn=in_turn,
            ready=box.ready - in_turn,
            scheduled=box.scheduled,
            retrying=box.retrying,
            held=box.held,
            stashed=box.stashed,
            oldest_at=box.oldest_at,
            failures=box.failures,
            worker=worker,
            holder=None if worker else holder_of(facts.shard, facts.owner),
            why=why,
        )


async def why_of(store: Store, view: MessageView, known: dict[str, Facts]) -> tuple[Why, Facts]:
    """Why a message waits, and the facts of whom it waits for; `known` keeps them, for the next message."""
    envelope = view.envelope
    row = known[envelope.recipient].row if envelope.recipient in known else await store.actor(envelope.recipient)
    call = is_call(view, row)
    address = envelope.sender if call and envelope.sender else envelope.recipient
    facts = known.get(address)
    if facts is None:
        facts = known[address] = await facts_of(store, address, await store.actor(address))
    return (call_why if call else message_why)(view, facts), facts


async def letter_of(store: Store, trail: Trail) -> DeadLetter | None:
    """The dead letter of a message that was given up."""
    letters = await store.dead_letters(recipient=trail.recipient, limit=DEAD_LOOKED_AT)
    return next((letter for letter in letters if letter.envelope.id == trail.id), None)


def _merged(boxes: Sequence[MailboxSummary], order: MailboxOrder) -> list[MailboxSummary]:
    """One summary an address, in the given order."""
    found: dict[str, MailboxSummary] = {}
    for box in boxes:
        known = found.get(box.address)
        if known is None:
            found[box.address] = box
            continue
        counts = ("depth", "ready", "scheduled", "retrying", "held", "stashed")
        found[box.address] = msgspec.structs.replace(
            known,
            oldest_at=min(known.oldest_at, box.oldest_at),
            failures=max(known.failures, box.failures),
            **{name: getattr(known, name) + getattr(box, name) for name in counts},
        )
    if order == "depth":
        return sorted(found.values(), key=lambda box: (-box.depth, box.address))
    return list(found.values())  # whichever came first of an address, is the one to place it by


def _idempotency_key(body: Body) -> str:
    value = body.value
    return str(value.get("idempotency_key", "")) if isinstance(value, dict) else ""


def _ended(trail: Trail, letter: DeadLetter | None) -> Why:
    if letter is not None:
        text = f"given up ({letter.reason}): {redacted_text(letter.detail)}"
        if letter.settled:
            return Why("ended", f"{text}; {letter.settled} by {letter.settled_by}")
        return Why("stuck", text, f"callboard dead show {letter.number}")
    said = {
        "done": "handled",
        "refused": "not wanted: its actor had ended, or had no use for it",
        "cancelled": "taken back before it was handled",
        "late": "an answer that nobody waited for any more",
        "dead": "given up; its dead letter is among very many",
    }
    return Why("ended", said.get(trail.state, trail.state))
