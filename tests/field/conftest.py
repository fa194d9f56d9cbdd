"""A database, and node processes of the field application, started and ended as an operator would."""

import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec
import pytest

from callboard.mailbox.message import Message
from tests.stand import Stand

from .app import BEGAN, Count, Do


class Field(Stand):
    """A database, and the processes of this test."""

    async def node(self, label: str = "", **settings: str) -> subprocess.Popen[str]:
        """A node process that is ready."""
        command = [sys.executable, "-m", "callboard", "node", "tests.field.app:app"]
        told = {f"CALLBOARD_{name}": value for name, value in settings.items()}
        process = self.process(command + (["--label", label] if label else []), CALLBOARD_DSN=self.dsn, **told)
        assert '"ready"' in await self.said(process), self.logs()
        assert process.stdout is not None
        # Nobody reads what it says from here on, and it must not wait for somebody who does.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        return process

    def running(self, pid: int) -> subprocess.Popen[str]:
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

    async def counted(self, key: object, done: int, *, answers: int = 0, seconds: float = 180) -> Count:
        """Wait until a counter has counted so much."""
        with anyio.fail_after(seconds):
            while True:
                count = await self.count(key)
                if count.done >= done and count.answers >= answers:
                    return count
                await anyio.sleep(0.02)

    async def end(self, process: subprocess.Popen[str], sign: signal.Signals) -> int:
        """Send a signal and wait for the end; the exit code."""
        process.send_signal(sign)
        return await self.ended(process)


@pytest.fixture
async def field(made: str, tmp_path: Path) -> AsyncIterator[Field]:
    async with Field.open(made, tmp_path, BEGAN) as field:
        yield field
