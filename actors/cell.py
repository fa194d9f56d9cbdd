"""A cell: an actor in a node's memory, between its rows on disk and the turn in hand. A cache, and nothing more.

`row` runs ahead of the disk by the turns that are batched but not committed; each unit names the version it expects,
so if one fails, those after it fail too, and the cell is thrown away and read again. Invariants: one turn at a time
(`busy`); at most one open unit (`unit`), which the committer closes when it takes the batch; `complete` says that all
that waits for this actor on disk is in `queue` or in a unit, which is what allows a message to be handed over in memory
without overtaking an older one.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from ..mailbox import codec
from ..mailbox.queue import LaneQueue
from ..persistence.rows import ENDED, ActorRow
from ..persistence.unit import Unit
from .actor import Actor
from .spec import Spec

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {}


class Cell:
    """One actor on this node."""

    __slots__ = (
        "actor",
        "address",
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

    def lanes(self) -> int:
        """How many lanes this actor takes messages from: all of them while active, else system messages only."""
        return 3 if self.row is None or self.row.status == "active" else 1

    def ended(self) -> bool:
        """Whether it takes nothing any more."""
        return self.row is not None and self.row.status in ENDED

    def idle(self) -> bool:
        """Whether it could be forgotten without losing anything but time."""
        return not (self.busy or self.in_flight or self.unit or self.ids) and self.loaded and self.complete

    def load(self, row: ActorRow | None) -> None:
        """Take the row that was read; None where the actor does not exist yet.

        Raises:
            msgspec.MsgspecError: when its state cannot be read by this version of its class.
        """
        self.row = row
        self.actor = self._object(row) if row is not None else None
        self.loaded = True

    def revive(self) -> None:
        """After a failed turn: throw the object away and make it anew from the last good snapshot."""
        self.actor = self._object(self.row) if self.row is not None else None

    def create(self, kind: str) -> None:
        """There is no row yet: begin one, in memory only."""
        self.row = ActorRow(self.shard, self.address, kind, version=0)
        self.actor = self._object(self.row)

    def _object(self, row: ActorRow | None) -> Actor[Any]:
        actor = self.make()
        if row is None or not row.state:
            actor.state = actor.initial()
        else:
            kind = type(actor).state_type
            decoder = _decoders.get(kind)
            if decoder is None:
                decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
            actor.state = decoder.decode(row.state)
        return actor

    def snapshot(self) -> bytes:
        """The state as it is now."""
        assert self.actor is not None
        return _encoder.encode(self.actor.state)

    def open_unit(self, row: ActorRow) -> Unit:
        """The unit that this actor's turns of the current batch go into; `row` is as it was before the turn."""
        if self.unit is None:
            self.unit = Unit(self.shard, expected=row.version)
        return self.unit

    def close_unit(self) -> Unit:
        """Hand the open unit over to the committer."""
        unit = self.unit
        assert unit is not None
        if unit.actor is not None and self.actor is not None:
            summary = self.actor.summary()
            unit.actor.summary = codec.encode(summary) if summary else ""
        self.unit = None
        self.in_flight += 1
        return unit
