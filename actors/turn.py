"""A turn: one message, one actor, one step. Here is what it means, without any I/O.

    begin     find the handler and run it as far as it goes without waiting (nearly always: to its end)
    succeed   merge what it buffered into the actor's open unit, with the acknowledgement and the new snapshot
    fail      what happens to the message and to the actor instead is chosen, and written, in `failing`

The unit reaches the disk with the next batch (`committer`). Until then nothing that a turn did is visible to anybody.
"""

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from ..mailbox.address import name_of, parent_of
from ..mailbox.envelope import DeadLetter, Envelope
from ..mailbox.errors import BadMessage, CallboardError, UsageError
from ..mailbox.ids import IdClock
from ..mailbox.lane import Lane
from ..mailbox.message import MAX_BODY_BYTES, Message, wire
from ..persistence.port import Port
from ..persistence.rows import ENDED, ActorRow, turn_row
from ..persistence.unit import Unit
from . import asking, bonds, cycles, lifecycle, rebirth, watching
from .actor import Actor
from .arrivals import admit
from .cell import Cell, StandIn
from .clock import StoreClock
from .context import Context
from .directives import Park
from .failing import Failures, PoolIsShut
from .measuring import UNMEASURED, Measures
from .outcome import Outcomes, Undeliverable, forget_retry, plain
from .rare import Rare
from .spec import Child, Tree
from .supervisor import SupervisorActor
from .system import Cancel, ChildFailed, Kill, Spawn, Start, Stopped
from .waiting import run_ahead

MAX_TURN_MESSAGES = 10_000
MAX_TURN_BYTES = 32 << 20
"""What one turn may send and record, and how large a state may be: more could take the store longer than it is waited
for, and would be sent to it again and again, while no other actor of the node gets anything written."""


class TurnRunner:
    """Runs turns for one node."""

    def __init__(self, tree: Tree, ids: IdClock, port: Port, node: int, clock: StoreClock) -> None:
        self.tree = tree
        self.ids = ids
        self.port = port
        self.node = node
        self.clock = clock
        self.outcomes = Outcomes(ids, clock, node)
        self.failures = Failures(tree, port, self.outcomes)
        self.why_shut: Callable[[str], str] = lambda pool: ""
        """Why a pool takes no new instance now; see `gates`."""
        self.measures: Measures = UNMEASURED

    def begin(self, cell: Cell, envelope: Envelope) -> tuple[Context, Awaitable[None] | None]:
        """Run the handler of a message.

        Raises:
            Undeliverable: the message is a dead letter, the actor is not to blame.
            UnknownMessage: not for this process.
            Exception: whatever the handler raised; see `fail`.
        """
        message = self._read(envelope)
        row = cell.row
        ended = False
        if row is None:
            row = self._create(cell, message, envelope)
        elif row.status != "active":
            ended = cell.ended()
            if ended and not (isinstance(message, Kill) and _starts_waiting(cell)):
                rebirth.to_ended(self.outcomes, row, envelope, message)
        born = row.version == 0
        fresh = msgspec.structs.replace(row)  # a shallow copy, at half the price of `copy`
        now = self.clock.now()
        ctx = Context(fresh, envelope, ids=self.ids, tree=self.tree, now=now, node=self.node, port=self.port)
        if ended:
            if isinstance(message, Spawn):
                self._check_open(cell, envelope)
            born = rebirth.revive(cell, ctx, message)
        actor = cell.actor
        if actor is None or envelope.failures or type(actor) is StandIn:
            actor = self._actor(cell, envelope, message)
        if envelope.correlation or envelope.headers or cell.span is not None:
            message = self._arrive(cell, actor, message, ctx)
        if isinstance(message, Cancel):
            _overtake_start(cell, ctx)
        elif isinstance(message, Kill):
            _fail_start(cell, ctx)
        handler = actor.handlers.get(type(message))
        if handler is None:
            if lifecycle.handles(message):
                return ctx, run_ahead(lifecycle.handle(actor, message, ctx))
            if rebirth.handles(message):
                return ctx, run_ahead(rebirth.handle(actor, message, ctx, born=born))
            if ctx.rare is not None and ctx.rare.keep is not None:
                ctx.rare.unheard = f"{type(actor).__name__} has no handler for {envelope.type}"
                return ctx, None
            raise Undeliverable("rejected", f"{type(actor).__name__} has no handler for {envelope.type}")
        if (row.incarnation == 0 or cell.unstarted) and not isinstance(message, Start):
            ctx.row.incarnation = max(1, row.incarnation)
            ctx.starts = True
            started = run_ahead(actor.on_start(ctx))
            if started is not None:
                return ctx, self._start_then(started, actor, handler.method, message, ctx)
        return ctx, run_ahead(getattr(actor, handler.method)(message, ctx))

    def _arrive(self, cell: Cell, actor: Actor[Any], message: Message, ctx: Context) -> Message:
        """The message to handle; see `admit`."""
        return admit(ctx, message)

    @staticmethod
    async def _start_then(started: Awaitable[None], actor: Any, method: str, message: Message, ctx: Context) -> None:
        await started
        result = getattr(actor, method)(message, ctx)
        if inspect.isawaitable(result):
            await result

    @staticmethod
    def _actor(cell: Cell, envelope: Envelope, message: Message) -> Actor[Any]:
        """The actor; or a stand-in, where it cannot be had and the message needs nothing of it but its row.

        So an actor whose state nobody can read is ended, stopped and watched as any other.
        """
        kind = cell.spec.actor if isinstance(cell.spec, Child) else SupervisorActor
        plain_actor = kind is not SupervisorActor and type(message) not in kind.handlers
        runtimes = plain_actor and (lifecycle.handles(message) or rebirth.handles(message))
        if runtimes and isinstance(message, Cancel) and envelope.failures:
            return cell.stand_in()  # whatever it was that failed
        try:
            return cell.object()
        except Park:
            if not runtimes:
                raise
            return cell.stand_in()

    def _read(self, envelope: Envelope) -> Message:
        try:
            return envelope.message()
        except BadMessage as error:
            raise Undeliverable("unreadable", str(error)) from error

    def _create(self, cell: Cell, message: Message, envelope: Envelope) -> ActorRow:
        handlers = cell.spec.actor.handlers if isinstance(cell.spec, Child) else SupervisorActor.handlers
        handler = handlers.get(type(message))
        # An instance of a template is made by its supervisor only.
        made_by_messages = not (isinstance(cell.spec, Child) and cell.spec.dynamic)
        may = isinstance(message, Start) or (made_by_messages and handler is not None and handler.creates)
        pool = isinstance(cell.spec, Child) and cell.spec.pool
        if isinstance(message, Cancel | Kill) and isinstance(cell.spec, Child):
            # Its first turn may have been cut off just now: then it ends before it began.
            creating = {wire(kind).name for kind, each in handlers.items() if each.creates and made_by_messages}
            creating |= {wire(Start).name, *([wire(Spawn).name] if pool else [])}
            may = any(other.type in creating for other in cell.queue.envelopes())
        if not may and not (isinstance(message, Spawn) and pool):
            rebirth.to_nobody(self.outcomes, envelope, message)
        if not isinstance(message, Start | Cancel | Kill):
            self._check_open(cell, envelope)
        return cell.create()

    def _check_open(self, cell: Cell, envelope: Envelope) -> None:
        """Before an actor begins by message.

        Raises:
            PoolIsShut: it is of a pool, and may not now.
        """
        if not (isinstance(cell.spec, Child) and cell.spec.pool):
            return
        why = self.why_shut(f"{parent_of(cell.address)}/{name_of(cell.address)}")
        if why:
            raise PoolIsShut(why, envelope.deliveries)

    # --- after the handler -------------------------------------------------------------------------------------

    def succeed(self, cell: Cell, envelope: Envelope, ctx: Context, call: Envelope | None = None) -> None:
        """The turn is done: into the unit with it.

        `call`: what `envelope` answers, where the reply comes straight from the worker: then it is the call that is
        acknowledged, as the reply never was in the mailbox.
        """
        before, row = cell.row, ctx.row
        assert before is not None
        if call is not None and ctx.rare is not None and ctx.rare.stash:
            raise UsageError(f"the answer to call {call.id} is in no mailbox yet, so it cannot be put aside there")
        deferred = asking.defer(ctx) if envelope.headers else False
        if ctx.end is not None:
            self._end(cell, ctx)
        elif ctx.park_reason is not None:
            row.status, row.reason = "parked", ctx.park_reason
        rare = ctx.rare
        if rare is not None and rare.bonds is not None:
            if deferred or rare.opened:
                cycles.send_out(ctx, deferred=deferred, opened=rare.opened)
            if rare.tied:
                row.bonds = bonds.written(rare.bonds)
        if len(ctx.sends) + len(ctx.events) > MAX_TURN_BYTES // MAX_BODY_BYTES:
            _check_size(ctx, cell)
        row.version += 1
        row.state, row.state_version = cell.snapshot()
        if len(row.state) > MAX_TURN_BYTES:
            size = f"{len(row.state):,} bytes; {MAX_TURN_BYTES:,} are allowed"
            raise UsageError(f"the state of {cell.address} has {size}")
        row.summary = cell.summary()
        if ctx.starts:
            cell.unstarted = False
        if before.status == "parked" and row.status == "active":
            cell.failing.clear()
            cell.resumed_at = self.port.monotonic()
        unit = cell.open_unit(before)
        forget_retry(unit, envelope.id)
        outcome = "done" if rare is None else _put_aside(unit, envelope, rare)
        unit.actor = cell.row = row
        if call is not None:
            unit.acks.append(call.id)
            unit.turns.append(turn_row(call, 0, "done", self.node, ctx.now))
            cell.answers.append((call, envelope))
        elif outcome != "stashed":
            unit.acks.append(envelope.id)
        unit.turns.append(turn_row(envelope, row.version, outcome, self.node, ctx.now))
        unit.sends += ctx.sends
        unit.events += ctx.events
        if rare is not None:
            add_rare(unit, rare)
        if row.incarnation > 1 and row.incarnation > before.incarnation:
            self.measures.restarted(row.kind)
        self.measures.handled(cell)

    def _end(self, cell: Cell, ctx: Context) -> None:
        assert ctx.end is not None
        status, reason = ctx.end
        row = ctx.row
        row.status, row.reason = status, reason  # type: ignore[assignment]
        parent = parent_of(cell.address)
        if status in ENDED:
            watching.farewell(ctx, status, reason)
        if status == "failed":
            self._tell(ctx, parent, ChildFailed(cell.address, row.incarnation, reason))
        elif isinstance(cell.spec, Child) and not cell.spec.pool:
            cancelled = status == "cancelled"
            ended = Stopped(cell.address, row.incarnation, reason or "normal", ended=True, cancelled=cancelled)
            self._tell(ctx, parent, ended)

    def _tell(self, ctx: Context, to: str, message: Message) -> None:
        if to in self.tree.specs:
            ctx.send(to, message, lane=Lane.SYSTEM)


def _check_size(ctx: Context, cell: Cell) -> None:
    """Of so many sends and events that they could be too large together: none is larger than `MAX_BODY_BYTES`."""
    count = len(ctx.sends) + len(ctx.events)
    if count > MAX_TURN_MESSAGES:
        raise UsageError(
            f"a turn of {cell.address} sends and records {count:,} messages; {MAX_TURN_MESSAGES:,} are allowed: go on "
            "in another turn, by a message to itself"
        )
    size = sum(len(sent.body) for sent in ctx.sends) + sum(len(event.body) for event in ctx.events)
    if size > MAX_TURN_BYTES:
        raise UsageError(f"a turn of {cell.address} sends and records {size:,} bytes; {MAX_TURN_BYTES:,} are allowed")


def _overtake_start(cell: Cell, ctx: Context) -> None:
    """A cancel comes before a start that waits: the incarnation that ends is that one (see `Pump`, which drops it)."""
    row = ctx.row
    row.incarnation = max(1, row.incarnation, *_starts_waiting(cell))


def _fail_start(cell: Cell, ctx: Context) -> None:
    """A kill comes before a start that waits, hangs or is tried again: it is that incarnation which has failed.

    Its supervisor waits for that one; the start is dropped as by a cancel.
    """
    row = ctx.row
    for incarnation in _starts_waiting(cell):
        runs = row.status == "active" and row.incarnation > 0
        wanted = incarnation or row.incarnation + (not runs)
        if wanted > row.incarnation:
            row.incarnation, row.status = wanted, "active"
            ctx.starts = True
    if not row.version:
        row.incarnation, ctx.starts = max(1, row.incarnation), True


def _starts_waiting(cell: Cell) -> list[int]:
    """The incarnations that wait to be started."""
    found = []
    for waiting in cell.queue.envelopes():
        if waiting.type == wire(Start).name:
            with suppress(CallboardError):  # one that cannot be read starts nobody
                start = waiting.message()
                assert isinstance(start, Start)
                found.append(start.incarnation)
    return found


def _put_aside(unit: Unit, envelope: Envelope, rare: Rare) -> str:
    """Write what a turn does with messages that were put aside, its own among them; its outcome."""
    if rare.unstash:
        # What earlier turns of this unit have put aside was in the mailbox all the time, as far as the disk knows.
        unit.unstash, unit.stashes = True, ()
    if rare.unheard:
        unit.dead = [*unit.dead, DeadLetter(envelope, "rejected", plain(rare.unheard))]
        return "dead"
    if rare.stash:
        unit.stashes = [*unit.stashes, envelope.id]
        return "stashed"
    return "done"


def add_rare(unit: Unit, rare: Rare) -> None:
    """Merge the rare effects of a turn into its unit."""
    unit.holds = [*unit.holds, *rare.holds]
    unit.releases = [*unit.releases, *rare.releases]
    unit.drops = [*unit.drops, *rare.drops]
    unit.withdraws = [*unit.withdraws, *rare.withdrawn]
    unit.decisions = [*unit.decisions, *rare.decisions]
    unit.moves = [*unit.moves, *rare.moves]
    if rare.timers or rare.cancelled_timers:
        touched = {timer.key for timer in rare.timers} | set(rare.cancelled_timers)
        unit.timers = [timer for timer in unit.timers if timer.key not in touched] + rare.timers
        unit.timers_cancelled = sorted((set(unit.timers_cancelled) - touched) | set(rare.cancelled_timers))
