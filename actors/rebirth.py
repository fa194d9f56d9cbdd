"""Actors that are not there, and what brings them into being: messages to an address without a living actor, and Spawn.

An actor that has ended takes nothing any more, its row does not change: what comes is refused, or was of no use to it
anyway. `Spawn(again=True)` begins its next incarnation with a fresh state; its journal and its numbers go on.
"""

import inspect
from typing import Any, NoReturn

from ..mailbox.address import shard_of
from ..mailbox.envelope import Envelope, seal
from ..mailbox.errors import CallboardError
from ..mailbox.lane import Lane
from ..mailbox.message import Message
from ..persistence.rows import ActorRow
from ..persistence.unit import Unit
from . import cycles, watching
from .actor import Actor
from .arrivals import is_passing
from .bonds import is_gone
from .cell import Cell
from .context import Context
from .outcome import Outcomes, Undeliverable, Void
from .system import NOBODY, Cancel, Probe, Resume, Spawn, Start, Stop, Stopped, Terminated, Unwatch, Watch


def to_nobody(outcomes: Outcomes, envelope: Envelope, message: Message) -> NoReturn:
    """A message to an address where there is no actor, and which does not create one.

    Raises:
        Void: it is answered, or nobody misses it. Undeliverable: any other.
    """
    if isinstance(message, Watch):
        told = Terminated(envelope.recipient, 0, "unknown", "there is no such actor")
        raise Void("done", [_to_watcher(outcomes, envelope, message, told)])
    if isinstance(message, Stop) and envelope.sender:
        raise Void("done", [_never_was(outcomes, envelope, message)])
    passing = is_passing(envelope, message)
    if passing:
        raise Void(passing)
    raise Undeliverable("no-such-actor", f"there is no actor at {envelope.recipient}")


def to_ended(outcomes: Outcomes, row: ActorRow, envelope: Envelope, message: Message) -> None:
    """A message to an actor that has ended; returns where it may bring it back to life.

    Raises:
        Void: it is answered, or nobody misses it. Undeliverable: it is refused.
    """
    gone = is_gone(row)
    if isinstance(message, Start | Stop) or (gone and isinstance(message, Resume)):
        return
    if isinstance(message, Spawn):
        if message.again:
            return
        raise Void("done")
    if isinstance(message, Watch):
        told = Terminated(row.address, row.incarnation, row.status, row.reason)
        raise Void("done", [_to_watcher(outcomes, envelope, message, told)])
    if isinstance(message, Cancel):
        raise Void("done")
    passing = is_passing(envelope, message)
    if passing:
        raise Void(passing)
    raise Undeliverable("recipient-failed" if gone else "recipient-ended", f"{row.address} is {row.status}")


def revive(cell: Cell, ctx: Context, message: Message) -> bool:
    """A turn of an actor that has ended; whether it begins anew with it."""
    if isinstance(message, Start | Resume | Spawn) and ctx.bound():
        ctx.tie().gone = False
    if not isinstance(message, Spawn):
        return False
    row = ctx.row
    row.status, row.reason, row.state = "active", "", b""
    row.incarnation += 1
    cell.renew()
    return True


def handles(message: Message) -> bool:
    """Whether `handle` knows this message."""
    return isinstance(message, Spawn | Watch | Unwatch | Probe)


async def handle(actor: Actor[Any], message: Message, ctx: Context, *, born: bool) -> None:
    """Do what such a message asks of an actor that is there, or came into being (`born`) for it."""
    match message:
        case Spawn():
            if born:
                ctx.row.incarnation = max(1, ctx.row.incarnation)
                started = actor.on_start(ctx)
                if inspect.isawaitable(started):
                    await started
        case Watch():
            watching.watched(ctx, message)
        case Unwatch():
            watching.unwatched(ctx, message)
        case Probe():
            cycles.follow(ctx, message)
        case _:
            raise TypeError(f"no message about bonds: {type(message).__name__}")


def refuse(outcomes: Outcomes, envelope: Envelope, why: Undeliverable) -> Unit:
    """A message to an address that this program's tree does not have: what to write of it."""
    unit = Unit(envelope.shard)
    try:
        to_nobody(outcomes, envelope, envelope.message())
    except Void as void:
        outcomes.handled(unit, envelope, 0, void.outcome)
        unit.sends += void.sends
    except (CallboardError, Undeliverable):
        outcomes.bury(unit, envelope, why.why, why.detail)
        if envelope.reply_to:
            unit.sends.append(outcomes.ask_failed(envelope, why.why, why.detail))
    return unit


def _never_was(outcomes: Outcomes, envelope: Envelope, message: Stop) -> Envelope:
    """To the supervisor: there is nobody to be stopped (a kill may even overtake the start that it ends)."""
    return seal(
        Stopped(envelope.recipient, message.incarnation, NOBODY),
        id=outcomes.ids.next(),
        shard=shard_of(envelope.sender),
        recipient=envelope.sender,
        sender=envelope.recipient,
        lane=Lane.SYSTEM,
        causation=envelope.id,
    )


def _to_watcher(outcomes: Outcomes, envelope: Envelope, message: Watch, told: Terminated) -> Envelope:
    return seal(
        told,
        id=outcomes.ids.next(),
        shard=shard_of(envelope.sender),
        recipient=envelope.sender,
        sender=envelope.recipient,
        lane=Lane.NORMAL,
        correlation=message.generation,
        causation=envelope.id,
    )
