"""Supervisors: durable actors that start, stop and restart their children.

This is the actor: it turns what children, parents, timers and operators say into calls of the state machine
(`supervision`, `on_demand`), and what that decides into messages, timers, events and its own row, all in one commit.
Nothing is decided here. Children of a pool are not in its state: see `instances`.
"""

from collections.abc import Mapping
from typing import Any

from ..mailbox.address import parent_of
from ..mailbox.lane import Lane
from ..mailbox.message import Message
from . import supervised as happened
from .actor import Actor, on
from .census import Counted, Surveyed
from .context import Context, Event
from .on_demand import OnDemand
from .restart import ReplyTo
from .roster import is_pool
from .spec import CENSUS, Supervisor, Tree
from .supervisor_before import STATE_VERSION
from .supervisor_state import Ending, SupervisorState
from .system import (
    AskFailed,
    Boot,
    CensusDue,
    ChildFailed,
    CountChildren,
    DeleteChild,
    Ignored,
    InstanceDue,
    Kill,
    ListChildren,
    PoolDue,
    RestartChild,
    RestartDue,
    Resume,
    ShutdownOver,
    Start,
    StartChild,
    Started,
    Stop,
    Stopped,
    TerminateChild,
)

CENSUS_AGAIN_SECONDS = 1.0
"""A census that failed is asked again after this."""


class TurnEffects:
    """What the state machine has done, as effects of one turn."""

    def __init__(self, ctx: Context, state: SupervisorState) -> None:
        self.ctx = ctx
        self.state = state
        self.now = ctx.now
        self.fresh = ctx.row.version == 0
        self.address = ctx.address

    @property
    def paused(self) -> bool:
        return self.ctx.row.status == "paused"

    def chance(self) -> float:
        return self.ctx.port.random()

    def tell(self, child: str, message: Message) -> None:
        self.ctx.send(f"{self.ctx.address}/{child}", message, lane=Lane.SYSTEM)

    def record(self, event: Event) -> None:
        self.ctx.record(event)

    def answer(self, reply_to: ReplyTo, message: Message) -> None:
        self.ctx.reply_later(reply_to, message)

    def wake(self, key: str, seconds: float, message: Message) -> None:
        self.ctx.schedule(key, seconds, message, lane=Lane.SYSTEM, loose=True)

    def forget(self, key: str) -> None:
        self.ctx.cancel_timer(key)

    def ask_census(self, message: Message) -> None:
        self.ctx.send(CENSUS, message)

    def booted(self) -> None:
        self.record(happened.SupervisorStarted(self.ctx.incarnation))
        self.announce()

    def announce(self) -> None:
        """Tell the parent that all children are started."""
        self.state.announced = self.ctx.incarnation
        self._tell_parent(Started(self.ctx.address, self.ctx.incarnation))

    def ended(self, ending: Ending) -> None:
        ctx, reason = self.ctx, ending.reason
        self.record(happened.SupervisorEnded(ctx.incarnation, ending.how, reason))
        if ending.how != "stopped" and not parent_of(ctx.address):
            # Nobody is above it that could do something about it but a person.
            ctx.row.status = "active"
            ctx.park(reason)
            return
        ctx.row.status, ctx.row.reason = ending.how, reason
        if ending.how == "stopped":
            self._tell_parent(Stopped(ctx.address, ctx.incarnation, reason))
        else:
            self._tell_parent(ChildFailed(ctx.address, ctx.incarnation, reason))

    def _tell_parent(self, message: Message) -> None:
        parent = parent_of(self.ctx.address)
        if parent:
            self.ctx.send(parent, message, lane=Lane.SYSTEM)


class SupervisorActor(Actor[SupervisorState], kind="supervisor"):
    """The actor behind a `Supervisor` spec."""

    state_version = STATE_VERSION

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

    def _decide(self, ctx: Context) -> OnDemand:
        machine = OnDemand(self.spec, self.state, TurnEffects(ctx, self.state))
        if self.state.tree != self.tree.digest:
            machine.forget_unknown()
        return machine

    # --- being started and stopped -----------------------------------------------------------------------------

    @on(creates=True)
    def boot(self, message: Boot, ctx: Context) -> None:
        if ctx.row.version == 0:
            self._decide(ctx).boot(self.tree.digest)
        elif self.state.tree != message.tree and ctx.row.status == "active" and self.state.end is None:
            self._decide(ctx).changed(self.tree.digest)

    @on(creates=True)
    def start(self, message: Start, ctx: Context) -> None:
        row = ctx.row
        if row.version and row.status in ("active", "paused"):
            if self.state.end is None:
                # Said twice, or an operator has resumed it: it runs already, or will say so itself.
                row.incarnation = max(row.incarnation, message.incarnation)
                if self.state.job is None or self.state.job.kind != "boot":
                    TurnEffects(ctx, self.state).announce()
            return
        row.incarnation = max(message.incarnation, row.incarnation + 1)
        row.status, row.reason = "active", ""
        self._decide(ctx).boot(self.tree.digest)

    @on
    def stop(self, message: Stop, ctx: Context) -> None:
        row = ctx.row
        reason = "killed" if message.kill else message.reason
        live = row.status in ("active", "paused", "parked")
        if live and (not message.incarnation or message.incarnation >= row.incarnation):
            row.status, row.reason = "active", ""  # it must hear of its children to the end
            self._decide(ctx).end(Ending("stopped", reason, kill=message.kill))
        elif parent := parent_of(ctx.address):
            stopped = Stopped(ctx.address, message.incarnation or row.incarnation, reason)
            ctx.send(parent, stopped, lane=Lane.SYSTEM)

    @on
    def kill(self, message: Kill, ctx: Context) -> None:
        if ctx.row.status in ("active", "paused", "parked"):
            ctx.row.status, ctx.row.reason = "active", ""
            self._decide(ctx).end(Ending("failed", message.reason, kill=True))

    @on
    def resume(self, message: Resume, ctx: Context) -> None:
        row = ctx.row
        root = not parent_of(ctx.address)
        if row.status in ("paused", "parked") or (root and row.status != "active"):
            over = self.state.end is not None
            row.status, row.reason = "active", ""
            if over:
                self._decide(ctx).boot(self.tree.digest)
            elif self.state.tree != self.tree.digest:
                self._decide(ctx).changed(self.tree.digest)
            else:
                self._decide(ctx).advance()

    # --- children ----------------------------------------------------------------------------------------------

    @on
    def started(self, message: Started, ctx: Context) -> None:
        machine, name = self._decide(ctx), self._mine(message.child, ctx)
        if self._is_instance(name):
            machine.instances.started(name, message.incarnation)
        elif name:
            machine.started(name, message.incarnation)

    @on
    def ignored(self, message: Ignored, ctx: Context) -> None:
        machine, name = self._decide(ctx), self._mine(message.child, ctx)
        if self._is_instance(name):
            machine.instances.started(name, message.incarnation)
        elif name:
            machine.ignored(name, message.incarnation)

    @on
    def stopped(self, message: Stopped, ctx: Context) -> None:
        machine, name = self._decide(ctx), self._mine(message.child, ctx)
        if self._is_instance(name):
            machine.instances.stopped(name, message.incarnation, message.reason)
        elif name:
            machine.down(
                name,
                message.incarnation,
                message.reason,
                abnormal=False,
                ended=message.ended,
                cancelled=message.cancelled,
            )

    @on
    def child_failed(self, message: ChildFailed, ctx: Context) -> None:
        machine, name = self._decide(ctx), self._mine(message.child, ctx)
        if self._is_instance(name):
            machine.instances.failed(name, message.incarnation, message.reason, starting=message.starting)
        elif name:
            machine.down(name, message.incarnation, message.reason, abnormal=True)

    @on
    def overdue(self, message: ShutdownOver, ctx: Context) -> None:
        machine, name = self._decide(ctx), message.child
        if not self._mine(f"{ctx.address}/{name}", ctx):
            return
        if is_pool(machine.spec_of(name)):
            machine.instances.overdue(name, message.incarnation)
        else:
            machine.overdue(name, message.incarnation)

    @on
    def due(self, message: RestartDue, ctx: Context) -> None:
        self._decide(ctx).due(message.child)

    # --- pools -------------------------------------------------------------------------------------------------

    @on
    def instance_due(self, message: InstanceDue, ctx: Context) -> None:
        self._decide(ctx).instances.due(message.child, message.incarnation)

    @on
    def pool_due(self, message: PoolDue, ctx: Context) -> None:
        self._decide(ctx).instances.resume(message.pool)

    @on
    def surveyed(self, message: Surveyed, ctx: Context) -> None:
        self._decide(ctx).instances.surveyed(message)

    @on
    def counted(self, message: Counted, ctx: Context) -> None:
        self._decide(ctx).instances.counted(message)

    @on
    def census_failed(self, message: AskFailed, ctx: Context) -> None:
        ctx.schedule("census", CENSUS_AGAIN_SECONDS, CensusDue(), lane=Lane.SYSTEM)

    @on
    def census_due(self, message: CensusDue, ctx: Context) -> None:
        self._decide(ctx).instances.ask_again()

    # --- on demand ---------------------------------------------------------------------------------------------

    @on
    def start_child(self, message: StartChild, ctx: Context) -> None:
        self._decide(ctx).start_child(message.name, message.key, ctx.reply_to)

    @on
    def terminate_child(self, message: TerminateChild, ctx: Context) -> None:
        self._decide(ctx).terminate_child(message.child, ctx.reply_to)

    @on
    def restart_child(self, message: RestartChild, ctx: Context) -> None:
        self._decide(ctx).restart_child(message.child, ctx.reply_to)

    @on
    def delete_child(self, message: DeleteChild, ctx: Context) -> None:
        self._decide(ctx).delete_child(message.child, ctx.reply_to)

    @on
    def list_children(self, message: ListChildren, ctx: Context) -> None:
        ctx.reply(self._decide(ctx).children())

    @on
    def count_children(self, message: CountChildren, ctx: Context) -> None:
        machine = self._decide(ctx)
        if any(is_pool(spec) for spec in self.spec.children):
            machine.instances.count(ctx.reply_to)
        else:
            ctx.reply(machine.count())

    def _is_instance(self, name: str) -> bool:
        """Whether this is one of the actors of a pool."""
        head, colon, _ = name.partition(":")
        return bool(colon) and any(is_pool(spec) and spec.name == head for spec in self.spec.children)

    def _mine(self, address: str, ctx: Context) -> str:
        """A child's name; "" for what is no child of this supervisor, whoever says so."""
        parent, _, segment = address.rpartition("/")
        known = any(spec.name == segment.partition(":")[0] for spec in self.spec.children)
        return segment if known and parent == ctx.address else ""
