"""A database, and node processes of the field application, started and ended as an operator would."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import psycopg
import pytest

from callboard import PostgresStore, create_schema
from callboard.actors.client import Client
from callboard.mailbox.message import Message
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.invariants import breaches

from .app import BEGAN, Count, Do

ROOT = Path(__file__).resolve().parents[2]


class Field:
    """A database, and the processes of this test."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.folder = folder
        self.store = PostgresStore(dsn)
        self.client = Client(self.store)
        self.processes: list[subprocess.Popen[bytes]] = []

    async def node(self, label: str = "", **settings: str) -> subprocess.Popen[bytes]:
        """A node process that is ready."""
        log = (self.folder / f"node-{len(self.processes)}.log").open("wb")
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CALLBOARD_") and k != "DATABASE_URL"}
        command = [sys.executable, "-m", "callboard", "node", "tests.field.app:app"]
        process = subprocess.Popen(  # noqa: ASYNC220 - a start takes no time to speak of
            command + (["--label", label] if label else []),
            cwd=ROOT,
            env={**kept, "CALLBOARD_DSN": self.dsn, **{f"CALLBOARD_{k}": v for k, v in settings.items()}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        log.close()
        self.processes.append(process)
        assert process.stdout is not None
        said = await anyio.to_thread.run_sync(process.stdout.readline)
        assert b'"ready"' in said, self.logs()
        # Nobody reads what it says from here on, and it must not wait for somebody who does.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        return process

    def running(self, pid: int) -> subprocess.Popen[bytes]:
        """The process of this test with that id."""
        return next(process for process in self.processes if process.pid == pid)

    async def send(self, key: object, message: Message) -> None:
        await self.client.send(f"/field/counter:{key}", message)

    async def do(self, key: object, *whats: str) -> None:
        for what in whats:
            await self.send(key, Do(what))

    async def count(self, key: object) -> Count:
        row = await self.store.actor(f"/field/counter:{key}")
        return Count() if row is None else msgspec.msgpack.decode(row.state, type=Count)

    async def counted(self, key: object, done: int, *, answers: int = 0, seconds: float = 60) -> Count:
        """Wait until a counter has counted so much."""
        with anyio.fail_after(seconds):
            while True:
                count = await self.count(key)
                if count.done >= done and count.answers >= answers:
                    return count
                await anyio.sleep(0.02)

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            return await (await connection.execute(sql.encode())).fetchall()

    async def until(self, sql: str, *, seconds: float = 60) -> list[tuple[Any, ...]]:
        """Wait until a query has rows."""
        with anyio.fail_after(seconds):
            while not (found := await self.rows(sql)):  # noqa: ASYNC110 - other processes raise no event here
                await anyio.sleep(0.02)
            return found

    async def breaches(self) -> list[Any]:
        """What contradicts the invariants in the tables."""
        async with await Database.open(self.dsn) as database:
            return list(await breaches(database))

    async def end(self, process: subprocess.Popen[bytes], sign: signal.Signals) -> int:
        """Send a signal and wait for the end; the exit code."""
        process.send_signal(sign)
        with anyio.fail_after(60):
            return await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob("*.log")))


@pytest.fixture
async def field(dsn: str, tmp_path: Path) -> AsyncIterator[Field]:
    await create_schema(dsn)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(BEGAN.encode())
    found = Field(dsn, tmp_path)
    try:
        async with found.store:
            yield found
    finally:
        for process in found.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
