"""How mailboxes and messages are shown: plain structs, and the documents of `--json` and HTTP.

Fields are only added to a document. Ids of messages have 63 bits; `id_text` is for readers that keep fewer.
"""

from typing import Any, Literal

import msgspec

from ...persistence.operating import Trail
from ...persistence.rows import MessageView
from .actors import MessageLine, message_item
from .facts import Holder
from .redaction import Body, body_of
from .views import moment
from .why import Why


class MailboxLine(msgspec.Struct, frozen=True):
    """A mailbox in a list."""

    address: str
    depth: int
    in_turn: int
    """Of those ready: what is being handled, as far as rows can tell."""
    ready: int
    scheduled: int
    retrying: int
    held: int
    stashed: int
    oldest_at: float
    failures: int
    """Of its messages, the greatest."""
    worker: bool
    """It is a worker's: its calls lie in the shards of those who asked."""
    holder: Holder | None
    """Who serves it; None for a worker, whose callers' nodes do."""
    why: Why


class MailboxList(msgspec.Struct, frozen=True):
    """Mailboxes; `complete` is false where there are more."""

    items: list[MailboxLine]
    complete: bool


class MessageDetail(msgspec.Struct, frozen=True):
    """One message, wherever it is by now. Of one that was handled only its way is kept."""

    id: int
    type: str
    state: str
    """ready, in turn, scheduled, retrying, held, stashed or dead; else how its turn ended (done, refused, …)."""
    recipient: str
    sender: str
    at: float
    """When it was sent, while it waits; else when it was handled, or given up."""
    why: Why
    causation: int
    caused_by: list[Trail]
    """What it came from, nearest first."""
    caused: list[Trail]
    """What the turn that handled it has sent."""
    looked_through: bool
    """False where looking for what it caused took too long, and `caused` may lack some."""
    line: MessageLine | None = None
    """While it waits."""
    holder: Holder | None = None
    body: Body | None = None
    """While it waits, or is a dead letter."""
    sender_seq: int = 0
    correlation: int = 0
    reply_to: str = ""
    failing_seconds: float = 0.0
    timeouts: int = 0
    client_id: str = ""
    """The key under which it came from outside: sent again under it, it is the same message."""
    idempotency_key: str = ""
    """Of a tool call: under which its effect is attempted, however often."""
    traceparent: str = ""
    dead_letter: int = 0
    """Number of its dead letter."""
    requeued_from: int = 0
    """Number of the dead letter that it was before."""
    decision: str = ""
    """Id of the decision that it is held for."""
    run: str = ""
    """Id of the run that it is of."""


How = Literal["discarded", "quarantined"]


class GivenUp(msgspec.Struct, frozen=True):
    """What became of the wish that a message be given up."""

    id: int
    recipient: str
    how: How
    dead_letter: int
    """Its number; 0: that is still to be done by the node that serves it (`text` says when)."""
    text: str


def mailboxes_document(found: MailboxList) -> dict[str, Any]:
    """`callboard.mailboxes/1`."""
    items = [{**msgspec.to_builtins(line), "oldest_at": moment(line.oldest_at)} for line in found.items]
    return {"schema": "callboard.mailboxes/1", "complete": found.complete, "items": items}


def messages_document(lines: list[MessageLine], *, complete: bool) -> dict[str, Any]:
    """`callboard.messages/1`."""
    return {"schema": "callboard.messages/1", "complete": complete, "items": [message_item(line) for line in lines]}


def message_document(detail: MessageDetail) -> dict[str, Any]:
    """`callboard.message/1`."""
    trails = {name: [trail_item(one) for one in getattr(detail, name)] for name in ("caused_by", "caused")}
    return {
        "schema": "callboard.message/1",
        **msgspec.to_builtins(detail),
        "id_text": str(detail.id),
        "at": moment(detail.at),
        "line": None if detail.line is None else message_item(detail.line),
        **trails,
    }


def exported_document(view: MessageView, line: MessageLine, *, reveal: bool) -> dict[str, Any]:
    """`callboard.message/1` of a mailbox that is exported: without its trail."""
    return {
        "schema": "callboard.message/1",
        **message_item(line),
        "body": msgspec.to_builtins(body_of(view.envelope.body, reveal=reveal)),
        "reply_to": view.envelope.reply_to,
        "correlation": view.envelope.correlation,
        "causation": view.envelope.causation,
        "sender_seq": view.envelope.sender_seq,
    }


def trail_item(trail: Trail) -> dict[str, Any]:
    """Where one message is by now, in a document."""
    return {**msgspec.to_builtins(trail), "id_text": str(trail.id), "at": moment(trail.at)}


def given_up_document(given: GivenUp) -> dict[str, Any]:
    """`callboard.given-up/1`."""
    return {"schema": "callboard.given-up/1", **msgspec.to_builtins(given), "id_text": str(given.id)}
