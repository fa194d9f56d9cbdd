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
from callboard.persistence.embedded.postmaster import probe, runs_on

LOOK_SECONDS = 0.02
STOP_SECONDS = 60.0


@dataclass(frozen=True)
class RestartableServer:
    """An embedded server in a folder of its own."""

    root: Path
    dsn: str

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator["RestartableServer"]:
        """A new one, which is gone with the block."""
        root = _folder()
        try:
            yield cls(root, await anyio.to_thread.run_sync(partial(_start, root)))
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(release, root)
            shutil.rmtree(root, ignore_errors=True)

    async def stop(self, *, crash: bool) -> None:
        """Shut it down, cutting every connection; or let it `crash`, so that it has to recover."""
        [data] = self.root.glob("pgdata-*")
        found = probe(data)
        assert found is not None, "there is a server to stop"
        os.kill(found.pid, signal.SIGQUIT if crash else signal.SIGINT)
        end = time.monotonic() + STOP_SECONDS
        while runs_on(found.pid, data) and time.monotonic() < end:  # noqa: ASYNC110 - another process raises no event
            await anyio.sleep(LOOK_SECONDS)

    async def start(self) -> None:
        """Start it again, at the same address."""
        dsn = await anyio.to_thread.run_sync(partial(_start, self.root))
        assert dsn == self.dsn, "whoever knew where it was finds it there again"


def _folder() -> Path:
    root = Path(tempfile.mkdtemp(prefix="callboard-soak-", dir="/tmp"))
    root.chmod(0o711)  # where the server runs as another account, that must get in
    return root


def _start(root: Path) -> str:
    return ensure(root, settings={"max_connections": "200"})
