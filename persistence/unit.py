"""A unit: everything that one actor's turns in a batch, or one worker's call, want written. All of it or nothing.

A batch is a list of units and one transaction. The store checks each unit against what is on disk; the units that
fail the check are left out and named in the result, the others commit. Units of one batch belong to different actors.
"""

from collections.abc import Sequence

import msgspec

from ..mailbox.envelope import DeadLetter, Envelope
from .rows import ActorRow, Decision, DecisionStatus, EventRow, Timer, TurnRow


class Retry(msgspec.Struct, gc=False):
    """A message that stays where it is and is tried again."""

    id: int
    delay_seconds: float
    deliveries: int
    failures: int
    last_error: str
    started: bool = False
    losses: int = 0
    timeouts: int = 0


class Fire(msgspec.Struct, gc=False):
    """A timer that was due: advanced by its period, or deleted. `sends` of its unit holds the message."""

    address: str
    key: str
    generation: int
    periods: int = 1
    """How many of its periods it advances by: one, and those that were missed. That many have begun by then."""


class Move(msgspec.Struct, gc=False):
    """A compare-and-set on a decision row, within the unit.

    The unit fails where the row is not in `before`; unless `must` is false: then nothing happens to the row.
    """

    decision: str
    before: DecisionStatus
    after: DecisionStatus
    note: str = ""
    must: bool = True
    hold_id: int = 0
    """Beside the status, the row has to be in this hold, which ends; 0: whatever hold it is in."""
    checks: str = ""
    """What the tool's checks found, to be kept in the row; "": what is there stays."""


class Unit(msgspec.Struct):
    """What to write. `actor` is None for a worker's call and for a timer's fire.

    What few units have begins as an empty tuple, which all share: eleven lists more for each turn would cost as much as
    the turn, half of it in the garbage collector.
    """

    shard: int
    actor: ActorRow | None = None
    """The row as it shall be; `expected` is the version it has now on disk, 0 where there is no row yet."""
    expected: int = 0
    acks: list[int] = []
    """Messages handled: deleted. Each must be there, not held."""
    turns: list[TurnRow] = []
    sends: list[Envelope] = []
    """New messages, to any shard."""
    holds: Sequence[Envelope] = ()
    """New messages of this shard that wait for a release."""
    releases: Sequence[int] = ()
    """Held messages of this shard that may go now. Each must be there, held."""
    drops: Sequence[int] = ()
    """Held messages of this shard that never go. Each must be there, held. Their turn row says `cancelled`."""
    withdraws: Sequence[int] = ()
    """Messages of this shard, held or not, taken back where they are still there; no check. Their turn row says so."""
    retries: Sequence[Retry] = ()
    """Messages that stay. Each must be there, not held."""
    charges: Sequence[int] = ()
    """Messages of this shard that are charged with the end of a process: one loss more for each time that they are
    named, where they are still there; no check. Before the retries of the batch, which set the number."""
    stashes: Sequence[int] = ()
    """Messages of `actor`'s mailbox that it put aside: held from now on. Each must be there, not held."""
    unstash: bool = False
    """All that `actor` had put aside before this unit waits in its mailbox again, in its old place."""
    dead: Sequence[DeadLetter] = ()
    """Messages given up, moved to the dead letters; also listed in `acks` (or `drops`)."""
    events: list[EventRow] = []
    timers: Sequence[Timer] = ()
    timers_cancelled: Sequence[str] = ()
    """Keys of `actor`'s timers."""
    fires: Sequence[Fire] = ()
    decisions: Sequence[Decision] = ()
    moves: Sequence[Move] = ()


class CommitResult(msgspec.Struct):
    """What became of a batch: `rejected` maps the index of each unit that was left out to the reason."""

    rejected: dict[int, str] = {}
