"""What was really written, in the order in which it was: seen by nobody in the simulated world.

Each commit is looked at in the step in which it lands, when the store can still tell who owned what at that moment.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from callboard.mailbox.envelope import Envelope
from callboard.persistence.memory import MemorySession
from callboard.persistence.rows import ActorRow
from callboard.persistence.unit import CommitResult, Unit

if TYPE_CHECKING:
    from .store import SimulatedStore


class Accepted:
    """A message that was put into a mailbox once."""

    __slots__ = ("at", "causation", "held", "recipient", "sender", "sender_seq", "shard", "type")

    def __init__(self, envelope: Envelope, at: float, held: bool) -> None:
        self.shard = envelope.shard
        self.recipient = envelope.recipient
        self.sender = envelope.sender
        self.sender_seq = envelope.sender_seq
        self.type = envelope.type
        self.causation = envelope.causation
        self.held = held
        self.at = at


class History:
    """What landed, and what was wrong with it."""

    def __init__(self, store: "SimulatedStore") -> None:
        self.store = store
        self.wrong: list[str] = []
        self.accepted: dict[int, Accepted] = {}
        self.commits = 0
        self.lives: list[tuple[str, str, int]] = []
        """(address, began | over | status of another end, incarnation) of supervised children, in commit order."""
        self.timers_set: dict[tuple[str, str, int], tuple[float, float]] = {}
        """(address, key, generation): when that timer was set, and its period."""
        self.fires: dict[int, tuple[float, float]] = {}
        """Message id of each fire: when its timer was set, and its period."""
        self.recorded: set[str] = set()
        """Keys of calls whose start has to be on record before they begin."""
        self._ended: dict[str, ActorRow] = {}
        self._put = store.tables.put
        store.tables.put = self._noted_put  # type: ignore[method-assign]

    def _noted_put(self, envelope: Envelope, now: float, *, held: bool = False) -> None:
        if envelope.id in self.accepted:
            self.wrong.append(f"G1: message id {envelope.id} was put in twice ({envelope.type})")
        self.accepted[envelope.id] = Accepted(envelope, now, held)
        if envelope.type == "sim.pay" and '"recorded":true' in envelope.body:
            self.recorded.add(msgspec.json.decode(envelope.body)["key"])
        self._put(envelope, now, held=held)

    def is_recorded(self, key: str) -> bool:
        """Whether the start of this call has to be on record before it begins."""
        return key in self.recorded

    def landed(self, session: MemorySession, units: Sequence[Unit], result: CommitResult) -> None:
        """A batch was written, a moment ago."""
        self.commits += 1
        store, now = self.store, self.store.clock()
        if session.node.epoch != session.epoch:
            self.wrong.append(f"I4: node {session.number} committed under epoch {session.epoch}, which was superseded")
        for index, unit in enumerate(units):
            if index in result.rejected:
                continue
            owner = store.cluster.owners.get(unit.shard)
            if owner != session.number:
                self.wrong.append(f"G3: node {session.number} committed for shard {unit.shard}, which {owner} owns")
            for event in unit.events:
                if event.type in ("sim.began", "sim.over"):
                    incarnation = msgspec.json.decode(event.body)["incarnation"]
                    self.lives.append((event.address, event.type[4:], incarnation))
            if unit.fires:
                self._look_at_fire(unit)
            for timer in unit.timers:
                self.timers_set[timer.address, timer.key, timer.generation] = (now, timer.period_seconds)
            if unit.actor is not None:
                self._look_at(unit, unit.actor)

    def _look_at_fire(self, unit: Unit) -> None:
        for fire, envelope in zip(unit.fires, unit.sends, strict=False):
            timer = (fire.address, fire.key, fire.generation)
            self.fires[envelope.id] = self.timers_set.get(timer, (0.0, 0.0))

    def _look_at(self, unit: Unit, row: ActorRow) -> None:
        stopped_well = bool(unit.events) and unit.events[-1].type == "sim.over"
        if row.kind == "sim-kid" and row.status != "active" and not stopped_well:
            self.lives.append((row.address, row.status, row.incarnation))
        before = self._ended.get(row.address)
        if before is not None and (before.state != row.state or unit.events) and before.incarnation == row.incarnation:
            self.wrong.append(f"I10: {row.address} was {before.status} and changed all the same, to {row.status}")
        if row.status in ("completed", "cancelled"):
            self._ended[row.address] = row
        else:
            self._ended.pop(row.address, None)
