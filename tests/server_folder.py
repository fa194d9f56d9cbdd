"""Where a server of the tests keeps its files: in memory, where there is room for it.

A database is three hundred files, and nearly each test makes and drops one: in memory that takes a tenth of the time.
Nothing else changes: the files outlive a killed server, and none of these servers waits for a disk anyway.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 * 1024**3
"""So much has to be free: a container often has 64 MiB there."""
SETTINGS = {"max_connections": "200", "max_wal_size": "256MB"}
"""Of a server whose files lie there: a log that is used again soon is small."""


@contextmanager
def server_folder(prefix: str) -> Iterator[Path]:
    """A new folder; gone with the block."""
    root = Path(tempfile.mkdtemp(prefix=prefix, dir=_parent()))
    root.chmod(0o711)  # root hands the server to another account, which must get in
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _parent() -> Path:
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
        return MEMORY
    return Path("/tmp")  # not what TMPDIR says: a socket's path must be short
