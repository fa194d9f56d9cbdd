"""What every actor does with the system's messages unless its class handles them: start, stop, fail, pause, resume.

This is the child's half of what `supervision` decides. Every answer names the incarnation that it is about, so that a
supervisor can tell an answer that it waits for from one that was overtaken.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ..mailbox.address import parent_of
from ..mailbox.lane import Lane
from ..mailbox.message import Message
from ..persistence.rows import ENDED
from .actor import Actor
from .bonds import is_gone
from .cancelling import cancel
from .cell import UNSTARTED, StandIn
from .context import Context
from .system import NOBODY, Abandon, Cancel, ChildFailed, Ignored, Kill, Pause, Resume, Start, Started, Stop, Stopped
from .waiting import run_ahead
from .watching import farewell

KILLED = "killed"


def handles(message: Message) -> bool:
    """Whether `handle` knows this message."""
    return isinstance(message, Start | Stop | Kill | Cancel | Abandon | Pause | Resume)


def handle(actor: Actor[Any], message: Message, ctx: Context) -> Awaitable[None] | None:
    """Do what a system message asks of an ordinary actor; what is left to be awaited, if anything.

    Raises:
        Exception: whatever the actor's `on_start`, `on_stop` or `on_cancel` raised.
    """
    row = ctx.row
    match message:
        case Start():
            return _start(actor, message, ctx)
        case Stop():
            return _stop(actor, message, ctx)
        case Kill():
            if row.status in ("active", "parked", "paused"):
                row.status, row.reason = "failed", message.reason
                _tell_parent(ctx, ChildFailed(ctx.address, row.incarnation, message.reason, starting=ctx.starts))
        case Cancel():
            return cancel(actor, message, ctx)
        case Abandon():
            if row.status == "failed" and message.incarnation in (0, row.incarnation):
                farewell(ctx, "failed", row.reason)
        case Pause():
            if row.status == "active":
                row.status = "paused"
                row.reason = f"paused by {message.by or 'an operator'}: {message.reason}".rstrip(": ")
        case Resume():
            if row.status in ("parked", "paused", "failed"):
                row.status, row.reason = "active", ""
        case _:
            raise TypeError(f"no system message: {type(message).__name__}")
    return None


def _start(actor: Actor[Any], message: Start, ctx: Context) -> Awaitable[None] | None:
    row = ctx.row
    if message.incarnation <= row.incarnation and row.status == "active" and row.incarnation:
        # Said twice (a supervisor that was itself restarted asks again): it runs already.
        _tell_parent(ctx, Started(ctx.address, row.incarnation))
        return None
    if row.status == "stopped" and row.reason == KILLED and message.incarnation == row.incarnation:
        return None  # the kill has overtaken this start (`_stop`): nobody wants it any more
    row.incarnation = max(message.incarnation, row.incarnation + 1)
    if row.status == "paused":
        # Only an operator resumes it; its supervisor goes on with the others.
        _tell_parent(ctx, Started(ctx.address, row.incarnation))
        return None
    if type(actor) is StandIn:
        # It goes on by itself under code that can read it; its supervisor goes on with the others.
        row.status, row.reason = "parked", f"{UNSTARTED}its state cannot be read by this program"
        _tell_parent(ctx, Started(ctx.address, row.incarnation))
        return None
    row.status, row.reason = "active", ""
    return _then(actor.on_start(ctx), partial(_started, ctx))


def _started(ctx: Context) -> None:
    row = ctx.row
    if ctx.declined:
        row.status, row.reason = "stopped", "ignored"
        _tell_parent(ctx, Ignored(ctx.address, row.incarnation))
    else:
        _tell_parent(ctx, Started(ctx.address, row.incarnation))


def _stop(actor: Actor[Any], message: Stop, ctx: Context) -> Awaitable[None] | None:
    row = ctx.row
    if 0 < message.incarnation < row.incarnation:
        _tell_parent(ctx, Stopped(ctx.address, message.incarnation, message.reason))
        return None
    if message.incarnation > row.incarnation:
        # A start that waits for the world, or hangs, is overtaken: this is the incarnation that shall never be.
        row.incarnation = message.incarnation
        if row.status != "paused":
            row.status, row.reason = "stopped", KILLED
    if message.final and (row.status in ENDED or is_gone(row)):
        _tell_parent(ctx, Stopped(ctx.address, message.incarnation or row.incarnation, NOBODY, ended=True))
        return None
    # Not twice: who asks again has not seen the answer. What has ended, failed or was paused stays as it is.
    if message.kill or row.status in ("stopped", "paused", "failed", *ENDED):
        _stopped(message, ctx)
        return None
    return _then(actor.on_stop(ctx), partial(_stopped, message, ctx))


def _stopped(message: Stop, ctx: Context) -> None:
    row, reason = ctx.row, KILLED if message.kill else message.reason
    if ctx.end is not None:
        status, own = ctx.end
        if status == "failed":
            return  # a clean-up that went wrong: its supervisor is told so
        # Whatever it calls its end, it was asked for, and is no work done.
        ctx.end, reason = None, own or "normal"
    if row.status not in ("stopped", "paused", "failed", *ENDED):
        row.status, row.reason = "stopped", reason
    if message.final and row.status in ("stopped", "paused"):
        row.status = "cancelled"
        farewell(ctx, "cancelled", reason)
    elif message.final and row.status == "failed":
        farewell(ctx, "failed", row.reason)
    ended = row.status == "completed" or (row.status == "cancelled" and not message.final)
    _tell_parent(ctx, Stopped(ctx.address, message.incarnation or row.incarnation, reason, ended=ended))


def _tell_parent(ctx: Context, message: Message) -> None:
    parent = parent_of(ctx.address)
    if parent:
        ctx.send(parent, message, lane=Lane.SYSTEM)


def _then(result: Awaitable[None] | None, after: Callable[[], None]) -> Awaitable[None] | None:
    """What follows an actor's own method: at once where that does not wait."""
    rest = run_ahead(result)
    if rest is None:
        after()
        return None
    return _wait(rest, after)


async def _wait(rest: Awaitable[None], after: Callable[[], None]) -> None:
    await rest
    after()
