"""Timers: rows that put a message into a mailbox when due.

The rows are the truth. The node looks at those of its shards that are due within `HORIZON_SECONDS`, arms a wait for
each, and fires by a unit that must hit the row in the generation that was armed: a timer that was cancelled or set
anew meanwhile does not fire. Its delay was counted on the store's clock, the wait here is on this node's; as the wait
begins later than the row was written, a timer is never early.

A periodic timer keeps its beat. Due times that passed (nobody owned it, its last message is still waiting, its actor
stands still) are folded into the message of the next fire, which says how many they were and moves the row past them.
"""

import heapq
import itertools
import logging
import math
from collections.abc import Callable

from ..mailbox.envelope import Envelope, Headers, write_headers
from ..mailbox.errors import BadRow
from ..mailbox.ids import IdClock
from ..persistence.port import Port, Signal
from ..persistence.rows import Timer
from ..persistence.store import Session
from ..persistence.unit import Fire, Unit
from .bonds import CLOCK
from .committer import Committer

log = logging.getLogger(__name__)

HORIZON_SECONDS = 2.0
LOOK_SECONDS = 1.0
"""Every so often the rows are looked at; less than the horizon, so that none is missed."""
LOOK_LIMIT = 5_000
BUSY_SECONDS = 1.0
"""How soon at most a periodic timer is looked at again whose last message is still waiting."""
MISSED_LIMIT = 1 << 31
"""Due times that one message can stand for."""
LAST_LIMIT = 10_000
"""Periodic timers whose last message is remembered; forgetting one costs a message too many, at worst."""

Armed = tuple[int, str, str, int]
Wait = tuple[float, int, float, Timer]
"""When to look at a timer again, a number that tells two apart, and when it was due, both on the port's clock."""


class Timers:
    """The timers of one node's shards."""

    def __init__(
        self,
        session: Session,
        committer: Committer,
        ids: IdClock,
        port: Port,
        owned: Callable[[], set[int]],
    ) -> None:
        self.session = session
        self.committer = committer
        self.ids = ids
        self.port = port
        self.owned = owned
        self.leaving: Callable[[], set[int]] = set
        """Shards that are being given away: none of their timers is fired here any more."""
        self.waits: Callable[[str, int, int], bool] = lambda address, lane, message: False
        """Whether a message waits for its actor still, or any of its lane would."""
        self._heap: list[Wait] = []
        self._last: dict[Armed, int] = {}
        """The last message of each periodic timer that was fired here."""
        self._armed: set[Armed] = set()
        self._order = itertools.count()
        self._work = Signal()
        self._looked = float("-inf")

    def committed(self, timer: Timer) -> None:
        """A turn's timer is on disk now."""
        if timer.delay_seconds <= HORIZON_SECONDS:
            self._arm(timer)

    def look(self) -> None:
        """Shards came in: look at their timers now."""
        self._looked = float("-inf")
        self._work.set()

    def _arm(self, timer: Timer) -> None:
        key = _armed(timer)
        if key in self._armed:
            return
        self._armed.add(key)
        now = self.port.monotonic()
        due = now + timer.delay_seconds
        heapq.heappush(self._heap, (max(now, due), next(self._order), due, timer))
        self._work.set()

    async def run(self) -> None:
        """Fire for ever."""
        while True:
            now = self.port.monotonic()
            if now >= self._looked + LOOK_SECONDS:  # the very sum that is waited for: rounding must not tell them apart
                self._looked = now
                await self._look()
            self._fire_due()
            now = self.port.monotonic()
            wait = max(0.0, self._looked + LOOK_SECONDS - now)
            if self._heap:
                # What is due and finds no room is tried again a little later, not at once.
                wait = min(wait, max(0.01 if self._heap[0][0] <= now else 0.0, self._heap[0][0] - now))
            await self.port.wait(self._work, wait)

    async def _look(self) -> None:
        owned = sorted(self.owned())
        if owned:
            for timer in await self.session.due(owned, within_seconds=HORIZON_SECONDS, limit=LOOK_LIMIT):
                self._arm(timer)

    def _fire_due(self) -> None:
        now = self.port.monotonic()
        owned = self.owned() - self.leaving()
        while self._heap and self._heap[0][0] <= now and self.committer.has_room():
            _, _, due, timer = heapq.heappop(self._heap)
            armed = _armed(timer)
            if timer.shard not in owned:
                # Gone, or on its way: if it stays after all, it is found when the rows are looked at again.
                self._armed.discard(armed)
                self._last.pop(armed, None)
            elif timer.period_seconds and self.waits(timer.address, timer.lane, self._last.get(armed, 0)):
                again = now + min(BUSY_SECONDS, timer.period_seconds)
                heapq.heappush(self._heap, (again, next(self._order), due, timer))
            else:
                self._fire(timer, now - due)

    def _fire(self, timer: Timer, late_seconds: float) -> None:
        periods = max(0.0, late_seconds) / timer.period_seconds if timer.period_seconds else 0.0
        missed = math.floor(min(periods, MISSED_LIMIT))
        envelope = Envelope(
            self.ids.next(),
            timer.shard,
            timer.address,
            CLOCK,
            timer.lane,
            timer.type,
            timer.version,
            timer.body,
            correlation=timer.generation,
            headers=write_headers(Headers(missed=missed)),
        )
        fire = Fire(timer.address, timer.key, timer.generation, periods=1 + missed)
        unit = Unit(timer.shard, sends=[envelope], fires=[fire])
        armed = _armed(timer)

        def done(outcome: str | BadRow | None) -> None:
            self._armed.discard(armed)
            if outcome is not None:
                self._last.pop(armed, None)
            elif timer.period_seconds:
                if len(self._last) >= LAST_LIMIT:
                    self._last.clear()
                self._last[armed] = envelope.id
                self._looked = float("-inf")
                self._work.set()

        self.committer.submit(unit, done)


def _armed(timer: Timer) -> Armed:
    return timer.shard, timer.address, timer.key, timer.generation
