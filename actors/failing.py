"""A turn failed: what becomes of its message, and of its actor. The two ladders, as data in the actor's open unit.

The message's ladder comes first: it is tried again, after ever longer waits, until its own budget is spent. Only then,
or where the actor itself is broken, is there one *actor failure*, which its supervisor decides about. The turn itself
leaves nothing but this: its effects are forgotten, and its object is made anew from the last good snapshot.

Four budgets that never mix: a bug is counted (`failures`); a turn over its limit is counted there and by itself
(`timeouts`); the world's fault is not counted but has an hour (`transient_seconds`), after which the actor is parked,
its message still first in line, until a person resumes it, which gives the message its hour anew; what the platform did
to a turn (lost lease, drain, database, interrupt) never comes here, and a process that died or found no memory is a
loss (`quarantine`).
"""

import logging

import msgspec

from ..mailbox.address import parent_of, shard_of
from ..mailbox.envelope import Envelope, seal
from ..mailbox.lane import Lane
from ..mailbox.message import wire
from ..persistence.port import Port
from ..persistence.unit import Unit
from .cell import Cell
from .directives import Fatal, Park, Reject, Transient, directive_of, is_out_of_memory
from .measuring import UNMEASURED, Measures
from .outcome import Outcomes, Undeliverable, Void, describe, plain, retry_of
from .spec import Tree
from .system import Cancel, ChildFailed, Start, Stop

log = logging.getLogger(__name__)

PROVIDER_DOWN = "provider_down:"
"""How the reason begins of an actor that was parked because its message has met a fault of the world for too long."""

_CANCEL = wire(Cancel).name
_LIFECYCLE = {wire(Start).name, wire(Stop).name}
"""Messages whose failure is the actor's, at once: nobody else can start or stop it, and its supervisor waits."""


MEMORY_LOSSES = 2
"""So often a message that finds no memory may be unlucky, as many as make it a suspect (`quarantine`). Where nobody
tries it alone, it is a bug after that: it would else end one process after the other for ever."""
MEMORY_SECONDS = 0.5


class TurnOverLimit(Exception):
    """A handler that took longer than its actor's turns may."""


class MailboxIsFull(Transient):
    """The turn sends to an actor that has too much to do already: it is done again when there is room.

    After `HELD_BACK_SECONDS` it is let through all the same: two full actors that send to each other would else stand
    still for ever. So nobody has to look at this actor, and it is not parked.
    """


class PoolIsShut(Transient):
    """What would make an instance of a pool whose supervisor is down, or has paused it (`gates`): it waits for that."""

    def __init__(self, why: str, deliveries: int) -> None:
        super().__init__(why, after_seconds=1.0 if deliveries <= SOON_TRIES else 5.0)


SOON_TRIES = 5
"""So often what waits for a pool is looked at every second; after that every five seconds."""
HELD_BACK_SECONDS = 30.0
"""For how long a full mailbox keeps one turn back."""


class Failures:
    """Decides about failed turns of one node's actors."""

    def __init__(self, tree: Tree, port: Port, outcomes: Outcomes) -> None:
        self.tree = tree
        self.port = port
        self.outcomes = outcomes
        self.measures: Measures = UNMEASURED

    def fail(self, cell: Cell, envelope: Envelope, error: BaseException) -> float | None:
        """A turn failed: decide, write it into the unit, make the object anew.

        Returns the delay until the message is tried again; None when it is done with.
        """
        self.measures.handled(cell)
        if isinstance(error, Void):
            unit = self._unit(cell)
            self.outcomes.handled(unit, envelope, cell.row.version if cell.row is not None else 0, error.outcome)
            unit.sends += error.sends
            return None
        if isinstance(error, Undeliverable):
            return self._undelivered(cell, envelope, error)
        directive = directive_of(error)
        cell.revive()
        reason = describe(error)
        if is_out_of_memory(error) and envelope.losses < MEMORY_LOSSES:
            return self._lost(cell, envelope, reason)
        if envelope.type == _CANCEL and not isinstance(directive, Transient):
            # Whatever `on_cancel` raises, the actor is cancelled: at the next attempt without it.
            return self._again(cell, envelope, reason, None, charged=True)
        if envelope.type in _LIFECYCLE and not isinstance(directive, Transient):
            directive = Fatal(reason)
        match directive:
            case Transient():
                return self._transient(cell, envelope, directive, reason)
            case Reject():
                self._bury(cell, envelope, "rejected", reason)
                return None
            case Park():
                return self._park(cell, envelope, plain(directive.reason) or reason)
            case Fatal():
                self._fatal(cell, envelope, reason)
                return None
            case _:
                return self._bug(cell, envelope, error, reason)

    def _undelivered(self, cell: Cell, envelope: Envelope, error: Undeliverable) -> float | None:
        lost = error.why == "worker_lost"
        if lost and envelope.type == _CANCEL:
            return self._again(cell, envelope, error.detail, None, charged=True)  # as after what `on_cancel` raises
        self._bury(cell, envelope, error.why, error.detail)
        if lost and envelope.type in _LIFECYCLE:
            self._actor_failure(cell, envelope, error.detail)
        return None

    def _fatal(self, cell: Cell, envelope: Envelope, reason: str) -> None:
        self._bury(cell, envelope, "failed", reason)
        self._actor_failure(cell, envelope, reason)

    def _bug(self, cell: Cell, envelope: Envelope, error: BaseException, reason: str) -> float | None:
        log.warning(
            "%s: %s failed in turn %s",
            cell.address,
            envelope.type,
            envelope.id,
            exc_info=error,
            extra={"envelope": envelope},
        )
        overran = isinstance(error, TurnOverLimit)
        policy = cell.retry_policy()
        if not policy.exhausted(envelope.failures + 1, envelope.timeouts + overran):
            envelope.timeouts += overran
            return self._again(cell, envelope, reason, None, charged=True)
        envelope.failures += 1
        envelope.timeouts += overran
        self._fatal(cell, envelope, reason)
        return None

    def _transient(self, cell: Cell, envelope: Envelope, directive: Transient, reason: str) -> float | None:
        old = self.failing_seconds(cell, envelope) >= cell.retry_policy().transient_seconds
        if not old or isinstance(directive, MailboxIsFull | PoolIsShut) or envelope.type == _CANCEL:
            return self._again(cell, envelope, reason, directive.after_seconds, charged=directive.charge)
        if envelope.type in _LIFECYCLE:
            self._fatal(cell, envelope, reason)  # its supervisor waits for this very message
            return None
        return self._park(cell, envelope, f"{PROVIDER_DOWN} {plain(directive.reason) or reason}")

    def failing_seconds(self, cell: Cell, envelope: Envelope) -> float:
        """For how long a message has been failing; 0 at its first failure."""
        now = self.port.monotonic()
        known = cell.failing.get(envelope.lane)
        if known is None or known[0] != envelope.id:
            since = max(now - envelope.failing_seconds, cell.resumed_at)
            known = cell.failing[envelope.lane] = (envelope.id, since)
        return now - known[1]

    def _lost(self, cell: Cell, envelope: Envelope, reason: str) -> float:
        """The process has no memory left, which may be this message's doing: a loss, as if it had died."""
        envelope.losses += 1
        envelope.last_error = reason
        # Not at once: this node gives everything away now, and the next one is to know of the loss.
        self._retry(cell, envelope, MEMORY_SECONDS)
        return MEMORY_SECONDS

    def _again(
        self, cell: Cell, envelope: Envelope, reason: str, after_seconds: float | None, *, charged: bool
    ) -> float:
        self.failing_seconds(cell, envelope)  # from the first one on
        envelope.failures += charged
        # Where nothing is charged, it is the deliveries that make the waits grow.
        attempts = envelope.failures if charged else envelope.deliveries
        delay = after_seconds
        if delay is None:
            delay = cell.retry_policy().delay_seconds(attempts, self.port.random())
        envelope.deliveries += 1
        envelope.last_error = reason
        self._retry(cell, envelope, delay)
        return delay

    def _retry(self, cell: Cell, envelope: Envelope, delay: float) -> None:
        envelope.delay_seconds = delay
        self.measures.retried(cell.kind())
        unit = self._unit(cell)
        others = [retry for retry in unit.retries if retry.id != envelope.id]
        unit.retries = [*others, retry_of(envelope)]

    def _unit(self, cell: Cell) -> Unit:
        if cell.row is not None and cell.row.version > 0:
            return cell.open_unit(cell.row)
        # There is no row yet, and a failed message does not make one: the unit is about messages only.
        cell.row, cell.actor = None, None
        if cell.unit is None:
            cell.unit = Unit(cell.shard)
        return cell.unit

    def _bury(self, cell: Cell, envelope: Envelope, why: str, detail: str) -> None:
        unit = self._unit(cell)
        version = cell.row.version if cell.row is not None else 0
        self.outcomes.bury(unit, envelope, why, detail, version)
        if envelope.reply_to:
            unit.sends.append(self.outcomes.ask_failed(envelope, why, detail))

    def _park(self, cell: Cell, envelope: Envelope, reason: str) -> float | None:
        self._stand_still(cell, "parked", reason)
        if envelope.lane == Lane.SYSTEM:
            # A parked actor takes system messages: this one would come again at once, and Resume never.
            self._bury(cell, envelope, "rejected", reason)
            return None
        envelope.delay_seconds = 0.0
        return 0.0

    def _stand_still(self, cell: Cell, status: str, reason: str) -> None:
        before = cell.row or cell.create()
        row = msgspec.structs.replace(before)
        unit = cell.open_unit(before)
        row.status, row.reason = status, reason  # type: ignore[assignment]
        row.version += 1
        unit.actor = cell.row = row

    def _actor_failure(self, cell: Cell, envelope: Envelope, reason: str) -> None:
        start = envelope.message() if envelope.type == wire(Start).name else None
        if cell.row is None and start is None:
            return  # its first message failed: there is no actor to blame
        self._stand_still(cell, "failed", reason)
        row = cell.row
        assert row is not None
        if isinstance(start, Start):
            # The incarnation that failed to start, so that the supervisor knows which attempt this was.
            row.incarnation = max(row.incarnation, start.incarnation or row.incarnation + 1)
        parent = parent_of(cell.address)
        if parent not in self.tree.specs:
            return
        row.sent += 1
        row.last_id = self.outcomes.ids.next()
        unit = cell.open_unit(row)
        unit.sends.append(
            seal(
                ChildFailed(cell.address, row.incarnation, reason, starting=start is not None),
                id=row.last_id,
                shard=shard_of(parent),
                recipient=parent,
                sender=cell.address,
                lane=Lane.SYSTEM,
                sender_seq=row.sent,
                causation=envelope.id,
            )
        )
