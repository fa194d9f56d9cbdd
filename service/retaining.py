"""Retention by the daemon: a bounded slice of it now and then, by one daemon at a time, for as long as it runs.

Off unless it is asked for (`--retain-days`). It removes what `callboard prune` does, without an archive: where one is
wanted, a timer of the operating system runs that command instead. What hinders it (an outage, a right that is missing)
is logged and tried again; nothing else waits for it.
"""

import logging
from collections.abc import Callable

from ..mailbox.errors import CallboardError, Conflict
from ..persistence.port import Port
from .operations.principal import Principal
from .operations.pruning import Pruned, Pruning
from .operations.runs import Operations
from .wiring import open_store_at

log = logging.getLogger(__name__)

INSTANCE = "sys retention"
"""The name that whoever works on it holds."""
SLICE_SECONDS = 5.0
"""For how long it works at a time: no batch begins after that."""
AGAIN_SECONDS = 20.0
"""Between two slices while there is more to remove."""
REST_SECONDS = 600.0
"""Between rounds: after all that was old is gone, or somebody else is at it."""
DAY_SECONDS = 86_400.0


class Retaining:
    """One daemon's part in it."""

    def __init__(self, dsn: Callable[[], str], days: float, port: Port, *, holder: str) -> None:
        self._dsn = dsn
        self._days = days
        self._port = port
        self._holder = holder
        self._last: Pruned | None = None

    async def run(self) -> None:
        """Work for ever."""
        await self._port.sleep(AGAIN_SECONDS)  # a daemon that starts has better things to do
        while True:
            await self._port.sleep(REST_SECONDS if await self.work() else AGAIN_SECONDS)

    async def work(self) -> bool:
        """One slice; whether there is nothing more to do for now."""
        try:
            async with open_store_at(self._dsn()) as store, store.instance(INSTANCE, self._holder, self._port):
                pruning = Pruning(Operations(store, Principal("retention", channel="daemon"), self._port))
                age = self._days * DAY_SECONDS
                done = await pruning.prune(age, within_seconds=SLICE_SECONDS, since=self._last)
        except Conflict:
            log.debug("another daemon is at retention")
            return True
        except CallboardError as error:
            log.warning("retention: %s", error)
            return True
        self._last = done
        _tell(done)
        return done.complete


def _tell(done: Pruned) -> None:
    gone = ", ".join(f"{one.items} {one.kind}" for one in done.kinds if one.items)
    if gone:
        log.info("retention: %s gone", gone)
