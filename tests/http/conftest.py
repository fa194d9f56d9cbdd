"""Desks for the tests of the HTTP API."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import anyio
import pytest

from callboard import InMemoryStore

pytest.importorskip("litestar")

from tests.http.desk import Caller, Desk, postgres_desk
from tests.made_database import made_database
from tests.service.conftest import ROOT, environment


@pytest.fixture
async def desk() -> Desk:
    """A desk over a store in memory."""
    return Desk(InMemoryStore())


@pytest.fixture
async def ann(desk: Desk) -> AsyncIterator[Caller]:
    """Somebody who may do everyday things, by a token."""
    async with desk.caller(await desk.token("ann")) as caller:
        yield caller


@pytest.fixture
async def real(made: str) -> AsyncIterator[Desk]:
    """A desk over PostgreSQL."""
    async with postgres_desk(made) as desk:
        yield desk


@dataclass(frozen=True)
class Server:
    """`callboard http` as a process, over a database that is seeded."""

    url: str
    dsn: str
    secret: str
    """Of a token that may do everything that HTTP has."""
    process: "subprocess.Popen[str]"


@pytest.fixture(scope="module")
def database(server_dsn: str) -> Iterator[str]:
    """A database with the schema that the tests of a module share."""
    with made_database(server_dsn) as made:
        yield made


@pytest.fixture(scope="module")
def server(database: str) -> Iterator[Server]:
    """The command itself, on a port of its own."""

    async def seed() -> str:
        async with postgres_desk(database) as desk:
            for goal in ("hello", "refund 480.00", "close 5", "close 100", "close 200", "refund 10 20"):
                await desk.worked(goal)
            return await desk.token("everything", "read operate approve admin")

    secret = anyio.run(seed)
    command = [sys.executable, "-m", "callboard", "http", "--bind", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment(database), text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield Server(told["url"], database, secret, process)
        process.terminate()
        assert process.wait(120) == 0
