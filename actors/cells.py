"""The actors that a node has in memory, how messages get to them, and the pump that runs their turns.

A message comes here in two ways: handed over after the commit that sent it, or read from disk. Both are the same
message; `seen` holds the ids that are in memory, so that the second way finds the first. An id may leave `seen` only
when its acknowledgement is durable *and* no read that began before that is still running, else that read would bring
it back (`retire`; the test is `test_a_read_older_than_the_acknowledgement_brings_nothing_back`).
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from ..mailbox.address import shard_of
from ..mailbox.envelope import Envelope
from ..mailbox.errors import UnknownMessage, UsageError
from ..mailbox.message import Message
from ..persistence.port import Port, Signal
from .actor import Actor
from .cell import Cell
from .spec import Child, Supervisor, Tree
from .supervisor import SupervisorActor
from .turn import TurnRunner, Undeliverable

log = logging.getLogger(__name__)

SLICE_TURNS = 64
"""Turns that the pump runs before it lets other tasks have the loop."""
ACTOR_TURNS = 20
"""Turns in a row for one actor before the next one's."""
QUEUE_LIMIT = 1_000
"""Messages of one actor that are handed over in memory; more wait on disk to be read, so that memory stays bounded."""
CAPABLE_NODE_SECONDS = 5.0
"""How long a message that this process cannot read waits before it is looked at again; a capable node may have it
by then. Not a retry: nothing is charged."""


class Cells:
    """Registry, hand-over and pump. `wants_unit` is called with each cell that has something to commit."""

    def __init__(self, tree: Tree, runner: TurnRunner, port: Port) -> None:
        self.tree = tree
        self.runner = runner
        self.port = port
        self.cells: dict[str, Cell] = {}
        self.seen: set[int] = set()
        self.swept: set[int] = set()
        """Shards whose mailboxes were read to the end once: an actor without a cell has nothing on disk there."""
        self.leaving: set[int] = set()
        """Shards that are being given away: no turn of theirs begins."""
        self.doubts = 0
        """How often all that is believed of the disk had to be read anew (`doubt`)."""
        self.reads_running = 0
        self.wants_unit: Callable[[Cell], None] = lambda cell: None
        self.wants_load: Callable[[Cell], None] = lambda cell: None
        self.wants_refill: Callable[[Cell], None] = lambda cell: None
        self.gate: Callable[[], bool] = lambda: True
        """False while the committer has as much as it may hold."""
        self.refusals: Callable[[Envelope, Undeliverable], None] = lambda envelope, why: None
        self.untaken: Callable[[Envelope, Envelope], None] = lambda call, reply: None
        """Called with a call and its reply that a unit took which is not taken itself: now they are stored alone."""
        self._retired: list[int] = []
        self._runnable: deque[Cell] = deque()
        self._work = Signal()
        self._group: anyio.abc.TaskGroup | None = None

    # --- where messages come in --------------------------------------------------------------------------------

    def hand_over(self, envelope: Envelope, commit: int) -> None:
        """A message that this node just committed for one of its own actors."""
        cell = self._cell(envelope)
        if cell is None:
            return
        if len(cell.queue) >= QUEUE_LIMIT or envelope.lane >= cell.lanes():
            cell.complete = False
        if not cell.complete:
            # Older ones wait on disk; this one is read in its turn.
            cell.declined_at = commit
            if envelope.lane < cell.lanes():
                self.refill_when_low(cell)
            return
        self._put(cell, envelope)

    def arrive(self, envelope: Envelope) -> bool:
        """A message that was read from disk; False when it was in memory already."""
        if envelope.id in self.seen:
            return False
        cell = self._cell(envelope)
        if cell is None:
            return False
        if envelope.lane >= cell.lanes():
            cell.complete = False  # it stands still: on disk it costs nothing
            return False
        envelope.deliveries += 1
        self._put(cell, envelope)
        return True

    def _cell(self, envelope: Envelope) -> Cell | None:
        cell = self.cells.get(envelope.recipient)
        if cell is not None:
            return cell
        if not f"{envelope.recipient}/".startswith(f"{self.tree.address}/"):
            # Another program's, in the same database: it stays where it is.
            return None
        spec = self.tree.find(envelope.recipient)
        if spec is None or (isinstance(spec, Child) and spec.is_worker):
            self.refusals(
                envelope, Undeliverable("no-such-actor", f"this program has no actor at {envelope.recipient}")
            )
            return None
        shard = shard_of(envelope.recipient)
        make: Callable[[], Actor[Any]]
        make = self._supervisor(spec) if isinstance(spec, Supervisor) else spec.make
        cell = Cell(envelope.recipient, shard, spec, make, complete=shard in self.swept)
        self.cells[envelope.recipient] = cell
        self.wants_load(cell)
        return cell

    def _supervisor(self, spec: Supervisor) -> Callable[[], Actor[Any]]:
        return lambda: SupervisorActor(spec, self.tree)

    def _put(self, cell: Cell, envelope: Envelope) -> None:
        self.seen.add(envelope.id)
        cell.ids.add(envelope.id)
        cell.queue.put(envelope, self.port.monotonic())
        self.schedule(cell)

    # --- running turns -----------------------------------------------------------------------------------------

    def schedule(self, cell: Cell) -> None:
        """Let the pump look at a cell."""
        if cell.loaded and not cell.busy and not cell.queued:
            cell.queued = True
            self._runnable.append(cell)
            self._work.set()

    def nudge(self) -> None:
        """Let the pump go on after `gate` has opened."""
        self._work.set()

    async def pump(self, group: anyio.abc.TaskGroup) -> None:
        """Run turns for ever."""
        self._group = group
        while True:
            await self._work.wait()
            turns = 0
            while self._runnable and self.gate():
                cell = self._runnable.popleft()
                cell.queued = False
                turns += self._run(cell)
                if turns >= SLICE_TURNS:
                    turns = 0
                    await anyio.lowlevel.checkpoint()

    def _run(self, cell: Cell) -> int:
        """Turns of one cell, as many as it may have in a row; how many there were."""
        turns = 0
        if self.cells.get(cell.address) is not cell:
            return turns
        while not cell.busy and cell.shard not in self.leaving:
            if turns >= ACTOR_TURNS:
                self.schedule(cell)
                break
            if cell.solo and (cell.unit is not None or cell.in_flight):
                break
            now = self.port.monotonic()
            envelope = cell.queue.take(now, cell.lanes())
            if envelope is None:
                if cell.queue:
                    self._wait_for_due(cell, now)
                break
            turns += 1
            error = cell.poison.pop(envelope.id, None)
            if error is None:
                self._turn(cell, envelope)
            else:
                cell.busy = True
                self._failed(cell, envelope, error)
        if cell.lanes() < 3:
            self._shed(cell)
        elif not cell.complete:
            self.refill_when_low(cell)
        return turns

    def _shed(self, cell: Cell) -> None:
        """It stands still: what it does not take stays on disk only, however long that lasts."""
        shed = [envelope.id for envelope in cell.queue.drain(cell.lanes())]
        if shed:
            cell.ids.difference_update(shed)
            self.seen.difference_update(shed)
            cell.complete = False

    def _turn(self, cell: Cell, envelope: Envelope) -> None:
        cell.busy = True
        cell.used = self.port.monotonic()
        try:
            ctx, rest = self.runner.begin(cell, envelope)
        except UnknownMessage as error:
            envelope.delay_seconds = CAPABLE_NODE_SECONDS
            envelope.last_error = str(error)
            self._again(cell, envelope)
            return
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its turn's failure, and no more
            self._failed(cell, envelope, error)
            return
        if rest is None:
            self._done(cell, envelope, ctx)
        else:
            assert self._group is not None
            self.port.spawn(self._group, self._rest, cell, envelope, ctx, rest, name=f"turn {cell.address}")

    async def _rest(self, cell: Cell, envelope: Envelope, ctx: Any, rest: Any) -> None:
        """The part of a turn that had to wait, bounded by the actor's turn limit."""
        assert cell.actor is not None
        try:
            with self.port.deadline(cell.actor.turn_seconds):
                await rest
        except Exception as error:  # noqa: BLE001 - as above
            if self.cells.get(cell.address) is cell:
                self._failed(cell, envelope, error)
            return
        if self.cells.get(cell.address) is cell:
            self._done(cell, envelope, ctx)
            self.schedule(cell)

    def _done(self, cell: Cell, envelope: Envelope, ctx: Any) -> None:
        try:
            self.runner.succeed(cell, envelope, ctx)
        except Exception as error:  # noqa: BLE001 - a state or summary that cannot be stored: the turn's own fault
            self._failed(cell, envelope, error)
            return
        cell.busy = False
        self.wants_unit(cell)

    def _failed(self, cell: Cell, envelope: Envelope, error: BaseException) -> None:
        delay = self.runner.fail(cell, envelope, error)
        self.wants_unit(cell)
        if delay is None:
            cell.busy = False
            self.schedule(cell)
        else:
            self._again(cell, envelope)

    def answer(self, call: Envelope, reply: Envelope, message: Message) -> bool:
        """Let the actor that waits for a reply take it in the unit that ends the call; False where it cannot now.

        Half of a run's commits are saved like this. The reply is not on disk while its turn runs, which shows nowhere:
        call, reply and turn are one unit, so either all of it is written, or the reply is stored alone (`untaken`) and
        the worker's work is not lost. Whatever is not plain goes the long way: an actor that is busy or does not take
        replies, older messages for it, a handler that waits, or fails.
        """
        cell = self.cells.get(reply.recipient)
        if cell is None or not self._is_free(cell):
            return False
        reply.deliveries = 1
        cell.used = self.port.monotonic()
        try:
            handler = cell.object().handlers.get(type(message))
            if handler is None or handler.waits:
                return False
            ctx, rest = self.runner.begin(cell, reply)
            if rest is not None:
                raise UsageError(f"{handler.method} is no coroutine function, and returned a coroutine that waits")
            self.runner.succeed(cell, reply, ctx, call)
        except Exception:  # noqa: BLE001 - what it means is decided when the stored reply has its turn
            cell.revive()
            return False
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
            and cell.shard not in self.leaving
            and self.gate()
        )

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

    # --- leaving memory ----------------------------------------------------------------------------------------

    def acknowledged(self, cell: Cell | None, ids: Sequence[int]) -> None:
        """These acknowledgements are durable."""
        if cell is not None:
            cell.ids.difference_update(ids)
        self.retire(ids)

    def retire(self, ids: Sequence[int]) -> None:
        """Forget ids, as soon as no read that may still bring them is running."""
        if self.reads_running:
            self._retired.extend(ids)
        else:
            self.seen.difference_update(ids)

    def read_ended(self) -> None:
        """A read has been taken in whole."""
        self.reads_running -= 1
        if not self.reads_running and self._retired:
            self.seen.difference_update(self._retired)
            self._retired.clear()

    def forget(self, cell: Cell) -> None:
        """Throw a cell away; what it had not committed is on disk as before, to be read again."""
        if self.cells.get(cell.address) is cell:
            del self.cells[cell.address]
        self.seen.difference_update(cell.ids)
        cell.ids.clear()
        cell.queue.drain()
        cell.unit = None
        cell.busy = False

    def reload(
        self, cell: Cell, *, solo: bool = False, poison: dict[int, BaseException] | None = None, load: bool = True
    ) -> Cell | None:
        """Forget a cell and read it again, with its mailbox.

        `solo` or `poison` follow a batch that the database refused (see `Cell`). The fresh cell, which takes no turn
        before it is loaded; None where `cell` was forgotten already.
        """
        if self.cells.get(cell.address) is not cell:
            return None
        self.forget(cell)
        for call, reply in cell.answers:
            self.untaken(call, reply)
        cell.answers = []
        fresh = Cell(cell.address, cell.shard, cell.spec, cell.make, complete=False)
        fresh.solo = solo
        fresh.poison.update(poison or {})
        fresh.refill = True
        self.cells[cell.address] = fresh
        if load:
            self.wants_load(fresh)
        self.wants_refill(fresh)
        return fresh

    def doubt(self, commit: int) -> None:
        """There may be older messages on disk for any actor here: hand nothing over before that was read.

        So after shards came in (their senders wrote to actors of ours under their former owner), and after a commit
        whose answer was lost (what it sent was not handed over).
        """
        self.doubts += 1
        self.swept.clear()
        for cell in self.cells.values():
            cell.complete = False
            cell.declined_at = commit

    def forget_shards(self, shards: set[int]) -> None:
        """These shards are another node's now."""
        for cell in [cell for cell in self.cells.values() if cell.shard in shards]:
            self.forget(cell)
        self.swept -= shards
        self.leaving -= shards

    def shrink(self, keep: int) -> None:
        """Bound memory: forget the idle cells that were used longest ago, down to `keep` cells."""
        excess = len(self.cells) - keep
        if excess <= 0:
            return
        idle = sorted((cell for cell in self.cells.values() if cell.idle()), key=lambda cell: cell.used)
        for cell in idle[:excess]:
            self.forget(cell)

    def refill_when_low(self, cell: Cell) -> None:
        if not cell.refill and len(cell.queue) < ACTOR_TURNS:
            cell.refill = True
            self.wants_refill(cell)
