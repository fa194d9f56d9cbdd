"""Watching: who is told, once, that an actor has ended for good; and what its end means for all that it is tied to.

The target keeps its watchers in its bonds, the watcher whom it watches, both with the generation of the watch: a
`Terminated` of a watch that was given up is not handled, even if it waits in the mailbox already. Only an end for good
counts: completed, cancelled, or failed and given up by the supervisor. A restart is no end.
"""

from typing import TYPE_CHECKING

from ..mailbox.errors import UsageError
from ..mailbox.lane import Lane
from ..persistence.unit import Move
from . import asking
from .bonds import WATCHER_LIMIT, WATCHING_LIMIT
from .scheduling import unset_timer
from .system import AskFailed, Terminated, Unwatch, Watch

if TYPE_CHECKING:
    from .context import Context

_WHY = {"cancelled": "cancelled", "failed": "target-failed"}


def watch(ctx: "Context", address: str) -> None:
    """See `Context.watch`.

    Raises:
        UsageError: the actor itself, a worker, or too many.
    """
    if address == ctx.row.address:
        raise UsageError(f"{address} cannot watch itself: nobody would be left to be told")
    if ctx.is_worker(address):
        raise UsageError(f"{address} is a worker: it is no actor, and never ends; watch the actor that calls it")
    if ctx.bound() and address in ctx.bonds.watching:
        return
    if ctx.bound() and len(ctx.bonds.watching) >= WATCHING_LIMIT:
        raise UsageError(f"watch {address}: {WATCHING_LIMIT:,} actors are watched already; unwatch some of them")
    bonds = ctx.tie()
    generation = bonds.watching[address] = bonds.draw()
    ctx.sends.append(ctx.seal(address, Watch(generation), Lane.SYSTEM))


def unwatch(ctx: "Context", address: str) -> None:
    """See `Context.unwatch`."""
    if ctx.bound() and address in ctx.bonds.watching:
        generation = ctx.tie().watching.pop(address)
        ctx.sends.append(ctx.seal(address, Unwatch(generation), Lane.SYSTEM))


def watched(ctx: "Context", message: Watch) -> None:
    """At the target, which is there: one watcher more."""
    watcher = ctx.envelope.sender
    bonds = ctx.bonds
    if bonds.watchers.get(watcher, 0) >= message.generation:
        return
    if watcher not in bonds.watchers and len(bonds.watchers) >= WATCHER_LIMIT:
        reason = f"{WATCHER_LIMIT:,} actors watch it already"
        _tell(ctx, watcher, message.generation, "refused", reason)
        return
    ctx.tie().watchers[watcher] = message.generation


def unwatched(ctx: "Context", message: Unwatch) -> None:
    """At the target: one watcher less."""
    watcher = ctx.envelope.sender
    if ctx.bonds.watchers.get(watcher, 0) == message.generation:
        del ctx.tie().watchers[watcher]


def farewell(ctx: "Context", status: str, reason: str) -> None:
    """This turn ends its actor for good, as `status`: completed, cancelled, or failed. All its bonds are undone.

    Its watchers are told, the requests that it deferred are answered with AskFailed, its own asks and watches are given
    up, its timers are cancelled, its held calls are taken back with the decisions that they wait for, and what it
    had put aside comes back into the mailbox to be refused. To be called in
    the terminal turn, once its last messages are sent; what it does commits with it.
    """
    if status != "failed" and not ctx.bound():
        return
    bonds = ctx.tie()
    bonds.gone = status == "failed"
    for watcher, generation in bonds.watchers.items():
        _tell(ctx, watcher, generation, status, reason)
    failed = AskFailed(_WHY.get(status, "target-ended"), f"{ctx.row.address} is {status}: {reason}".rstrip(": "))
    for ask, request in list(bonds.requests.items()):
        asking.answer(ctx, request.asker, ask, failed)
    for ask in bonds.asks:
        unset_timer(ctx, asking.timer_key(ask))
    for key in (*bonds.timers, *bonds.tickers):
        unset_timer(ctx, key)
    for address, generation in bonds.watching.items():
        ctx.sends.append(ctx.seal(address, Unwatch(generation), Lane.SYSTEM))
    for call, decision in list(bonds.held.items()):
        ctx.withdraw(call)
        for before in ("pending", "approved") if decision else ():
            ctx.move_decision(Move(decision, before, "superseded", f"{ctx.row.address} is {status}", must=False))
    if bonds.stashed:
        ctx.unstash_all()
    for ties in (bonds.watchers, bonds.requests, bonds.asks, bonds.timers, bonds.tickers, bonds.causes, bonds.watching):
        ties.clear()


def _tell(ctx: "Context", watcher: str, generation: int, status: str, reason: str) -> None:
    row = ctx.row
    envelope = ctx.seal(watcher, Terminated(row.address, row.incarnation, status, reason), Lane.NORMAL)
    envelope.correlation = generation
    ctx.sends.append(envelope)
