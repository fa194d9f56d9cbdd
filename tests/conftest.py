"""What every test can ask for: one PostgreSQL for the whole run, and a database of its own for each test."""

import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from callboard.persistence.embedded import ensure, release


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Tests marked anyio run on asyncio, which is what the runtime runs on."""
    return "asyncio"


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
