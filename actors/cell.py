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

import msgspec

from ..mailbox import codec
from ..mailbox.envelope import Envelope
from ..mailbox.queue import LaneQueue
from ..persistence.rows import ENDED, ActorRow
from ..persistence.unit import Unit
from .actor import Actor
from .directives import Park
from .retry import RetryPolicy
from .spec import Child, Spec

UNREADABLE = "schema:"
"""How the reason begins of an actor that was parked because its state could not be read."""

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {}


Answer = tuple[Envelope, Envelope]
"""A call that has ended and its reply, which was not on disk when its turn ran."""


class Cell:
    """One actor on this node."""

    __slots__ = (
        "actor",
        "address",
        "answers",
        "busy",
        "complete",
        "declined_at",
        "ids",
        "in_flight",
        "loaded",
        "make",
        "poison",
        "queue",
        "queued",
        "refill",
        "row",
        "shard",
        "solo",
        "spec",
        "unit",
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
        self.queued = False
        self.solo = False
        """After a batch that the database refused: one turn a unit, until the culprit is found."""
        self.poison: dict[int, BaseException] = {}
        """Messages whose turn wrote what the database refused: they fail with that, without another turn."""
        self.complete = complete
        self.declined_at = 0
        self.refill = False
        self.used = 0.0
        self.wakes_at: float | None = None
        """When the pump looks at it again by itself, for a message in back-off."""

    def lanes(self) -> int:
        """How many lanes this actor takes messages from: all of them while active, else system messages only.

        One that has ended takes all too, to refuse them.
        """
        return 3 if self.row is None or self.row.status == "active" or self.ended() else 1

    def ended(self) -> bool:
        """Whether it takes nothing any more."""
        return self.row is not None and self.row.status in ENDED

    def idle(self) -> bool:
        """Whether it could be forgotten without losing anything but time."""
        if self.busy or self.in_flight or self.unit or self.ids:
            return False
        return self.loaded and (self.complete or self.lanes() < 3)

    def retry_policy(self) -> RetryPolicy:
        """That of its class; needs no object, which is what could not be made."""
        return self.spec.actor.retry if isinstance(self.spec, Child) else Actor.retry

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
                row.status, row.reason = "active", ""
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
            Park: this version of its class cannot read its state, which is left as it is.
            Exception: whatever the class's constructor or `initial` raised.
        """
        if self.actor is not None:
            return self.actor
        actor = self.make()
        if self.row is None or not self.row.state:
            actor.state = actor.initial()
        else:
            kind = type(actor).state_type
            decoder = _decoders.get(kind)
            if decoder is None:
                decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
            try:
                actor.state = decoder.decode(self.row.state)
            except msgspec.MsgspecError as error:
                raise Park(f"{UNREADABLE} {error}") from error
        self.actor = actor
        return actor

    def snapshot(self) -> bytes:
        """The state as it is now."""
        assert self.actor is not None
        return _encoder.encode(self.actor.state)

    def summary(self) -> str:
        """What it shows in lists, as it is now."""
        assert self.actor is not None
        summary = self.actor.summary()
        return codec.encode(summary) if summary else ""

    def open_unit(self, row: ActorRow) -> Unit:
        """The unit that this actor's turns of the current batch go into; `row` is as it was before the turn."""
        if self.unit is None:
            self.unit = Unit(self.shard, expected=row.version)
        return self.unit

    def close_unit(self) -> tuple[Unit, list[Answer]]:
        """Hand the open unit over to the committer, with the answers in it."""
        unit, answers = self.unit, self.answers
        assert unit is not None
        self.unit, self.answers = None, []
        self.in_flight += 1
        return unit, answers
