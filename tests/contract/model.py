"""A store so small that one sees that it is right: dicts of messages, rows and timers, and no database.

Time is what the test has moved: all delays in it are so much longer than a test runs that real time does not matter.
"""

from copy import copy

import msgspec

from callboard.mailbox.address import shard_of
from callboard.mailbox.envelope import DeadLetter, Envelope
from callboard.mailbox.errors import AlreadyDecided, Conflict, NotFound
from callboard.persistence.rows import ActorRow, Decision, EventRow, Timer, TurnRow, Verdict
from callboard.persistence.unit import Retry, Unit
from tests.contract.build import turn

Key = tuple[int, int]


class Message(msgspec.Struct):
    """A message, and what happened to it."""

    envelope: Envelope
    held: bool
    due: float
    failing_since: float | None = None


class Due(msgspec.Struct):
    """A timer with the time it is due."""

    timer: Timer
    due: float


class Model:
    """What a store must know, and what it must say."""

    def __init__(self) -> None:
        self.now = 0.0
        self.actors: dict[str, ActorRow] = {}
        self.messages: dict[Key, Message] = {}
        self.turns: list[TurnRow] = []
        self.events: list[EventRow] = []
        self.timers: dict[tuple[str, str], Due] = {}
        self.dead: list[DeadLetter] = []
        self.decisions: dict[str, Decision] = {}
        self.client_ids: dict[tuple[str, str], str] = {}
        """Body of the first message to a recipient under a client id."""
        self.full: set[str] = set()
        self.owners: dict[int, int] = {}

    # -- reading

    def waiting(self, address: str) -> list[Message]:
        """What waits for an address, in order."""
        mine = [m for m in self.messages.values() if m.envelope.recipient == address and not m.held]
        return sorted(mine, key=lambda m: (m.envelope.lane, m.envelope.id))

    def state(self, message: Message) -> str:
        """As the inspector names it."""
        if message.held:
            return "stashed" if message.envelope.recipient in self.actors else "held"
        if message.due <= self.now:
            return "ready"
        return "retrying" if message.envelope.failures or message.envelope.last_error else "scheduled"

    def ids(self, shard: int, *, held: bool, recipient: str = "") -> list[int]:
        """Messages of a shard in that state."""
        return sorted(
            identifier
            for (where, identifier), m in self.messages.items()
            if where == shard and m.held is held and recipient in ("", m.envelope.recipient)
        )

    def stashed(self, address: str) -> list[Message]:
        """What an actor has put aside."""
        return [m for m in self.messages.values() if m.held and m.envelope.recipient == address]

    # -- writing

    def fits(self, unit: Unit) -> bool:
        """Whether a store must take a unit."""
        waiting = [*unit.acks, *unit.stashes, *(retry.id for retry in unit.retries)]
        touched = [*waiting, *unit.releases, *unit.drops]
        found = {identifier: self.messages.get((unit.shard, identifier)) for identifier in touched}
        name = unit.actor.address if unit.actor is not None else ""
        return (
            len(touched) == len(found)
            and all((m := found[identifier]) is not None and not m.held for identifier in waiting)
            and all((m := found[identifier]) is not None and m.held for identifier in (*unit.releases, *unit.drops))
            and all((m := found[i]) is not None and m.envelope.recipient == name for i in unit.stashes)
            and (unit.actor is None or self.version(name) == unit.expected)
            and all(not move.must or self.status(move.decision) == move.before for move in unit.moves)
            and self._may_fire(unit)
        )

    def version(self, address: str) -> int:
        """An actor's, 0 where there is none."""
        return self.actors[address].version if address in self.actors else 0

    def status(self, decision: str) -> str:
        """A decision's."""
        return self.decisions[decision].status if decision in self.decisions else "none"

    def _may_fire(self, unit: Unit) -> bool:
        for fire in unit.fires:
            known = self.timers.get((fire.address, fire.key))
            if known is None or known.timer.generation != fire.generation:
                return False
            period = known.timer.period_seconds
            if fire.periods < 1 or (fire.periods > 1 and not period):
                return False
            if known.due + (fire.periods - 1) * period > self.now:
                return False
        return True

    def apply(self, unit: Unit) -> None:
        """Write a unit that fits."""
        put_aside = self.stashed(unit.actor.address) if unit.actor is not None and unit.unstash else []
        self._fire(unit)
        for identifier in unit.charges:
            if (charged := self.messages.get((unit.shard, identifier))) is not None:
                charged.envelope.losses += 1
        if unit.actor is not None:
            self.actors[unit.actor.address] = copy(unit.actor)
        for identifier in unit.acks:
            del self.messages[unit.shard, identifier]
        self.turns += unit.turns
        self.events += unit.events
        self.dead += unit.dead
        self._retry(unit)
        for envelope in unit.sends:
            self.put(envelope)
        for envelope in unit.holds:
            self.put(envelope, held=True)
        for identifier in unit.releases:
            self.messages[unit.shard, identifier].held = False
        for identifier in unit.drops:
            self._take_back(unit.shard, identifier)
        for message in put_aside:
            message.held = False
        for identifier in unit.stashes:
            self.messages[unit.shard, identifier].held = True
        self._set_timers(unit)
        for move in unit.moves:
            if self.status(move.decision) == move.before:
                self.decisions[move.decision].status = move.after
        for decision in unit.decisions:
            self.decisions[decision.id] = copy(decision)
            self.decisions[decision.id].requested_at = self.now
        for identifier in unit.withdraws:
            if (unit.shard, identifier) in self.messages:
                self._take_back(unit.shard, identifier)

    def put(self, envelope: Envelope, *, held: bool = False) -> None:
        """A new message."""
        self.messages[envelope.shard, envelope.id] = Message(copy(envelope), held, self.now + envelope.delay_seconds)

    def _take_back(self, shard: int, identifier: int) -> None:
        self.turns.append(turn(self.messages.pop((shard, identifier)).envelope, 0, "cancelled"))

    def _retry(self, unit: Unit) -> None:
        for retry in unit.retries:
            message = self.messages[unit.shard, retry.id]
            if _fails(retry, message.envelope) and message.failing_since is None:
                message.failing_since = self.now
            message.due = self.now + retry.delay_seconds
            for field in ("deliveries", "failures", "last_error", "started", "losses", "timeouts"):
                setattr(message.envelope, field, getattr(retry, field))

    def _fire(self, unit: Unit) -> None:
        for fire in unit.fires:
            known = self.timers[fire.address, fire.key]
            if known.timer.period_seconds:
                known.due += fire.periods * known.timer.period_seconds
            else:
                del self.timers[fire.address, fire.key]

    def _set_timers(self, unit: Unit) -> None:
        for key in unit.timers_cancelled:
            assert unit.actor is not None
            self.timers.pop((unit.actor.address, key), None)
        for timer in unit.timers:
            self.timers[timer.address, timer.key] = Due(timer, self.now + timer.delay_seconds)

    # -- from outside

    def send(self, envelope: Envelope, client_id: str) -> list[bool] | type[Exception]:
        """See `Store.send`."""
        known = self.client_ids.get((envelope.recipient, client_id)) if client_id else None
        if known is not None:
            return [False] if known == envelope.body else Conflict
        if client_id:
            self.client_ids[envelope.recipient, client_id] = envelope.body
        self.put(envelope)
        return [True]

    def receive(self, address: str) -> list[int]:
        """See `Store.receive`."""
        found = [m.envelope.id for m in self.waiting(address)]
        for identifier in found:
            del self.messages[shard_of(address), identifier]
        return found

    def decide(self, verdict: Verdict, notice: Envelope) -> str | type[Exception]:
        """See `Store.decide`."""
        decision = self.decisions.get(verdict.decision)
        if decision is None:
            return NotFound
        if decision.status != "pending":
            return AlreadyDecided
        if decision.digest != verdict.digest:
            return Conflict
        expired = 0 < decision.expires_seconds <= self.now - decision.requested_at
        if expired and verdict.status != "expired":
            return AlreadyDecided
        decision.status, decision.decided_by, decision.note = verdict.status, verdict.by, verdict.note
        self.put(notice)
        return decision.status


def _fails(retry: Retry, envelope: Envelope) -> bool:
    return retry.failures > envelope.failures or (retry.deliveries > envelope.deliveries and not retry.started)
