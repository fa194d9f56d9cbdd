"""Is a server alive in this data directory?

Only an answer proves life: a pid in a file may be a zombie's, or have been given to another process since. So the
question goes over the socket that postmaster.pid names. The pid is used for two things only: to wait for a server that
is coming up or going down, and to tell the next server which stale pid to disregard.
"""

import contextlib
import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

USER = "callboard"
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"  # the shortest question that a server answers before log-in


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What postmaster.pid says, and whether somebody answered."""

    pid: int
    socket_dir: str
    port: str
    is_ready: bool

    @property
    def dsn(self) -> str:
        """The connection URI of its maintenance database."""
        return f"postgresql://{USER}@/postgres?host={quote(self.socket_dir, safe='')}&port={self.port}"


def probe(pgdata: Path) -> Postmaster | None:
    """The server that postmaster.pid names, dead or alive; None if it names none."""
    try:
        lines = (pgdata / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    if len(lines) < 8:  # it is still being written
        return Postmaster(pid, "", "", is_ready=False)
    is_ready = lines[7].strip() == "ready" and _answers(f"{lines[4]}/.s.PGSQL.{lines[3]}")
    return Postmaster(pid, lines[4], lines[3], is_ready)


def _answers(path: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(path)
            connection.sendall(_SSL_REQUEST)
            return connection.recv(1) in (b"N", b"S")
    except OSError:
        return False


def runs_on(pid: int, pgdata: Path) -> bool:
    """Whether the process is a server of this data directory: a zombie has no command line, a reused pid another's."""
    if pid <= 0:
        return False
    with contextlib.suppress(OSError):
        return os.fsencode(pgdata) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    if Path("/proc/self").exists():
        return False
    listing = subprocess.run(["ps", "-wwo", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return str(pgdata) in listing.stdout
