"""Whether a message in hand still counts: the one place where bonds are checked, before any handler is looked for.

What a bond let in closes that bond in the same turn (a timer that fires once, an ask, a watch), so it is handled once;
where the turn fails nothing is closed, and where it puts the message aside the bond stays (`Context.stash`).
"""

from typing import TYPE_CHECKING

from ..mailbox.envelope import Envelope, headers_of
from ..mailbox.message import Message
from .asking import timer_key
from .bonds import CLOCK, COUNTED, Bonds
from .outcome import Void
from .scheduling import unset_timer
from .system import Abandon, AskFailed, AskTimedOut, Probe, Terminated, Unwatch

if TYPE_CHECKING:
    from .context import Context

PASSING = Abandon | AskTimedOut | Probe | Terminated | Unwatch
"""Messages that mean nothing to an actor that has ended or was never there, and are no loss."""


def is_passing(envelope: Envelope, message: Message) -> str:
    """The outcome of a message that nobody misses where its recipient has ended; "" for all others."""
    if envelope.sender == CLOCK or isinstance(message, PASSING):
        return "refused"
    return "late" if headers_of(envelope).ask and not envelope.reply_to else ""


def admit(ctx: "Context", message: Message) -> Message:
    """The message to handle: nearly always `message` itself.

    Raises:
        Void: it does not count any more.
    """
    envelope = ctx.envelope
    if envelope.sender == CLOCK:
        return _of_clock(ctx, message)
    if isinstance(message, Terminated):
        return _of_watched(ctx, message)
    if envelope.correlation and headers_of(envelope).ask:
        return _outcome(ctx, envelope.correlation, message)
    return message


def _of_clock(ctx: "Context", message: Message) -> Message:
    bonds = ctx.bonds
    if isinstance(message, AskTimedOut):
        known = bonds.asks.get(message.ask)
        if known is None:
            raise Void("refused")
        return _outcome(ctx, message.ask, AskFailed("timeout", f"{known.target} has not answered in time"))
    generation = ctx.envelope.correlation
    if not 0 < generation < COUNTED or generation in bonds.tickers.values():
        return message
    key = next((key for key, armed in bonds.timers.items() if armed == generation), None)
    if key is None:
        raise Void("refused")
    fired = key
    del ctx.tie().timers[fired]
    bonds.causes.pop(fired, None)

    def keep(bonds: Bonds) -> None:
        if fired not in bonds.tickers:
            bonds.timers.setdefault(fired, generation)

    ctx.rarely().keep = keep
    return message


def _of_watched(ctx: "Context", message: Terminated) -> Message:
    generation = ctx.envelope.correlation
    if ctx.bonds.watching.get(message.address) != generation:
        raise Void("refused")
    del ctx.tie().watching[message.address]

    def keep(bonds: Bonds) -> None:
        bonds.watching.setdefault(message.address, generation)

    ctx.rarely().keep = keep
    return message


def _outcome(ctx: "Context", ask: int, message: Message) -> Message:
    if ask not in ctx.bonds.asks:
        raise Void("late")
    known = ctx.tie().asks.pop(ask)
    if ctx.envelope.sender != CLOCK:
        unset_timer(ctx, timer_key(ask))

    def keep(bonds: Bonds) -> None:
        bonds.asks[ask] = known

    rare = ctx.rarely()
    rare.answers, rare.keep = ask, keep
    return message
