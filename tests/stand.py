"""A database and the processes of one test: started as an operator would, looked at by SQL, and all ended with it."""

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread
import psycopg

from callboard import Client, PostgresStore
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.invariants import Breach, breaches

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[1]
LEASE_SECONDS = 6.0
"""Of nodes that are no subject of a lease: a busy machine keeps a process from beating for longer than usual leases."""


class Stand:
    """What a test of real processes stands on."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        self.store = PostgresStore(dsn)
        self.client = Client(self.store)

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, folder: Path, tables: str = "") -> AsyncIterator[Self]:
        """One in a database with the schema, and with tables of the test's own."""
        if tables:
            async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
                await connection.execute(tables.encode())
        stand = cls(dsn, folder)
        try:
            async with stand.store:
                yield stand
        finally:
            for process in stand.processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()

    def process(self, command: Sequence[str], **environment: str) -> subprocess.Popen[str]:
        """Start a process of this test, with nothing of our own settings in its environment but these."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CALLBOARD_") and k != "DATABASE_URL"}
        log = (self.folder / f"process-{len(self.processes)}.log").open("w")
        started = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**kept, "CALLBOARD_LEASE_SECONDS": f"{LEASE_SECONDS:g}", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        self.processes.append(started)
        return started

    async def said(self, process: subprocess.Popen[str]) -> str:
        """The next line that a process prints."""
        assert process.stdout is not None
        text = await anyio.to_thread.run_sync(process.stdout.readline)
        assert text, self.logs()
        return text

    async def ended(self, process: subprocess.Popen[str], *, seconds: float = 180) -> int:
        """Wait for a process to end; its exit code."""
        with anyio.fail_after(seconds):
            return await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)

    async def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        """What a query finds."""
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            return await (await connection.execute(sql.encode(), params or None)).fetchall()

    async def until(self, sql: str, *params: Any, seconds: float = 180) -> list[tuple[Any, ...]]:
        """Wait until a query has rows."""
        return await self.so(lambda: self.rows(sql, *params), seconds=seconds)

    async def so(self, look: Callable[[], Awaitable[T]], *, seconds: float = 180) -> T:
        """Wait until a look sees something."""
        try:
            with anyio.fail_after(seconds):
                while not (found := await look()):  # noqa: ASYNC110 - other processes raise no event here
                    await anyio.sleep(0.02)
                return found
        except TimeoutError:
            raise AssertionError(f"not within {seconds:g} s\n{self.logs()}") from None

    async def breaches(self) -> list[Breach]:
        """What contradicts the invariants in the tables, once nothing waits there any more.

        A node that has just joined, or has just taken something over, still has messages of its own to handle.
        """
        async with await Database.open(self.dsn) as database:
            found = await breaches(database)
            end = anyio.current_time() + 60
            # One look is judged: in another one something else may just be on its way.
            while any(one.number == "I13" for one in found) and anyio.current_time() < end:
                await anyio.sleep(0.1)
                found = await breaches(database)
            return found

    def logs(self) -> str:
        """The ends of what the processes have logged."""
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob("*.log")))
