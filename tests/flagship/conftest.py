"""A desk for the flagship tests: a database with a ledger, and processes that work on it."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.agent.runs import Runs
from tests.stand import LEASE_SECONDS, Stand

LEDGER = """
create table refund (what text, key text primary key, pid integer, at timestamptz default clock_timestamp());
create table attempt (what text, key text, pid integer, at timestamptz default clock_timestamp());
create table effect (what text, key text, pid integer, at timestamptz default clock_timestamp());
create table model_call (what text, key text, pid integer, at timestamptz default clock_timestamp());
"""


class Desk(Stand):
    """A database, and the processes of this test."""

    def __init__(self, dsn: str, folder: Path) -> None:
        super().__init__(dsn, folder)
        self.runs = Runs(self.client, "/agents/run")

    def spawn(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start `tests.flagship.program` in a process of its own."""
        told = {
            "DATABASE_URL": self.dsn,
            "KILL_MARK": str(self.folder / "mark"),
            "LEASE_SECONDS": f"{LEASE_SECONDS:g}",
            **environment,
        }
        return self.process([sys.executable, "-m", "tests.flagship.program", *arguments], **told)

    async def serve(self, **environment: str) -> subprocess.Popen[str]:
        """A node in a process of its own, ready."""
        process = self.spawn("serve", **environment)
        await self.line(process)
        return process

    async def line(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """The next line that a process prints, as JSON."""
        found: dict[str, Any] = json.loads(await self.said(process))
        return found

    async def end(self, process: subprocess.Popen[str]) -> int:
        """Wait for a process to end; its exit code."""
        return await self.ended(process)

    async def output(self, *arguments: str, **environment: str) -> dict[str, Any]:
        """Run a process to its end and take the line it prints."""
        process = self.spawn(*arguments, **environment)
        found = await self.line(process)
        assert await self.end(process) == 0, self.logs()
        return found


@pytest.fixture
async def desk(made: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with Desk.open(made, tmp_path, LEDGER) as desk:
        yield desk
