"""Directories for embedded servers, which no test leaves a server in."""

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.persistence.embedded import ensure, release
from callboard.persistence.embedded.postmaster import probe, runs_on
from tests.server_folder import server_folder


def postmaster_pid(root: Path) -> int:
    """The pid of the server that answers in `root`; 0 if none does."""
    for pgdata in root.glob("pgdata-*"):
        found = probe(pgdata)
        if found is not None and found.is_ready:
            return found.pid
    return 0


def kill_server(root: Path) -> int:
    """kill -9 the server that runs in `root` and wait for its death; returns the pid it had."""
    pid = postmaster_pid(root)
    assert pid
    handle = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        wait_for_end(handle)
    finally:
        os.close(handle)
    return pid


def wait_for_end(pidfd: int) -> None:
    """Wait until the process behind the handle has ended, reaped or not."""
    ready, _, _ = select.select([pidfd], [], [], 120)
    assert ready, "the process did not end"


def stop_whatever_runs(root: Path) -> None:
    """After a test, also one that failed half-way: no server is left in any directory below."""
    for pgdata in root.rglob("pgdata-*"):
        release(pgdata.parent)
        found = probe(pgdata)
        if found is not None and runs_on(found.pid, pgdata):
            try:
                handle = os.pidfd_open(found.pid)
            except ProcessLookupError:  # it was on its way out
                continue
            os.kill(found.pid, signal.SIGQUIT)
            wait_for_end(handle)
            os.close(handle)


@pytest.fixture(scope="session")
def used_before() -> Iterator[Path]:
    """A root whose data directory exists and whose server is stopped."""
    with server_folder("callboard-embedded-") as directory:
        try:
            ensure(directory, durable=False, timeout_seconds=240)
            release(directory)
            yield directory
        finally:
            stop_whatever_runs(directory)


@pytest.fixture
def base() -> Iterator[Path]:
    """An empty directory that every account can enter (pytest's own tmp_path is 0700)."""
    with server_folder("callboard-embedded-") as directory:
        try:
            yield directory
        finally:
            stop_whatever_runs(directory)


@pytest.fixture
def root(base: Path) -> Path:
    """A directory for one server; its first start is a cold one."""
    return base / "server"


@pytest.fixture
def warm_root(used_before: Path) -> Iterator[Path]:
    """A directory whose server ran before and does not run now; shared, because initdb takes most of a cold start."""
    (used_before / "postgres.log").unlink(missing_ok=True)
    yield used_before
    stop_whatever_runs(used_before)
