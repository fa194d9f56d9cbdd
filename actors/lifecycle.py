"""What every actor does with the system's messages unless its class handles them: start, stop, pause, resume."""

import inspect
from collections.abc import Awaitable
from typing import Any

from ..mailbox.address import parent_of
from ..mailbox.lane import Lane
from ..mailbox.message import Message
from ..persistence.rows import ENDED
from .actor import Actor
from .context import Context
from .system import Pause, Resume, Start, Started, Stop, Stopped


def handles(message: Message) -> bool:
    """Whether `handle` knows this message."""
    return isinstance(message, Start | Stop | Pause | Resume)


async def handle(actor: Actor[Any], message: Message, ctx: Context) -> None:
    """Do what a system message asks of an ordinary actor."""
    match message:
        case Start():
            await _start(actor, message, ctx)
        case Stop():
            # Not twice: who asks again has not seen the answer. What has ended or was paused stays as it is.
            if message.incarnation == ctx.incarnation and ctx.row.status not in ("stopped", "paused", *ENDED):
                await _maybe(actor.on_stop(ctx))
                ctx.row.status, ctx.row.reason = "stopped", message.reason
            _tell_parent(ctx, Stopped(ctx.address, message.incarnation, message.reason))
        case Pause():
            if ctx.row.status == "active":
                ctx.row.status = "paused"
                ctx.row.reason = f"paused by {message.by or 'an operator'}: {message.reason}".rstrip(": ")
        case Resume():
            if ctx.row.status in ("parked", "paused", "failed"):
                ctx.row.status, ctx.row.reason = "active", ""
        case _:
            raise TypeError(f"no system message: {type(message).__name__}")


async def _start(actor: Actor[Any], message: Start, ctx: Context) -> None:
    if message.incarnation <= ctx.row.incarnation and ctx.row.status == "active":
        # Said twice (a supervisor that was itself restarted asks again): it runs already.
        _tell_parent(ctx, Started(ctx.address, ctx.row.incarnation))
        return
    ctx.row.incarnation = max(message.incarnation, ctx.row.incarnation + 1)
    if ctx.row.status == "paused":
        # Only an operator resumes it; its supervisor goes on with the others.
        _tell_parent(ctx, Started(ctx.address, ctx.row.incarnation))
        return
    ctx.row.status, ctx.row.reason = "active", ""
    await _maybe(actor.on_start(ctx))
    _tell_parent(ctx, Started(ctx.address, ctx.row.incarnation))


def _tell_parent(ctx: Context, message: Message) -> None:
    parent = parent_of(ctx.address)
    if parent:
        ctx.send(parent, message, lane=Lane.SYSTEM)


async def _maybe(result: Awaitable[None] | None) -> None:
    if inspect.isawaitable(result):
        await result
