"""Timers: rows that put a message into a mailbox when due.

The rows are the truth. The node looks at those of its shards that are due within `HORIZON_SECONDS`, arms a wait for
each, and fires by a unit that must hit the row in the generation that was armed: a timer that was cancelled or set
anew meanwhile does not fire. Its delay was counted on the store's clock, the wait here is on this node's; as the wait
begins later than the row was written, a timer is never early.
"""

import heapq
import itertools
import logging
from collections.abc import Callable

from ..mailbox.envelope import Envelope
from ..mailbox.errors import BadRow
from ..mailbox.ids import IdClock
from ..persistence.port import Port, Signal
from ..persistence.rows import Timer
from ..persistence.store import Session
from ..persistence.unit import Fire, Unit
from .committer import Committer

log = logging.getLogger(__name__)

HORIZON_SECONDS = 2.0
LOOK_SECONDS = 1.0
"""Every so often the rows are looked at; less than the horizon, so that none is missed."""
LOOK_LIMIT = 5_000
CLOCK = "/sys/clock"

Armed = tuple[int, str, str, int]


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
        self._heap: list[tuple[float, int, Timer]] = []
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
        key = (timer.shard, timer.address, timer.key, timer.generation)
        if key in self._armed:
            return
        self._armed.add(key)
        due = self.port.monotonic() + max(0.0, timer.delay_seconds)
        heapq.heappush(self._heap, (due, next(self._order), timer))
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
            _, _, timer = heapq.heappop(self._heap)
            if timer.shard in owned:
                self._fire(timer)
            else:
                # Gone, or on its way: if it stays after all, it is found when the rows are looked at again.
                self._armed.discard((timer.shard, timer.address, timer.key, timer.generation))

    def _fire(self, timer: Timer) -> None:
        envelope = Envelope(
            self.ids.next(),
            timer.shard,
            timer.address,
            CLOCK,
            timer.lane,
            timer.type,
            timer.version,
            timer.body,
        )
        unit = Unit(timer.shard, sends=[envelope], fires=[Fire(timer.address, timer.key, timer.generation)])

        def done(outcome: str | BadRow | None) -> None:
            self._armed.discard((timer.shard, timer.address, timer.key, timer.generation))
            if outcome is None and timer.period_seconds:
                self._looked = float("-inf")
                self._work.set()

        self.committer.submit(unit, done)
