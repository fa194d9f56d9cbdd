"""The echo: how long a wake-up takes through the store, measured by waking oneself every few seconds.

Lost wake-ups do no harm (S11): messages are found by looking, a second later. So nothing would tell that a node hears
none any more, but that everything is a second late. While an echo is out its age counts too: a listener that is dead
shows by a lag that grows.
"""

from collections.abc import Callable

from ..mailbox.address import SHARDS
from ..persistence.port import Port
from ..persistence.store import Wake
from .measuring import Measures

ECHO_SECONDS = 5.0


class Echo:
    """Of one node."""

    def __init__(
        self, port: Port, measures: Measures, *, owned: Callable[[], set[int]], call: Callable[[int], None]
    ) -> None:
        self.port = port
        self.measures = measures
        self._owned = owned
        self._call = call
        """Wake whoever serves this shard, which is this node."""
        self._sent_at: float | None = None
        self._shard = SHARDS
        self._last = 0.0

    def lag_seconds(self) -> float:
        """How long the last wake-up took, or the one that is out has taken so far if that is longer."""
        if self._sent_at is None:
            return self._last
        return max(self._last, self.port.monotonic() - self._sent_at)

    def heard(self, wake: Wake) -> None:
        """The node was woken, by this or something else."""
        if self._sent_at is None or not (wake.shards is None or self._shard in wake.shards):
            return
        self._last, self._sent_at = self.port.monotonic() - self._sent_at, None
        self.measures.echoed(self._last)

    async def run(self) -> None:
        """Call for ever. While one is out there is no other: its age is what says how bad it is."""
        while True:
            if self._sent_at is not None and self._shard not in self._owned():
                self._sent_at = None  # that shard was given away, and with it the echo
            if self._sent_at is not None:
                self.measures.echoed(self.lag_seconds())
            if self._sent_at is None and (owned := self._owned()):
                self._shard = min(owned)
                self._sent_at = self.port.monotonic()
                self._call(self._shard)
            await self.port.sleep(ECHO_SECONDS)
