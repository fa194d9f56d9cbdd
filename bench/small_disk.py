"""A small file system for one PostgreSQL, which can be filled to its last byte: where mounting is allowed.

It lies in memory (tmpfs). What is on it survives every end of the server's processes, which is all that is tried here.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SIZE_MIB = 1_536
_BALLAST = "ballast"


@dataclass(frozen=True)
class SmallDisk:
    """A folder, and whether it can be filled."""

    folder: Path
    why_not: str = ""
    """Why it cannot be filled; "": it can."""

    def fill(self) -> None:
        """Take all the room that is left."""
        with (self.folder / _BALLAST).open("ab") as ballast:
            while True:
                free = os.statvfs(self.folder)
                room = free.f_bavail * free.f_frsize
                if not room:
                    return
                try:
                    os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, room)
                except OSError:  # somebody else took some of it between the question and the answer
                    return

    def empty(self) -> None:
        """Give it back."""
        (self.folder / _BALLAST).unlink(missing_ok=True)


@contextmanager
def small_disk(size_mib: int = SIZE_MIB) -> Iterator[SmallDisk]:
    """One that is gone with the block; where none can be made, an ordinary folder that cannot be filled."""
    folder = Path(tempfile.mkdtemp(prefix="callboard-chaos-", dir="/tmp"))
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "callboard-chaos", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    ) if shutil.which("mount") else None  # fmt: skip
    mounted = done is not None and done.returncode == 0
    folder.chmod(0o711)  # where the server runs as another account, that must get in
    why_not = "" if mounted else _why_not(done)
    try:
        yield SmallDisk(folder, why_not)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def _why_not(done: subprocess.CompletedProcess[str] | None) -> str:
    said = "there is no mount command" if done is None else done.stderr.strip() or f"mount ended with {done.returncode}"
    return f"no small file system could be made: {said}"
