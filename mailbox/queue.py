"""The part of a mailbox that a node holds in memory: three lanes, first in first out, and the back-off that blocks one.

A pure value with no clock of its own: callers pass `now` in seconds on any clock that only grows. The invariant that
everything above relies on: `take` never returns a message while an earlier one of its lane is still waiting, in a turn
or in back-off.
"""

from collections import deque

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

    def put(self, envelope: Envelope, now: float) -> None:
        """Append; its delay runs from now, and when it has come to the head its lane waits for what is left of it."""
        self._lanes[envelope.lane].append((now + envelope.delay_seconds, envelope))

    def put_back(self, envelope: Envelope, now: float) -> None:
        """Back to the head of its lane, to be tried again after its delay."""
        self._lanes[envelope.lane].appendleft((now + envelope.delay_seconds, envelope))

    def take(self, now: float, lanes: int = 3) -> Envelope | None:
        """The next message that may be handled, from the first `lanes` lanes; None if there is none at `now`."""
        for lane in self._lanes[:lanes]:
            if lane and lane[0][0] <= now:
                return lane.popleft()[1]
        return None

    def next_due(self, lanes: int = 3) -> float | None:
        """When `take` will next have something, on the caller's clock; None while empty."""
        return min([lane[0][0] for lane in self._lanes[:lanes] if lane], default=None)

    def drain(self, first: int = 0) -> list[Envelope]:
        """Take everything out, of the lanes from `first` on."""
        out = [envelope for lane in self._lanes[first:] for _, envelope in lane]
        for lane in self._lanes[first:]:
            lane.clear()
        return out
