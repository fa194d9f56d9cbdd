"""Message ids: unique everywhere by construction, and in order for each sender.

    | 41 bits: milliseconds since 2024 | 12 bits: number | 10 bits: counter |

The *number* is leased from the store, one to each node and client, so no two of them can make the same id. The clock
part only ever grows here: when the wall clock steps back, or 1,024 ids are made within a millisecond, the id clock
runs ahead of it. Whoever loads an actor moves its id clock past the greatest id of that actor's turns (`advance`), so
that a sender that moved to a node with a slower clock still numbers its messages upwards.
"""

from collections.abc import Callable

EPOCH_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
NUMBERS = 1 << 12
_COUNTER_BITS = 10
_NUMBER_BITS = 12
_COUNTER_MASK = (1 << _COUNTER_BITS) - 1
_CLOCK_SHIFT = _COUNTER_BITS + _NUMBER_BITS


class IdClock:
    """Makes ids for one number. Not for use by two threads at once."""

    def __init__(self, number: int, now: Callable[[], float]) -> None:
        """`now` gives seconds since 1970 and may step back."""
        if not 0 <= number < NUMBERS:
            raise ValueError(f"id clock number {number} is not within 0..{NUMBERS - 1}")
        self._number = number << _COUNTER_BITS
        self._now = now
        self._clock = 0
        self._counter = 0

    def next(self) -> int:
        """The next id, greater than every id this clock made or was told of."""
        wall = int(self._now() * 1000) - EPOCH_MS
        if wall > self._clock:
            self._clock, self._counter = wall, 0
        elif self._counter == _COUNTER_MASK:
            self._clock, self._counter = self._clock + 1, 0
        else:
            self._counter += 1
        return (self._clock << _CLOCK_SHIFT) | self._number | self._counter

    def advance(self, seen: int) -> None:
        """Never make an id at or below `seen`."""
        clock = seen >> _CLOCK_SHIFT
        if clock >= self._clock:
            self._clock, self._counter = clock + 1, 0


def id_at(seconds: float) -> int:
    """The least id that a clock could make at that time (seconds since 1970)."""
    return max(0, int(seconds * 1000) - EPOCH_MS) << _CLOCK_SHIFT


def milliseconds_of(identifier: int) -> int:
    """When an id was made, in milliseconds since 1970, by the clock of the node that made it."""
    return (identifier >> _CLOCK_SHIFT) + EPOCH_MS
