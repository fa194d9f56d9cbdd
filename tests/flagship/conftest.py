"""A desk for the flagship tests: a database with a ledger, and processes that work on it."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from callboard import PostgresStore, create_schema
from callboard.actors.agent.runs import Runs
from callboard.actors.client import Client

LEDGER = """
create table refund (what text, key text primary key, pid integer, at timestamptz default clock_timestamp());
create table attempt (what text, key text, pid integer, at timestamptz default clock_timestamp());
create table effect (what text, key text, pid integer, at timestamptz default clock_timestamp());
create table model_call (what text, key text, pid integer, at timestamptz default clock_timestamp());
"""


class Desk:
    """A database, and the processes of this test."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        self.store = PostgresStore(dsn)
        self.runs = Runs(Client(self.store), "/agents/run")

    def spawn(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start `tests.flagship.program` in a process of its own."""
        log = (self.folder / f"process-{len(self.processes)}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.flagship.program", *arguments],
            env={**os.environ, "DATABASE_URL": self.dsn, "KILL_MARK": str(self.folder / "mark"), **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        self.processes.append(process)
        return process

    async def serve(self, **environment: str) -> subprocess.Popen[str]:
        """A node in a process of its own, ready."""
        process = self.spawn("serve", **environment)
        await self.line(process)
        return process

    async def line(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """The next line that a process prints, as JSON."""
        assert process.stdout is not None
        text = await anyio.to_thread.run_sync(process.stdout.readline)
        assert text, self.logs()
        found: dict[str, Any] = json.loads(text)
        return found

    async def end(self, process: subprocess.Popen[str]) -> int:
        """Wait for a process to end; its exit code."""
        with anyio.fail_after(60):
            return await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)

    async def output(self, *arguments: str, **environment: str) -> dict[str, Any]:
        """Run a process to its end and take the line it prints."""
        process = self.spawn(*arguments, **environment)
        found = await self.line(process)
        assert await self.end(process) == 0, self.logs()
        return found

    async def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            return await (await connection.execute(sql, params)).fetchall()

    async def until(self, sql: str, *params: Any, seconds: float = 60) -> list[tuple[Any, ...]]:
        """Wait until a query has rows."""
        with anyio.fail_after(seconds):
            while not (found := await self.rows(sql, *params)):  # noqa: ASYNC110 - other processes raise no event here
                await anyio.sleep(0.02)
            return found

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob("*.log")))


@pytest.fixture
async def desk(dsn: str, tmp_path: Path) -> AsyncIterator[Desk]:
    await create_schema(dsn)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(LEDGER)
    desk = Desk(dsn, tmp_path)
    try:
        async with desk.store:
            yield desk
    finally:
        for process in desk.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
