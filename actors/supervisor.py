"""Supervisors: durable actors that start, stop and restart their children, one recorded step at a time.

The state holds what is still to do (`stops`, then `starts`); each step is a message to one child and its answer, so a
supervisor whose node is killed in the middle of a group restart goes on with the step it was at. Children of a pool
are not in the state: one that fails is restarted by its address, on the supervisor's own intensity.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..mailbox.address import key_of, name_of, parent_of
from ..mailbox.lane import Lane
from .actor import Actor, on
from .context import Context
from .restart import ChildState, plan_restart, restarts, within_window
from .spec import Spec, Supervisor, Tree
from .system import Boot, ChildFailed, Resume, Start, Started, Stop, Stopped


class SupervisorState(msgspec.Struct):
    """What a supervisor must not forget."""

    children: list[ChildState] = []
    stops: list[str] = []
    """Children still to be stopped, in this order; the first one was told."""
    starts: list[str] = []
    """Children still to be started, in this order; the first one was told once `stops` is empty."""
    restarted_at: list[float] = []
    tree: str = ""
    """Digest of the tree that its children were last reconciled with."""
    ending: str = ""
    """Why it ends once all children are stopped; "" while it does not."""
    announced: int = 0
    """The incarnation whose start the parent was told of."""


class SupervisorActor(Actor[SupervisorState], kind="supervisor"):
    """The actor behind a `Supervisor` spec."""

    def __init__(self, spec: Supervisor, tree: Tree) -> None:
        self.spec = spec
        self.tree = tree

    def summary(self) -> Mapping[str, Any]:
        state = self.state
        return {
            "children": {child.name: child.status for child in state.children},
            "restarts": len(state.restarted_at),
            "strategy": self.spec.strategy,
        }

    # --- being started and stopped -----------------------------------------------------------------------------

    @on(creates=True)
    def boot(self, message: Boot, ctx: Context) -> None:
        if ctx.row.version == 0:
            self._reconcile(ctx)
        elif self.state.tree != message.tree and ctx.row.status == "active" and not self.state.ending:
            running = {child.name for child in self.state.children if child.status == "running"}
            self._reconcile(ctx)
            for spec in self.spec.children:
                # One that is started now reads its spec anyway; one that runs must be told that it has changed.
                if isinstance(spec, Supervisor) and spec.name in running:
                    ctx.send(f"{ctx.address}/{spec.name}", message, lane=Lane.SYSTEM)

    @on(creates=True)
    def start(self, message: Start, ctx: Context) -> None:
        if ctx.row.version and message.incarnation <= ctx.incarnation and ctx.row.status == "active":
            self._announce(ctx)
            return
        ctx.row.incarnation = max(ctx.incarnation, message.incarnation)
        ctx.row.status, ctx.row.reason = "active", ""
        self.state.restarted_at, self.state.ending, self.state.announced = [], "", 0
        for child in self.state.children:
            child.status = "ended" if child.status == "ended" else "waiting"
        self._reconcile(ctx)

    @on
    def stop(self, message: Stop, ctx: Context) -> None:
        if message.incarnation == ctx.incarnation and ctx.row.status != "stopped":
            self._stop_all(message.reason, ctx)
        elif parent := parent_of(ctx.address):
            ctx.send(parent, Stopped(ctx.address, message.incarnation, message.reason), lane=Lane.SYSTEM)

    @on
    def resume(self, message: Resume, ctx: Context) -> None:
        if ctx.row.status != "active":
            ctx.row.status, ctx.row.reason = "active", ""
            self.state.restarted_at, self.state.ending = [], ""
            self._reconcile(ctx)

    def _reconcile(self, ctx: Context) -> None:
        """Bring the children in line with the specs: the missing and the down ones are started, in order."""
        known = {child.name: child for child in self.state.children}
        actors = [spec for spec in self.spec.children if self._is_single(spec)]
        # A child that the tree no longer has is forgotten: there is no code left that could stop it.
        self.state.stops = []
        self.state.children = [known.get(spec.name) or ChildState(spec.name) for spec in actors]
        temporary = self._temporary()
        self.state.starts = [
            child.name
            for child in self.state.children
            if child.status not in ("running", "ended") and (child.status == "waiting" or child.name not in temporary)
        ]
        self.state.tree = self.tree.digest
        self._step(ctx)

    # --- children ----------------------------------------------------------------------------------------------

    @on
    def started(self, message: Started, ctx: Context) -> None:
        child = self._child(message.child)
        if child is None or message.incarnation < child.incarnation:
            return
        child.status, child.incarnation = "running", message.incarnation
        if not self.state.stops and self.state.starts[:1] == [child.name]:
            self.state.starts.pop(0)
            self._step(ctx)

    @on
    def stopped(self, message: Stopped, ctx: Context) -> None:
        child = self._child(message.child)
        name = name_of(message.child)
        if self.state.stops[:1] == [name]:
            self.state.stops.pop(0)
            if child is not None and child.status == "stopping":
                child.status = "stopped" if self.state.ending or child.name not in self.state.starts else "waiting"
            self._step(ctx)
        elif child is not None and message.incarnation == child.incarnation and child.status == "running":
            child.status = "ended"
            spec = self._spec(message.child)
            again = spec is not None and restarts(spec.restart, abnormal=False)
            if name in self.state.stops:
                # It ended before it was asked to: one stop less, and no failure.
                self.state.stops.remove(name)
                if name in self.state.starts and not again:
                    self.state.starts.remove(name)
            elif again and not self.state.ending:
                self._restart(child, "ended", ctx)

    @on
    def child_failed(self, message: ChildFailed, ctx: Context) -> None:
        spec = self._spec(message.child)
        if spec is None:
            return
        child = self._child(message.child)
        if child is None:
            if not self.state.ending:
                self._restart_of_pool(message, spec, ctx)
        elif message.incarnation >= child.incarnation and child.status != "failed":
            child.status = "failed"
            if self.state.ending or child.name in self.state.stops:
                self._gone(child, ctx)
            elif restarts(spec.restart, abnormal=True):
                self._restart(child, message.reason, ctx)
            elif child.name in self.state.starts:
                # A temporary child that could not be started: the next one's turn.
                self.state.starts.remove(child.name)
                self._step(ctx)

    def _gone(self, child: ChildState, ctx: Context) -> None:
        """A child that was to be stopped has failed instead: it is down all the same."""
        first = self.state.stops[:1] == [child.name]
        self.state.stops = [other for other in self.state.stops if other != child.name]
        if first:
            self._step(ctx)

    def _restart(self, child: ChildState, reason: str, ctx: Context) -> None:
        if self._counts(f"{child.name}: {reason}", ctx):
            plan = plan_restart(self.spec.strategy, self.state.children, child.name, self._temporary())
            under_way = [name for name in self.state.starts if name not in plan.starts]
            self.state.stops = list(plan.stops)
            order = [known.name for known in self.state.children]
            self.state.starts = sorted({*plan.starts, *under_way}, key=order.index)
            self._step(ctx)

    def _restart_of_pool(self, message: ChildFailed, spec: Spec, ctx: Context) -> None:
        if not restarts(spec.restart, abnormal=True):
            return
        if self._counts(f"{spec.name}:{key_of(message.child) or ''}: {message.reason}", ctx):
            ctx.send(message.child, Start(message.incarnation + 1), lane=Lane.SYSTEM)

    def _counts(self, reason: str, ctx: Context) -> bool:
        """One more restart; False when that is one too many, and the supervisor gives up."""
        state = self.state
        state.restarted_at = [*within_window(state.restarted_at, ctx.now, self.spec.within), ctx.now]
        if len(state.restarted_at) <= self.spec.max_restarts:
            return True
        self._stop_all(
            f"escalated: more than {self.spec.max_restarts} restarts in {self.spec.within:g} s; {reason}", ctx
        )
        return False

    def _stop_all(self, reason: str, ctx: Context) -> None:
        up = ("running", "starting", "stopping")
        self.state.ending = reason
        self.state.starts = []
        self.state.stops = [child.name for child in reversed(self.state.children) if child.status in up]
        self._step(ctx)

    # --- steps -------------------------------------------------------------------------------------------------

    def _step(self, ctx: Context) -> None:
        """Do the next recorded step, if any: the answer to it brings us back here."""
        state = self.state
        if state.stops:
            name = state.stops[0]
            child = next(child for child in state.children if child.name == name)
            if child.status != "stopping":
                child.status = "stopping"
                ctx.send(f"{ctx.address}/{name}", Stop(child.incarnation), lane=Lane.SYSTEM)
        elif state.ending:
            self._end(ctx)
        elif state.starts:
            child = next(child for child in state.children if child.name == state.starts[0])
            if child.status != "starting":
                child.status = "starting"
                child.incarnation += 1
                ctx.send(f"{ctx.address}/{child.name}", Start(child.incarnation), lane=Lane.SYSTEM)
        else:
            self._announce(ctx)

    def _end(self, ctx: Context) -> None:
        reason, parent = self.state.ending, parent_of(ctx.address)
        escalated = reason.startswith("escalated")
        if not parent and escalated:
            ctx.park(reason)
        elif escalated:
            ctx.row.status, ctx.row.reason = "escalated", reason
            ctx.send(parent, ChildFailed(ctx.address, ctx.incarnation, reason), lane=Lane.SYSTEM)
        else:
            ctx.row.status, ctx.row.reason = "stopped", reason
            if parent:
                ctx.send(parent, Stopped(ctx.address, ctx.incarnation, reason), lane=Lane.SYSTEM)

    def _announce(self, ctx: Context) -> None:
        busy = self.state.starts or self.state.stops
        if not busy and parent_of(ctx.address) and self.state.announced != ctx.incarnation:
            self.state.announced = ctx.incarnation
            ctx.send(parent_of(ctx.address), Started(ctx.address, ctx.incarnation), lane=Lane.SYSTEM)

    def _child(self, address: str) -> ChildState | None:
        if key_of(address) is not None:
            return None
        return next((child for child in self.state.children if child.name == name_of(address)), None)

    def _spec(self, address: str) -> Spec | None:
        return next((spec for spec in self.spec.children if spec.name == name_of(address)), None)

    def _temporary(self) -> set[str]:
        return {spec.name for spec in self.spec.children if spec.restart == "temporary"}

    @staticmethod
    def _is_single(spec: Spec) -> bool:
        return isinstance(spec, Supervisor) or not (spec.pool or spec.is_worker)
