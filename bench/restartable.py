"""A PostgreSQL of one's own that can be shut down or crash, and comes back with every acknowledged row."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from callboard.persistence.embedded import ensure, release
from callboard.persistence.embedded.postmaster import Postmaster, probe, runs_on

LOOK_SECONDS = 0.02
STOP_SECONDS = 60.0


@dataclass(frozen=True)
class RestartableServer:
    """An embedded server in a folder of its own."""

    root: Path
    dsn: str

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path | None = None) -> AsyncIterator["RestartableServer"]:
        """A new one, which is gone with the block; in `folder`, which stays, or in one of its own."""
        root = folder or _folder()
        try:
            yield cls(root, await anyio.to_thread.run_sync(partial(_start, root)))
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(release, root)
            if folder is None:
                shutil.rmtree(root, ignore_errors=True)

    @property
    def socket_path(self) -> str:
        """Where it listens."""
        found = self._found()
        return f"{found.socket_dir}/.s.PGSQL.{found.port}"

    async def stop(self, *, crash: bool) -> None:
        """Shut it down, cutting every connection; or let it `crash`, so that it has to recover."""
        await self._end(signal.SIGQUIT if crash else signal.SIGINT)

    async def kill(self) -> None:
        """kill -9 its first process: the others see that and go, and nobody has tidied up."""
        await self._end(signal.SIGKILL)

    async def _end(self, sign: signal.Signals) -> None:
        found, data = self._found(), self._data()
        os.kill(found.pid, sign)
        end = time.monotonic() + STOP_SECONDS
        while runs_on(found.pid, data) and time.monotonic() < end:  # noqa: ASYNC110 - another process raises no event
            await anyio.sleep(LOOK_SECONDS)

    def _data(self) -> Path:
        [data] = self.root.glob("pgdata-*")
        return data

    def _found(self) -> Postmaster:
        found = probe(self._data())
        assert found is not None, "there is a server"
        return found

    async def start(self) -> None:
        """Start it again, at the same address."""
        dsn = await anyio.to_thread.run_sync(partial(_start, self.root))
        assert dsn == self.dsn, "whoever knew where it was finds it there again"


def _folder() -> Path:
    root = Path(tempfile.mkdtemp(prefix="callboard-soak-", dir="/tmp"))
    root.chmod(0o711)  # where the server runs as another account, that must get in
    return root


def _start(root: Path) -> str:
    # The log is kept small, so that it fits a small disk beside the data (`small_disk`).
    return ensure(root, settings={"max_connections": "200", "max_wal_size": "256MB"})
