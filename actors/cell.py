"""A cell: an actor in a node's memory, between its rows on disk and the turn in hand. A cache, and nothing more.

`row` runs ahead of the disk by the turns that are batched but not committed; each unit names the version it expects,
so if one fails, those after it fail too, and the cell is thrown away and read again. Invariants: one turn at a time
(`busy`); at most one open unit (`unit`), which the committer closes when it takes the batch; `complete` says that all
that waits for this actor on disk is in `queue` or in a unit, which is what allows a message to be handed over in memory
without overtaking an older one. What an actor that stands still does not take stays on disk only.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import msgspec

from ..mailbox import codec
from ..mailbox.envelope import Envelope
from ..mailbox.queue import LaneQueue
from ..persistence.rows import ENDED, UNREADABLE, ActorRow
from ..persistence.unit import Unit
from .actor import Actor, Stateless
from .bonds import is_gone
from .directives import Park
from .retry import RetryPolicy
from .snapshot import UnreadableState, decode_state, encode_state
from .spec import Child, Spec
from .tracing import Span

UNSTARTED = f"{UNREADABLE} not started: "
"""How the reason begins of one that was to be started then; it begins when it can be read."""

Answer = tuple[Envelope, Envelope]
"""A call that has ended and its reply, which was not on disk when its turn ran."""


class StandIn(Actor[Stateless], kind="stand-in"):
    """In the place of an actor whose state cannot be read, or that fails to be cancelled: it has no handlers, and what
    it does to its row leaves the state as it is."""


class Turn:
    """A turn whose handler waits, in a task of its own: its message, and what stops it."""

    __slots__ = ("envelope", "scope", "seconds")

    def __init__(self, envelope: Envelope, seconds: float = 0.0) -> None:
        self.envelope = envelope
        self.seconds = seconds
        """How long it may take; a trial is bounded elsewhere."""
        self.scope = anyio.CancelScope()


class Cell:
    """One actor on this node."""

    __slots__ = (
        "actor",
        "address",
        "answers",
        "busy",
        "complete",
        "declined_at",
        "failing",
        "ids",
        "in_flight",
        "loaded",
        "make",
        "poison",
        "queue",
        "queued",
        "refill",
        "relieved",
        "resumed_at",
        "row",
        "sealed",
        "shard",
        "solo",
        "span",
        "spans",
        "spec",
        "stood",
        "turn",
        "unit",
        "unstarted",
        "used",
        "wakes_at",
    )

    def __init__(self, address: str, shard: int, spec: Spec, make: Callable[[], Actor[Any]], *, complete: bool) -> None:
        self.address = address
        self.shard = shard
        self.spec = spec
        self.make = make
        self.queue = LaneQueue()
        self.row: ActorRow | None = None
        self.actor: Actor[Any] | None = None
        self.unit: Unit | None = None
        self.answers: list[Answer] = []
        """What the open unit takes straight from workers."""
        self.ids: set[int] = set()
        """Messages of this actor that are in memory: queued, in a turn, or in a unit not yet on disk."""
        self.in_flight = 0
        self.loaded = False
        self.busy = False
        self.turn: Turn | None = None
        """The turn in hand, where its handler waits."""
        self.span: Span | None = None
        """Of the turn in hand, where turns are traced."""
        self.spans: list[Span] = []
        """Of the turns in the open unit."""
        self.failing: dict[int, tuple[int, float]] = {}
        """By lane: the message at its head that is tried again, and since when it has been failing (monotonic)."""
        self.resumed_at = float("-inf")
        """When it was resumed (monotonic), on this node: what failed before then has its whole time again."""
        self.queued = False
        self.solo = False
        """After a batch that the database refused: one turn a unit, until the culprit is found."""
        self.poison: dict[int, BaseException] = {}
        """Messages whose turn wrote what the database refused: they fail with that, without another turn."""
        self.complete = complete
        self.declined_at = 0
        self.refill = False
        self.relieved = False
        """Its backlog was put out of memory, as it does not take it now (`Cells.relieve`)."""
        self.sealed = False
        """Takes only what the next read of its own mailbox brings: a sweep under way may not know what came back."""
        self.stood = False
        """It stood still: sweeps passed over its mailbox, so only a read of that alone knows when it has it all."""
        self.unstarted = False
        """Its incarnation was started while its state could not be read: `on_start` is still to be run."""
        self.used = 0.0
        self.wakes_at: float | None = None
        """When the pump looks at it again by itself, for a message in back-off."""

    def lanes(self) -> int:
        """How many lanes this actor takes messages from: all of them while active, else system messages only.

        One that has ended takes all too, to refuse them; unless it returns, and finds them then.
        """
        if self.row is None or self.row.status == "active":
            return 3
        return 3 if self.ended() and not self.returns() else 1

    def returns(self) -> bool:
        """Whether it ended by itself, and is a child that its supervisor starts again whenever it does."""
        spec = self.spec
        permanent = isinstance(spec, Child) and spec.restart == "permanent" and not spec.pool
        return permanent and self.row is not None and self.row.status == "completed"

    def ended(self) -> bool:
        """Whether it takes nothing any more."""
        row = self.row
        return row is not None and (row.status in ENDED or (row.status == "failed" and is_gone(row)))

    def idle(self) -> bool:
        """Whether it could be forgotten without losing anything but time."""
        if self.busy or self.in_flight or self.unit or self.ids:
            return False
        return self.loaded and (self.complete or self.lanes() < 3)

    def retry_policy(self) -> RetryPolicy:
        """That of its class, or what its spec says instead; needs no object, which is what could not be made."""
        if not isinstance(self.spec, Child):
            return Actor.retry
        policy = self.spec.actor.retry
        if self.spec.max_deliveries is None:
            return policy
        return msgspec.structs.replace(policy, max_failures=self.spec.max_deliveries)

    def kind(self) -> str:
        """Wire name of its class."""
        return self.spec.actor.kind if isinstance(self.spec, Child) else "supervisor"

    def load(self, row: ActorRow | None) -> None:
        """Take the row that was read; None where the actor does not exist yet."""
        self.row = row
        self.loaded = True
        if row is not None and row.status == "parked" and row.reason.startswith(UNREADABLE):
            # Parked by a version that could not read it: it goes on by itself under one that can.
            with suppress(Exception):
                self.object()
                self.unstarted = row.reason.startswith(UNSTARTED)
                row.status, row.reason = "active", ""
        if row is not None and row.status != "active":
            self.stood = True
        if self.lanes() < 3:
            self.complete = False

    def revive(self) -> None:
        """After a failed turn: throw the object away; the next turn makes it anew from the last good snapshot."""
        self.actor = None
        if self.row is not None and self.row.version == 0:
            self.row = None  # the turn that was to create it has failed

    def create(self) -> ActorRow:
        """There is no row yet: begin one, in memory only; incarnation 0 says that it was never started."""
        self.row = ActorRow(self.shard, self.address, self.kind(), version=0, incarnation=0)
        return self.row

    def object(self) -> Actor[Any]:
        """The actor as its row has it.

        Raises:
            UnknownMessage: its state is of a newer version than this process knows; another one may.
            Park: its state cannot be read with this process's code, and is left as it is.
            Exception: whatever the class's constructor or `initial` raised.
        """
        if self.actor is not None and type(self.actor) is not StandIn:
            return self.actor
        actor = self.make()
        if self.row is None or not self.row.state:
            actor.state = actor.initial()
        else:
            try:
                actor.state = decode_state(type(actor), self.row.state_version, self.row.state)
            except UnreadableState as error:
                raise Park(f"{UNREADABLE} {error}") from error
        self.actor = actor
        return actor

    def stand_in(self) -> Actor[Any]:
        """For a turn that needs nothing of the actor but its row."""
        self.actor = StandIn()
        return self.actor

    def renew(self) -> None:
        """The next turn is of an actor that begins anew, whatever its row has."""
        actor = self.make()
        actor.state = actor.initial()
        self.actor = actor

    def snapshot(self) -> tuple[bytes, int]:
        """The state as it is now, and the version it is written in."""
        assert self.actor is not None
        if type(self.actor) is StandIn and self.row is not None:
            return self.row.state, self.row.state_version
        return encode_state(self.actor.state), self.actor.state_version

    def summary(self) -> str:
        """What it shows in lists, as it is now."""
        assert self.actor is not None
        if type(self.actor) is StandIn and self.row is not None:
            return self.row.summary
        summary = self.actor.summary()
        return codec.encode(summary) if summary else ""

    def open_unit(self, row: ActorRow) -> Unit:
        """The unit that this actor's turns of the current batch go into; `row` is as it was before the turn."""
        if self.unit is None:
            self.unit = Unit(self.shard, expected=row.version)
        return self.unit

    def end_spans(self, outcome: str) -> None:
        """What was traced and never came to be on disk."""
        for span in self.spans if self.span is None else [*self.spans, self.span]:
            span.fail(outcome)
            span.end(outcome)
        self.span, self.spans = None, []

    def close_unit(self) -> tuple[Unit, list[Answer]]:
        """Hand the open unit over to the committer, with the answers in it."""
        unit, answers = self.unit, self.answers
        assert unit is not None
        self.unit, self.answers = None, []
        self.in_flight += 1
        return unit, answers
