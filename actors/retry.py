"""When a failed message is tried again: the message's own budget. Pure arithmetic.

Back-off grows from `first_seconds` by `factor` up to `cap_seconds`, each ±`jitter`. What bounds the whole: bugs by
`max_failures`, of which `max_timeouts` may be turns over their limit; faults of the world by `transient_seconds` since
the first of them. A failure that the platform caused (crash, drain, fencing, database) is never charged here.
"""

import msgspec


class RetryPolicy(msgspec.Struct, frozen=True):
    """The retry ladder of one kind of actor or worker."""

    max_failures: int = 5
    max_timeouts: int = 3
    transient_seconds: float = 3600.0
    """For how long an actor's message may meet `Transient` before the actor is parked. A worker's call just goes on."""
    first_seconds: float = 1.0
    cap_seconds: float = 60.0
    factor: float = 2.0
    jitter: float = 0.2

    def exhausted(self, failures: int, timeouts: int = 0) -> bool:
        """Whether a message that failed so often (and was over its time limit so often) is given up."""
        return failures >= self.max_failures or timeouts >= self.max_timeouts

    def delay_seconds(self, failures: int, chance: float) -> float:
        """How long to wait after the `failures`-th failure (from 1); `chance` is uniform in [0, 1)."""
        steps = min(max(failures, 1) - 1, 64)
        try:
            delay = min(self.first_seconds * self.factor**steps, self.cap_seconds)
        except OverflowError:  # of a great factor
            delay = self.cap_seconds
        return delay * (1 + self.jitter * (2 * chance - 1))
