"""Bonds: what ties an actor to others and to the clock, kept in its row beside its state.

A message from the clock, the answer to an ask, the end of a watched actor: each is handled only while the bond that it
belongs to is there (`arrivals`), so that what was cancelled is never handled, even if its message was in the mailbox by
then. A turn works on its own copy, made when it first needs one, and lost with the turn where that fails.

Generations count up from 1 within an actor. Those of timers that are not in here (older than the bonds, or `loose`) are
message ids, which are far greater.
"""

import msgspec

from ..mailbox import codec
from ..mailbox.errors import BadMessage, UsageError
from ..persistence.rows import ActorRow

CLOCK = "/sys/clock"
"""Sender of the messages of timers."""
RESERVED = "sys:"
"""How the keys of the runtime's own timers begin."""
TIMER_LIMIT = 1_000
ASK_LIMIT = 1_000
WATCHER_LIMIT = 10_000
WATCHING_LIMIT = 10_000
REQUEST_LIMIT = 10_000
"""Deferred requests that are remembered; of more, the one whose asker gives up first is forgotten."""
REQUEST_PRUNE = 64
"""From so many on, those are forgotten that nobody waits for any more."""
COUNTED = 1 << 40
"""All generations that are counted here are less than this, all message ids are greater."""


class OpenAsk(msgspec.Struct, frozen=True):
    """An ask without its outcome."""

    target: str
    deadline: float
    """Seconds since 1970 by the store's clock."""


class Deferred(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request that was handled and not answered."""

    asker: str
    deadline: float
    waits: bool = True
    """For the open asks of this actor, as far as one can see: its turn called no worker and set no timer."""


class Bonds(msgspec.Struct, omit_defaults=True):
    """What one actor is tied to."""

    gone: bool = False
    """Failed for good: its supervisor does not start it again."""
    drawn: int = 0
    """The last generation that was given."""
    timers: dict[str, int] = {}
    """Generation of each armed timer that fires once, by its key."""
    tickers: dict[str, int] = {}
    """The same of the periodic ones."""
    asks: dict[int, OpenAsk] = {}
    """Open asks, by id."""
    requests: dict[int, Deferred] = {}
    """Requests of other actors that were handled and not answered, by the id of the ask."""
    watchers: dict[str, int] = {}
    """Who is told of the end of this actor, with the generation of their watch."""
    watching: dict[str, int] = {}
    """Whose end this actor waits for."""
    stashed: int = 0
    """How many messages it has put aside."""
    held: dict[int, str] = {}
    """Its calls that wait to be let go, by id, each with the decision that it waits for ("" for none)."""
    causes: dict[str, str] = {}
    """Where it is traced: the trace context of the turn that set each timer, by its key."""

    def draw(self) -> int:
        """The next generation."""
        self.drawn += 1
        return self.drawn

    def arm(self, key: str, *, periodic: bool) -> int:
        """The generation of a timer that is set.

        Raises:
            UsageError: there are too many.
        """
        self.disarm(key)
        if len(self.timers) + len(self.tickers) >= TIMER_LIMIT:
            raise UsageError(
                f"timer {key!r}: this actor has {TIMER_LIMIT:,} timers already; cancel some, or use one for several"
            )
        generation = self.draw()
        (self.tickers if periodic else self.timers)[key] = generation
        return generation

    def disarm(self, key: str) -> None:
        """A timer is cancelled."""
        self.timers.pop(key, None)
        self.tickers.pop(key, None)
        if self.causes:
            self.causes.pop(key, None)

    def cause(self, generation: int) -> str:
        """The trace context of the turn that set the timer of this generation; "" where that is not known."""
        if not self.causes:
            return ""
        armed = {**self.timers, **self.tickers}
        return next((self.causes.get(key, "") for key, known in armed.items() if known == generation), "")

    def defer(self, ask: int, request: Deferred, now: float) -> None:
        """Remember a request that is to be answered later."""
        if len(self.requests) >= REQUEST_PRUNE:
            self.requests = {known: other for known, other in self.requests.items() if other.deadline > now}
        while len(self.requests) >= REQUEST_LIMIT:
            del self.requests[min(self.requests, key=lambda known: self.requests[known].deadline)]
        self.requests[ask] = request


def read(row: ActorRow) -> Bonds:
    """The bonds in an actor's row, to be changed at will.

    Raises:
        BadMessage: they cannot be read.
    """
    return codec.decode(row.bonds, Bonds) if row.bonds else Bonds()


def written(bonds: Bonds) -> str:
    """Bonds as the row has them."""
    text = codec.encode(bonds)
    return "" if text == "{}" else text


def is_gone(row: ActorRow) -> bool:
    """Whether a failed actor is to stay as it is."""
    if row.status != "failed" or not row.bonds:
        return False
    try:
        return read(row).gone
    except BadMessage:
        return False  # asked outside of any turn: the next one says that they cannot be read
