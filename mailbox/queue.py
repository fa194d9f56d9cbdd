"""The part of a mailbox that a node holds in memory: three lanes, first in first out, and the back-off that blocks one.

A pure value with no clock of its own: callers pass `now` in seconds on any clock that only grows. The invariant that
everything above relies on: `take` never returns a message while an earlier one of its lane is still waiting, in a turn
or in back-off.
"""

from collections import deque
from collections.abc import Callable

from .envelope import Envelope

Lane = deque[tuple[float, Envelope]]
"""Messages with the time from which they may be handled."""


class LaneQueue:
    """Messages of one actor, by lane. `put` keeps ids ascending per lane, as reading from the store does."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: tuple[Lane, Lane, Lane] = (deque(), deque(), deque())

    def __len__(self) -> int:
        system, reply, normal = self._lanes
        return len(system) + len(reply) + len(normal)

    def __bool__(self) -> bool:
        return any(self._lanes)  # looked at before and after every turn: this is a third of `__len__`

    def put(self, envelope: Envelope, now: float) -> None:
        """Append; its delay runs from now, and when it has come to the head its lane waits for what is left of it."""
        self._lanes[envelope.lane].append((now + envelope.delay_seconds, envelope))

    def put_back(self, envelope: Envelope, now: float) -> None:
        """Back to the head of its lane, to be tried again after its delay."""
        self._lanes[envelope.lane].appendleft((now + envelope.delay_seconds, envelope))

    def put_urgent(self, envelope: Envelope, now: float) -> None:
        """Append, but before a message in back-off: it does not wait for that."""
        lane = self._lanes[envelope.lane]
        before = next((index for index, (due, _) in enumerate(lane) if due > now), len(lane))
        lane.insert(before, (now, envelope))

    def pull(self, lane: int, wanted: Callable[[Envelope], bool]) -> Envelope | None:
        """Take the first message of a lane that is `wanted` out of its order; None where none is."""
        for index, (_, envelope) in enumerate(self._lanes[lane]):
            if wanted(envelope):
                del self._lanes[lane][index]
                return envelope
        return None

    def take(self, now: float, lanes: int = 3) -> Envelope | None:
        """The next message that may be handled, from the first `lanes` lanes; None if there is none at `now`."""
        for lane in self._lanes[:lanes]:
            if lane and lane[0][0] <= now:
                return lane.popleft()[1]
        return None

    def is_blocked(self, lane: int, now: float) -> bool:
        """Whether the head of a lane is in back-off, and all behind it wait for that."""
        waiting = self._lanes[lane]
        return bool(waiting) and waiting[0][0] > now

    def cut(self, lane: int, keep: int) -> list[Envelope]:
        """Take all of a lane out but its first `keep`."""
        waiting = self._lanes[lane]
        return [waiting.pop()[1] for _ in range(len(waiting) - keep)]

    def next_due(self, lanes: int = 3) -> float | None:
        """When `take` will next have something, on the caller's clock; None while empty."""
        return min([lane[0][0] for lane in self._lanes[:lanes] if lane], default=None)

    def envelopes(self) -> list[Envelope]:
        """All that waits."""
        return [envelope for lane in self._lanes for _, envelope in lane]

    def drain(self, first: int = 0) -> list[Envelope]:
        """Take everything out, of the lanes from `first` on."""
        out = [envelope for lane in self._lanes[first:] for _, envelope in lane]
        for lane in self._lanes[first:]:
            lane.clear()
        return out
