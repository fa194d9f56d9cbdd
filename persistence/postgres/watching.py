"""The watchers' part of the PostgreSQL store: windows, what needs attention, and changes (S20, S21).

Neighbours: `queries/watching.sql` and `functions/7_watching.sql` have the statements; `whispers` the ears. What reads
more than it gives back runs under a timeout of the server's own: looking must not cost those who work.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from ...mailbox.address import shard_of
from ..rows import ActorStatus, Decision, Member
from ..watching import (
    COUNTED,
    PRESSING,
    STATUSES,
    TREND_SECONDS,
    TREND_STEPS,
    TREND_TURNS,
    WAITING_COUNTED,
    Alarms,
    Asked,
    Asking,
    Failing,
    Glance,
    Listed,
    Pending,
    Tally,
)
from .arrays import integers, texts
from .connect import Row
from .errors import translated
from .whispers import PostgresEar

LOOK_SECONDS = 2.0
COUNT_SECONDS = 5.0
CHANNEL = "callboard_changes"
_BEYOND = 253_402_300_799.0
"""The end of the year 9999: later than any row, and a time that the server knows."""


class PostgresWatching(ABC):
    """Looks by window, and hears of changes."""

    _dsn: str

    @abstractmethod
    async def _run(self, query: str, params: dict[str, Any] | None = None) -> list[Row]: ...

    @abstractmethod
    async def _run_within(self, seconds: float, query: str, params: dict[str, Any] | None = None) -> list[Row]: ...

    # -- windows

    async def window(
        self,
        *,
        prefix: str = "",
        kind: str = "",
        statuses: Sequence[ActorStatus] = (),
        after: str = "",
        before: str = "",
        last: bool = False,
        without: Sequence[str] = (),
        limit: int = 100,
    ) -> list[Glance]:
        """See `WatchingStore.window`."""
        with translated():
            wanted = {
                "prefix": prefix,
                "kind": kind,
                "statuses": texts(list(statuses or STATUSES)),
                "after": after,
                "before": before,
                "back": last or bool(before),
                "without": texts(list(without)),
                "limit": max(0, limit),
            }
        return [_glance(row) for row in await self._run("window", wanted)]

    async def glances(self, addresses: Sequence[str]) -> list[Glance]:
        """See `WatchingStore.glances`."""
        rows = await self._run("glances", _places(addresses))
        return [_glance(row) for row in rows]

    async def pressing(self, *, limit: int = PRESSING) -> list[str]:
        """See `WatchingStore.pressing`. Of each sort, four times as many rows are looked at."""
        return [row[0] for row in await self._run("pressing", {"limit": max(0, limit)})]

    async def newest(
        self,
        *,
        kind: str,
        after: tuple[float, str] | None = None,
        before: tuple[float, str] | None = None,
        last: bool = False,
        limit: int = 100,
    ) -> list[Listed]:
        """See `WatchingStore.newest`."""
        back = last or before is not None
        at, address = (before or (0.0, "")) if back else (after or (_BEYOND, ""))
        wanted = {"kind": kind, "at": at, "address": address, "limit": max(0, limit)}
        rows = await self._run("oldest" if back else "newest", wanted)
        return [Listed(*row) for row in (reversed(rows) if back else rows)]

    async def trends(self, addresses: Sequence[str]) -> dict[str, list[int]]:
        """See `WatchingStore.trends`."""
        wanted = {
            **_places(addresses),
            "seconds": TREND_SECONDS,
            "steps": TREND_STEPS,
            "turns": TREND_TURNS,
            "waiting": WAITING_COUNTED,
        }
        return {row[0]: list(row[1]) for row in await self._run_within(LOOK_SECONDS, "trends", wanted)}

    async def asking(self, *, after: str = "", limit: int = 1_000) -> list[Asking]:
        """See `WatchingStore.asking`."""
        with translated():
            rows = await self._run("asking", {"after": after, "limit": max(0, limit)})
        return [Asking(*row) for row in rows]

    async def decisions_of(self, ids: Sequence[str]) -> list[Decision]:
        """See `WatchingStore.decisions_of`."""
        with translated():
            rows = await self._run("decisions_of", {"ids": texts(list(dict.fromkeys(ids)))})
        return [Decision(*row) for row in rows]

    # -- counts

    async def tallies(self) -> list[Tally]:
        """See `WatchingStore.tallies`."""
        return [Tally(*row) for row in await self._run_within(COUNT_SECONDS, "tallies")]

    async def alarms(self) -> Alarms:
        """See `WatchingStore.alarms`."""
        [row] = await self._run("alarms", {"shown": PRESSING, "limit": COUNTED})
        at, oldest, *counts = row
        alarms = Alarms(at, msgspec.json.decode(oldest, type=list[Pending]), *counts)
        return msgspec.structs.replace(alarms, members=[Member(*one) for one in await self._run("members")])

    # -- changes

    def changes(self) -> AbstractAsyncContextManager[PostgresEar]:
        """See `WatchingStore.changes`."""
        return self._changes()

    @asynccontextmanager
    async def _changes(self) -> AsyncIterator[PostgresEar]:
        ear = PostgresEar(self._dsn, CHANNEL)
        await ear.open()
        try:
            yield ear
        finally:
            await ear.close()


def _places(addresses: Sequence[str]) -> dict[str, Any]:
    wanted = list(dict.fromkeys(addresses))
    with translated():
        return {"shards": integers([shard_of(address) for address in wanted]), "addresses": texts(wanted)}


def _glance(row: Row) -> Glance:
    *plain, failing, pending, held, dead, dead_reason, dead_recipient = row
    rest = [
        None if failing is None else msgspec.json.decode(failing, type=Failing),
        None if pending is None else msgspec.json.decode(pending, type=Asked),
        None if held is None else msgspec.json.decode(held, type=Asked),
        dead,
        dead_reason,
        dead_recipient,
    ]
    return Glance(Listed(*plain[:6]), *plain[6:], *rest)
