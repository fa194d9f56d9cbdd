"""A turn: one message, one actor, one step. Here is what it means, without any I/O.

    begin     find the handler and run it as far as it goes without waiting (nearly always: to its end)
    succeed   merge what it buffered into the actor's open unit, with the acknowledgement and the new snapshot
    fail      choose what happens to the message and to the actor (`directives`), and write that into the unit instead

The unit reaches the disk with the next batch (`committer`). Until then nothing that a turn did is visible to anybody.
"""

import inspect
import logging
from collections.abc import Awaitable, Coroutine
from types import coroutine
from typing import Any

import msgspec

from ..mailbox.address import parent_of, shard_of
from ..mailbox.envelope import DeadLetter, Envelope, seal
from ..mailbox.errors import BadMessage
from ..mailbox.ids import IdClock
from ..mailbox.lane import Lane
from ..mailbox.message import Message, wire
from ..persistence.port import Port
from ..persistence.rows import TurnRow
from ..persistence.unit import Retry, Unit
from . import lifecycle
from .cell import Cell
from .context import Context, Rare
from .directives import Fatal, Park, Reject, Transient, directive_of
from .spec import Child, Tree
from .supervisor import SupervisorActor
from .system import AskFailed, ChildFailed, Start, Stop, Stopped

log = logging.getLogger(__name__)

_LIFECYCLE = {wire(Start).name, wire(Stop).name}
"""Messages whose failure is the actor's, at once: nobody else can start or stop it, and its supervisor waits."""


class Undeliverable(Exception):
    """A message that its actor cannot take; `why` is the dead letter's reason."""

    def __init__(self, why: str, detail: str) -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail


@coroutine
def _resume(running: Coroutine[Any, Any, Any], waits_for: Any) -> Any:
    """Go on with a coroutine that has already run to its first wait, as part of the task that awaits this."""
    while True:
        try:
            sent = yield waits_for
        except BaseException as error:  # noqa: BLE001 - a cancellation too goes to the handler, as in any await
            thrown: BaseException | None = error
        else:
            thrown = None
        try:
            waits_for = running.send(sent) if thrown is None else running.throw(thrown)
        except StopIteration as end:
            return end.value


def run_ahead(result: Any) -> Awaitable[None] | None:
    """Run a handler's coroutine until it ends or waits; what is left of it to await, or None.

    A handler does no I/O, so it nearly always ends here, and the task that would have cost more than the whole turn is
    never made.
    """
    if not inspect.iscoroutine(result):
        return None
    try:
        waits_for = result.send(None)
    except StopIteration:
        return None
    return _resume(result, waits_for)


class TurnRunner:
    """Runs turns for one node."""

    def __init__(self, tree: Tree, ids: IdClock, port: Port, node: int, clock_offset: float = 0.0) -> None:
        self.tree = tree
        self.ids = ids
        self.port = port
        self.node = node
        self.clock_offset = clock_offset
        """Seconds the store's clock is ahead of this node's."""

    def begin(self, cell: Cell, envelope: Envelope) -> tuple[Context, Awaitable[None] | None]:
        """Run the handler of a message.

        Raises:
            Undeliverable: the message is a dead letter, the actor is not to blame.
            UnknownMessage: not for this process.
            Exception: whatever the handler raised; see `fail`.
        """
        message = self._read(envelope)
        if cell.row is None:
            self._create(cell, message, envelope)
        row = cell.row
        assert row is not None
        if cell.ended() and not isinstance(message, Start | Stop):
            raise Undeliverable("recipient-ended", f"{cell.address} is {row.status}")
        now = self.port.wall() + self.clock_offset
        actor = cell.object()
        fresh = msgspec.structs.replace(row)  # a shallow copy, at half the price of `copy`
        ctx = Context(fresh, envelope, ids=self.ids, tree=self.tree, now=now, node=self.node, port=self.port)
        handler = actor.handlers.get(type(message))
        if handler is None:
            if lifecycle.handles(message):
                return ctx, run_ahead(lifecycle.handle(actor, message, ctx))
            raise Undeliverable("rejected", f"{type(actor).__name__} has no handler for {envelope.type}")
        if row.incarnation == 0 and not isinstance(message, Start):
            ctx.row.incarnation = 1
            started = run_ahead(actor.on_start(ctx))
            if started is not None:
                return ctx, self._start_then(started, actor, handler.method, message, ctx)
        return ctx, run_ahead(getattr(actor, handler.method)(message, ctx))

    @staticmethod
    async def _start_then(started: Awaitable[None], actor: Any, method: str, message: Message, ctx: Context) -> None:
        await started
        result = getattr(actor, method)(message, ctx)
        if inspect.isawaitable(result):
            await result

    def _read(self, envelope: Envelope) -> Message:
        try:
            return envelope.message()
        except BadMessage as error:
            raise Undeliverable("unreadable", str(error)) from error

    def _create(self, cell: Cell, message: Message, envelope: Envelope) -> None:
        handlers = cell.spec.actor.handlers if isinstance(cell.spec, Child) else SupervisorActor.handlers
        handler = handlers.get(type(message))
        may = isinstance(message, Start) or (handler is not None and handler.creates)
        if not may:
            raise Undeliverable("no-such-actor", f"there is no actor at {envelope.recipient}")
        cell.create()

    # --- after the handler -------------------------------------------------------------------------------------

    def succeed(self, cell: Cell, envelope: Envelope, ctx: Context, call: Envelope | None = None) -> None:
        """The turn is done: into the unit with it.

        `call`: what `envelope` answers, where the reply comes straight from the worker: then it is the call that is
        acknowledged, as the reply never was in the mailbox.
        """
        before, row = cell.row, ctx.row
        assert before is not None
        if ctx.end is not None:
            self._end(cell, ctx)
        elif ctx.park_reason is not None:
            row.status, row.reason = "parked", ctx.park_reason
        row.version += 1
        row.state, row.summary = cell.snapshot(), cell.summary()
        unit = cell.open_unit(before)
        unit.actor = cell.row = row
        if call is None:
            unit.acks.append(envelope.id)
        else:
            unit.acks.append(call.id)
            unit.turns.append(turn_row(call, 0, "done", self.node, ctx.now))
            cell.answers.append((call, envelope))
        unit.turns.append(turn_row(envelope, row.version, "done", self.node, ctx.now))
        unit.sends += ctx.sends
        unit.events += ctx.events
        if ctx.rare is not None:
            add_rare(unit, ctx.rare)

    def _end(self, cell: Cell, ctx: Context) -> None:
        assert ctx.end is not None
        status, reason = ctx.end
        row = ctx.row
        row.status, row.reason = status, reason  # type: ignore[assignment]
        parent = parent_of(cell.address)
        if status == "failed":
            self._tell(ctx, parent, ChildFailed(cell.address, row.incarnation, reason))
        elif isinstance(cell.spec, Child) and not cell.spec.pool:
            self._tell(ctx, parent, Stopped(cell.address, row.incarnation, reason or "normal"))

    def _tell(self, ctx: Context, to: str, message: Message) -> None:
        if to in self.tree.specs:
            ctx.send(to, message, lane=Lane.SYSTEM)

    def fail(self, cell: Cell, envelope: Envelope, error: BaseException) -> float | None:
        """A turn failed: decide, write it into the unit, make the object anew.

        Returns the delay until the message is tried again; None when it is done with.
        """
        if isinstance(error, Undeliverable):
            self._bury(cell, envelope, error.why, error.detail)
            return None
        directive = directive_of(error)
        cell.revive()
        reason = describe(error)
        if envelope.type in _LIFECYCLE and not isinstance(directive, Transient):
            directive = Fatal(reason)
        match directive:
            case Transient():
                return self._again(cell, envelope, reason, directive.after_seconds, charged=directive.charge)
            case Reject():
                self._bury(cell, envelope, "rejected", reason)
                return None
            case Park():
                return self._park(cell, envelope, plain(directive.reason) or reason)
            case Fatal():
                self._bury(cell, envelope, "failed", reason)
                self._actor_failure(cell, envelope, reason)
                return None
            case _:
                return self._bug(cell, envelope, error, reason)

    def _bug(self, cell: Cell, envelope: Envelope, error: BaseException, reason: str) -> float | None:
        log.warning("%s: %s failed in turn %s", cell.address, envelope.type, envelope.id, exc_info=error)
        if not cell.retry_policy().exhausted(envelope.failures + 1):
            return self._again(cell, envelope, reason, None, charged=True)
        envelope.failures += 1
        self._bury(cell, envelope, "failed", reason)
        self._actor_failure(cell, envelope, reason)
        return None

    def _again(
        self, cell: Cell, envelope: Envelope, reason: str, after_seconds: float | None, *, charged: bool
    ) -> float:
        envelope.failures += charged
        # Where nothing is charged, it is the deliveries that make the waits grow.
        attempts = envelope.failures if charged else envelope.deliveries
        delay = after_seconds
        if delay is None:
            delay = cell.retry_policy().delay_seconds(attempts, self.port.random())
        envelope.deliveries += 1
        envelope.delay_seconds = delay
        envelope.last_error = reason
        unit = self._unit(cell)
        others = [retry for retry in unit.retries if retry.id != envelope.id]
        unit.retries = [*others, Retry(envelope.id, delay, envelope.deliveries, envelope.failures, reason)]
        return delay

    def _unit(self, cell: Cell) -> Unit:
        if cell.row is not None and cell.row.version > 0:
            return cell.open_unit(cell.row)
        # There is no row yet, and a failed message does not make one: the unit is about messages only.
        cell.row, cell.actor = None, None
        if cell.unit is None:
            cell.unit = Unit(cell.shard)
        return cell.unit

    def _bury(self, cell: Cell, envelope: Envelope, why: str, detail: str) -> None:
        unit = self._unit(cell)
        version = cell.row.version if cell.row is not None else 0
        now = self.port.wall() + self.clock_offset
        waits = bool(envelope.reply_to)
        unit.acks.append(envelope.id)
        outcome = "refused" if waits and why == "recipient-ended" else "dead"
        unit.turns.append(turn_row(envelope, version, outcome, self.node, now))
        if outcome == "dead":
            unit.dead = [*unit.dead, DeadLetter(envelope, why, plain(detail))]
        if waits:
            unit.sends.append(self.ask_failed(envelope, why, detail))

    def ask_failed(self, envelope: Envelope, why: str, detail: str) -> Envelope:
        """The answer to an asker who will get no other."""
        known = {"no-such-actor": "no-such-actor", "recipient-ended": "target-ended", "rejected": "rejected"}
        return self.answer(envelope, AskFailed(known.get(why, "target-failed"), plain(detail)))

    def answer(self, envelope: Envelope, message: Message) -> Envelope:
        """An envelope to whoever waits for the reply to `envelope`, from its recipient."""
        return seal(
            message,
            id=self.ids.next(),
            shard=shard_of(envelope.reply_to),
            recipient=envelope.reply_to,
            sender=envelope.recipient,
            lane=Lane.REPLY,
            correlation=envelope.id,
            causation=envelope.id,
        )

    def _park(self, cell: Cell, envelope: Envelope, reason: str) -> float | None:
        self._stand_still(cell, "parked", reason)
        if envelope.lane == Lane.SYSTEM:
            # A parked actor takes system messages: this one would come again at once, and Resume never.
            self._bury(cell, envelope, "rejected", reason)
            return None
        envelope.delay_seconds = 0.0
        return 0.0

    def _stand_still(self, cell: Cell, status: str, reason: str) -> None:
        before = cell.row or cell.create()
        row = msgspec.structs.replace(before)
        unit = cell.open_unit(before)
        row.status, row.reason = status, reason  # type: ignore[assignment]
        row.version += 1
        unit.actor = cell.row = row

    def _actor_failure(self, cell: Cell, envelope: Envelope, reason: str) -> None:
        start = envelope.message() if envelope.type == wire(Start).name else None
        if cell.row is None and start is None:
            return  # its first message failed: there is no actor to blame
        self._stand_still(cell, "failed", reason)
        row = cell.row
        assert row is not None
        if isinstance(start, Start):
            # The incarnation that failed to start, so that the supervisor knows which attempt this was.
            row.incarnation = max(row.incarnation, start.incarnation)
        parent = parent_of(cell.address)
        if parent not in self.tree.specs:
            return
        row.sent += 1
        row.last_id = self.ids.next()
        unit = cell.open_unit(row)
        unit.sends.append(
            seal(
                ChildFailed(cell.address, row.incarnation, reason),
                id=row.last_id,
                shard=shard_of(parent),
                recipient=parent,
                sender=cell.address,
                lane=Lane.SYSTEM,
                sender_seq=row.sent,
                causation=envelope.id,
            )
        )


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


def turn_row(envelope: Envelope, version: int, outcome: str, node: int, now: float) -> TurnRow:
    """The row that says that a message was handled."""
    return TurnRow(
        envelope.shard,
        envelope.id,
        envelope.recipient,
        envelope.sender,
        envelope.type,
        envelope.lane,
        envelope.sender_seq,
        version,
        outcome,
        envelope.causation,
        envelope.deliveries,
        node,
        0,
        now,
    )


def describe(error: BaseException) -> str:
    """An error in one bounded line, for rows that people read."""
    text = str(error) or type(error).__name__
    return plain(text if text.startswith(type(error).__name__) else f"{type(error).__name__}: {text}")


def plain(text: str) -> str:
    """A text as every column takes it: bounded, without NUL and lone surrogates."""
    return text[:2000].encode("utf-8", "replace").decode().replace("\x00", "")
