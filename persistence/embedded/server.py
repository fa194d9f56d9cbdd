"""ensure() and release(): one shared PostgreSQL a directory, for as long as a process needs it.

Two files order everything, both by flock, which the kernel drops when a process dies however it dies:

    clients.lock   held SHARED by each process while it uses the server. Who gets it EXCLUSIVE is the last one, and
                   stops the server; so there is no count that a kill -9 could leave wrong.
    start.lock     held EXCLUSIVE while looking for the server and starting it, so that one process starts it.

Lock order: this module's thread lock, clients.lock, start.lock. release() waits for the server's end while it holds
clients.lock, so that a newcomer waits at that lock and never meets a server that is going down.
"""

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO

from .account import reachable, server_account
from .binaries import find_binaries
from .boot import Site, boot, check_settings, is_short_socket_dir
from .errors import OWN_SERVER, EmbeddedServerError
from .postmaster import Postmaster, probe, runs_on

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_MAX_BOOTS = 25  # right after a kill -9 the dead server's children still hold its shared memory: it takes some tries
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.02


@dataclass(slots=True)
class _Client:
    """This process's use of one server."""

    site: Site
    lock: IO[str]
    keep: bool
    booted: list[subprocess.Popen[bytes]] = field(default_factory=list)


_clients: dict[Path, _Client] = {}
_childs_locks: dict[Path, IO[str]] = {}  # during a fork only
_outlive: list[subprocess.Popen[bytes]] = []  # servers we started and left to others; dropping one would warn
_mutex = threading.RLock()


def ensure(
    root: Path,
    *,
    durable: bool = True,
    keep: bool = False,
    timeout_seconds: float = 60.0,
    settings: Mapping[str, str] = _NO_SETTINGS,
) -> str:
    """The DSN of the PostgreSQL that lives in `root`, started if it does not run.

    Safe from any number of threads and processes at once. Call it again after a lost connection: a server that died is
    started again with every acknowledged row. It is stopped when the last process that called this ends or releases it.

    Args:
        root: a directory for this server alone; made if missing. For root every parent must let others pass through.
        durable: False trades safety against a power cut (never against a kill) for speed: for tests.
        keep: this process's end does not stop the server.
        timeout_seconds: how long to wait at most.
        settings: PostgreSQL's own, such as `{"max_connections": "200"}`. Like `durable` they take effect where this
            call is the one that starts the server.

    Raises:
        EmbeddedServerError: no server can be had; the message says why and what to do.
    """
    check_settings(settings)
    root = Path(root).resolve()  # one server has one name, whatever links lead to it
    deadline = time.monotonic() + timeout_seconds
    with _thread_lock(root, deadline):
        try:
            client = _clients.get(root) or _join(root, durable=durable, keep=keep, settings=settings, deadline=deadline)
            with (root / "start.lock").open("a") as lock:
                _flock(lock, fcntl.LOCK_EX, root, deadline)
                return _await_ready(client, deadline).dsn
        except OSError as error:
            raise EmbeddedServerError(f"no embedded PostgreSQL in {root}: {error}; {OWN_SERVER}") from error


def release(root: Path) -> None:
    """Stop using the server of `root`; the last process to do so stops it. Done by itself when the process ends."""
    root = Path(root).resolve()
    with _mutex:
        client = _clients.pop(root, None)
        if client is None:
            return
        with client.lock as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while another process uses the server
            _stop(client)
        _leave(client.booted)


def _leave(booted: list[subprocess.Popen[bytes]]) -> None:
    """Keep what goes on without us, and reap what has ended, also of those that others have stopped since."""
    _outlive[:] = [process for process in (*_outlive, *booted) if process.poll() is None]


def _join(root: Path, *, durable: bool, keep: bool, settings: Mapping[str, str], deadline: float) -> _Client:
    """Become a client of the server, running or not."""
    account = server_account()
    binaries = reachable(find_binaries(), account)
    _make_directory(root)
    lock = (root / "clients.lock").open("a")
    try:
        _flock(lock, fcntl.LOCK_SH, root, deadline)
    except BaseException:
        lock.close()
        raise
    client = _Client(Site(root, binaries, account, durable, dict(settings)), lock, keep)
    _clients[root] = client
    return client


def _make_directory(root: Path) -> None:
    """Make it; as root also let the server's account pass through what was made, whatever the umask."""
    missing = [path for path in (root, *root.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            path.chmod(0o711)
    if os.geteuid() == 0 and not root.stat().st_mode & 0o001:
        root.chmod(root.stat().st_mode | 0o011)  # ours by contract, and perhaps made by a process killed just before


def _await_ready(client: _Client, deadline: float) -> Postmaster:
    site, booted = client.site, client.booted
    del booted[:-1]
    while True:
        found = probe(site.pgdata)
        if found is not None and found.is_ready:
            return found
        is_coming = booted and booted[-1].poll() is None  # poll() also reaps one of ours that was killed
        is_alive = found is not None and runs_on(found.pid, site.pgdata)
        if not is_coming and not is_alive:
            booted.append(boot(site, found))
        if len(booted) > _MAX_BOOTS or time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"PostgreSQL {site.binaries.version} does not start in {site.root}: {site.log_tail()}; {OWN_SERVER}, "
                "or name another directory"
            )
        time.sleep(2 * _POLL_SECONDS * min(len(booted) + 1, 10))


def _stop(client: _Client) -> None:
    """Shut the server down fast and wait for its end; called by the last client."""
    pgdata = client.site.pgdata
    found = probe(pgdata)
    if found is None or not runs_on(found.pid, pgdata):  # the pid is only a file's word: never signal a stranger
        return
    deadline = time.monotonic() + _STOP_SECONDS
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGINT)
    while time.monotonic() < deadline and runs_on(found.pid, pgdata):
        time.sleep(_POLL_SECONDS)
    with contextlib.suppress(subprocess.TimeoutExpired):
        for process in client.booted:  # ours has no command line any more a little before it can be reaped
            process.wait(max(0.0, deadline - time.monotonic()))
    if is_short_socket_dir(Path(found.socket_dir)):
        shutil.rmtree(found.socket_dir, ignore_errors=True)


@contextlib.contextmanager
def _thread_lock(root: Path, deadline: float) -> Iterator[None]:
    if not _mutex.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise EmbeddedServerError(f"another thread is still starting PostgreSQL for {root}; try again later")
    try:
        yield
    finally:
        _mutex.release()


def _flock(lock: IO[str], kind: int, root: Path, deadline: float) -> None:
    """Wait for the lock, but not for ever: flock itself has no timeout."""
    while True:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise EmbeddedServerError(
                    f"another process holds {lock.name} and does not get PostgreSQL in {root} to run or to stop; "
                    f"look at {root}/postgres.log, or {OWN_SERVER}"
                ) from None
            time.sleep(_POLL_SECONDS)


@atexit.register
def _release_all() -> None:
    for root, client in list(_clients.items()):
        if not client.keep:
            release(root)
    _leave([])


def _before_fork() -> None:
    """Take the locks that the child will hold: it must not be without one while its parent may leave.

    The child cannot go on with the inherited ones. Each is one lock with the parent's, which the parent would turn into
    an exclusive one as if the child did not exist.
    """
    _mutex.acquire()  # nobody is half-way through ensure() while the process is copied
    for root in _clients:
        with contextlib.suppress(OSError):
            lock = (root / "clients.lock").open("a")
            _childs_locks[root] = lock
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _after_fork_in_parent() -> None:
    for lock in _childs_locks.values():
        lock.close()  # the child's copy still holds it
    _childs_locks.clear()
    _mutex.release()


def _after_fork_in_child() -> None:
    """The child is a client of its own: the server outlives the parent for it, and it may be the one to stop it."""
    global _mutex  # noqa: PLW0603 - new, because waiters for the old one are threads of the parent
    _mutex = threading.RLock()
    for root, client in list(_clients.items()):
        client.lock.close()
        _outlive.extend(client.booted)  # the parent's children, not ours
        client.booted = []
        if root in _childs_locks:
            client.lock = _childs_locks[root]
        else:
            del _clients[root]
    _childs_locks.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
