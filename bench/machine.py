"""What the figures were measured on: the machine and the server's settings, without any name that identifies it."""

import os
import platform
import tempfile
import time
from pathlib import Path

import msgspec

from callboard.bench.meter import quantile
from callboard.persistence.postgres.database import Database

_SYNCS = 50


class Machine(msgspec.Struct, frozen=True):
    """Facts that figures depend on."""

    cores: int
    processor: str
    memory_gib: float
    system: str
    python: str
    postgres: str
    fsync: str
    synchronous_commit: str
    sync_p50_ms: float
    """Of writing 8 kB to the temporary directory's disk and waiting for it, before anything was measured."""
    date: str


async def facts(server_dsn: str) -> Machine:
    """The facts of this machine and that server."""
    async with await Database.open(server_dsn, size=1) as database:
        row = await database.row(
            "select current_setting('server_version') as version, current_setting('fsync') as fsync, "
            "current_setting('synchronous_commit') as synchronous_commit, current_date::text as date"
        )
    assert row is not None
    return Machine(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        processor=_processor(),
        memory_gib=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        python=platform.python_version(),
        postgres=row["version"],
        fsync=row["fsync"],
        synchronous_commit=row["synchronous_commit"],
        sync_p50_ms=round(1e3 * _sync_seconds(), 3),
        date=row["date"],
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _sync_seconds() -> float:
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(_SYNCS):
            file.write(b"x" * 8192)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return quantile(times, 0.5)
