"""What operators read and do beside messages: the audit trail, dead letters, mailboxes as lists, tokens, the feed.

Rows as plain values, and the part of the `Store` protocol that gives them. The contract suite names its tests by:

    S13 Audit rows are written in the transaction of what they tell of, or not at all; they are numbered upwards and
        never changed. A message that was accepted before leaves no second audit row.
    S14 A dead letter is settled once: sent again or discarded. The loser learns who settled it (Conflict).
    S15 A token is known by the hash of its secret only; revoked or expired, it opens nothing from that moment on.
    S16 A request under an idempotency key is begun once in a day; the same key with another request is a Conflict, a
        request that is still being answered is said to be, and one that was answered gives the same answer again.
    S17 The feed gives every event of every journal exactly once to one who goes on from the cursor given last, in an
        order that keeps each actor's own, however late a commit shows.
    S18 Looking changes nothing, and costs no more than its limit allows.
    S19 Of all who want to be the one instance of a name, one is at a time.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import msgspec

from ..mailbox.envelope import DeadLetter, Envelope
from ..mailbox.errors import UsageError
from .port import Port
from .rows import DecisionStatus, EventRow, Member, MessageView

MessageState = Literal["ready", "scheduled", "retrying", "held", "stashed"]
MailboxOrder = Literal["depth", "age", "address"]


class AuditEntry(msgspec.Struct, frozen=True):
    """What somebody did, as it is to be written down."""

    who: str
    """The authenticated principal, or "node N"."""
    action: str
    """A verb: submit, tell, cancel, fork, pause, resume, kill, decide, sign, take back, requeue, discard, …"""
    object: str
    """What it was done to: an address, the id of a decision, `dead-letter:N`, `token:NAME`."""
    label: str = ""
    """What `who` calls itself; shown, never trusted."""
    channel: str = ""
    """cli, http, tui, daemon or library."""
    host: str = ""
    before: str = ""
    after: str = ""
    note: str = ""


class AuditRow(msgspec.Struct, frozen=True):
    """What was written down."""

    number: int
    at: float
    who: str
    label: str
    channel: str
    host: str
    action: str
    object: str
    before: str
    after: str
    note: str


class MailboxSummary(msgspec.Struct, frozen=True):
    """A mailbox in a list."""

    address: str
    shard: int
    """The shard of its messages: a worker's are in the shards of those who asked, one summary each."""
    depth: int
    ready: int
    scheduled: int
    retrying: int
    held: int
    stashed: int
    oldest_at: float
    """When the oldest of its messages was sent."""
    failures: int
    """Of its messages, the greatest."""


class MessageSearch(msgspec.Struct, frozen=True):
    """What is looked for among the messages that wait; all that is given has to fit."""

    text: str = ""
    """Somewhere in the body, as written."""
    type: str = ""
    recipient: str = ""
    """The beginning of the address."""
    sender: str = ""
    """The beginning of the address."""
    state: MessageState | Literal[""] = ""
    causation: int = 0
    correlation: int = 0
    client_id: str = ""
    """The key under which it came from outside."""


class Trail(msgspec.Struct, frozen=True):
    """One message, wherever it is by now."""

    id: int
    type: str
    sender: str
    recipient: str
    state: str
    """A `MessageState` while it waits; else how its turn ended (`TurnRow.outcome`)."""
    causation: int
    """The message that caused it; 0 from outside."""
    at: float
    """When it was sent (while it waits) or handled."""


class Census(msgspec.Struct, frozen=True):
    """How many there are of everything, at one moment."""

    at: float
    actors: dict[str, dict[str, int]]
    """Kind, then status."""
    messages: dict[str, int]
    """By state."""
    depths: dict[str, int]
    """Messages by the kind of their recipient; workers by their address, which are few."""
    oldest_ready_at: float
    """Of what could be handled: not what waits for an actor that stands still. 0.0 where there is nothing."""
    dead: int
    """Dead letters nobody has settled."""
    decisions: dict[DecisionStatus, int]
    """pending and approved only; what has ended is counted by nobody here."""
    oldest_pending_at: float
    next_expiry_at: float
    shards_unowned: int
    schema_version: int
    server_version: str
    members: list[Member] = []
    """As `Session.members`: nodes that serve or drain, and those that still have shards."""


class Token(msgspec.Struct, frozen=True):
    """A bearer token as it is kept: without its secret."""

    name: str
    principal: str
    """Whom it stands for: this name decides and is in the audit trail."""
    scopes: str
    """Of `read operate approve admin`, separated by spaces."""
    created_at: float = 0.0
    created_by: str = ""
    expires_at: float = 0.0
    """0.0: never."""
    last_used_at: float = 0.0
    """To the minute; 0.0: never."""
    revoked_at: float = 0.0
    """0.0: it is not."""


class KeptAnswer(msgspec.Struct, frozen=True):
    """What a request under an idempotency key was answered."""

    status: int
    """0: it is still being answered."""
    body: str


class FeedPage(msgspec.Struct, frozen=True):
    """Events of all journals since a cursor."""

    events: list[EventRow]
    cursor: str
    """From where to go on; opaque, and good for as long as the events are kept."""
    cursors: list[str]
    """The cursor after each of the events."""


class OperatingStore(Protocol):
    """The operators' part of a store."""

    # -- audit (S13)

    async def note(self, entry: AuditEntry) -> None:
        """Write down what was done where no message carries it (a token that was made, a file that was exported)."""
        ...

    async def audit(
        self, *, object: str = "", who: str = "", action: str = "", before: int = 0, limit: int = 100
    ) -> list[AuditRow]:
        """What was done, newest first; `object` is the beginning of one, `before` a row's number to go on from."""
        ...

    # -- mailboxes and messages (S18)

    async def mailboxes(
        self, *, prefix: str = "", order: MailboxOrder = "depth", limit: int = 100
    ) -> list[MailboxSummary]:
        """Mailboxes that have messages, deepest, longest waiting or by address first. A bounded walk, as `waiting`."""
        ...

    async def message(self, id: int) -> MessageView | None:
        """One message that waits, by its id."""
        ...

    async def search(self, wanted: MessageSearch, *, limit: int = 100) -> list[MessageView]:
        """Messages that wait and fit, in order of id. A bounded walk, as `waiting`."""
        ...

    async def client_id(self, recipient: str, id: int) -> str:
        """The client id a message came under; "" for none, or where it is forgotten."""
        ...

    async def handled(self, address: str, *, seconds: float, limit: int = 10_000) -> list[tuple[int, float]]:
        """What left an actor's mailbox within the last `seconds`: its id, and when; the newest first."""
        ...

    async def trail(self, id: int, *, recipient: str = "") -> Trail | None:
        """Where one message is by now; with its `recipient` at the cost of a step, else by a bounded walk."""
        ...

    async def caused(self, id: int, *, limit: int = 100) -> list[Trail]:
        """What the turn of a message sent, in order of id: what waits still, and what was handled since."""
        ...

    # -- dead letters (S14)

    async def dead_letter(self, number: int) -> DeadLetter | None:
        """One dead letter."""
        ...

    async def requeue(self, number: int, envelope: Envelope, entry: AuditEntry) -> DeadLetter:
        """Settle a dead letter by sending `envelope`, which is its message under a new id; how it was settled.

        Raises:
            NotFound; Conflict: somebody settled it before. MailboxFull: nothing was done.
        """
        ...

    async def discard(self, number: int, entry: AuditEntry) -> DeadLetter:
        """Settle a dead letter by leaving it. Raises as `requeue`."""
        ...

    # -- everything at once

    async def census(self) -> Census:
        """Count. A few aggregates under a timeout of two seconds.

        Raises:
            StoreUnavailable: also where counting took too long.
        """
        ...

    # -- tokens (S15)

    async def add_token(self, token: Token, secret_hash: bytes, entry: AuditEntry) -> None:
        """Keep a new token under the SHA-256 of its secret; its times but `expires_at` are the store's to set.

        Raises:
            Conflict: there is (or was) one of that name.
        """
        ...

    async def token(self, secret_hash: bytes) -> Token | None:
        """The token of a secret, unless it is revoked or expired; notes that it was used."""
        ...

    async def tokens(self) -> list[Token]:
        """All tokens, by name, revoked ones included."""
        ...

    async def revoke_token(self, name: str, entry: AuditEntry) -> Token:
        """Let a token open nothing any more. Harmless where it is revoked.

        Raises:
            NotFound.
        """
        ...

    # -- idempotency (S16)

    async def begin_answer(self, principal: str, key: str, request: bytes) -> KeptAnswer | None:
        """Take a request (its SHA-256) under this key for one's own; None: it is, and nobody else answers it.

        Raises:
            Conflict: the key was used for another request.
        """
        ...

    async def keep_answer(self, principal: str, key: str, answer: KeptAnswer) -> None:
        """Keep the answer for a day; the request of the key that was begun is answered."""
        ...

    async def forget_answer(self, principal: str, key: str) -> None:
        """The request came to nothing, and may be made again under its key."""
        ...

    # -- the feed (S17)

    async def feed(self, after: str | None, *, limit: int = 500) -> FeedPage:
        """Events after a cursor; "" is the beginning of what is kept, None is now (and gives no events). An event may
        show some seconds late, behind a commit that takes long, and never out of order.

        Raises:
            UsageError: that is no cursor. NotFound: what came after it is not kept any more.
        """
        ...

    # -- one of a kind (S19)

    def instance(self, name: str, holder: str, port: Port) -> AbstractAsyncContextManager[None]:
        """Be the one instance of a name for as long as the context lasts; `holder` says who that is, for the others.

        The connection that it rests on is made again when it was cut, for as long as nobody else took the name.

        Raises:
            Conflict: another one is; it names its holder.
        """
        ...


def require_named(audits: Sequence[AuditEntry]) -> None:
    """An audit row names who did what to what.

    Raises:
        UsageError: it does not.
    """
    for entry in audits:
        if not entry.who or not entry.action or not entry.object:
            raise UsageError(f"an audit row names who did what to what; got {entry!r}")
