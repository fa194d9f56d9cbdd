"""The store: what survives. One protocol, two implementations (`memory`, `postgres`), one contract suite for both.

What a store promises (the suite in `tests/contract` names its tests by these numbers):

    S1  A batch commits wholly or not at all; a unit of it that fails its check is left out wholly and named.
    S2  A commit under a superseded epoch writes nothing and raises StaleEpoch. A take-over waits for the commit in
        flight, and what is read after it includes all that its predecessor committed.
    S3  An actor's unit commits only if the row has the expected version; creation only if there is no row.
    S4  Acknowledging, retrying, releasing, dropping and stashing must hit their messages, or the unit fails. What an
        actor stashes is of its own mailbox and keeps its place; unstashing brings back all of it.
    S5  `ready` gives each mailbox's messages in (lane, id) order, at most `per_actor` each and `limit` in all, never a
        held one; nothing accepted stays invisible to it, however late its commit.
    S6  A message sent with a client id is accepted once; the same client id with another body is a Conflict.
    S7  A decision leaves `pending` once, to one verdict, with its audit row and the notice to the approval actor in
        the same transaction; the loser learns who decided (AlreadyDecided). Where several people have to approve, it
        leaves with the last of them, no one counts twice, and who is barred does not count at all (NotAllowed). An
        approval in its release hold is taken back or let go, never both.
    S8  A timer's fire happens once a generation and due time; what a turn cancelled does not fire. A fire advances the
        timer by the periods that it names, all of which have begun: fires and what they folded are what has elapsed.
    S9  Events of an actor are numbered from 1 without gaps, and are never changed.
    S10 A value that cannot be stored raises BadRow and nothing is written; what went in comes out (NUL, surrogates).
    S11 Wake-ups may be late, lost or repeated; reading is the truth.
    S12 Which mailboxes are full is told by their owners only, and seen by all nodes; it is a hint and bounds nothing.

    S13 to S19 are those of the operators' part: see `operating`; S20 and S21 of the watchers': see `watching`; S22 is
    retention's: see `retention`.

What it does not promise: an order between messages of different senders, or that two reads see the same moment.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from ..mailbox.envelope import DeadLetter, Envelope
from .operating import AuditEntry, OperatingStore
from .port import Port
from .retention import RetentionStore
from .rows import (
    ActorRow,
    Decision,
    DecisionStatus,
    EventRow,
    Member,
    MessageView,
    TakeBack,
    Timer,
    TurnRow,
    Verdict,
)
from .unit import CommitResult, Unit
from .watching import WatchingStore
from .whispers import Hearing


class NodeInfo(msgspec.Struct, frozen=True):
    """What a node says of itself when it joins."""

    boot: str
    """New for each start, so that a restarted node is not taken for its former self."""
    label: str = ""
    lease_seconds: float = 1.0
    """A node whose last beat is older than this is taken over even if its connections look alive."""
    beat_seconds: float = 0.25
    guest: bool = False
    capabilities: str = ""
    """JSON object: what it can read (`Member.capabilities`)."""


class Wake(msgspec.Struct, frozen=True):
    """Why a node was woken: shards that have something new; None for "look at everything"."""

    shards: frozenset[int] | None
    members_changed: bool = False


class Session(Protocol):
    """A node's own channel to the store. Methods other than `wake` and `watch` are not called concurrently with
    themselves; `commit` runs beside any of the reads."""

    number: int
    """The node's number: also the number of its id clock."""
    epoch: int

    async def commit(self, units: Sequence[Unit]) -> CommitResult:
        """Write a batch.

        Raises:
            StaleEpoch: nothing was written, and never will be under this epoch.
            BadRow: a value of some unit cannot be stored; nothing was written (bisect to find it).
            StoreUnavailable: the answer was lost; whether it landed is seen from the versions.
        """
        ...

    async def ready(
        self, shards: Sequence[int], *, per_actor: int, limit: int, beyond: str = "", standing: bool = True
    ) -> tuple[list[Envelope], str]:
        """Messages that wait in the mailboxes of `shards`, as S5 says, in order of recipient within a shard.

        `beyond` and the returned cursor page through the recipients when `limit` cut the read; the cursor is "" at
        the end. A message in back-off comes with its remaining delay. Deliveries are as on disk. Without `standing`,
        actors that stand still (`rows.STANDING`, but not those parked for their schema) give their system lane only.
        """
        ...

    async def mailbox(self, shard: int, address: str, *, limit: int) -> list[Envelope]:
        """The first `limit` messages that wait in one mailbox of one shard, in (lane, id) order."""
        ...

    async def backlog(self, shard: int, address: str, *, limit: int) -> int:
        """How many messages a mailbox has, held ones included, counted no further than `limit`."""
        ...

    async def load(self, addresses: Sequence[tuple[int, str]]) -> list[ActorRow]:
        """The rows of these actors (shard, address); those that do not exist are left out."""
        ...

    async def journal(self, address: str, *, after: int = 0, limit: int = 10_000) -> list[EventRow]:
        """Events of an actor with seq > `after`, in order."""
        ...

    async def due(self, shards: Sequence[int], *, within_seconds: float, limit: int) -> list[Timer]:
        """Timers of `shards` due within that time, soonest first, with their remaining (or negative) delay."""
        ...

    async def owned(self) -> set[int]:
        """The shards this node owns, as the store has it."""
        ...

    async def claim(self, shards: Sequence[int] | None = None) -> set[int]:
        """Take the shards (of these, or of all) that nobody owns or whose owner has left or died; those taken."""
        ...

    async def give(self, shards: Sequence[int], to: int | None) -> None:
        """Give shards away in good order, to a node or to nobody. The caller has no turn of them under way."""
        ...

    async def publish_full(self, full: Sequence[tuple[int, str]], room: Sequence[tuple[int, str]]) -> None:
        """Tell all nodes which mailboxes (shard, address) are full, and which have room again.

        Those of shards that this node does not own are passed over.

        Raises:
            StaleEpoch: nothing was told.
        """
        ...

    async def full(self) -> set[str]:
        """Addresses of the mailboxes that are full, as their owners told last."""
        ...

    async def members(self) -> list[Member]:
        """All nodes that are up or draining, or still have shards, by number; this one included."""
        ...

    async def watch(self, member: Member, *, seconds: float) -> bool:
        """Wait at most `seconds` for the death of `member`'s process to show; True when it did.

        True only if this very connection has seen the member's lock held and then free: a database restart frees
        every lock at once and is no evidence. Where the store has no locks this just waits.
        """
        ...

    async def take_over(self, member: Member, *, by: str) -> set[int]:
        """Raise the epoch of a dead or silent member, end its connections, and own its shards from now on.

        `by` is "lock" or "lease" (for the log); with "lease" nothing happens unless the store's clock agrees that the
        beat is older than that member's lease. Returns the shards; empty where another was first.
        """
        ...

    async def wake(self, seconds: float) -> Wake | None:
        """Wait at most `seconds` to be woken; None when nothing came."""
        ...

    async def notify(self, recipients: Sequence[tuple[int, str]], *, echo: bool = False) -> None:
        """After a commit: wake whoever serves these mailboxes (shard, address) elsewhere. Best effort (S11).

        `echo`: this node too, where it is one of them.
        """
        ...

    async def start_heart(self, alive: Callable[[], bool]) -> None:
        """Beat from now on, for as long as `alive()` says so, on a thread and connection of its own."""
        ...

    async def draining(self) -> None:
        """Tell the others that this node gives its shards away and wants none."""
        ...

    async def reconnect(self) -> bool:
        """After StoreUnavailable: try to get every connection back once; False when the store does not answer yet.

        Raises:
            StaleEpoch: it does, and this node was superseded meanwhile.
        """
        ...

    async def leave(self) -> None:
        """Go in good order: what is still owned is owned by nobody. Harmless after StaleEpoch."""
        ...


class Store(OperatingStore, RetentionStore, WatchingStore, Protocol):
    """What everybody may ask, node or not. Opened and closed by `async with`."""

    async def __aenter__(self) -> "Store": ...

    async def __aexit__(self, *_: object) -> None: ...

    def join(self, info: NodeInfo, port: Port) -> AbstractAsyncContextManager[Session]:
        """Become a node: register, lock, and at the end leave."""
        ...

    async def now(self) -> float:
        """The store's clock, in seconds since 1970."""
        ...

    async def lease_number(self, holder: str, *, seconds: float) -> int:
        """A number for a client's id clock, its own for `seconds`; the same holder gets the same one again.

        Nodes have numbers 1..1023, clients 1024..4095. One that was never used goes first; then the one that has been
        free longest, and no sooner than ten minutes after its lease ran out.
        """
        ...

    async def send(
        self, envelopes: Sequence[Envelope], client_ids: Sequence[str] = (), audits: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """Accept messages from outside and wake their owners; False marks one that was accepted before (S6).

        `audits` are written with them, unless none of them is new (S13).

        Raises:
            Conflict: a client id that was used for another body. Nothing of this call is accepted then.
            MailboxFull: the recipient holds more than its bound.
        """
        ...

    async def receive(self, address: str, *, seconds: float, port: Port, fresh: bool = False) -> list[Envelope]:
        """Take the messages out of an outside asker's mailbox, waiting at most `seconds` for the first.

        Who is cancelled meanwhile may have taken some. `fresh`: most likely there is nothing yet, and a store need not
        look before it is told of something, or a moment has passed.
        """
        ...

    async def actor(self, address: str) -> ActorRow | None:
        """One actor, as of its last turn."""
        ...

    async def actors(self, *, kind: str = "", prefix: str = "", limit: int = 100, after: str = "") -> list[ActorRow]:
        """Actors by kind and by the start of their address, in order of address, beyond `after`.

        A `limit` below 1 finds nothing, here as in all reads of a store.
        """
        ...

    async def journal(self, address: str, *, after: int = 0, limit: int = 10_000) -> list[EventRow]:
        """Events of an actor with seq > `after`, in order."""
        ...

    async def turns(self, address: str, *, limit: int = 1_000) -> list[TurnRow]:
        """What an actor handled, oldest first."""
        ...

    async def peek(self, address: str, *, limit: int = 100) -> list[MessageView]:
        """What waits in a mailbox, held messages included, without touching it."""
        ...

    async def waiting(self, type: str, *, limit: int = 100) -> list[MessageView]:
        """Messages of one type that wait in any mailbox, held ones left out, in order of shard and id. For looking
        only: a bounded walk, which in a very long backlog may not reach all of them."""
        ...

    async def calls(self, address: str, *, limit: int = 100) -> list[MessageView]:
        """What an actor has asked of workers (and of actors in its shard) that was not handled yet, held ones
        included, in order of id. For looking only: a bounded walk over its shard, as `waiting`."""
        ...

    async def timers(self, address: str, *, limit: int = 100) -> list[Timer]:
        """The timers of one actor, soonest first, with their remaining (or negative) delay."""
        ...

    async def owner(self, shard: int) -> Member | None:
        """The node that serves a shard; None where none does."""
        ...

    async def dead_letters(
        self, *, recipient: str = "", open_only: bool = False, before: int = 0, limit: int = 100
    ) -> list[DeadLetter]:
        """Dead letters, newest first; `open_only`: that nobody settled. `before`: a number to go on from."""
        ...

    async def decision(self, id: str) -> Decision | None:
        """One gated call."""
        ...

    async def decisions(
        self, *, status: DecisionStatus | None = None, run: str = "", limit: int = 100
    ) -> list[Decision]:
        """Gated calls, oldest first."""
        ...

    async def decide(self, verdict: Verdict, notice: Envelope) -> Decision:
        """Decide a gated call, and put `notice` (to the approval actor) into its mailbox, as S7 says.

        An approval that is not the last one that is needed is noted and audited; the row stays pending, and the notice
        is not sent. A release hold lasts as long as the row or the verdict asks for, whichever is longer.

        Raises:
            NotFound: no such decision.
            AlreadyDecided: it is not pending any more; or it has expired by the store's clock; or `by` approved before.
            NotAllowed: who asked for the call, or changed it, may not approve it.
            Conflict: the digest is not that of the arguments on record.
            SignaturesMoved: (a Conflict) another one has approved since the notice was written; write it anew.
        """
        ...

    async def take_back(self, wish: TakeBack, notice: Envelope) -> Decision:
        """Make an approval in its release hold pending again, with nobody's approval, and put `notice` into the
        mailbox of the approval actor, as S7 says.

        Raises:
            NotFound: no such decision.
            AlreadyDecided: it is not approved; or it was let go, and the message says when.
            Conflict: it is in another hold than the one that was seen.
        """
        ...

    async def whisper(self, topic: str, text: str) -> None:
        """Say something to whoever overhears `topic` now, in any process. It may be lost; nothing is raised for that,
        nothing else waits for it, and a text of more than 6,000 bytes arrives in parts."""
        ...

    def overhear(self, topic: str) -> AbstractAsyncContextManager[Hearing]:
        """Hear what is whispered about `topic` from now on. What is not taken in time is lost.

        Raises:
            StoreUnavailable: at the beginning; later interruptions are only silence.
        """
        ...
