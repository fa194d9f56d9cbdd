"""What a handler may do: it buffers effects here, and none of them leaves before the turn's commit.

Nothing in this module does I/O. `Context` belongs to one turn of an actor, `WorkerContext` to one call of a worker.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from ..mailbox.address import parse, shard_of
from ..mailbox.envelope import Envelope, seal
from ..mailbox.errors import UsageError
from ..mailbox.ids import IdClock
from ..mailbox.lane import Lane
from ..mailbox.message import Message, encode, tag, wire
from ..persistence.port import Port
from ..persistence.rows import ActorRow, Decision, EventRow, Timer
from ..persistence.unit import Move
from .spec import Tree

M = TypeVar("M", bound=Message)
M_contra = TypeVar("M_contra", bound=Message, contravariant=True)
T = TypeVar("T")

log = logging.getLogger(__name__)


class Event(Message):
    """Base of what an actor records in its journal: past-tense facts, versioned like messages."""


@dataclass(frozen=True)
class Ref(Generic[M_contra]):
    """An address, typed by what its actor accepts."""

    address: str

    def __post_init__(self) -> None:
        parse(self.address)


class Rare:
    """The effects that few turns have: made when the first of them comes, because eight lists cost as much
    as a send."""

    __slots__ = ("cancelled_timers", "decisions", "drops", "holds", "moves", "releases", "timers", "withdrawn")

    def __init__(self) -> None:
        self.holds: list[Envelope] = []
        self.releases: list[int] = []
        self.drops: list[int] = []
        self.withdrawn: list[int] = []
        self.timers: list[Timer] = []
        self.cancelled_timers: list[str] = []
        self.decisions: list[Decision] = []
        self.moves: list[Move] = []


class Context:
    """One turn of an actor."""

    __slots__ = (
        "_ids",
        "_tree",
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
    def attempt(self) -> int:
        """How often this message failed before, plus one."""
        return self.envelope.failures + 1

    # --- effects -----------------------------------------------------------------------------------------------

    def send(self, to: "Ref[M] | str", message: M, *, lane: Lane = Lane.NORMAL) -> int:
        """Send a message when the turn commits; its id. To a worker, this actor is the one that gets the reply."""
        envelope = self._seal(to, message, lane)
        self.sends.append(envelope)
        return envelope.id

    def reply(self, message: Message) -> None:
        """Answer the message in hand; without anybody waiting, nothing happens."""
        self.reply_later(self.reply_to, message)

    def reply_later(self, reply_to: tuple[str, int], message: Message) -> None:
        """Answer a message handled before, whose `reply_to` was kept."""
        to, correlation = reply_to
        if not to:
            return
        envelope = self._seal(to, message, Lane.REPLY)
        envelope.correlation = correlation
        self.sends.append(envelope)

    def hold(self, to: "Ref[M] | str", message: M) -> int:
        """Put a message to a worker into the mailbox without letting it go; its id, for `release` or `drop`."""
        envelope = self._seal(to, message, Lane.NORMAL)
        if envelope.shard != self.row.shard:
            raise UsageError(f"{envelope.recipient} is no worker: only messages to workers can be held")
        self._rarely().holds.append(envelope)
        return envelope.id

    def release(self, message_id: int) -> None:
        """Let a held message go."""
        self._rarely().releases.append(message_id)

    def drop(self, message_id: int) -> None:
        """A held message never goes."""
        self._rarely().drops.append(message_id)

    def withdraw(self, message_id: int) -> None:
        """Take back a message to a worker: deleted if it is still there, its handler cancelled if it runs here."""
        self._rarely().withdrawn.append(message_id)

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
    ) -> None:
        """Put a message into this actor's own mailbox after a time (seconds), and then `every` so often.

        One timer a key: scheduling it again replaces it. Reliable, and never before its time.
        """
        name, version = wire(type(message))
        seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
        period = every.total_seconds() if isinstance(every, timedelta) else float(every)
        if not 0 <= seconds < 1e10 or not 0 <= period < 1e10:
            raise UsageError(f"timer {key!r}: {seconds} s, every {period} s; both must be 0 or more")
        generation = self._ids.next()
        timer = Timer(
            self.row.shard,
            self.row.address,
            key,
            generation,
            seconds,
            name,
            version,
            encode(message),
            int(lane),
            period,
        )
        rare = self._rarely()
        rare.timers = [known for known in rare.timers if known.key != key] + [timer]
        if key in rare.cancelled_timers:
            rare.cancelled_timers.remove(key)

    def cancel_timer(self, key: str) -> None:
        """The timer of this key does not fire any more."""
        rare = self._rarely()
        rare.timers = [known for known in rare.timers if known.key != key]
        if key not in rare.cancelled_timers:
            rare.cancelled_timers.append(key)

    def ask_decision(self, decision: Decision) -> None:
        """Write the decision row of a call that was just held."""
        self._rarely().decisions.append(decision)

    def move_decision(self, move: Move) -> None:
        """Compare-and-set a decision row with this turn; the turn is done again where the row is not in `before`."""
        self._rarely().moves.append(move)

    def park(self, reason: str) -> None:
        """Take no more messages after this turn until somebody resumes this actor; `reason` is shown."""
        self.park_reason = reason

    def stop(self, status: str = "completed", reason: str = "") -> None:
        """End after this turn: `completed`, `cancelled`, or `failed` with a reason."""
        self.end = (status, reason)

    # --- inside ------------------------------------------------------------------------------------------------

    def _rarely(self) -> Rare:
        if self.rare is None:
            self.rare = Rare()
        return self.rare

    def _seal(self, to: "Ref[Any] | str", message: Message, lane: Lane) -> Envelope:
        address = to.address if isinstance(to, Ref) else to
        worker = address in self._tree.workers
        row = self.row
        row.sent += 1
        identifier = self._ids.next()
        row.last_id = identifier
        return seal(
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


class WorkerContext:
    """One call of a worker."""

    __slots__ = ("_journal", "envelope", "node", "port")

    def __init__(self, envelope: Envelope, node: int, port: Port, journal: Callable[..., Awaitable[Any]]) -> None:
        self.envelope = envelope
        self.node = node
        """Number of the node it runs on."""
        self.port = port
        self._journal = journal

    @property
    def caller(self) -> str:
        """Address of the actor that asked."""
        return self.envelope.sender

    @property
    def attempt(self) -> int:
        """How often this call failed before, plus one."""
        return self.envelope.failures + 1

    @property
    def in_doubt(self) -> bool:
        """Whether an earlier attempt may have had its effect: its start is on record and its outcome is not."""
        return self.envelope.started

    async def journal(self, address: str, after: int = 0) -> Any:
        """The events of an actor beyond `after`."""
        return await self._journal(address, after=after)
