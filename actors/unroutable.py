"""What waits on a node that cannot read it: messages of a type, or for a state or an address, that its program lacks.

None of it is a failure: in a rolling deploy another node can read it, and is given the shard (`handing`). What stays
unreadable for `ALERT_SECONDS` is said aloud, in the log and in the reason that the message shows.
"""

from collections.abc import Iterator

import msgspec

from ..mailbox.envelope import Envelope
from .clock import StoreClock

ALERT_SECONDS = 300.0
"""For how long a message may wait for a node that can read it before somebody is told."""
STALE_SECONDS = 15.0
"""Whatever is still here is met again much sooner than that."""


class Unread(msgspec.Struct):
    """One message that cannot be read here."""

    envelope: Envelope
    name: str
    """What is not known here, as nodes publish it (`schemas.capabilities`), and in which version."""
    version: int
    why: str
    since: float
    """Seconds since 1970 by the store's clock at which this node met it first."""
    met_at: float
    told: bool = False


class Unroutable:
    """Those of one node, by message id."""

    def __init__(self, clock: StoreClock) -> None:
        self.clock = clock
        self.waiting: dict[int, Unread] = {}

    def note(self, envelope: Envelope, name: str, version: int, why: str) -> Unread:
        """A message was met that cannot be read here."""
        now = self.clock.now()
        known = self.waiting.get(envelope.id)
        if known is None:
            known = Unread(envelope, name, version, why, now, now)
            self.waiting[envelope.id] = known
        known.met_at = now
        return known

    def wanted(self) -> dict[int, set[tuple[str, int]]]:
        """What would have to be known, by shard; what was not met again lately is forgotten."""
        now = self.clock.now()
        self.waiting = {key: each for key, each in self.waiting.items() if now - each.met_at < STALE_SECONDS}
        found: dict[int, set[tuple[str, int]]] = {}
        for each in self.waiting.values():
            found.setdefault(each.envelope.shard, set()).add((each.name, each.version))
        return found

    def overdue(self) -> Iterator[Unread]:
        """Those that have waited too long, each once."""
        now = self.clock.now()
        for each in self.waiting.values():
            if not each.told and now - each.since >= ALERT_SECONDS:
                each.told = True
                yield each

    def forget_shards(self, shards: set[int]) -> None:
        """These shards are another node's now."""
        self.waiting = {key: each for key, each in self.waiting.items() if each.envelope.shard not in shards}
