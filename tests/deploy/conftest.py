"""A database and real node processes of the two versions of the small application."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard import Message
from callboard.mailbox.address import shard_of
from tests.stand import Stand

KEYS = range(16)
"""Counters of a test; enough that every node has some."""


def address(key: int) -> str:
    return f"/deploy/counter:{key}"


@dataclass(frozen=True)
class Release:
    """A node process."""

    process: subprocess.Popen[str]
    number: int


class Deploy(Stand):
    """A database, and the node processes of this test."""

    def start(self, version: str, forgets: str) -> subprocess.Popen[str]:
        """Start a node of a version. None of them is ever silent for good, so that no lease should end one."""
        command = [sys.executable, "-m", "callboard", "node", f"tests.deploy.{version}:app"]
        told = {"CALLBOARD_LEASE_SECONDS": "60", "CALLBOARD_DRAIN_SECONDS": "60"}
        return self.process(command, CALLBOARD_DSN=self.dsn, DEPLOY_FORGETS=forgets, **told)

    async def release(self, version: str, *, forgets: str = "") -> Release:
        """A node of a version, ready."""
        process = self.start(version, forgets)
        return Release(process, json.loads(await self.said(process))["node"])

    async def drain(self, release: Release) -> None:
        """SIGTERM, and wait for a good end."""
        release.process.terminate()
        assert await self.ended(release.process) == 0, self.logs()

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

    async def handled(self, *, seconds: float = 180) -> None:
        """Wait until no message is left."""
        await self.until("select 1 where not exists (select from callboard.message)", seconds=seconds)

    async def counters(self, count: int) -> None:
        """Wait until so many counters have handled something."""
        await self.until(
            "select 1 where %s <= (select count(*) from callboard.actor where kind = 'deploy-counter')", count
        )

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
        found = await self.breaches()
        assert [breach for breach in found if not (resumed and breach.invariant == "versions")] == []
        assert "Traceback" not in self.logs()


@pytest.fixture
async def deploy(made: str, tmp_path: Path) -> AsyncIterator[Deploy]:
    async with Deploy.open(made, tmp_path) as deploy:
        yield deploy
