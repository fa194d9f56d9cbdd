"""initdb, and the start of a server process. Called under start.lock by one process at a time.

`postgres` is started directly: pg_ctl cannot run as root, needs a shell's quoting, and overwrites PG_GRANDPARENT_PID.
"""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .account import Account
from .binaries import Binaries
from .errors import OWN_SERVER, EmbeddedServerError
from .postmaster import USER, Postmaster

_SOCKET_PATH_BYTES = 80  # sun_path holds 104 at least; the socket's own name needs 22
_SHORT_PARENT = "/tmp"  # noqa: S108 - mkdtemp makes a private directory there, and no other place is surely short
_SHORT_PREFIX = "callboard-pg-"
_LOG_BYTES = 10_000_000
_SETTING = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server lives, whom it runs as, and what it is started with."""

    root: Path
    binaries: Binaries
    account: Account
    durable: bool
    settings: Mapping[str, str]

    @property
    def pgdata(self) -> Path:
        """The data directory, named by the major version: no other one can open it."""
        return self.root / f"pgdata-{self.binaries.major}"

    def log_tail(self) -> str:
        """The end of the server's log, for error messages."""
        with contextlib.suppress(OSError):
            return (self.root / "postgres.log").read_text(errors="replace")[-1500:].strip()
        return "(no log)"


def boot(site: Site, stale: Postmaster | None) -> subprocess.Popen[bytes]:
    """Start a server, making its data directory first if there is none; it is not yet ready.

    Raises:
        EmbeddedServerError: the data directory could not be made.
    """
    with _log(site.root) as log:
        if not site.pgdata.exists():
            _initdb(site, log)
        environment = {"LC_ALL": "C", "TZ": "UTC"}  # nothing inherited: PG* variables would change what is started
        if stale is not None:
            # PostgreSQL disregards this pid in postmaster.pid, whoever has it now, and still checks shared memory.
            # Removing the file instead could let two servers onto the same data.
            environment["PG_GRANDPARENT_PID"] = str(stale.pid)
        command = [str(site.binaries.bindir / "postgres"), "-D", str(site.pgdata)]
        options = [f"--{name}={value}" for name, value in _options(site, _socket_dir(site, stale)).items()]
        return subprocess.Popen(
            [*command, *options],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # ctrl-C in the terminal is for the program, not for the shared server
            **site.account.become,
        )


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse names that are no settings of PostgreSQL, before they become part of a command line.

    Raises:
        EmbeddedServerError: a name is malformed.
    """
    for name in settings:
        if not _SETTING.fullmatch(name):
            raise EmbeddedServerError(f"{name!r} is no name of a PostgreSQL setting; use names such as 'work_mem'")


def _options(site: Site, socket_dir: Path) -> dict[str, str]:
    options = {
        "listen_addresses": "",
        "unix_socket_directories": str(socket_dir),
        "unix_socket_permissions": "0700",
        "port": "5432",
        "timezone": "UTC",
        "log_timezone": "UTC",
        **site.settings,
    }
    if not site.durable:
        # not synchronous_commit: without it a kill -9 of the server alone loses acknowledged rows
        options |= {"fsync": "off", "full_page_writes": "off"}
    return options


def _initdb(site: Site, log: IO[bytes]) -> None:
    """Make the data directory aside, then rename it: a killed initdb leaves no half of one."""
    for leftover in site.root.glob("init-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix="init-", dir=site.root))
    os.chown(part, site.account.uid, site.account.gid)
    command = [
        str(site.binaries.bindir / "initdb"),
        "-D",
        str(part),
        "-U",
        USER,
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
    ]
    ended = subprocess.run(
        command if site.durable else [*command, "-N"],
        env={"LC_ALL": "C", "TZ": "UTC"},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        check=False,
        **site.account.become,
    )
    if ended.returncode != 0:
        shutil.rmtree(part, ignore_errors=True)
        raise EmbeddedServerError(
            f"initdb in {site.root} ended with {ended.returncode}: {_why(site)}; {OWN_SERVER}, "
            "or name another directory"
        )
    part.rename(site.pgdata)


def _why(site: Site) -> str:
    for directory in (site.root, *site.root.parents):
        if not site.account.owns_or_passes(directory):
            return f"the account {site.account.name} may not enter {directory}"
    return site.log_tail()


def _socket_dir(site: Site, stale: Postmaster | None) -> Path:
    """A directory of mode 0700 that is short enough; others find it through postmaster.pid."""
    directory = site.root / "s"
    if len(os.fsencode(directory)) >= _SOCKET_PATH_BYTES:
        return _short_socket_dir(site, stale)
    directory.mkdir(mode=0o700, exist_ok=True)
    os.chown(directory, site.account.uid, site.account.gid)
    return directory


def _short_socket_dir(site: Site, stale: Postmaster | None) -> Path:
    if stale is not None and is_short_socket_dir(Path(stale.socket_dir)):
        with contextlib.suppress(OSError):
            if Path(stale.socket_dir).lstat().st_uid == site.account.uid:
                return Path(stale.socket_dir)  # of the server that died here
    directory = Path(tempfile.mkdtemp(prefix=_SHORT_PREFIX, dir=_SHORT_PARENT))
    os.chown(directory, site.account.uid, site.account.gid)
    return directory


def is_short_socket_dir(directory: Path) -> bool:
    """Whether it is one that was made outside the root because the root's path is too long."""
    return str(directory.parent) == _SHORT_PARENT and directory.name.startswith(_SHORT_PREFIX)


@contextlib.contextmanager
def _log(root: Path) -> Iterator[IO[bytes]]:
    path = root / "postgres.log"
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > _LOG_BYTES:
            path.replace(root / "postgres.log.1")
    with path.open("ab") as log:
        yield log
