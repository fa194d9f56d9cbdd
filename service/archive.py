"""The archive of retention: a file of JSON lines, one for each thing that is about to be removed.

Invariant: what `keep` has returned for is on the disk, and can be read whatever happens afterwards. So a file is always
a new one (behind the torn end of another nothing could be read), a compressed one is flushed so that all so far can
be read, and its name is on the disk before its first line is. Retention removes only what `keep` has returned for; what
was kept and then not removed is kept again the next time, under the same key.
"""

import gzip
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

import anyio.to_thread

from ..mailbox.errors import UsageError
from ..persistence.retention import Old, OldKind

SCHEMAS: dict[OldKind, str] = {
    "runs": "callboard.archive.run/1",
    "turns": "callboard.archive.turn/1",
    "dead-letters": "callboard.archive.dead-letter/1",
    "decisions": "callboard.archive.decision/1",
    "audit": "callboard.archive.audit/1",
}
"""What is archived, and how each line is called. What is not here is known for a time only, and worth nothing later."""


class Archive(Protocol):
    """Where records go before their rows do."""

    async def keep(self, kind: OldKind, items: Sequence[Old]) -> None:
        """Return once these are durable.

        Raises:
            OSError: they may not be.
        """
        ...


class ArchiveFile:
    """One file, made with its first line; by `with`. A name that ends in .gz is compressed."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError: there is such a file."""
        if path.exists():
            raise UsageError(f"{path} is there already; an archive is a new file: give another name")
        self.path = path
        self.lines = 0
        self._file: BinaryIO | None = None
        self._writer: BinaryIO | gzip.GzipFile | None = None

    def __enter__(self) -> "ArchiveFile":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            if isinstance(self._writer, gzip.GzipFile):
                self._writer.close()
            _sync(self._file)
            self._file.close()
            self._file = self._writer = None

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return self.path.stat().st_size if self.lines else 0

    async def keep(self, kind: OldKind, items: Sequence[Old]) -> None:
        """See `Archive.keep`."""
        lines = b"".join(line(kind, item) for item in items)
        # To the end: a batch that was half written would be neither there nor not.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(self._write, lines))
        self.lines += len(items)

    def _write(self, lines: bytes) -> None:
        writer = self._writer or self._begin()
        assert self._file is not None
        writer.write(lines)
        writer.flush()
        _sync(self._file)

    def _begin(self) -> "BinaryIO | gzip.GzipFile":
        self._file = self.path.open("xb")
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        compressed = self.path.suffix == ".gz"
        self._writer = gzip.GzipFile(fileobj=self._file, mode="wb", mtime=0) if compressed else self._file
        return self._writer


def line(kind: OldKind, item: Old) -> bytes:
    """One thing as a line: what it is, the key that names it, and all of it as the store kept it."""
    kept = item.record.replace("\n", " ")  # between its parts only: within a text a line break is written \n
    head = f'"schema":"{SCHEMAS[kind]}","key":{item.key},"rows":{item.rows},"bytes":{item.bytes}'
    return f'{{{head},"kept":{kept}}}\n'.encode()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
