"""What the store's clock says, as far as this node knows: its time at the last look, and the seconds since on a clock
that only grows.

The machine's own wall clock has no part in it, so it may be set, or step, without any turn noticing. What is said here
never goes back either, also where the store's clock does: then it stands still until the store has caught up.
"""

from ..persistence.port import Port

SYNC_SECONDS = 10.0
"""How often the store is asked again; two crystals differ by a millisecond in that time at most."""


class StoreClock:
    """One node's estimate of the store's clock."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._ahead = port.wall() - port.monotonic()
        self._said = float("-inf")
        self.synced = False

    def now(self) -> float:
        """Seconds since 1970 by the store's clock; never less than was said before."""
        now = self._port.monotonic() + self._ahead
        if now < self._said:
            return self._said
        self._said = now
        return now

    def sync(self, store_now: float, asked_at: float) -> None:
        """The store answered with its time to what was asked at `asked_at` (monotonic seconds).

        It said so somewhere between the question and now: the middle is taken.
        """
        self._ahead = store_now - (asked_at + self._port.monotonic()) / 2
        if not self.synced:
            self.synced = True
            self._said = float("-inf")  # so far it was this machine's wall clock
