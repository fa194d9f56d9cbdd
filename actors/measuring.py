"""What a node counts: the port by which the runtime says what happened. Nobody listens unless somebody was passed in.

The runtime calls these methods from its hot paths, one line each; whoever overrides them (`service.metrics`) must do no
more than add up a few numbers: nothing here waits, raises, or keeps anything that grows with the number of actors.
What a turn did is counted when its unit was committed (`committed`), so that a turn that is undone counts for nothing;
time, attempts and money are counted when they are spent, because they are spent whatever becomes of the commit.
"""

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from ..mailbox.message import Message
from ..persistence.unit import Unit

if TYPE_CHECKING:
    from .cell import Cell


class Measures:
    """Counts nothing."""

    __slots__ = ()

    counts = False
    """Whether anybody counts. What costs more than a call (the echo of the listener, say) is left out where not."""

    def began(self) -> float:
        """A call of a worker begins; what `ran` is to be told. Seconds on a clock that only grows."""
        return 0.0

    def ran(self, kind: str, began: float) -> None:
        """The handler of a worker of this kind has ended, however."""

    def handled(self, cell: "Cell") -> None:
        """A turn of this actor has ended, well or not. It was taken from the mailbox at `cell.used`."""

    def committed(self, unit: Unit) -> None:
        """A unit is on disk."""

    def answered(self, message: Message, reply: Message | None) -> None:
        """A worker's call came to an end that is no failure of the worker: what it was asked, and what it says."""

    def retried(self, kind: str) -> None:
        """A message to an actor or worker of this kind is to be handled again, after a delay."""

    def restarted(self, kind: str) -> None:
        """An actor of this kind begins in another incarnation than its first."""

    def took_over(self, shards: AbstractSet[int], noticed: float) -> None:
        """This node has the shards of one that is gone, which it noticed at `noticed`."""

    def swept(self, shards: AbstractSet[int]) -> None:
        """All that waits in these shards has been read: turns and calls of it begin now."""

    def echoed(self, seconds: float) -> None:
        """So long a wake-up took from this node through the store back to it."""


UNMEASURED = Measures()
"""For nodes that nobody asks."""
