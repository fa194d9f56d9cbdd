"""How long a supervisor waits before it starts a child again. Pure arithmetic.

The wait grows with each failure of the same child and begins anew once that child has run for a while. It comes on top
of the restart intensity, which decides whether there is a restart at all.
"""

import msgspec


class RestartBackoff(msgspec.Struct, frozen=True):
    """Waits of `first_seconds`, then `factor` times longer each, at most `cap_seconds`, each ±`jitter`."""

    first_seconds: float = 1.0
    cap_seconds: float = 60.0
    factor: float = 2.0
    jitter: float = 0.2
    healthy_seconds: float = 60.0
    """A child that has run for so long begins with the first wait again."""

    def delay_seconds(self, failures: int, chance: float) -> float:
        """The wait after the `failures`-th failure in a row (from 1); `chance` is uniform in [0, 1)."""
        steps = min(max(failures, 1) - 1, 64)
        try:
            delay = min(self.first_seconds * self.factor**steps, self.cap_seconds)
        except OverflowError:  # of a great factor
            delay = self.cap_seconds
        return delay * (1 + self.jitter * (2 * chance - 1))
