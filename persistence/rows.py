"""What the store keeps, as plain values: one class a table. Times are seconds since 1970 by the store's clock."""

from typing import Literal

import msgspec

from ..mailbox.envelope import Envelope
from ..mailbox.lane import Lane

ActorStatus = Literal["active", "failed", "parked", "paused", "completed", "cancelled", "escalated", "stopped"]
"""active: takes messages. failed: waits for its supervisor. parked: waits for a person or a fix, with a reason.
paused: stopped by an operator. completed, cancelled, escalated, stopped: has ended (stopped: by its supervisor, which
may start it again). All but active take system messages only."""

ENDED: frozenset[str] = frozenset({"completed", "cancelled"})
"""Statuses in which an actor takes nothing any more but a new start by its supervisor."""

STANDING: frozenset[str] = frozenset({"parked", "paused", "stopped", "escalated"})
"""Statuses in which an actor takes system messages only, for long perhaps."""

UNREADABLE = "schema:"
"""How the reason begins of an actor that was parked because its state could not be read."""

DecisionStatus = Literal["pending", "approved", "released", "denied", "expired", "superseded"]


class ActorRow(msgspec.Struct):
    """An actor between two turns."""

    shard: int
    address: str
    kind: str
    """Wire name of its class."""
    version: int
    """How many turns were committed; a commit names the version that it expects."""
    incarnation: int = 1
    """How often it was started."""
    status: ActorStatus = "active"
    reason: str = ""
    """Why it is not active, in a sentence for a person."""
    state: bytes = b""
    """msgpack of its state struct; empty before the first turn."""
    state_version: int = 1
    last_id: int = 0
    """The greatest message id its turns made."""
    sent: int = 0
    """How many messages it sent; numbers the next one."""
    events: int = 0
    """How many events it recorded; numbers the next one."""
    summary: str = ""
    """A small JSON object the actor shows in lists; empty for none."""
    bonds: str = ""
    """JSON of what ties it to others (open asks, watchers, timers, how much it stashed); empty for none of it."""


class EventRow(msgspec.Struct):
    """An event: a past-tense fact in an actor's journal."""

    shard: int
    address: str
    seq: int
    """From 1, without gaps."""
    type: str
    body: str
    """JSON text."""
    at: float = 0.0
    node: int = 0
    """Number of the node whose turn recorded it."""


class TurnRow(msgspec.Struct, gc=False):
    """What "done" means: one row for each message that was handled. Pruned after the retention time."""

    shard: int
    id: int
    recipient: str
    sender: str
    type: str
    lane: int
    sender_seq: int
    version: int
    """The recipient's version after the turn; 0 for a worker."""
    outcome: str
    """done, refused, dead, cancelled, stashed (put aside, to be handled later), or late (a reply nobody waited for)."""
    causation: int = 0
    deliveries: int = 1
    node: int = 0
    epoch: int = 0
    """Of that node; set by the store."""
    at: float = 0.0


def turn_row(envelope: Envelope, version: int, outcome: str, node: int = 0, now: float = 0.0) -> TurnRow:
    """The row that says how a message ended; the store sets the epoch."""
    return TurnRow(
        envelope.shard,
        envelope.id,
        envelope.recipient,
        envelope.sender,
        envelope.type,
        envelope.lane,
        envelope.sender_seq,
        version,
        outcome,
        envelope.causation,
        envelope.deliveries,
        node,
        0,
        now,
    )


class Timer(msgspec.Struct):
    """A message that is put into an actor's own mailbox when due."""

    shard: int
    address: str
    key: str
    """One timer a key: setting it again replaces it."""
    generation: int
    """Raised by each setting, so that a fire that was already under way can be told from the new timer's."""
    delay_seconds: float
    """From the commit (when set), or from now (when read)."""
    type: str
    version: int
    body: str
    lane: int = int(Lane.NORMAL)
    period_seconds: float = 0.0
    """0: fires once. Else the next is due one period after this one was *due* (no drift)."""


class Decision(msgspec.Struct):
    """A gated call and what was decided of it. Belongs to no shard; changes by compare-and-set only."""

    id: str
    run: str
    """Address of the actor that holds the message."""
    call: str
    """The call's id within that run."""
    message_id: int
    """The held message."""
    approvals: str
    """Address of the approval actor that is told."""
    kind: Literal["approval", "in-doubt"]
    tool: str
    arguments: str
    """Canonical JSON, what the digest covers."""
    digest: str
    reason: str
    status: DecisionStatus = "pending"
    requested_by: str = ""
    requested_at: float = 0.0
    expires_seconds: float = 0.0
    """Given from the request on; 0: does not expire."""
    expires_at: float = 0.0
    decided_by: str = ""
    decided_at: float = 0.0
    note: str = ""
    release_at: float = 0.0
    """approved: when its release hold is over."""
    policy: str = ""
    """Name of the rule that asks."""
    risk: str = ""
    needed: int = 1
    """How many different people have to approve."""
    not_requester: bool = False
    """Neither `requested_by` nor who is in `edited_by` may approve."""
    hold_seconds: float = 0.0
    """The least release hold."""
    signatures: str = ""
    """Who approved so far: a JSON list of `{by, label, at, note}`; "" for nobody."""
    provenance: str = ""
    """Where the arguments come from: a JSON list; "" where nobody looked. Behind that, what their tool says of them:
    entries whose `source` is `declared` (see `declared_sums`)."""
    checks: str = ""
    """What the tool's checks found: a JSON list; "" where there are none, or not yet."""
    replaces: str = ""
    """Id of the decision whose place this one takes: after an edit, or because a check failed at the release."""
    diff: str = ""
    """What an edit changed: a JSON list of `{path, before, after}`."""
    edited_by: str = ""
    """Who changed the call since the model asked for it: a JSON list of principals; "" for nobody."""
    hold_id: int = 0
    """approved and in its release hold: id of the notice that began it. While it stands here, the approval can be taken
    back; the approval actor takes it away when the hold is over."""


class Signature(msgspec.Struct, frozen=True):
    """One person's approval, as it is kept in the row."""

    by: str
    label: str
    at: float
    note: str


def signatures_of(decision: Decision) -> list[Signature]:
    """Who has approved so far."""
    return msgspec.json.decode(decision.signatures, type=list[Signature]) if decision.signatures else []


def editors_of(decision: Decision) -> list[str]:
    """Who has changed the call."""
    return msgspec.json.decode(decision.edited_by, type=list[str]) if decision.edited_by else []


DECLARED = "declared"


class Declared(msgspec.Struct, frozen=True):
    """What the tool of a held call says of a sum among its arguments, as it is kept in the row."""

    path: str
    """`amount_cents`, `lines[].price`."""
    sum: str = ""
    """Its currency and unit: `USD`, `USD minor`; `minor`: of the currency that the call names."""
    source: str = DECLARED
    trust: str = "trusted"


def declared_sums(provenance: str) -> dict[str, str]:
    """What is declared in this column of a row: path to unit."""
    known = msgspec.json.decode(provenance, type=list[Declared]) if f'"{DECLARED}"' in provenance else []
    return {one.path: one.sum for one in known if one.source == DECLARED}


class Verdict(msgspec.Struct, frozen=True):
    """What somebody wants to decide."""

    decision: str
    status: Literal["approved", "denied", "expired", "superseded"]
    """superseded: by an edit, which the notice holds."""
    digest: str
    """Of the arguments that were shown; anything else is refused."""
    by: str
    """The authenticated principal."""
    note: str = ""
    hold_seconds: float = 0.0
    label: str = ""
    """What the principal calls itself (`--by`); shown, never trusted."""
    seen: int = 0
    """How many had approved when the notice was written, which names them."""
    channel: str = ""
    """How the word came: cli, http, tui, daemon or library."""
    host: str = ""


class TakeBack(msgspec.Struct, frozen=True):
    """What somebody wants to undo: an approval in its release hold."""

    decision: str
    hold_id: int
    """Of the hold that was seen; not that of another approval which came since."""
    by: str
    note: str = ""
    label: str = ""
    channel: str = ""
    host: str = ""


class MessageView(msgspec.Struct):
    """A message as the inspector shows it."""

    envelope: Envelope
    state: Literal["ready", "scheduled", "retrying", "held", "stashed"]
    """scheduled: not before its time. retrying: failed, and in back-off. held: until a decision. stashed: put aside by
    the actor itself."""
    sent_at: float


class Member(msgspec.Struct):
    """A node, as the others see it."""

    number: int
    epoch: int
    boot: str
    status: Literal["up", "draining", "left", "dead"]
    beat_age_seconds: float
    shards: int
    label: str = ""
    guest: bool = False
    """Serves a few shards for a while and is given no others."""
    capabilities: str = ""
    """JSON object: each message type and actor kind that it can read, with the newest version."""
    joined_at: float = 0.0
    """Since when it is there, by the store's clock."""
