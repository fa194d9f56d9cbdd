"""Quarantine: a message whose handlers lost their process twice runs alone, where it can end nothing but itself.

    losses 0, 1     the message is handled as any other; a process that ends meanwhile charges it with one loss
    losses >= 2     a suspect: it is tried in a process of its own, that nothing else runs in
    ended there     by itself (an exit, a segmentation fault): it is to blame, and becomes a dead letter `worker_lost`
    killed there    from outside: nothing was learned and nothing is charged; it is tried again
    came through    it was a neighbour of the one to blame: its losses are forgotten

A loss alone proves nothing: where a node is killed every second, innocent messages are hit twice. So losses choose who
is tried, and only the trial condemns. It ends the message, and is no failure of its actor: the actor's object was not
even there.

An actor's handler has no effect before its commit, so its trial is a rehearsal, and afterwards the node runs the turn
itself. A worker's call has its effects at once: its trial *is* the call, and its outcome is taken. What is sent there
and comes back are plain values, so that any process can do it (`service.quarantine`), and tests can say what happens
(`callboard.actors.testing`). A node that was given no quarantine (a library's) handles suspects as any other message.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

import msgspec

from ..mailbox.envelope import Envelope
from ..mailbox.errors import CallboardError, UsageError
from ..mailbox.ids import IdClock
from ..mailbox.message import Message, decode, encode, wire
from ..persistence.port import Port
from ..persistence.rows import ActorRow
from .actor import Actor
from .cell import Cell
from .clock import StoreClock
from .context import WorkerContext
from .directives import Directive, Fatal, Park, Reject, Transient, directive_of, is_out_of_memory
from .outcome import Undeliverable, Void, describe, plain
from .spec import Child, Supervisor, Tree
from .supervisor import SupervisorActor
from .turn import TurnRunner

SUSPECT_LOSSES = 2
"""Processes that a message may cost before it is tried alone. At one, every crash would send all that ran to trial."""
CALLS_AT_ONCE = 4
"""Suspect calls that are made at the same time on one node, each in its process: one that takes an hour, and is most
likely innocent, must not keep the others waiting. Turns are short and tried one after the other."""
CALL_SECONDS = 3_600.0
"""How long the trial of a worker's call may take: its handler has its own limits, this is for one that ignores them."""
WORKER_LOST = "worker_lost"
"""The reason of the dead letter."""
AGAIN_SECONDS = 2.0
"""How long a suspect waits after a trial that told nothing."""


class Trial(msgspec.Struct):
    """A suspect message, and what its handler needs."""

    envelope: Envelope
    node: int
    """Number of the node that asks."""
    seconds: float
    """How long it may take."""
    row: ActorRow | None = None
    """The actor as of its last turn; None where there is none yet, and for a worker's call."""
    is_call: bool = False


class Said(msgspec.Struct):
    """A message as a plain value."""

    type: str
    version: int
    body: str

    @classmethod
    def of(cls, message: Message | None) -> "Said | None":
        """`message` as a plain value.

        Raises:
            BadMessage: it cannot be stored.
        """
        return None if message is None else cls(*wire(type(message)), encode(message))

    def message(self) -> Message:
        """The message itself.

        Raises:
            UnknownMessage, BadMessage.
        """
        return decode(self.type, self.version, self.body)


class Survived(msgspec.Struct, tag="survived"):
    """The handler came through; what a worker's replied."""

    reply: Said | None = None


class Raised(msgspec.Struct, tag="raised"):
    """The handler came through by raising, and with which directive ("" for a bug)."""

    reason: str
    directive: str = ""
    after_seconds: float | None = None
    charge: bool = False
    notice: Said | None = None


class Died(msgspec.Struct, tag="died"):
    """Its process ended by itself."""

    how: str


class Overran(msgspec.Struct, tag="overran"):
    """It was not done in its time, and its process was killed by us."""

    seconds: float


class Undecided(msgspec.Struct, tag="undecided"):
    """Nothing was learned: the process was killed from outside, or could not be started."""

    how: str


Verdict = Survived | Raised | Died | Overran | Undecided


class Quarantine(Protocol):
    """Where a node's suspects are tried."""

    async def try_message(self, trial: Trial) -> Verdict:
        """Run a suspect's handler where it can do no harm, after those that were here before. Cancelled, it stops."""
        ...


class TrialUndecided(CallboardError):
    """A trial told nothing."""


class TrialOverran(TimeoutError):
    """A trial did not end in its time."""


class QuarantinedError(CallboardError):
    """What a handler raised in quarantine, when that is no directive."""


def is_suspect(envelope: Envelope) -> bool:
    """Whether a message is tried before it is handled."""
    return envelope.losses >= SUSPECT_LOSSES


async def make_call(quarantine: Quarantine, envelope: Envelope, node: int) -> Message | None:
    """Make a suspect call of a worker in quarantine; its reply.

    Raises:
        Undeliverable: it is to blame. TrialUndecided: again later. TrialOverran: over `CALL_SECONDS`.
        Exception: what its handler raised, as far as that can be told: the directive, or QuarantinedError.
    """
    match await quarantine.try_message(Trial(envelope, node, CALL_SECONDS, is_call=True)):
        case Survived(reply):
            return None if reply is None else reply.message()
        case Raised() as raised:
            raise _error(raised)
        case Died(how):
            raise _lost(how)
        case Overran(seconds):
            raise TrialOverran(f"its handler did not end within {seconds:g} s, alone in a process")
        case Undecided(how):
            raise TrialUndecided(how)


async def try_turn(quarantine: Quarantine, cell: Cell, envelope: Envelope, node: int) -> None:
    """Rehearse a suspect message's turn; returns when it came through, and may be run here.

    Raises:
        Undeliverable: it is to blame. TrialUndecided: again later. TrialOverran: over the actor's turn limit.
    """
    # A cell is never a worker's.
    kind = cast("type[Actor[Any]]", cell.spec.actor if isinstance(cell.spec, Child) else SupervisorActor)
    verdict = await quarantine.try_message(Trial(envelope, node, kind.turn_seconds, cell.row))
    match verdict:
        case Died(how):
            raise _lost(how)
        case Overran(seconds):
            raise TrialOverran(f"its handler did not end within {seconds:g} s, alone in a process")
        case Undecided(how):
            raise TrialUndecided(how)


def _lost(how: str) -> Undeliverable:
    return Undeliverable(WORKER_LOST, f"its handler ended the process it ran in, alone too: {how}")


# --- in the quarantine process -------------------------------------------------------------------------------------


async def rehearse(
    trial: Trial,
    tree: Tree,
    port: Port,
    journal: Callable[..., Awaitable[Any]],
    ask: Callable[..., Awaitable[Any]] | None = None,
) -> Verdict:
    """Run a suspect's handler in this process, which may be the end of it."""
    envelope = trial.envelope
    spec = tree.workers.get(envelope.recipient) or tree.find(envelope.recipient)
    if spec is None:
        return Raised(f"this program has nothing at {envelope.recipient}")
    try:
        if isinstance(spec, Child) and spec.is_worker:
            with port.deadline(trial.seconds):
                return Survived(Said.of(await _call(trial, spec, port, journal, ask)))
        with port.deadline(trial.seconds):
            await _turn(trial, spec, tree, port)
            return Survived()
    except Exception as error:  # noqa: BLE001 - whatever a handler raises: it came through
        if is_out_of_memory(error):
            # Let through, it would end a node for want of memory, come here again, and so on.
            return Died(f"it found no memory ({describe(error)})")
        return _raised(error)


async def _call(
    trial: Trial,
    spec: Child,
    port: Port,
    journal: Callable[..., Awaitable[Any]],
    ask: Callable[..., Awaitable[Any]] | None,
) -> Message | None:
    worker, message = spec.make(), trial.envelope.message()
    handler = worker.handlers.get(type(message))
    if handler is None:
        raise Reject(f"{type(worker).__name__} has no handler for {trial.envelope.type}")
    reply = getattr(worker, handler.method)(message, WorkerContext(trial.envelope, trial.node, port, journal, ask))
    if inspect.isawaitable(reply):
        reply = await reply
    if reply is not None and not isinstance(reply, Message):
        raise TypeError(f"{handler.method} returned a {type(reply).__name__}; a reply is a Message, or None")
    return reply


async def _turn(trial: Trial, spec: Child | Supervisor, tree: Tree, port: Port) -> None:
    make = spec.make if isinstance(spec, Child) else (lambda: SupervisorActor(spec, tree))
    cell = Cell(trial.envelope.recipient, trial.envelope.shard, spec, make, complete=False)
    cell.load(trial.row)
    # Ids made here go nowhere: they may be those of the node, which makes them again.
    runner = TurnRunner(tree, IdClock(trial.node, port.wall), port, trial.node, StoreClock(port))
    try:
        ctx, rest = runner.begin(cell, trial.envelope)
    except (Undeliverable, Void):
        return  # no handler takes it, so there is nothing to try: its own turn says so again
    if rest is not None:
        await rest
    runner.succeed(cell, trial.envelope, ctx)  # encoding its state is a part of it that may fail


_DIRECTIVES: dict[str, type[Directive]] = {"reject": Reject, "park": Park, "fatal": Fatal}


def _raised(error: Exception) -> Raised:
    directive = directive_of(error)
    match directive:
        case None:
            return Raised(describe(error))
        case Transient():
            return Raised(
                plain(directive.reason), "transient", directive.after_seconds, directive.charge, _said(directive.notice)
            )
        case _:
            return Raised(plain(directive.reason), type(directive).__name__.lower())


def _said(notice: Message | None) -> Said | None:
    try:
        return Said.of(notice)
    except CallboardError:
        return None  # a notice that cannot be stored would fail the unit that it goes into


def _error(raised: Raised) -> Exception:
    if raised.directive == "transient":
        notice = None if raised.notice is None else raised.notice.message()
        return Transient(raised.reason, after_seconds=raised.after_seconds, notice=notice, charge=raised.charge)
    kind = _DIRECTIVES.get(raised.directive)
    return QuarantinedError(raised.reason) if kind is None else kind(raised.reason)


def decode_trial(content: bytes) -> Trial:
    """A trial that came in a frame.

    Raises:
        UsageError: it is none.
    """
    try:
        return msgspec.msgpack.decode(content, type=Trial)
    except msgspec.MsgspecError as error:
        raise UsageError(f"no trial: {error}") from error


def decode_verdict(content: bytes) -> Verdict:
    """A verdict that came in a frame; Undecided where it is none."""
    try:
        return msgspec.msgpack.decode(content, type=Verdict)
    except msgspec.MsgspecError as error:
        return Undecided(f"what the quarantine process said is no verdict: {error}")
