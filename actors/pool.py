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

from ..mailbox.envelope import Envelope
from ..mailbox.errors import BadMessage, BadRow, UnknownMessage
from ..mailbox.lane import Lane
from ..mailbox.message import Message
from ..persistence.port import Port
from ..persistence.unit import Unit
from .actor import Handler, Worker
from .blame import UNWATCHED, Blame
from .cells import Cells
from .committer import Committer
from .context import WorkerContext
from .directives import Fatal, Park, Reject, Transient, directive_of, is_out_of_memory
from .failing import MEMORY_LOSSES
from .measuring import UNMEASURED, Measures
from .outcome import Undeliverable, describe, retry_of
from .pump import CAPABLE_NODE_SECONDS, Pump
from .quarantine import AGAIN_SECONDS, CALLS_AT_ONCE, Quarantine, TrialOverran, TrialUndecided, is_suspect, make_call
from .spec import Child
from .waiting import stray

log = logging.getLogger(__name__)

WAITING_LIMIT = 1_000
"""Calls of one pool that wait in memory; more wait on disk to be read, so that memory stays bounded."""
FAR_SECONDS = 60.0
"""A call that is due later than in this time leaves memory."""
DELAYED_LIMIT = 20_000
"""Calls of one pool that wait in memory to be due."""
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
        pump: Pump,
        committer: Committer,
        *,
        journal: Callable[..., Awaitable[Any]],
        ask: Callable[..., Awaitable[Any]] | None = None,
    ) -> None:
        self.address = address
        self.worker: Worker = spec.make()
        self.cells = cells
        self.committer = committer
        self.pump = pump
        self.outcomes = pump.runner.outcomes
        self.port: Port = cells.port
        self.journal = journal
        self.ask = ask
        self.group: anyio.abc.TaskGroup | None = None
        self.backlog: set[int] = set()
        """Shards whose calls were not all read."""
        self.wants_sweep: Callable[[set[int]], None] = lambda shards: None
        self.running: dict[int, Begun] = {}
        self.quarantine: Quarantine | None = None
        self.blame: Blame = UNWATCHED
        self.measures: Measures = UNMEASURED
        self.whisper: Callable[[str, str], Awaitable[None]] | None = None
        self._free: list[_Seat] = []
        self._waiting: deque[Envelope] = deque()
        self._delayed: dict[int, Envelope] = {}
        self._suspects: deque[Envelope] = deque()
        """Calls to be made in quarantine, while as many are made there as may be: only those take seats."""
        self._tried: set[int] = set()
        """Ids of those."""
        self._stopped = False

    def deliver(self, envelope: Envelope) -> bool:
        """Take a call, handed over or read; False when it is here already, or has to wait on disk."""
        if envelope.id in self.cells.seen:
            return False
        if envelope.lane == Lane.SYSTEM and self.cells.takes(envelope):
            return True
        if len(self._waiting) + len(self._suspects) >= WAITING_LIMIT:
            self.backlog.add(envelope.shard)
            return False
        self.cells.seen.add(envelope.id)
        self.cells.meets(envelope)
        if envelope.delay_seconds > 0:
            return self._later(envelope)
        self._waiting.append(envelope)
        self._start()
        return True

    def envelopes(self) -> list[Envelope]:
        """All calls in memory."""
        running = [envelope for envelope, _ in self.running.values()]
        return [*running, *self._waiting, *self._suspects, *self._delayed.values()]

    def delayed(self) -> int:
        """How many calls in memory wait to be due."""
        return len(self._delayed)

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
        self._suspects = deque(envelope for envelope in self._suspects if envelope.id != identifier)
        self._delayed.pop(identifier, None)
        running = self.running.get(identifier)
        if running is not None:
            running[1].cancel()

    def forget_shards(self, shards: set[int]) -> None:
        """These shards are another node's now: stop what runs for them."""
        for envelope in [e for e in (*self._waiting, *self._suspects, *self._delayed.values()) if e.shard in shards]:
            self.cancel(envelope.id)
            self.cells.seen.discard(envelope.id)
        for envelope, scope in list(self.running.values()):
            if envelope.shard in shards:
                scope.cancel()
        self.backlog -= shards

    def _later(self, envelope: Envelope) -> bool:
        """Wait for a call to be due; False where that is far off: then it waits on disk, to be read again."""
        if envelope.delay_seconds > FAR_SECONDS or len(self._delayed) >= DELAYED_LIMIT:
            self.cells.retire([envelope.id])
            return False
        self._delayed[envelope.id] = envelope
        assert self.group is not None
        self.port.spawn(self.group, self._wait, envelope, name=f"delay {self.address}")
        return True

    async def _wait(self, envelope: Envelope) -> None:
        await self.port.sleep(envelope.delay_seconds)
        if self._delayed.get(envelope.id) is envelope:  # and not the same call, read again meanwhile
            del self._delayed[envelope.id]
            envelope.delay_seconds = 0.0
            self._waiting.append(envelope)
            self._start()

    def _start(self) -> None:
        while self._waiting and len(self.running) < self.worker.concurrency and not self._stopped:
            envelope = self._waiting.popleft()
            if envelope.shard in self.cells.leaving:
                self.cells.seen.discard(envelope.id)
                continue
            if envelope.sender in self.pump.cancelled:
                self._withdraw(envelope)
                continue
            if self.quarantine is not None and is_suspect(envelope):
                if len(self._tried) >= CALLS_AT_ONCE:
                    self._suspects.append(envelope)
                    continue
                self._tried.add(envelope.id)
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

    def _withdraw(self, envelope: Envelope) -> None:
        """A call whose caller was cancelled before it had been read."""
        unit = Unit(envelope.shard, withdraws=[envelope.id])
        self.committer.submit(unit, lambda _: self.cells.retire([envelope.id]))

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
                if envelope.id in self._tried:
                    self._tried.discard(envelope.id)
                    if self._suspects:
                        self._waiting.appendleft(self._suspects.popleft())
            seat.called = anyio.Event()
            self._free.append(seat)
            self._start()
            await seat.called.wait()  # lets others have the loop, also where the next call is here already

    async def _call(self, envelope: Envelope) -> None:
        try:
            message = envelope.message()
        except UnknownMessage as error:
            self.cells.unroutable.note(envelope, envelope.type, envelope.version, str(error))
            envelope.delay_seconds, envelope.last_error = CAPABLE_NODE_SECONDS, str(error)
            self._later(envelope)
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
        ctx = WorkerContext(envelope, self.committer.session.number, self.port, self.journal, self.ask)
        ctx.whisper = self.whisper
        records = False
        try:
            records = not envelope.started and self.worker.records_start(message)
            if records and not await self._record_start(envelope):
                self.cells.retire([envelope.id])
                return
            reply = await self._make(envelope, handler, message, ctx)
            if reply is not None and not isinstance(reply, Message):
                raise TypeError(f"{handler.method} returned a {type(reply).__name__}; a reply is a Message, or None")
        except Undeliverable as error:
            self._bury(envelope, message, error.why, str(error), ctx)
            return
        except (TrialUndecided, TrialOverran) as error:
            # It may have begun there, and what became of that nobody saw.
            envelope.started = envelope.started or records
            if isinstance(error, TrialUndecided):
                log.warning(
                    "%s: call %s could not be tried: %s", self.address, envelope.id, error, extra={"envelope": envelope}
                )
                envelope.delay_seconds = AGAIN_SECONDS
                self._later(envelope)
            else:
                self._failed(envelope, message, error, ctx, doubt=envelope.started)
            return
        except UnknownMessage as error:
            # A newer program has written some of what the worker read (a journal, say): nothing has failed.
            self.cells.unroutable.note(envelope, error.name or envelope.type, error.version, str(error))
            self._again(envelope, CAPABLE_NODE_SECONDS, str(error))
            return
        except Exception as error:  # noqa: BLE001 - whatever a worker raises is its call's failure, and no more
            if self.running[envelope.id][1].cancel_called:
                # It was stopped (a drain, a shard that left, a withdrawal) and says so in its own way: no failure.
                self.cells.seen.discard(envelope.id)
            else:
                self._failed(envelope, message, error, ctx)
            return
        self.measures.answered(message, reply)
        self._finish(envelope, reply)

    async def _make(self, envelope: Envelope, handler: Handler, message: Message, ctx: WorkerContext) -> Any:
        """Let the handler make the call: here, where it is written down as running, or in quarantine."""
        if self.quarantine is not None and is_suspect(envelope):
            try:
                return await make_call(self.quarantine, envelope, ctx.node)
            except (Undeliverable, TrialUndecided, TrialOverran):
                raise
            except Exception:
                envelope.losses = 0  # it came through
                raise
        slot, began = self.blame.hold(envelope), self.measures.began()
        try:
            reply = getattr(self.worker, handler.method)(message, ctx)
            return await reply if inspect.isawaitable(reply) else reply
        except SystemExit:
            slot = -1  # it ends this process: its name has to stand
            raise
        except anyio.get_cancelled_exc_class() as error:
            if (own := stray(error)) is not None:
                raise own from error
            raise
        finally:
            self.blame.release(slot)
            self.measures.ran(self.worker.kind, began)

    async def _record_start(self, envelope: Envelope) -> bool:
        """Commit that this call is about to begin; False when it is not ours to begin."""
        mark = retry_of(envelope)
        mark.started, mark.delay_seconds = True, 0.0
        outcome = await self.committer.write(Unit(envelope.shard, retries=[mark]))
        return outcome is None

    def _finish(self, envelope: Envelope, reply: Message | None) -> None:
        answer: Envelope | None = None
        if reply is not None and envelope.reply_to:
            try:
                answer = self.outcomes.answer(envelope, reply)
            except BadMessage as error:
                self._bury(envelope, None, "failed", str(error))
                return
            # One whose process ended goes the long way: it may have been the actor's turn that ended it.
            if not envelope.losses and self.pump.answer(envelope, answer, reply):
                return
        self.store_outcome(envelope, answer)

    def store_outcome(self, envelope: Envelope, answer: Envelope | None) -> None:
        """Write that a call has ended, with its reply into the mailbox of whoever asked."""
        unit = Unit(envelope.shard)
        self.outcomes.handled(unit, envelope, 0, "done")
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

    def _failed(
        self, envelope: Envelope, message: Message, error: Exception, ctx: WorkerContext, *, doubt: bool = False
    ) -> None:
        directive = directive_of(error)
        reason = describe(error)
        policy = self.worker.retry
        if is_out_of_memory(error) and envelope.losses < MEMORY_LOSSES:
            # Perhaps it is this call that needs too much: a loss, as if the process had died of it.
            envelope.losses += 1
            self._again(envelope, 0.0, reason, doubt=doubt)
            self.pump.out_of_memory(f"{self.address}: {reason}")
            return
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
                if is_out_of_memory(error):
                    self.pump.out_of_memory(f"{self.address}: {reason}")
                log.warning(
                    "%s: call %s failed", self.address, envelope.id, exc_info=error, extra={"envelope": envelope}
                )
                envelope.failures += 1
                if policy.exhausted(envelope.failures):
                    self._bury(envelope, message, "failed", reason, ctx)
                else:
                    wait = policy.delay_seconds(envelope.failures, self.port.random())
                    self._again(envelope, wait, reason, doubt=doubt)

    def _again(
        self, envelope: Envelope, delay: float, reason: str, notice: Message | None = None, *, doubt: bool = False
    ) -> None:
        # A failure that was seen is no doubt: the next attempt is a new one.
        envelope.started = doubt
        envelope.delay_seconds = delay
        envelope.last_error = reason
        envelope.deliveries += 1
        self.measures.retried(self.worker.kind)
        unit = Unit(envelope.shard, retries=[retry_of(envelope)])
        if notice is not None and envelope.reply_to:
            try:
                unit.sends.append(self.outcomes.answer(envelope, notice))
            except BadMessage:
                log.exception("%s: call %s is tried again without its notice", self.address, envelope.id)

        def done(outcome: str | BadRow | None) -> None:
            if outcome is None:
                self._later(envelope)
            else:
                self.cells.retire([envelope.id])

        self.committer.submit(unit, done)

    def _bury(
        self, envelope: Envelope, message: Message | None, why: str, detail: str, ctx: WorkerContext | None = None
    ) -> None:
        unit = Unit(envelope.shard)
        self.outcomes.bury(unit, envelope, why, detail)
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
                    return self.outcomes.answer(envelope, reply)
            except Exception:
                log.exception("%s: given_up failed for call %s", self.address, envelope.id)
        return self.outcomes.ask_failed(envelope, why, detail)
