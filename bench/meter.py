"""What work costs: CPU of this process and of the server's, transactions, WAL, and how noisy the machine was meanwhile.

Rates depend on who else is on the machine and on its disk; CPU time hardly does. So every figure of time comes with
the CPU that was spent, the client's and the server's apart. The server's CPU is that of its processes in /proc, where
they run on this machine under a data directory that may be read; elsewhere it is None, never a guess.
"""

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import msgspec

from callboard.persistence.postgres.database import Database, DatabaseRefused

_TICKS = os.sysconf("SC_CLK_TCK")
_FLUSH_SECONDS = 1.1
"""A session's counters reach pg_stat_database when it ends, or up to a second after its last transaction."""


class Reading(msgspec.Struct, frozen=True):
    """All counters at one moment."""

    wall_seconds: float
    client_cpu_seconds: float
    server_cpu_seconds: float | None
    machine_cpu_seconds: float | None
    """Of all processes together."""
    wal_bytes: int
    transactions: int


class Cost(msgspec.Struct, frozen=True):
    """What one of `count` pieces of work cost."""

    count: int
    wall_seconds: float
    """Of all of them."""
    per_second: float
    client_cpu_us: float
    server_cpu_us: float | None
    wal_bytes: float
    transactions: float
    """Of the whole database, the node's housekeeping included."""
    foreign_cores: float | None
    """Cores that other programs used meanwhile: how far the rate is to be trusted."""


class Latency(msgspec.Struct, frozen=True):
    """How long single pieces of work took."""

    count: int
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """From single times."""
        return cls(len(seconds), round(1e3 * quantile(seconds, 0.5), 3), round(1e3 * quantile(seconds, 0.99), 3))


def quantile(values: Sequence[float], part: float) -> float:
    """The value that `part` of all do not exceed; 0 of none."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * part))] if ranked else 0.0


class Meter:
    """Reads the counters of one database's server, and of this machine."""

    def __init__(self, database: Database, name: str, data_directory: str) -> None:
        self._database = database
        self._name = name
        self._postmaster = postmaster_of(data_directory)

    @classmethod
    @asynccontextmanager
    async def of(cls, dsn: str, server_dsn: str) -> AsyncIterator[Self]:
        """A meter of the database `dsn`, which looks at it from the maintenance database `server_dsn`.

        From there, so that its own statements do not count.
        """
        name = dsn.rpartition("/")[2].partition("?")[0]
        async with await Database.open(server_dsn, size=1) as database:
            try:
                row = await database.row("select current_setting('data_directory') as it")
            except DatabaseRefused:
                row = None
            yield cls(database, name, str(row["it"]) if row else "")

    async def read(self) -> Reading:
        """The counters now."""
        row = await self._database.row(
            "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint as wal, "
            "(select xact_commit + xact_rollback from pg_stat_database where datname = %s) as transactions",
            (self._name,),
        )
        assert row is not None
        return Reading(
            time.perf_counter(), time.process_time(), self.server_cpu(), machine_cpu(), row["wal"], row["transactions"]
        )

    async def settled(self) -> Reading:
        """The counters once the sessions that were closed have reported theirs."""
        before = await self.read()
        # Not one long sleep, nor a deadline: a machine that stands still meanwhile gives nobody time to report.
        for _ in range(round(_FLUSH_SECONDS / 0.1)):
            await self._database.row("select pg_sleep(0.1)")
        after = await self.read()
        return msgspec.structs.replace(
            before, transactions=after.transactions, wal_bytes=max(before.wal_bytes, after.wal_bytes)
        )

    async def begin(self) -> Reading:
        """The counters now, with the transactions of what was done before all told: for `cost`, with `end`."""
        idle = await self.settled()
        return msgspec.structs.replace(await self.read(), transactions=idle.transactions)

    async def end(self) -> Reading:
        """The counters now, and the transactions that were told a moment later: nothing else may be at work by then."""
        after = await self.read()
        return msgspec.structs.replace(after, transactions=(await self.settled()).transactions)

    def server_cpu(self) -> float | None:
        """Seconds of CPU that the server's processes have used, those that ended included."""
        return None if self._postmaster is None else family_cpu(self._postmaster)


def cost(before: Reading, after: Reading, count: int) -> Cost:
    """The cost of one of `count` pieces of work that were done between two readings."""
    wall = after.wall_seconds - before.wall_seconds
    client = after.client_cpu_seconds - before.client_cpu_seconds
    server = _difference(before.server_cpu_seconds, after.server_cpu_seconds)
    machine = _difference(before.machine_cpu_seconds, after.machine_cpu_seconds)
    foreign = None if machine is None or server is None else max(0.0, machine - client - server) / wall
    return Cost(
        count=count,
        wall_seconds=round(wall, 3),
        per_second=round(count / wall, 1),
        client_cpu_us=round(1e6 * client / count, 1),
        server_cpu_us=None if server is None else round(1e6 * server / count, 1),
        wal_bytes=round((after.wal_bytes - before.wal_bytes) / count, 1),
        transactions=round((after.transactions - before.transactions) / count, 3),
        foreign_cores=None if foreign is None else round(foreign, 2),
    )


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def postmaster_of(data_directory: str) -> int | None:
    """The process id of the server of a data directory, if it runs on this machine and may be looked at."""
    try:
        pid = int((Path(data_directory) / "postmaster.pid").read_text().splitlines()[0])
        return pid if "postgres" in Path(f"/proc/{pid}/comm").read_text() else None
    except (OSError, ValueError, IndexError):
        return None


def family_cpu(root: int) -> float:
    """CPU seconds of a process, its living children, and those of its children that it has buried."""
    own = _cpu_of(root, buried=True)
    return own + sum(_cpu_of(child, buried=False) for child in _children(root))


def _children(root: int) -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/{root}/task/{root}/children").read_text().split()]
    except OSError:
        return []


def _cpu_of(pid: int, *, buried: bool) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has just ended, and its parent has its time
    return sum(int(field) for field in fields[11 : 15 if buried else 13]) / _TICKS


def machine_cpu() -> float | None:
    """CPU seconds that all processes of this machine have used; None where nobody says."""
    try:
        fields = [int(field) for field in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(fields) - fields[3] - fields[4]) / _TICKS
