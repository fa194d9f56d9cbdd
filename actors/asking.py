"""Asks: requests of an actor whose answers are messages too. None blocks a turn; each has exactly one outcome.

The open ask in the asker's bonds is the arbiter: the first of answer, AskFailed and time-out that is handled closes it,
what comes later is dropped. It is open until an outcome was *handled*: a handler that fails gets it again. The target
remembers the requests that it did not answer at once, so that it can say so when it ends, and so that circles of such
requests are found (`cycles`).
"""

from typing import TYPE_CHECKING, Any

from ..mailbox.envelope import Headers, headers_of, write_headers
from ..mailbox.errors import UsageError
from ..mailbox.lane import Lane
from ..mailbox.message import Message
from ..mailbox.request import Request
from . import scheduling
from .bonds import ASK_LIMIT, RESERVED, Deferred, OpenAsk
from .outcome import answer_headers
from .system import AskTimedOut

if TYPE_CHECKING:
    from .context import Context


def timer_key(ask: int) -> str:
    """Key of the timer of an ask's time-out."""
    return f"{RESERVED}ask:{ask}"


def open_ask(ctx: "Context", address: str, request: Request[Any], seconds: float, lane: Lane) -> int:
    """Send a request and remember it; its id. See `Context.ask`.

    Raises:
        UsageError: no request, no sensible time, or too many asks that are open.
    """
    if not isinstance(request, Request):
        raise UsageError(
            f"{type(request).__name__} is no Request, so nothing answers it; send it, or derive it from one"
        )
    if not 0 < seconds < 1e10:
        raise UsageError(f"ask {address}: its timeout is {seconds} s; give a time above 0")
    bonds = ctx.tie()
    if len(bonds.asks) >= ASK_LIMIT:
        raise UsageError(f"ask {address}: {ASK_LIMIT:,} asks are open already; let some of them be answered first")
    deadline = min(ctx.now + seconds, ctx.deadline or float("inf"))
    envelope = ctx.seal(address, request, lane)
    envelope.reply_to = ctx.row.address
    envelope.headers = write_headers(Headers(deadline=deadline, ask=True, traceparent=ctx.span.traceparent))
    ctx.sends.append(envelope)
    bonds.asks[envelope.id] = OpenAsk(address, deadline)
    timed_out = AskTimedOut(envelope.id)
    left = max(0.0, deadline - ctx.now)
    scheduling.set_timer(ctx, timer_key(envelope.id), bonds.draw(), left, timed_out, lane=Lane.REPLY)
    ctx.rarely().opened.append(envelope.id)
    return envelope.id


def answer(ctx: "Context", to: str, ask: int, message: Message) -> None:
    """Send the answer to a request, and forget the request where it was deferred."""
    envelope = ctx.seal(to, message, Lane.REPLY)
    envelope.correlation = ask
    envelope.headers = answer_headers(ctx.span.traceparent)
    ctx.sends.append(envelope)
    if ctx.bound() and ask in ctx.bonds.requests:
        del ctx.tie().requests[ask]


def defer(ctx: "Context") -> bool:
    """Remember the request in hand where its turn leaves it unanswered; whether it does."""
    envelope = ctx.envelope
    headers = headers_of(envelope)
    if not headers.ask or not envelope.reply_to or (ctx.rare is not None and ctx.rare.stash):
        return False
    if any(sent.correlation == envelope.id for sent in ctx.sends):
        return False
    timers = ctx.rare.timers if ctx.rare is not None else []
    works = any(ctx.is_worker(sent.recipient) for sent in ctx.sends)
    works = works or any(not timer.key.startswith(RESERVED) for timer in timers)
    request = Deferred(envelope.reply_to, headers.deadline, waits=not works)
    ctx.tie().defer(envelope.id, request, ctx.now)
    return True
