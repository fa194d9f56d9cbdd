"""What a supervisor must not forget, and what it can have done.

The **job** is what is under way; **waiting** is what came in meanwhile: where OTP's supervisor blocks in the middle of
a restart while its mailbox fills, ours keeps what comes in its state. Both survive a kill of the node.
"""

from typing import Literal, Protocol

import msgspec

from ..mailbox.message import Message
from .context import Event
from .restart import NOBODY, ChildState, ReplyTo

ESCALATED = "escalated: "
"""How the reason begins of a supervisor that gave up."""


class Ending(msgspec.Struct):
    """How a supervisor ends once all its children are down."""

    how: Literal["stopped", "failed", "escalated"]
    reason: str
    kill: bool = False
    auto: bool = False
    """Because its significant children have ended: the next incarnation does all anew."""


class Job(msgspec.Struct):
    """What is under way: stop these in this order, then start those. The first one was told."""

    kind: Literal["boot", "restart", "demand", "end"]
    stops: list[str] = []
    starts: list[str] = []
    reply_to: ReplyTo = NOBODY
    """Who asked for it."""


class Waiting(msgspec.Struct):
    """What came in while a job was under way."""

    kind: Literal["died", "due", "retry", "tree", "start", "restart"]
    child: str = ""
    incarnation: int = 0
    reason: str = ""
    abnormal: bool = False
    cancelled: bool = False
    reply_to: ReplyTo = NOBODY


class Walk(msgspec.Struct):
    """A way through all instances of a pool, page by page."""

    kind: Literal["stop", "start", "again"]
    """again: those that waited for the pool to be resumed."""
    serial: int = 0
    """Of the page that was asked for."""
    after: str = ""
    """Where the next page begins; "" before the first and after the last."""
    asked: bool = False
    """Whether a page is awaited."""
    left: list[str] = []
    """Instances that were told to stop, and have not answered."""
    more: bool = True
    """Whether there are pages after this one."""
    any: bool = False
    """Whether this round has found anybody; then there is another one."""
    kill: bool = False
    final: bool = False


class PoolState(msgspec.Struct):
    """What a supervisor keeps of a pool: nothing that grows with the number of its instances."""

    walk: Walk | None = None
    serial: int = 0
    failures: dict[str, list[float]] = {}
    """Times of the failures that still count, by instance."""
    population: int = 0
    """How many instances there were when they were counted last."""
    counting: bool = False
    paused_until: float = 0.0
    """Until when nothing is restarted, because too much has failed; 0: it is not paused."""
    starting: dict[str, list[ReplyTo]] = {}
    """Who waits for an instance to be started."""
    stopping: dict[str, list[ReplyTo]] = {}


class SupervisorState(msgspec.Struct):
    """What a supervisor must not forget."""

    children: list[ChildState] = []
    """In start order; instances of templates come last, in the order of their start."""
    job: Job | None = None
    waiting: list[Waiting] = []
    restarted_at: list[float] = []
    tree: str = ""
    """Digest of the tree that its children were last reconciled with."""
    end: Ending | None = None
    announced: int = 0
    """The incarnation whose start the parent was told of."""
    removed: list[str] = []
    """Children of the tree that are not to be: deleted by an operator, or temporary and gone."""
    retired: dict[str, int] = {}
    """The last incarnations of children that were removed, so that a late word of theirs is told from a new one's."""
    pools: dict[str, PoolState] = {}
    counts: list[ReplyTo] = []
    """Who waits for a number that the census must say."""

    @property
    def stops(self) -> list[str]:
        """What is still to be stopped, in this order."""
        return self.job.stops if self.job is not None else []

    @property
    def starts(self) -> list[str]:
        """What is still to be started, in this order."""
        return self.job.starts if self.job is not None else []


class Effects(Protocol):
    """What the machine has done for it; all of it leaves with the turn's commit."""

    now: float

    @property
    def paused(self) -> bool:
        """An operator has paused the supervisor: what comes in waits."""
        ...

    fresh: bool
    """This is the supervisor's very first turn."""
    address: str

    def chance(self) -> float: ...
    def tell(self, child: str, message: Message) -> None: ...
    def record(self, event: Event) -> None: ...
    def answer(self, reply_to: ReplyTo, message: Message) -> None: ...
    def wake(self, key: str, seconds: float, message: Message) -> None: ...
    def forget(self, key: str) -> None: ...
    def ask_census(self, message: Message) -> None: ...
    def booted(self) -> None: ...
    def ended(self, ending: Ending) -> None: ...
