"""Cancelling: an actor ends now, whatever its handler is doing, and what it has asked workers for is taken back.

`Cancel` interrupts (`pump`), so the turn in hand can never commit. The turn that cancels runs `on_cancel`, once: where
that fails, the next attempt does without. The end is told as any other (`turn`). Later messages are refused.

A supervisor is not cancelled: what becomes of its children is its own affair (`TerminateChild`). Actors whose address
lies below that of an actor, with no supervisor between them, are not touched either: who spawned them knows them, and
cancels them from `on_cancel`.
"""

import inspect
from typing import Any

from ..persistence.rows import ENDED
from .actor import Actor
from .context import Context
from .outcome import Undeliverable
from .system import Cancel


async def cancel(actor: Actor[Any], message: Cancel, ctx: Context) -> None:
    """Do what the message asks of an actor.

    Raises:
        Undeliverable: it is a supervisor.
        Exception: whatever `on_cancel` raised.
    """
    if ctx.row.kind == "supervisor":
        raise Undeliverable(
            "rejected", f"{ctx.address} is a supervisor, which is not cancelled: TerminateChild, to its own, stops it"
        )
    if ctx.row.status in ENDED:
        return
    by = f"cancelled by {message.by or 'an operator'}: {message.reason}".rstrip(": ")
    if ctx.attempt == 1:
        result = actor.on_cancel(ctx)
        if inspect.isawaitable(result):
            await result
    else:
        by = f"{by} (on_cancel failed: {ctx.envelope.last_error})"
    ctx.stop("cancelled", by)
