"""What a screen watches: lists by window, what needs attention, and a way to hear that something has changed.

Rows as plain values, and the part of the `Store` protocol that gives them. A list of a million actors costs a screen
what one of a thousand does: whoever looks asks for a window, and goes on from an address, not from a number of rows.
The contract suite names its tests by:

    S20 A window has the rows next to its cursor, each once, in order, both ways, whatever else comes and goes; it
        costs what it has and not what there is. What needs attention is found without looking through the rest.
    S21 Who listens hears that a decision was asked for or changed, that a dead letter came or was settled, that an
        actor's status changed, that a node joined, drains or is gone. An ordinary turn says nothing. What is heard is
        a hint, never promised, and may leave out what came within a moment of the last: reading is the truth.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import msgspec

from ..mailbox.envelope import Envelope
from .rows import ActorStatus, Decision, Member
from .whispers import Hearing

WAITING_COUNTED = 1_000
"""Messages of one mailbox that a glance counts, at most."""
PRESSING = 500
"""Actors that need attention, at most: beyond it nobody looks at a list."""
COUNTED = 10_000
"""How far `alarms` counts."""
TREND_STEPS = 8
TREND_SECONDS = 600.0
TREND_TURNS = 500
"""Handled messages of one actor that its trend looks at, the newest."""

STANDING_WORDS: tuple[ActorStatus, ...] = ("failed", "escalated", "parked", "paused")
"""Statuses that need attention."""
STATUSES: tuple[ActorStatus, ...] = (
    "active", "failed", "parked", "paused", "completed", "cancelled", "escalated", "stopped"
)  # fmt: skip

CHANGES = "sys:changes"
"""What changes are whispered about, within one process."""


class Listed(msgspec.Struct, frozen=True):
    """An actor in a list, without its state."""

    address: str
    kind: str
    """"" where there is no actor yet."""
    status: ActorStatus | None
    """None: there is no actor yet, only messages to it, or dead letters of what would have made it."""
    reason: str
    summary: str
    created_at: float
    """When its row was made; 0.0: by a release that did not keep it, and no journal tells."""


class Failing(msgspec.Struct, frozen=True):
    """A message that has failed and is tried again."""

    type: str
    recipient: str
    """The actor itself, or the worker that it has called."""
    failures: int
    deliveries: int
    last_error: str
    """No more than its beginning."""
    due_at: float
    """When it is tried next; in the past: now."""
    body: str
    """"" where it is long."""


class Asked(msgspec.Struct, frozen=True):
    """A call of an actor that people decide on, or have approved and can take back."""

    id: str
    kind: Literal["approval", "in-doubt"]
    status: Literal["pending", "approved"]
    tool: str
    arguments: str
    """"" where they are long."""
    requested_at: float
    release_at: float
    decided_by: str
    provenance: str = ""
    """As in the row; "" where it is long, and then so are `arguments`: their sums are not read without it."""


class Glance(msgspec.Struct, frozen=True):
    """An actor, with what is to be seen of it in one line."""

    row: Listed
    shard: int
    bonds: str
    """As `ActorRow.bonds`; "" where they are long."""
    turned_at: float
    """When its last turn was committed; 0.0: not on record any more."""
    waiting: int
    """Messages in its mailbox, held ones included, `WAITING_COUNTED` at most."""
    waiting_free: int
    """Of those, how many are not held."""
    ready: int
    """Of those, how many could be handled now."""
    oldest_at: float
    """When the oldest of them was sent; 0.0 for none."""
    next_due_at: float
    """When the first of those that are scheduled is due; 0.0 for none."""
    first: str
    """Type of the message that is next; "" for none."""
    losses: int
    """Of the message that is next: how often a process died while it was handled."""
    calls: int
    """Calls of it to workers that wait where nobody serves them; counted only then."""
    served: bool
    """Whether a node serves its shard."""
    failing: Failing | None = None
    """Of its messages and its calls to workers, the one that fails and is tried next."""
    pending: Asked | None = None
    """The oldest of its calls that wait for a person."""
    held: Asked | None = None
    """The one in its release hold that goes first."""
    dead: int = 0
    """Dead letters of its mailbox, and of its calls to workers, that nobody has settled; `WAITING_COUNTED` at most."""
    dead_reason: str = ""
    """Of the newest of them: reason and detail, no more than its beginning."""
    dead_recipient: str = ""
    """And to whom it was: the actor itself, or the worker that it had called."""


class Tally(msgspec.Struct, frozen=True):
    """How many actors of one place there are with one status."""

    place: str
    """Their address up to its first key: `/crm/desk/agent` of `/crm/desk/agent:42` and of all beneath it."""
    keyed: bool
    """Whether they have one."""
    kind: str
    status: ActorStatus
    actors: int
    busy: int
    """Of active ones, how many have a message that is not held, or a call to a worker under way."""


class Pending(msgspec.Struct, frozen=True):
    """A decision that waits for a person, by its name."""

    id: str
    requested_at: float
    expires_at: float


class Asking(msgspec.Struct, frozen=True):
    """A decision that waits for a person, by no more than its id."""

    id: str
    mark: int
    """Of what its checks have found and who has signed it: another one says that there is something new to read."""


class Alarms(msgspec.Struct, frozen=True):
    """What needs somebody, counted; each count goes no further than `COUNTED`."""

    at: float
    pending: list[Pending]
    """The oldest, `PRESSING` at most."""
    to_decide: int
    held: int
    """Approved, and still to be taken back."""
    dead: int
    failing: int
    """Messages that failed and are tried again."""
    failed: int
    escalated: int
    parked: int
    paused: int
    members: list[Member] = []


class WatchingStore(Protocol):
    """The watchers' part of a store."""

    # -- windows (S20)

    async def window(
        self,
        *,
        prefix: str = "",
        kind: str = "",
        statuses: Sequence[ActorStatus] = (),
        after: str = "",
        before: str = "",
        last: bool = False,
        without: Sequence[str] = (),
        limit: int = 100,
    ) -> list[Glance]:
        """Actors next to an address: the first beyond `after`; or the last before `before`, or of all (`last`).

        In order of address either way. `statuses`: only those; `without`: not these.
        """
        ...

    async def glances(self, addresses: Sequence[str]) -> list[Glance]:
        """These actors again, in one round trip, in no order; also those that do not exist yet (`Listed.status` None)
        where messages wait for them or an open dead letter was for them. Of others, and of clients, there is nothing.
        """
        ...

    async def pressing(self, *, limit: int = PRESSING) -> list[str]:
        """Addresses of actors that need attention, each once: those with calls that wait for a person (the longest
        waiting first), with open dead letters, that failed, escalated, with messages or calls that are tried again,
        with messages that nobody serves, that are parked, paused, with approved calls in their release hold.

        A message is told of its recipient, whether that exists yet or not; a call to a worker, which never does, of
        the actor that called it (`is_call`), or of the worker where that actor is gone. Clients are left out."""
        ...

    async def newest(
        self,
        *,
        kind: str,
        after: tuple[float, str] | None = None,
        before: tuple[float, str] | None = None,
        last: bool = False,
        limit: int = 100,
    ) -> list[Listed]:
        """Actors of a kind, the newest first, next to a place (`created_at`, address): the first beyond `after`; or
        the last before `before`, or of all (`last`), which are the oldest."""
        ...

    async def trends(self, addresses: Sequence[str]) -> dict[str, list[int]]:
        """How many messages were in these mailboxes at the end of each of `TREND_STEPS` steps of the last
        `TREND_SECONDS`, the last being now. Of what was handled the newest `TREND_TURNS` are looked at, of what waits
        `WAITING_COUNTED`: of busier mailboxes the numbers are too small."""
        ...

    async def asking(self, *, after: str = "", limit: int = 1_000) -> list[Asking]:
        """Decisions that wait for a person, in the order in which they were asked for: the first, or the first beyond
        `after`, which may have been decided since."""
        ...

    async def decisions_of(self, ids: Sequence[str]) -> list[Decision]:
        """These decisions as they are now, in one round trip, in no order; what is unknown is left out."""
        ...

    # -- counts

    async def tallies(self) -> list[Tally]:
        """Count all actors. This is the one look that costs what there is: ask for it seldom.

        Raises:
            StoreUnavailable: also where counting took too long.
        """
        ...

    async def alarms(self) -> Alarms:
        """What needs somebody. Cheap enough for each second."""
        ...

    # -- changes (S21)

    def changes(self) -> AbstractAsyncContextManager[Hearing]:
        """Hear of changes from now on, as S21 says: `decision ID`, `dead NUMBER`, `actor ADDRESS`, `node NUMBER`.
        Whoever hears something waits a tenth of a second, and then looks at all that it shows.

        Raises:
            StoreUnavailable: at the beginning; later interruptions are only silence.
        """
        ...


def changed(what: Literal["decision", "dead", "actor", "node"], name: object) -> str:
    """What is heard of a change."""
    return f"{what} {name}"


def is_call(envelope: Envelope) -> bool:
    """Whether a message to an address without an actor can be a call to a worker, which belongs to its caller where
    that is an actor of the message's shard. A worker answers whoever calls it, and has no key; the shard of its own
    address would not tell, as that may by chance be the one where the call lies."""
    return envelope.reply_to == envelope.sender != "" and ":" not in envelope.recipient


def place_of(address: str) -> tuple[str, bool]:
    """An address up to its first key, and whether it has one: what is beneath an instance belongs to its pool."""
    place, colon, _ = address.partition(":")
    return place, bool(colon)
