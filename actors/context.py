"""What a handler may do: it buffers effects here, and none of them leaves before the turn's commit.

Nothing in this module does I/O. `Context` belongs to one turn of an actor, `WorkerContext` to one call of a worker.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Generic, TypeVar

from ..mailbox.address import CLIENT_PREFIX, parse, shard_of
from ..mailbox.envelope import Envelope, Headers, headers_of, seal, write_headers
from ..mailbox.errors import UsageError
from ..mailbox.ids import IdClock
from ..mailbox.lane import Lane
from ..mailbox.message import Message, encode, tag
from ..mailbox.request import Request
from ..persistence.port import Port
from ..persistence.rows import ActorRow, Decision, EventRow
from ..persistence.unit import Move
from . import asking, scheduling, watching
from .actor import Actor
from .bonds import CLOCK, Bonds, read
from .directives import Park
from .outcome import plain
from .rare import Rare
from .scheduling import seconds_of
from .spec import Child, Tree
from .system import Spawn
from .tracing import NO_SPAN, Span
from .worker_context import WorkerContext

__all__ = ["Context", "Event", "Ref", "WorkerContext"]

M = TypeVar("M", bound=Message)
Q = TypeVar("Q", bound=Request[Any])
M_contra = TypeVar("M_contra", bound=Message, contravariant=True)
T = TypeVar("T")

log = logging.getLogger(__name__)

_ENDS = ("completed", "cancelled", "failed")
_parsed = lru_cache(maxsize=65_536)(parse)


class Event(Message):
    """Base of what an actor records in its journal: past-tense facts, versioned like messages."""


@dataclass(frozen=True)
class Ref(Generic[M_contra]):
    """An address, typed by what its actor accepts."""

    address: str

    def __post_init__(self) -> None:
        parse(self.address)


class Context:
    """One turn of an actor."""

    __slots__ = (
        "_ids",
        "_tree",
        "declined",
        "end",
        "envelope",
        "events",
        "node",
        "now",
        "park_reason",
        "port",
        "rare",
        "row",
        "sends",
        "span",
        "starts",
    )

    def __init__(
        self, row: ActorRow, envelope: Envelope, *, ids: IdClock, tree: Tree, now: float, node: int, port: Port
    ) -> None:
        self.row = row
        self.envelope = envelope
        self.node = node
        """Number of the node that this turn runs on."""
        self.now = now
        """Seconds since 1970, by the node's estimate of the store's clock; the same throughout the turn."""
        self.port = port
        self._ids = ids
        self._tree = tree
        self.sends: list[Envelope] = []
        self.events: list[EventRow] = []
        self.rare: Rare | None = None
        self.park_reason: str | None = None
        self.end: tuple[str, str] | None = None
        self.declined = False
        self.starts = False
        """Whether `on_start` runs in this turn, before the handler."""
        self.span: Span = NO_SPAN

    # --- who and what ------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """This actor's address."""
        return self.row.address

    @property
    def incarnation(self) -> int:
        """How often this actor was started, from 1."""
        return self.row.incarnation

    @property
    def message_id(self) -> int:
        """Id of the message in hand."""
        return self.envelope.id

    @property
    def sender(self) -> str:
        """Who sent it; "" from outside."""
        return self.envelope.sender

    @property
    def reply_to(self) -> tuple[str, int]:
        """Where a later reply goes (`reply_later`), to be kept in the state; ("", 0) where nobody waits."""
        return self.envelope.reply_to, self.envelope.id

    @property
    def answers(self) -> int:
        """Id of this actor's ask that the message in hand is the outcome of (`ask`); 0 where it is none."""
        return self.rare.answers if self.rare is not None else 0

    @property
    def correlation(self) -> int:
        """Id of the message that the one in hand answers: a call to a worker, or an ask; 0 where it answers none."""
        if self.envelope.sender == CLOCK:
            return self.answers
        return self.envelope.correlation

    @property
    def missed(self) -> int:
        """Of a periodic timer's message: how many due times went by before this one without a message of their own."""
        return headers_of(self.envelope).missed

    @property
    def deadline(self) -> float:
        """Until when whoever asked waits for the answer to the message in hand, in seconds since 1970 (as `now`); 0:
        nobody asked, or nobody said."""
        return headers_of(self.envelope).deadline

    @property
    def attempt(self) -> int:
        """How often this message failed before, plus one."""
        return self.envelope.failures + 1

    # --- effects -----------------------------------------------------------------------------------------------

    def send(self, to: "Ref[M] | str", message: M, *, lane: Lane = Lane.NORMAL) -> int:
        """Send a message when the turn commits; its id. To a worker, this actor is the one that gets the reply."""
        # What is no address is a mailbox that nobody ever looks into.
        envelope = self.seal(to.address if isinstance(to, Ref) else _parsed(to), message, lane)
        self.sends.append(envelope)
        return envelope.id

    def ask(self, to: "Ref[Q] | str", request: Q, *, timeout: timedelta | float, lane: Lane = Lane.NORMAL) -> int:
        """Send a request whose outcome comes back as a message; the id of the ask.

        Exactly one outcome is handled, by this actor's handler for its type: the answer, or an `AskFailed` that says
        why there will be none; `Context.answers` is the id then. Nothing waits in between: the turn ends, other
        messages are handled, and asking oneself, or somebody who asks back, is fine. What comes after the outcome is
        dropped. A restart of the target does not fail the ask; its end does, and so does the request's being given up.

        `timeout` is in seconds, counted from now; where the message in hand is a request with a `deadline`, it ends
        then at the latest. It ends the ask only: the target may still handle the request.

        Raises:
            BadAddress, UsageError: no request, no sensible time, or 1,000 asks that are open.
        """
        return asking.open_ask(self, self._address(to), request, seconds_of(timeout), lane)

    def reply(self, message: Message) -> None:
        """Answer the message in hand; without anybody waiting, nothing happens."""
        self.reply_later(self.reply_to, message)

    def reply_later(self, reply_to: tuple[str, int], message: Message) -> None:
        """Answer a message handled before, whose `reply_to` was kept."""
        to, correlation = reply_to
        if not to:
            return
        if not to.startswith(CLIENT_PREFIX):
            asking.answer(self, to, correlation, message)
            return
        envelope = self.seal(to, message, Lane.REPLY)
        envelope.correlation = correlation
        self.sends.append(envelope)

    def hold(self, to: "Ref[M] | str", message: M) -> int:
        """Put a message to a worker into the mailbox without letting it go; its id, for `release` or `drop`."""
        envelope = self.seal(to.address if isinstance(to, Ref) else to, message, Lane.NORMAL)
        if envelope.shard != self.row.shard:
            raise UsageError(f"{envelope.recipient} is no worker: only messages to workers can be held")
        self.rarely().holds.append(envelope)
        self.tie().held[envelope.id] = ""
        return envelope.id

    def release(self, message_id: int) -> None:
        """Let a held message go."""
        self.rarely().releases.append(message_id)
        self._hold_no_more(message_id)

    def drop(self, message_id: int) -> None:
        """A held message never goes."""
        self.rarely().drops.append(message_id)
        self._hold_no_more(message_id)

    def withdraw(self, message_id: int) -> None:
        """Take back a message to a worker: deleted if it is still there, its handler cancelled if it runs here."""
        self.rarely().withdrawn.append(message_id)
        self._hold_no_more(message_id)

    def _hold_no_more(self, message_id: int) -> None:
        if self.bound() and message_id in self.bonds.held:
            del self.tie().held[message_id]

    def record(self, event: Event) -> int:
        """Append a fact to this actor's journal; its number."""
        self.row.events += 1
        self.events.append(
            EventRow(
                self.row.shard, self.row.address, self.row.events, tag(type(event)), encode(event), self.now, self.node
            )
        )
        return self.row.events

    def schedule(
        self,
        key: str,
        after: timedelta | float,
        message: Message,
        *,
        every: timedelta | float = 0.0,
        lane: Lane = Lane.NORMAL,
        jitter: bool = False,
        loose: bool = False,
    ) -> None:
        """Put a message into this actor's own mailbox after a time (seconds), and then `every` so often.

        One timer a key: scheduling it again replaces it, and from then on nothing of the former one is handled, even
        if its message is in the mailbox already. Reliable, and never before its time. A periodic one keeps its beat;
        due times that go by while nobody can take them, or while its message still waits, are one message, with the
        number of the others in `missed`. A handler that fails does not use a timer up.

        `jitter`: moves the whole beat by a random part, up to 10 % of the period, so that many actors that were
        started together do not all wake at once; for periods of a minute or more.
        `loose`: not one of the 1,000 timers that an actor may have, and free of their cost, which grows with their
        number; for actors with a timer for each of many things. Its message may be handled after it was cancelled or
        set again, where it was in the mailbox by then: the handler has to see to that.

        Raises:
            UsageError: no sensible time, a key of the runtime's ("sys:…"), or too many timers.
        """
        seconds, period = seconds_of(after), seconds_of(every)
        scheduling.schedule(self, key, seconds, message, period=period, lane=lane, jitter=jitter, loose=loose)

    def cancel_timer(self, key: str) -> None:
        """The timer of this key does not fire any more, and its message is not handled if it is in the mailbox."""
        scheduling.cancel(self, key)

    def watch(self, to: "Ref[Any] | str") -> None:
        """Be told when that actor has ended for good: by one `Terminated`, whenever and wherever it ends.

        At once if it has ended already (with the status it ended with), or if there is no such actor ("unknown").
        Watching it again changes nothing until then; for its next incarnation, watch it anew. A restart by its
        supervisor is no end. An actor takes 10,000 watchers: who comes after gets a `Terminated` with the status
        "refused", although it lives.

        Raises:
            BadAddress, UsageError: this actor itself, or a worker.
        """
        watching.watch(self, self._address(to))

    def unwatch(self, to: "Ref[Any] | str") -> None:
        """From now on no `Terminated` of that actor is handled, even if it is in the mailbox already."""
        watching.unwatch(self, self._address(to))

    def spawn(self, to: "Ref[M] | str", *, again: bool = False, watch: bool = False) -> "Ref[M]":
        """See that there is an actor at an address of a pool; the reference to it.

        One that is there already takes no notice, whatever it does; else it is created, and its `on_start` runs. One
        that has ended stays as it ended, unless `again`: then it begins anew, as its next incarnation, with a fresh
        state. `watch`: and watch it.

        Where the tree has no pool for the address, the request becomes a dead letter, and a watcher hears of
        "unknown". While the pool's supervisor is down (stopped, parked, escalated) or has paused the pool, the request
        waits, as do messages that would create an actor there. A node sees so within about a second (`gates`): what
        begins in between is stopped with the others if those are being stopped still, and else runs.

        Raises:
            BadAddress.
        """
        address = self._address(to)
        self.sends.append(self.seal(address, Spawn(again), Lane.SYSTEM))
        if watch:
            self.watch(address)
        return to if isinstance(to, Ref) else Ref(address)

    def stash(self) -> None:
        """Put the message in hand aside when this turn commits, until `unstash_all`; the rest of the turn counts.

        What is put aside is kept like any message. It holds nothing up: those behind it are handled meanwhile.

        Raises:
            Park: as many are put aside as the actor's `stash_limit` says; the message stays first in line.
            UsageError: a message of the runtime, in the system lane.
        """
        if self.envelope.lane == Lane.SYSTEM:
            raise UsageError(f"{self.envelope.type} is in the system lane, whose messages cannot wait")
        rare, bonds = self.rarely(), self.tie()
        if rare.stash:
            return
        spec = self._tree.find(self.row.address)
        actor = spec.actor if isinstance(spec, Child) else Actor
        limit = actor.stash_limit if issubclass(actor, Actor) else 0
        if bonds.stashed >= limit:
            raise Park(f"it has put {bonds.stashed:,} messages aside, which is its limit; it must take some up again")
        bonds.stashed += 1
        rare.stash = True
        if rare.keep is not None:
            rare.keep(bonds)
            rare.answers = 0

    def unstash_all(self) -> None:
        """Everything that was put aside before this turn comes back to its old place: first in line, in its order."""
        rare = self.rarely()
        if not self.bound() or self.bonds.stashed == int(rare.stash):
            return
        self.tie().stashed = int(rare.stash)
        rare.unstash = True

    def ask_decision(self, decision: Decision) -> None:
        """Write the decision row of a call that was just held."""
        self.rarely().decisions.append(decision)
        if decision.message_id in self.bonds.held:
            self.tie().held[decision.message_id] = decision.id

    def move_decision(self, move: Move) -> None:
        """Compare-and-set a decision row with this turn; the turn is done again where the row is not in `before`."""
        self.rarely().moves.append(move)

    def park(self, reason: str) -> None:
        """Take no more messages after this turn until somebody resumes this actor; `reason` is shown."""
        self.park_reason = plain(reason)

    def stop(self, status: str = "completed", reason: str = "") -> None:
        """End after this turn: `completed`, `cancelled`, or `failed` with a reason; anything else is a UsageError."""
        if status not in _ENDS:
            raise UsageError(f"an actor ends as one of {', '.join(_ENDS)}, not as {status!r}")
        self.end = (status, plain(reason))

    def ignore(self) -> None:
        """In `on_start`: decline. The actor does not run, nothing is wrong, and its supervisor goes on without it."""
        self.declined = True

    # --- for the engine ----------------------------------------------------------------------------------------

    @property
    def bonds(self) -> Bonds:
        """This turn's copy of the actor's bonds, to look at; see `tie`."""
        rare = self.rarely()
        if rare.bonds is None:
            rare.bonds = read(self.row)
        return rare.bonds

    def tie(self) -> Bonds:
        """This turn's copy of the actor's bonds, to be changed: it is written with the turn."""
        bonds = self.bonds
        self.rarely().tied = True
        return bonds

    def bound(self) -> bool:
        """Whether there may be anything in the bonds; costs nothing."""
        return bool(self.row.bonds) or (self.rare is not None and self.rare.bonds is not None)

    def is_worker(self, address: str) -> bool:
        """Whether a worker has this address."""
        return address in self._tree.workers

    def next_id(self) -> int:
        """An id that no other message has."""
        return self._ids.next()

    def rarely(self) -> Rare:
        """The effects that few turns have."""
        if self.rare is None:
            self.rare = Rare()
        return self.rare

    def seal(self, address: str, message: Message, lane: Lane) -> Envelope:
        """A numbered envelope from this actor, which is not sent yet."""
        worker = address in self._tree.workers
        row = self.row
        row.sent += 1
        identifier = self._ids.next()
        row.last_id = identifier
        sealed = seal(
            message,
            id=identifier,
            shard=row.shard if worker else shard_of(address),
            recipient=address,
            sender=row.address,
            lane=lane,
            sender_seq=row.sent,
            reply_to=row.address if worker else "",
            causation=self.envelope.id,
            sent_by_node=self.node,
        )
        if self.span is not NO_SPAN:
            sealed.headers = write_headers(Headers(traceparent=self.span.traceparent))
        return sealed

    @staticmethod
    def _address(to: "Ref[Any] | str") -> str:
        return to.address if isinstance(to, Ref) else parse(to)
