"""How a turn sets and cancels timers: the row, and the generation in the bonds that its message is checked against."""

from datetime import timedelta
from typing import TYPE_CHECKING

from ..mailbox.errors import UsageError
from ..mailbox.lane import Lane
from ..mailbox.message import Message, encode, wire
from ..persistence.rows import Timer
from .bonds import RESERVED

if TYPE_CHECKING:
    from .context import Context

JITTER = 0.1
"""Part of its period by which a timer's beat is moved, at most, either way."""
JITTER_FROM_SECONDS = 60.0
SHORTEST_PERIOD_SECONDS = 0.001
"""One shorter would have millions of due times go by in the time that one message takes."""


def seconds_of(duration: timedelta | float) -> float:
    """A duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def schedule(
    ctx: "Context", key: str, seconds: float, message: Message, *, period: float, lane: Lane, jitter: bool, loose: bool
) -> None:
    """See `Context.schedule`.

    Raises:
        UsageError: no sensible time, a key of the runtime's, or too many timers.
    """
    if not 0 <= seconds < 1e10 or not 0 <= period < 1e10:
        raise UsageError(f"timer {key!r}: {seconds} s, every {period} s; both must be 0 or more")
    if 0 < period < SHORTEST_PERIOD_SECONDS:
        raise UsageError(f"timer {key!r}: every {period} s; give {SHORTEST_PERIOD_SECONDS:g} s or more, or 0 for once")
    if period and loose:
        raise UsageError(f"timer {key!r}: a loose timer fires once, as nothing would stop it when its actor has ended")
    _check_key(key)
    if jitter:
        if period < JITTER_FROM_SECONDS:
            raise UsageError(f"timer {key!r}: jitter is for periods of {JITTER_FROM_SECONDS:g} s or more")
        seconds = max(0.0, seconds + period * JITTER * (2 * ctx.port.random() - 1))
    if not loose:
        generation = ctx.tie().arm(key, periodic=period > 0)
        if ctx.span.on:
            ctx.bonds.causes[key] = ctx.span.traceparent
    else:
        if ctx.bound():
            ctx.tie().disarm(key)
        generation = ctx.next_id()
    set_timer(ctx, key, generation, seconds, message, period=period, lane=lane)


def cancel(ctx: "Context", key: str) -> None:
    """See `Context.cancel_timer`."""
    _check_key(key)
    if ctx.bound():
        ctx.tie().disarm(key)
    unset_timer(ctx, key)


def set_timer(
    ctx: "Context",
    key: str,
    generation: int,
    seconds: float,
    message: Message,
    *,
    period: float = 0.0,
    lane: Lane = Lane.NORMAL,
) -> None:
    """Write a timer's row, whatever the bonds say."""
    name, version = wire(type(message))
    row = ctx.row
    timer = Timer(row.shard, row.address, key, generation, seconds, name, version, encode(message), int(lane), period)
    rare = ctx.rarely()
    rare.timers = [known for known in rare.timers if known.key != key] + [timer]
    if key in rare.cancelled_timers:
        rare.cancelled_timers.remove(key)


def unset_timer(ctx: "Context", key: str) -> None:
    """Delete a timer's row, whatever the bonds say."""
    rare = ctx.rarely()
    rare.timers = [known for known in rare.timers if known.key != key]
    if key not in rare.cancelled_timers:
        rare.cancelled_timers.append(key)


def _check_key(key: str) -> None:
    if key.startswith(RESERVED):
        raise UsageError(f"timer {key!r}: keys that begin with {RESERVED!r} are the runtime's; choose another")
