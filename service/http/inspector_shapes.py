"""What the inspector's routes give under /v1: actors, mailboxes, messages, dead letters, the audit trail, health.

They are the documents of the operations, typed. Ids of messages are text: they have 63 bits, and many readers of JSON
keep 53. Times are RFC 3339.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")
Address = Annotated[str, Meta(min_length=2, max_length=500, pattern=r"^/")]
Note = Annotated[str, Meta(max_length=1_000)]


def shaped(document: dict[str, Any], shape: type[T]) -> T:
    """A document as one of these; what it has beside is left out."""
    return msgspec.convert(document, shape)


class ActorRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /v1/actor/pause`, `resume`, `cancel` and `kill`."""

    address: Address
    reason: Note = ""


class PlaceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /v1/actors/pause` and `resume`."""

    place: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^/")]
    """A supervisor, a pool, or an actor, and all below it; `/` for all there are."""
    reason: Note = ""


class NoteRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What settles a dead letter, or gives a message up."""

    note: Note = ""
    """Why, for the audit trail."""


class ActorAccepted(msgspec.Struct, frozen=True):
    """A message is in the actor's mailbox; it takes it when a node serves it."""

    address: str
    accepted: str


class PlaceAccepted(msgspec.Struct, frozen=True):
    """A message is in each one's mailbox; it takes it when a node serves it."""

    place: str
    accepted: str
    actors: int
    """So many were told."""
    complete: bool
    """false: there are more, which the same request under another key reaches."""


class WhyOut(msgspec.Struct, frozen=True):
    """Why something does not move, and the way out where somebody has to do something."""

    kind: str
    """moves, waits, stuck or ended."""
    text: str
    way_out: str


class HolderOut(msgspec.Struct, frozen=True):
    """The node that serves a shard; number 0: nobody does."""

    shard: int
    node: int
    label: str
    status: str
    heard_seconds: float
    shards: int


class ActorOut(msgspec.Struct, frozen=True):
    """An actor."""

    address: str
    kind: str
    status: str | None
    """null: nothing was handled yet."""
    incarnation: int
    version: int
    waiting: int
    oldest_at: str | None
    holder: HolderOut | None
    why: WhyOut


class MessageOut(msgspec.Struct, frozen=True):
    """A message that waits."""

    id: str
    type: str
    version: int
    lane: str
    state: str
    recipient: str
    sender: str
    attempt: int
    deliveries: int
    losses: int
    started: bool
    sent_at: str | None
    due_at: str | None
    last_error: str
    why: WhyOut


class MailboxOut(msgspec.Struct, frozen=True):
    """A mailbox in a list."""

    address: str
    depth: int
    in_turn: int
    ready: int
    scheduled: int
    retrying: int
    held: int
    stashed: int
    oldest_at: str | None
    failures: int
    worker: bool
    holder: HolderOut | None
    why: WhyOut


class ActorPage(msgspec.Struct, frozen=True):
    """A part of the list of actors."""

    items: list[ActorOut]
    next_cursor: str | None
    complete: bool
    """False where there are more than were looked at."""


class MailboxPage(msgspec.Struct, frozen=True):
    """The first of the list of mailboxes; its order is of the moment, so there are no further pages."""

    items: list[MailboxOut]
    complete: bool


class MessagePage(msgspec.Struct, frozen=True):
    """The first messages that fit."""

    items: list[MessageOut]
    complete: bool


class MailboxDetail(msgspec.Struct, frozen=True):
    """A mailbox, and what its actor waits for."""

    actor: ActorOut
    messages: list[MessageOut]
    calls: list[MessageOut]
    complete: bool


class TrailOut(msgspec.Struct, frozen=True):
    """Where one message is by now."""

    id: str
    type: str
    sender: str
    recipient: str
    state: str
    at: str | None


class BodyOut(msgspec.Struct, frozen=True):
    """The body of a message, without what looks like a secret."""

    value: Any
    size: int
    redacted: list[str]


class MessageDetail(msgspec.Struct, frozen=True):
    """One message, what it came from and what it led to. Of one that was handled only its way is kept."""

    id: str
    type: str
    state: str
    recipient: str
    sender: str
    at: str | None
    why: WhyOut
    caused_by: list[TrailOut]
    caused: list[TrailOut]
    looked_through: bool
    body: BodyOut | None
    holder: HolderOut | None
    client_id: str
    idempotency_key: str
    dead_letter: int
    requeued_from: int
    decision: str
    run: str


class GivenUpOut(msgspec.Struct, frozen=True):
    """What became of the wish that a message be given up; `dead_letter` 0: that is still to be done."""

    id: str
    recipient: str
    how: str
    dead_letter: int
    text: str


class DeadLetterOut(msgspec.Struct, frozen=True):
    """A dead letter."""

    number: int
    message_id: str
    type: str
    recipient: str
    sender: str
    lane: str
    reason: str
    detail: str
    at: str | None
    failures: int
    deliveries: int
    last_error: str
    settled: str
    settled_at: str | None
    settled_by: str
    requeued_from: int


class DeadLetterDetail(DeadLetterOut, frozen=True):
    """A dead letter, and whether it may be sent again."""

    body: BodyOut
    caused_by: list[TrailOut]
    caused: list[TrailOut]
    requeue_count: int
    may_requeue: bool
    refusal: str


class SettledOut(msgspec.Struct, frozen=True):
    """What was done about a dead letter; `new_id` is of the message that was sent, empty for none."""

    letter: DeadLetterOut
    new_id: str


class AuditOut(msgspec.Struct, frozen=True):
    """Who did what to what, when, from where."""

    number: int
    at: str | None
    who: str
    label: str
    channel: str
    host: str
    action: str
    object: str
    before: str
    after: str
    note: str


class CheckOut(msgspec.Struct, frozen=True):
    """One thing that was looked at: ok, warn (work for a person) or bad (the system does not work)."""

    name: str
    level: str
    text: str
    way_out: str
    count: int
    examples: list[str]


class HealthOut(msgspec.Struct, frozen=True):
    """Whether the system is healthy: nothing is bad."""

    ok: bool
    at: str | None
    checks: list[CheckOut]


def actor_out(document: dict[str, Any]) -> ActorOut:
    """Of an item of `actors_document`."""
    return shaped(document, ActorOut)


def message_out(document: dict[str, Any]) -> MessageOut:
    """Of an item of `messages_document`."""
    return shaped({**document, "id": document["id_text"]}, MessageOut)


def message_detail(document: dict[str, Any]) -> MessageDetail:
    """Of `message_document`."""
    return shaped({**_trails(document), "id": document["id_text"]}, MessageDetail)


def dead_letter_out(document: dict[str, Any]) -> DeadLetterOut:
    """Of an item of `dead_letters_document`."""
    return shaped({**document, "message_id": document["message_id_text"]}, DeadLetterOut)


def dead_letter_detail(document: dict[str, Any]) -> DeadLetterDetail:
    """Of `dead_letter_document`."""
    return shaped({**_trails(document), "message_id": document["message_id_text"]}, DeadLetterDetail)


def _trails(document: dict[str, Any]) -> dict[str, Any]:
    trails = {name: [{**one, "id": one["id_text"]} for one in document[name]] for name in ("caused_by", "caused")}
    return {**document, **trails}
