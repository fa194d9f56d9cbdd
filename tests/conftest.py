"""What every test can ask for: one PostgreSQL for each process of the run, a database of its own for each test."""

import os
import shutil
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from callboard.persistence.embedded import ensure, release

LEFT_SECONDS = 30.0
"""How long the last process of a test may take to end."""


def pytest_configure() -> None:
    """A shell ignores ctrl-C for what it starts in the background, and every process that a test starts would too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means here."""
    from tests.distribution import workers

    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Who gets which tests under `--dist loadfile`."""
    from tests.distribution import Sharing

    return Sharing(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """A report goes to another process as UTF-8, and some tests log what has none: halves of surrogate pairs."""
    return encodable((yield))


def encodable(value: Any) -> Any:
    """The same, with everything in it that UTF-8 does not have written out."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {encodable(key): encodable(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(encodable(item) for item in value)
        case _:
            return value


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Tests marked anyio run on asyncio, which is what the runtime runs on."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """What tests have started has ended when they have, and was reaped (where the system tells: Linux)."""
    yield
    pause, end = threading.Event(), time.monotonic() + LEFT_SECONDS
    while (left := _children()) and time.monotonic() < end:
        pause.wait(0.1)  # it may be on its way
    assert not left, f"processes that tests have left: {left}"


def _children() -> list[str]:
    pids = [pid for task in Path("/proc/self/task").glob("*/children") for pid in task.read_text().split()]
    return [told for pid in pids if (told := _process(pid))]


def _process(pid: str) -> str:
    try:
        return f"{Path(f'/proc/{pid}/stat').read_text()[:40]} {Path(f'/proc/{pid}/cmdline').read_bytes()!r}"
    except FileNotFoundError:  # it has ended meanwhile
        return ""


@pytest.fixture(scope="session")
def server_dsn() -> Iterator[str]:
    """A PostgreSQL server: TEST_DATABASE_URL if set, else an embedded one that is gone when the run ends."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        yield given
        return
    # SIGTERM skips teardown and atexit; as an interrupt it stops the server like ctrl-C does
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = Path(tempfile.mkdtemp(prefix="callboard-tests-", dir="/tmp"))
    root.chmod(0o711)  # root hands the server to another account, which must get in
    try:
        yield ensure(root, durable=False, settings={"max_connections": "200"})
    finally:
        release(root)
        shutil.rmtree(root, ignore_errors=True)
        signal.signal(signal.SIGTERM, previous)


@pytest.fixture
def dsn(server_dsn: str) -> Iterator[str]:
    """The URI of an empty database that no other test has; dropped afterwards, whoever is still connected."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    database = sql.Identifier(name)
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template template0").format(database))
        try:
            yield urlsplit(server_dsn)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(sql.SQL("drop database {} with (force)").format(database))
