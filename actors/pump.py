"""The pump: runs the turns of a node's actors, one at a time for each actor, as their messages come.

Handlers that do not wait run here, one after the other, without a task of their own; those that may wait run from their
beginning (`waiting`) in a seat: a task that has one such turn after the other. A turn that waits can be interrupted: a
system message that does not bear waiting cancels it, nothing of it counts, its message is first in line again, and the
interrupting one has the next turn. So does what takes the actor away (its shard is another node's, the node drains):
such a turn was never begun, as far as anybody can see, and nothing is charged.
"""

import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from ..mailbox.envelope import Envelope
from ..mailbox.errors import UnknownMessage, UsageError
from ..mailbox.lane import Lane
from ..mailbox.message import Message, known_types, wire
from ..persistence.port import Port, Signal
from ..persistence.unit import Unit
from .blame import UNWATCHED, Blame
from .cell import Cell, Turn
from .cells import Cells
from .context import Context
from .directives import is_out_of_memory
from .failing import HELD_BACK_SECONDS, MailboxIsFull, TurnOverLimit
from .outcome import describe
from .snapshot import kind_name
from .system import Cancel, Kill, Start, interrupts
from .trials import Trials
from .turn import TurnRunner
from .waiting import CancelledFromWithin, stray

SLICE_TURNS = 64
"""Turns that the pump runs before it lets other tasks have the loop."""
ACTOR_TURNS = 20
"""Turns in a row for one actor before the next one's."""
CAPABLE_NODE_SECONDS = 5.0
"""How long a message that this process cannot read waits before it is looked at again; a capable node may have it
by then. Not a retry: nothing is charged."""
CANCELLED_LIMIT = 10_000
"""Cancelled actors that are remembered, for calls of theirs that are still to be read."""

_CANCEL = wire(Cancel).name
_KILL = wire(Kill).name
_START = wire(Start).name
_ENDING = frozenset((_CANCEL, _KILL))

FREE_SEATS = 64
"""Seats that are kept for the next turn that may wait."""
Rest = tuple[Cell, Turn, Context, Awaitable[None]]
"""A turn that may wait, of which nothing has run."""


class _Seat:
    """A task that has the turns which may wait, one after the other, and where it is told of the next one.

    A task for each would cost more than all else that the engine does for it.
    """

    __slots__ = ("called", "next")

    def __init__(self) -> None:
        self.next: Rest | None = None
        self.called = anyio.Event()


class Pump:
    """Runs turns for one node. `wants_unit` is called with each cell that has something to commit."""

    def __init__(self, cells: Cells, runner: TurnRunner, port: Port) -> None:
        self.cells = cells
        self.runner = runner
        self.port = port
        self.wants_unit: Callable[[Cell], None] = lambda cell: None
        self.gate: Callable[[], bool] = lambda: True
        """False while the committer has as much as it may hold."""
        self.calls_of: Callable[[str], list[int]] = lambda address: []
        """Ids of the calls in memory that an actor made."""
        self.out_of_memory: Callable[[str], None] = lambda reason: None
        """A handler found no memory: this process should not go on for long."""
        self.blame: Blame = UNWATCHED
        self.trials = Trials(port, runner.node, passed=self._tried, failed=self._failed, again=self._again)
        self.cancelled: dict[str, None] = {}
        """Actors that were cancelled here lately: their calls that are still to be read do not begin."""
        self.full: set[str] = set()
        """Mailboxes that take nothing more from actors (`fullness`)."""
        self.waiting = 0
        """How many handlers wait."""
        self._free: list[_Seat] = []
        self._runnable: deque[Cell] = deque()
        self._work = Signal()
        self._group: anyio.abc.TaskGroup | None = None

    def schedule(self, cell: Cell) -> None:
        """Let the pump look at a cell."""
        if cell.loaded and not cell.busy and not cell.queued:
            cell.queued = True
            self._runnable.append(cell)
            self._work.set()

    def nudge(self) -> None:
        """Let the pump go on after `gate` has opened."""
        self._work.set()

    async def run(self, group: anyio.abc.TaskGroup) -> None:
        """Run turns for ever."""
        self._group = group
        while True:
            await self._work.wait()
            turns = 0
            while self._runnable and self.gate():
                cell = self._runnable.popleft()
                cell.queued = False
                turns += self._run(cell)
                if cell.turn is not None:
                    turns += ACTOR_TURNS  # as many as may follow in its seat
                if turns >= SLICE_TURNS:
                    turns = 0
                    await anyio.lowlevel.checkpoint()

    def _run(self, cell: Cell, seat: _Seat | None = None) -> int:
        """Turns of one cell, as many as it may have in a row; how many there were.

        `seat`: whose task this is, so that a turn that may wait goes on there.
        """
        turns = 0
        if self.cells.cells.get(cell.address) is not cell:
            return turns
        while not cell.busy and cell.queue and cell.shard not in self.cells.leaving:
            if turns >= ACTOR_TURNS:
                self.schedule(cell)
                break
            if cell.solo and (cell.unit is not None or cell.in_flight):
                break
            now = self.port.monotonic()
            row = cell.row
            lanes = 3 if row is None or row.status == "active" else cell.lanes()
            envelope = cell.queue.take(now, lanes)
            if envelope is None:
                self._wait_for_due(cell, now)
                break
            turns += 1
            cell.used = now
            if cell.poison and envelope.id in cell.poison:
                cell.busy = True
                self._failed(cell, envelope, cell.poison.pop(envelope.id))
            elif not (envelope.losses and self.trials.begin(self._group, cell, envelope)):
                self._turn(cell, envelope, seat)
        if cell.row is not None and cell.row.status != "active" and cell.lanes() < 3:
            self.cells.shed(cell)
        elif not cell.complete:
            self.cells.refill_when_low(cell)
        return turns

    # --- one turn ----------------------------------------------------------------------------------------------

    def _turn(self, cell: Cell, envelope: Envelope, seat: _Seat | None = None) -> None:
        cell.busy = True
        self.blame.enter(envelope)
        try:
            ctx, rest = self.runner.begin(cell, envelope)
        except UnknownMessage as error:
            self._unread(cell, envelope, str(error))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its turn's failure, and no more
            self._failed(cell, envelope, error)
        except anyio.get_cancelled_exc_class() as error:
            # It has not waited, so nobody has cancelled it.
            self._failed(cell, envelope, CancelledFromWithin(describe(error)))
        else:
            if rest is None:
                self._done(cell, envelope, ctx)
            else:
                self._seat(cell, envelope, ctx, rest, seat)
        self.blame.leave()  # not in a `finally`: what passes here ends this process, and is to blame

    def _seat(self, cell: Cell, envelope: Envelope, ctx: Context, rest: Awaitable[None], seat: _Seat | None) -> None:
        assert self._group is not None and cell.actor is not None
        # Its limit is told now: the turn may be interrupted, and its actor forgotten, before it has begun.
        turn = cell.turn = Turn(envelope, cell.actor.turn_seconds)
        if seat is not None and seat.next is None:
            seat.next = (cell, turn, ctx, rest)
        elif self._free:
            seat = self._free.pop()
            seat.next = (cell, turn, ctx, rest)
            seat.called.set()
        else:
            seat = _Seat()
            seat.next = (cell, turn, ctx, rest)
            self.port.spawn(self._group, self._sit, seat, name="turns")
        if envelope.lane == Lane.SYSTEM and not interrupts(envelope.type, envelope.body):  # two would for ever
            waiting = cell.queue.pull(Lane.SYSTEM, lambda other: interrupts(other.type, other.body))
            if waiting is not None:
                self.interrupt(cell, waiting)

    async def _sit(self, seat: _Seat) -> None:
        """Have the turns that may wait, while they leave this task as they found it."""
        while True:
            turns = 0
            while seat.next is not None:
                (cell, turn, ctx, rest), seat.next = seat.next, None
                error, counts = await self._rest(cell, turn, ctx, rest)
                turns += 1
                if error is not None:
                    # A scope that was opened and not closed, say, would go on in another actor's turn.
                    if counts:
                        self.schedule(cell)
                    return
                if counts and turns < ACTOR_TURNS and self.gate() and not cell.busy:
                    # Most of them do not wait after all: the next one begins at once, and shares its commit.
                    turns += self._run(cell, seat)
                elif counts:
                    self.schedule(cell)
            if len(self._free) >= FREE_SEATS:
                return
            seat.called = anyio.Event()
            self._free.append(seat)
            try:
                await seat.called.wait()  # lets others have the loop, also where the next turn is here already
            except BaseException:
                self._leave(seat)
                raise

    def _leave(self, seat: _Seat) -> None:
        """A seat whose task ends while it waits to be called, or was called and has not begun."""
        if seat in self._free:
            self._free.remove(seat)
        if seat.next is not None:
            _close(seat.next[3])

    async def _rest(self, cell: Cell, turn: Turn, ctx: Context, rest: Awaitable[None]) -> tuple[Exception | None, bool]:
        """A turn that may wait, bounded by the actor's turn limit; what it raised, and whether it counts."""
        if cell.turn is not turn:
            _close(rest)
            return None, False
        self.waiting += 1
        slot = self.blame.hold(turn.envelope)
        error = await self._bounded(turn, rest)
        self.waiting -= 1
        self.blame.release(slot)  # not in a `finally`, as above
        if cell.turn is not turn:
            return error, False  # interrupted, or forgotten: whatever came out of it does not count
        cell.turn = None
        if error is None:
            self._done(cell, turn.envelope, ctx)
        else:
            self._failed(cell, turn.envelope, error)
        return error, True

    async def _bounded(self, turn: Turn, rest: Awaitable[None]) -> Exception | None:
        """Wait for a handler's end; what it raised."""
        found: Exception | None = None
        limit: anyio.CancelScope | None = None
        try:
            with self.port.deadline(turn.seconds) as limit, turn.scope:
                await rest
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its turn's failure, and no more
            found = error
        except anyio.get_cancelled_exc_class() as error:
            found = stray(error)
            if found is None:
                raise
        if limit is not None and limit.cancel_called:
            # Also where the handler has caught its cancellation: it has had its time.
            return TurnOverLimit(f"not done within the {turn.seconds:g} s that a turn may take")
        return found

    def interrupt(self, cell: Cell, envelope: Envelope) -> None:
        """A system message that does not wait for a handler: it goes before what the actor is doing, if anything."""
        now = self.port.monotonic()
        if cell.turn is not None and cell.turn.envelope.type == envelope.type == _CANCEL:
            cell.queue.put_urgent(envelope, now)  # it is being cancelled: once is enough
            return
        turn, cell.turn = cell.turn, None
        if turn is not None:
            turn.scope.cancel()
            cell.revive()
            cell.busy = False
            turn.envelope.delay_seconds = 0.0
            cell.queue.put_back(turn.envelope, now)
        if turn is not None and turn.envelope.lane == Lane.SYSTEM:
            cell.queue.put_back(envelope, now)
        else:
            cell.queue.put_urgent(envelope, now)
        self.schedule(cell)

    def _done(self, cell: Cell, envelope: Envelope, ctx: Context) -> None:
        try:
            if self.full:
                self._check_room(cell, ctx)
            self.runner.succeed(cell, envelope, ctx)
        except Exception as error:  # noqa: BLE001 - a state or summary that cannot be stored: the turn's own fault
            self._failed(cell, envelope, error)
            return
        if self.cancelled or envelope.type in _ENDING:
            self._note_end(cell, envelope)
        # After a turn that brings back older messages, none may begin before they are here.
        unit = cell.unit
        cell.busy = unit is not None and unit.unstash
        self.wants_unit(cell)

    def _note_end(self, cell: Cell, envelope: Envelope) -> None:
        """After a turn that may have been a cancelled actor's last, or its first again."""
        if envelope.type == _CANCEL and cell.ended() and cell.unit is not None:
            cell.unit.withdraws = [*cell.unit.withdraws, *self.calls_of(cell.address)]
            self._drop_starts(cell, cell.unit)
            self.cancelled[cell.address] = None
            if len(self.cancelled) > CANCELLED_LIMIT:
                del self.cancelled[next(iter(self.cancelled))]
        elif envelope.type == _KILL and cell.unit is not None and cell.row is not None and cell.row.status == "failed":
            self._drop_starts(cell, cell.unit)
        elif self.cancelled and not cell.ended():
            self.cancelled.pop(cell.address, None)

    def _drop_starts(self, cell: Cell, unit: Unit) -> None:
        """A start that was cut off by a cancel or kill, or waits behind it, would begin what was just ended."""
        version = cell.row.version if cell.row is not None else 0
        while (start := cell.queue.pull(Lane.SYSTEM, lambda other: other.type == _START)) is not None:
            self.runner.outcomes.handled(unit, start, version, "refused")

    def _check_room(self, cell: Cell, ctx: Context) -> None:
        """Before a turn's sends are taken.

        Raises:
            MailboxIsFull: one of them finds no room. Lanes above the normal one, and the actor itself, always do: else
                two full actors would keep each other's replies away.
        """
        for sent in ctx.sends:
            told = sent.correlation  # of an end (`Terminated`): it must not have to wait for a watcher
            if sent.lane == Lane.NORMAL and sent.recipient in self.full and sent.recipient != cell.address and not told:
                if self.runner.failures.failing_seconds(cell, ctx.envelope) >= HELD_BACK_SECONDS:
                    return
                raise MailboxIsFull(f"the mailbox of {sent.recipient} is full")

    def _failed(self, cell: Cell, envelope: Envelope, error: BaseException) -> None:
        delay = self.runner.failures.fail(cell, envelope, error)
        self.wants_unit(cell)
        if delay is None:
            cell.busy = False
            self.schedule(cell)
        else:
            self._again(cell, envelope)
        if is_out_of_memory(error):
            self.out_of_memory(f"{cell.address}: {describe(error)}")

    def _tried(self, cell: Cell, envelope: Envelope) -> None:
        """Quarantine has found nothing wrong with a message."""
        cell.used = self.port.monotonic()
        self._turn(cell, envelope)
        self.schedule(cell)

    def answer(self, call: Envelope, reply: Envelope, message: Message) -> bool:
        """Let the actor that waits for a reply take it in the unit that ends the call; False where it cannot now.

        Half of a run's commits are saved like this. The reply is not on disk while its turn runs, which shows nowhere:
        call, reply and turn are one unit, so either all of it is written, or the reply is stored alone (`untaken`) and
        the worker's work is not lost. Whatever is not plain goes the long way: an actor that is busy or does not take
        replies, older messages for it, a handler that waits, or fails.
        """
        cell = self.cells.cells.get(reply.recipient)
        if cell is None or not self._is_free(cell):
            return False
        reply.deliveries = 1
        cell.used = self.port.monotonic()
        try:
            handler = cell.object().handlers.get(type(message))
            if handler is None or handler.waits:
                return False
            self.blame.enter(call)  # the reply is not on disk: it is the call that would be made again
            ctx, rest = self.runner.begin(cell, reply)
            if rest is not None:
                _close(rest)
                raise UsageError(f"{handler.method} is no coroutine function, and returned a coroutine that waits")
            if self.full:
                self._check_room(cell, ctx)
            self.runner.succeed(cell, reply, ctx, call)
            cell.busy = cell.unit is not None and cell.unit.unstash  # as in `_done`
        except (Exception, anyio.get_cancelled_exc_class()):  # noqa: BLE001 - decided when the stored reply has its turn
            cell.revive()
            self.blame.leave()
            return False
        self.blame.leave()
        self.wants_unit(cell)
        return True

    def _is_free(self, cell: Cell) -> bool:
        """Whether a turn may run at once, and overtakes nothing."""
        row = cell.row
        return (
            cell.loaded
            and cell.complete
            and not (cell.busy or cell.queue or cell.solo or cell.poison)
            and row is not None
            and row.version > 0
            and row.status == "active"
            and cell.shard not in self.cells.leaving
            and self.gate()
        )

    def _unread(self, cell: Cell, envelope: Envelope, why: str) -> None:
        name, version = envelope.type, envelope.version
        if cell.row is not None and known_types().get(name, 0) >= version:
            name, version = kind_name(cell.kind()), cell.row.state_version
        self.cells.unroutable.note(envelope, name, version, why)
        envelope.delay_seconds, envelope.last_error = CAPABLE_NODE_SECONDS, why
        self._again(cell, envelope)

    # --- again -------------------------------------------------------------------------------------------------

    def _again(self, cell: Cell, envelope: Envelope) -> None:
        cell.queue.put_back(envelope, self.port.monotonic())
        cell.busy = False
        self.schedule(cell)

    def _wait_for_due(self, cell: Cell, now: float) -> None:
        due = cell.queue.next_due(cell.lanes())
        if due is None or self._group is None or (cell.wakes_at is not None and cell.wakes_at <= due):
            return
        cell.wakes_at = due
        self.port.spawn(self._group, self._wake_at, cell, due, due - now, name=f"due {cell.address}")

    async def _wake_at(self, cell: Cell, due: float, seconds: float) -> None:
        await self.port.sleep(seconds)
        if cell.wakes_at == due:
            cell.wakes_at = None
        self.schedule(cell)


def _close(rest: Any) -> None:
    """A coroutine that was made and is not run, with those that it was to await, or Python complains of each."""
    if isinstance(rest, CoroutineType) and inspect.getcoroutinestate(rest) == inspect.CORO_CREATED:
        for held in inspect.getcoroutinelocals(rest).values():
            if isinstance(held, CoroutineType):
                _close(held)
    close = getattr(rest, "close", None)
    if close is not None:
        close()
