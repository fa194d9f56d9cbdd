"""Circles of deferred replies: A waits for B's answer, which B gives when A has answered it, and so on for ever.

Nobody sees such a circle in whole. Whoever closes one last (by deferring a request while it has asks open, or by
opening one while it has requests deferred) sends a small `Probe` along its asks. It goes on wherever it meets an actor
that deferred the very ask it came along; back where it was sent out, it has walked a circle, and the youngest ask of
it fails with "cycle". How many probes there can be is bounded by a budget that is divided where the way forks.

A deferred request counts as waiting for the open asks unless its turn called a worker or set a timer: that actor goes
on by itself. What looks like a circle and is none (the answer would have come from a third message) fails all the same;
what is one and does not look like it ends by its time-outs.
"""

from typing import TYPE_CHECKING

import msgspec

from ..mailbox.lane import Lane
from . import asking
from .bonds import Bonds
from .system import AskFailed, Probe

if TYPE_CHECKING:
    from .context import Context

BUDGET = 256
"""Probes that one turn can cause at most; also the longest circle that is found."""


def send_out(ctx: "Context", *, deferred: bool, opened: list[int]) -> None:
    """After a turn that deferred its request or opened asks: look for a circle that it closed."""
    bonds = ctx.bonds
    if not any(request.waits for request in bonds.requests.values()):
        return
    asks = list(bonds.asks) if deferred else [ask for ask in opened if ask in bonds.asks]
    me = ctx.row.address
    _fork(ctx, bonds, asks, [Probe(ask, me, ask, ask, me, 0) for ask in asks], BUDGET)


def follow(ctx: "Context", probe: Probe) -> None:
    """A probe came along an ask to this actor."""
    bonds = ctx.bonds
    request = bonds.requests.get(probe.ask)
    if request is None or not request.waits:
        return
    me = ctx.row.address
    if probe.origin == me:
        if probe.first in bonds.asks:
            failed = AskFailed("cycle", f"asks wait for each other in a circle, {me} among them; this is the youngest")
            asking.answer(ctx, probe.asker, probe.youngest, failed)
        return
    asks = list(bonds.asks)
    onward = [
        Probe(ask, probe.origin, probe.first, max(ask, probe.youngest), me if ask > probe.youngest else probe.asker, 0)
        for ask in asks
    ]
    _fork(ctx, bonds, asks, onward, probe.budget)


def _fork(ctx: "Context", bonds: Bonds, asks: list[int], probes: list[Probe], budget: int) -> None:
    ways = [
        (bonds.asks[ask].target, probe)
        for ask, probe in zip(asks, probes, strict=True)
        if not ctx.is_worker(bonds.asks[ask].target)
    ]
    # The youngest asks: where the budget does not reach for all, a circle that closed last is found.
    ways = ways[max(0, len(ways) - budget) :]
    for target, probe in ways:
        share = (budget - len(ways)) // len(ways)
        ctx.sends.append(ctx.seal(target, msgspec.structs.replace(probe, budget=share), Lane.SYSTEM))
