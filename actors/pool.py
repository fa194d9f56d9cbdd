"""The workers of a node: model calls, tool calls, everything that does I/O.

A call is a message of the actor that asked, in that actor's shard, so it is handled where its caller lives. It begins
only from a committed message. Its outcome (acknowledgement, reply) is one loose unit; if the node was superseded
meanwhile, that unit is refused, and the new owner's attempt is the one that counts. A call whose repetition could do
harm has its start committed first (`Worker.records_start`): after a crash that tells "never begun" from "in doubt".
"""

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.abc

from ..mailbox.envelope import DeadLetter, Envelope
from ..mailbox.errors import BadMessage, BadRow, UnknownMessage
from ..mailbox.message import Message
from ..persistence.port import Port
from ..persistence.unit import Retry, Unit
from .actor import Worker
from .cells import CAPABLE_NODE_SECONDS, Cells
from .committer import Committer
from .context import WorkerContext
from .directives import Fatal, Park, Reject, Transient, directive_of
from .spec import Child
from .turn import TurnRunner, describe, plain, turn_row

log = logging.getLogger(__name__)

WAITING_LIMIT = 1_000
"""Calls of one pool that wait in memory; more wait on disk to be read, so that memory stays bounded."""
LOW_WATER = 50
"""Below so many waiting calls a pool whose backlog is still on disk asks for more."""


Begun = tuple[Envelope, anyio.CancelScope]
"""A call that was let go, and what stops it."""


class _Seat:
    """A task that makes one call after the other, and where it is told of the next one."""

    __slots__ = ("called", "next")

    def __init__(self, begun: Begun) -> None:
        self.next = begun
        self.called = anyio.Event()


class WorkerPool:
    """All calls to one worker on one node."""

    def __init__(
        self,
        address: str,
        spec: Child,
        cells: Cells,
        committer: Committer,
        runner: TurnRunner,
        *,
        journal: Callable[..., Awaitable[Any]],
    ) -> None:
        self.address = address
        self.worker: Worker = spec.make()
        self.cells = cells
        self.committer = committer
        self.runner = runner
        self.port: Port = cells.port
        self.journal = journal
        self.group: anyio.abc.TaskGroup | None = None
        self.backlog: set[int] = set()
        """Shards whose calls were not all read."""
        self.wants_sweep: Callable[[set[int]], None] = lambda shards: None
        self.running: dict[int, Begun] = {}
        self._free: list[_Seat] = []
        self._waiting: deque[Envelope] = deque()
        self._delayed: dict[int, Envelope] = {}
        self._stopped = False

    def deliver(self, envelope: Envelope) -> bool:
        """Take a call, handed over or read; False when it is here already, or has to wait on disk."""
        if envelope.id in self.cells.seen:
            return False
        if len(self._waiting) >= WAITING_LIMIT:
            self.backlog.add(envelope.shard)
            return False
        self.cells.seen.add(envelope.id)
        if envelope.delay_seconds > 0:
            self._later(envelope)
        else:
            self._waiting.append(envelope)
            self._start()
        return True

    def busy_shards(self) -> set[int]:
        """Shards with a call that has begun."""
        return {envelope.shard for envelope, _ in self.running.values()}

    def stop(self) -> None:
        """Begin no more calls."""
        self._stopped = True

    def cancel_running(self) -> None:
        """Stop all calls; the caller waits for `running` to be empty."""
        for _, scope in self.running.values():
            scope.cancel()

    def cancel(self, identifier: int) -> None:
        """A call was withdrawn: stop its handler if it runs."""
        self._waiting = deque(envelope for envelope in self._waiting if envelope.id != identifier)
        self._delayed.pop(identifier, None)
        running = self.running.get(identifier)
        if running is not None:
            running[1].cancel()

    def forget_shards(self, shards: set[int]) -> None:
        """These shards are another node's now: stop what runs for them."""
        for envelope in [e for e in (*self._waiting, *self._delayed.values()) if e.shard in shards]:
            self.cancel(envelope.id)
            self.cells.seen.discard(envelope.id)
        for envelope, scope in list(self.running.values()):
            if envelope.shard in shards:
                scope.cancel()
        self.backlog -= shards

    def _later(self, envelope: Envelope) -> None:
        self._delayed[envelope.id] = envelope
        assert self.group is not None
        self.port.spawn(self.group, self._wait, envelope, name=f"delay {self.address}")

    async def _wait(self, envelope: Envelope) -> None:
        await self.port.sleep(envelope.delay_seconds)
        if self._delayed.pop(envelope.id, None) is not None:
            envelope.delay_seconds = 0.0
            self._waiting.append(envelope)
            self._start()

    def _start(self) -> None:
        while self._waiting and len(self.running) < self.worker.concurrency and not self._stopped:
            envelope = self._waiting.popleft()
            if envelope.shard in self.cells.leaving:
                self.cells.seen.discard(envelope.id)
                continue
            begun = self.running[envelope.id] = (envelope, anyio.CancelScope())
            if self._free:
                seat = self._free.pop()
                seat.next = begun
                seat.called.set()
            else:
                assert self.group is not None
                self.port.spawn(self.group, self._sit, _Seat(begun), name=f"calls {self.address}")
        if self.backlog and len(self._waiting) < LOW_WATER:
            shards, self.backlog = self.backlog, set()
            self.wants_sweep(shards)

    async def _sit(self, seat: _Seat) -> None:
        """Make calls for ever. A task for each call would cost more than all else that the engine does for it."""
        while True:
            envelope, scope = seat.next
            try:
                with scope:
                    await self._call(envelope)
                if scope.cancelled_caught:
                    self.cells.seen.discard(envelope.id)
            finally:
                self.running.pop(envelope.id, None)
            seat.called = anyio.Event()
            self._free.append(seat)
            self._start()
            await seat.called.wait()  # lets others have the loop, also where the next call is here already

    async def _call(self, envelope: Envelope) -> None:
        try:
            message = envelope.message()
        except UnknownMessage as error:
            self._again(envelope, CAPABLE_NODE_SECONDS, str(error))
            return
        except BadMessage as error:
            self._bury(envelope, None, "unreadable", str(error))
            return
        handler = self.worker.handlers.get(type(message))
        if handler is None:
            self._bury(
                envelope, message, "rejected", f"{type(self.worker).__name__} has no handler for {envelope.type}"
            )
            return
        ctx = WorkerContext(envelope, self.committer.session.number, self.port, self.journal)
        try:
            records = not envelope.started and self.worker.records_start(message)
            if records and not await self._record_start(envelope):
                self.cells.retire([envelope.id])
                return
            reply = getattr(self.worker, handler.method)(message, ctx)
            if inspect.isawaitable(reply):
                reply = await reply
            if reply is not None and not isinstance(reply, Message):
                raise TypeError(f"{handler.method} returned a {type(reply).__name__}; a reply is a Message, or None")
        except Exception as error:  # noqa: BLE001 - whatever a worker raises is its call's failure, and no more
            self._failed(envelope, message, error, ctx)
            return
        self._finish(envelope, reply)

    async def _record_start(self, envelope: Envelope) -> bool:
        """Commit that this call is about to begin; False when it is not ours to begin."""
        mark = Retry(envelope.id, 0.0, envelope.deliveries, envelope.failures, envelope.last_error, started=True)
        outcome = await self.committer.write(Unit(envelope.shard, retries=[mark]))
        return outcome is None

    def _finish(self, envelope: Envelope, reply: Message | None) -> None:
        answer: Envelope | None = None
        if reply is not None and envelope.reply_to:
            try:
                answer = self.runner.answer(envelope, reply)
            except BadMessage as error:
                self._bury(envelope, None, "failed", str(error))
                return
            if self.cells.answer(envelope, answer, reply):
                return
        self.store_outcome(envelope, answer)

    def store_outcome(self, envelope: Envelope, answer: Envelope | None) -> None:
        """Write that a call has ended, with its reply into the mailbox of whoever asked."""
        now = self.port.wall() + self.runner.clock_offset
        unit = Unit(envelope.shard, acks=[envelope.id])
        unit.turns.append(turn_row(envelope, 0, "done", self.committer.session.number, now))
        if answer is not None:
            unit.sends.append(answer)
        self.committer.submit(unit, self._told(envelope))

    def _told(self, envelope: Envelope) -> Callable[[str | BadRow | None], None]:
        def done(outcome: str | BadRow | None) -> None:
            if isinstance(outcome, BadRow):
                # Its effect has happened; the answer cannot be stored. It must not run again.
                self._bury(envelope, None, "failed", f"its reply cannot be stored: {outcome}")
                return
            if outcome is not None:
                log.info("%s: outcome of call %s was not taken: %s", self.address, envelope.id, outcome)
            self.cells.retire([envelope.id])

        return done

    def _failed(self, envelope: Envelope, message: Message, error: Exception, ctx: WorkerContext) -> None:
        directive = directive_of(error)
        reason = describe(error)
        policy = self.worker.retry
        match directive:
            case Transient():
                envelope.failures += directive.charge
                after = directive.after_seconds
                # Where nothing is charged, it is the deliveries that make the waits grow.
                attempts = envelope.failures if directive.charge else envelope.deliveries
                delay = policy.delay_seconds(attempts, self.port.random()) if after is None else after
                self._again(envelope, delay, reason, directive.notice)
            case Reject() | Park() | Fatal():
                self._bury(envelope, message, "rejected", reason, ctx)
            case _:
                log.warning("%s: call %s failed", self.address, envelope.id, exc_info=error)
                envelope.failures += 1
                if policy.exhausted(envelope.failures):
                    self._bury(envelope, message, "failed", reason, ctx)
                else:
                    self._again(envelope, policy.delay_seconds(envelope.failures, self.port.random()), reason)

    def _again(self, envelope: Envelope, delay: float, reason: str, notice: Message | None = None) -> None:
        # A failure that was seen is no doubt: the next attempt is a new one.
        envelope.started = False
        envelope.delay_seconds = delay
        envelope.last_error = reason
        envelope.deliveries += 1
        again = Retry(envelope.id, delay, envelope.deliveries, envelope.failures, reason)
        unit = Unit(envelope.shard, retries=[again])
        if notice is not None and envelope.reply_to:
            unit.sends.append(self.runner.answer(envelope, notice))

        def done(outcome: str | BadRow | None) -> None:
            if outcome is None:
                self._later(envelope)
            else:
                self.cells.retire([envelope.id])

        self.committer.submit(unit, done)

    def _bury(
        self, envelope: Envelope, message: Message | None, why: str, detail: str, ctx: WorkerContext | None = None
    ) -> None:
        now = self.port.wall() + self.runner.clock_offset
        unit = Unit(envelope.shard, acks=[envelope.id], dead=[DeadLetter(envelope, why, plain(detail))])
        unit.turns.append(turn_row(envelope, 0, "dead", self.committer.session.number, now))
        if envelope.reply_to:
            unit.sends.append(self._last_answer(envelope, message, why, detail, ctx))
        self.committer.submit(unit, lambda _: self.cells.retire([envelope.id]))

    def _last_answer(
        self, envelope: Envelope, message: Message | None, why: str, detail: str, ctx: WorkerContext | None
    ) -> Envelope:
        if message is not None and ctx is not None:
            try:
                reply = self.worker.given_up(message, detail, ctx)
                if reply is not None:
                    return self.runner.answer(envelope, reply)
            except Exception:
                log.exception("%s: given_up failed for call %s", self.address, envelope.id)
        return self.runner.ask_failed(envelope, why, detail)
