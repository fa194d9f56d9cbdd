"""A database and real node processes of the two versions of the small application."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec
import psycopg
import pytest

from callboard import Client, Message, PostgresStore, create_schema
from callboard.mailbox.address import shard_of
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.invariants import breaches

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
KEYS = range(16)
"""Counters of a test; enough that every node has some."""


def address(key: int) -> str:
    return f"/deploy/counter:{key}"


@dataclass(frozen=True)
class Release:
    """A node process."""

    process: subprocess.Popen[str]
    number: int


class Deploy:
    """A database, and the node processes of this test."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        self.store = PostgresStore(dsn)
        self.client = Client(self.store)

    def start(self, version: str, forgets: str) -> subprocess.Popen[str]:
        """Start a node of a version."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CALLBOARD_") and k != "DATABASE_URL"}
        log = (self.folder / f"{len(self.processes)}-{version}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", "callboard", "node", f"tests.deploy.{version}:app"],
            env={**kept, "CALLBOARD_DSN": self.dsn, "DEPLOY_FORGETS": forgets},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        self.processes.append(process)
        return process

    async def release(self, version: str, *, forgets: str = "") -> Release:
        """A node of a version, ready."""
        process = self.start(version, forgets)
        assert process.stdout is not None
        line = await anyio.to_thread.run_sync(process.stdout.readline)
        assert line, self.logs()
        return Release(process, json.loads(line)["node"])

    async def drain(self, release: Release) -> None:
        """SIGTERM, and wait for a good end."""
        release.process.terminate()
        with anyio.fail_after(30):
            code = await anyio.to_thread.run_sync(release.process.wait, abandon_on_cancel=True)
        assert code == 0, self.logs()

    async def shared(self, *releases: Release) -> None:
        """Wait until each of these nodes has its share of the shards."""
        share = 256 // len(releases)
        numbers = [release.number for release in releases]
        ready = "select 1 where %s = (select count(*) from (select node from callboard.shard where node = any(%s)"
        await self.until(f"{ready} group by node having count(*) >= %s) n)", len(releases), numbers, share)

    async def keys_of(self, release: Release) -> list[int]:
        """Counters whose shards a node owns."""
        rows = await self.rows("select id from callboard.shard where node = %s", release.number)
        owned = {shard for (shard,) in rows}
        return [key for key in KEYS if shard_of(address(key)) in owned]

    async def send(self, message: Message, *keys: int, pool: str = "counter") -> None:
        """Send a message to counters; to all of them where none is named."""
        addresses = [f"/deploy/{pool}:{key}" for key in keys or KEYS]
        await self.store.send([await self.client.envelope(one, message) for one in addresses])

    async def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            return await (await connection.execute(sql, params)).fetchall()

    async def until(self, sql: str, *params: Any, seconds: float = 60) -> list[tuple[Any, ...]]:
        """Wait until a query has rows."""
        return await self.so(lambda: self.rows(sql, *params), seconds=seconds)

    async def so(self, look: Callable[[], Awaitable[T]], *, seconds: float = 60) -> T:
        """Wait until a look sees something."""
        try:
            with anyio.fail_after(seconds):
                while not (found := await look()):  # noqa: ASYNC110 - other processes raise no event here
                    await anyio.sleep(0.02)
                return found
        except TimeoutError:
            raise AssertionError(f"not within {seconds:g} s\n{self.logs()}") from None

    async def handled(self, *, seconds: float = 60) -> None:
        """Wait until no message is left."""
        await self.until("select 1 where not exists (select from callboard.message)", seconds=seconds)

    async def states(self) -> dict[str, tuple[int, dict[str, Any]]]:
        """(version, plain state) of each counter."""
        rows = await self.rows(
            "select address, state_version, state from callboard.actor where kind = 'deploy-counter'"
        )
        return {where: (version, msgspec.msgpack.decode(state)) for where, version, state in rows}

    async def handlers(self, kind: str) -> set[int]:
        """Numbers of the nodes that handled messages of a type."""
        return {node for (node,) in await self.rows("select distinct node from callboard.turn where type = %s", kind)}

    async def assert_clean(self, *, resumed: bool = False) -> None:
        """Nothing was lost, doubled, reordered or given up, and no failure was charged.

        `resumed`: actors were parked and went on by themselves. Parking is a version without a turn.
        """
        assert await self.rows("select 1 from callboard.dead_letter") == []
        assert await self.rows("select id, last_error from callboard.message where failures > 0") == []
        assert await self.rows("select id, outcome from callboard.turn where outcome <> 'done'") == []
        async with await Database.open(self.dsn) as database:
            found = await breaches(database)
        assert [breach for breach in found if not (resumed and breach.invariant == "versions")] == []
        assert "Traceback" not in self.logs()

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob("*.log")))


@pytest.fixture
async def deploy(dsn: str, tmp_path: Path) -> AsyncIterator[Deploy]:
    await create_schema(dsn)
    deploy = Deploy(dsn, tmp_path)
    try:
        async with deploy.store:
            yield deploy
    finally:
        for process in deploy.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
