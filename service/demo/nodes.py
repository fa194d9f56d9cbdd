"""Node processes of the demonstration: real ones, so that a kill -9 is a kill -9."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
from anyio.streams.text import TextReceiveStream

from callboard.crm.app import OWN_DSN
from callboard.mailbox.errors import CallboardError

APP = "callboard.crm.app:app"
START_SECONDS = 90.0
STOP_SECONDS = 60.0


class NodeFailed(CallboardError):
    """A node process ended before it was asked to; the message holds the end of what it said."""


class NodeProcess:
    """One node in a process of its own."""

    def __init__(self, label: str, process: anyio.abc.Process, log: Path) -> None:
        self.label = label
        self.process = process
        self.log = log
        self.ready = anyio.Event()
        self.killed = False
        self.told: Callable[[NodeProcess, dict[str, Any]], None] = lambda node, event: None

    @classmethod
    async def start(
        cls,
        label: str,
        dsn: str,
        log: Path,
        options: dict[str, str],
        desk_dsn: str = "",
        *,
        lease_seconds: float | None = None,
    ) -> NodeProcess:
        """Start a node of the desk; its diagnostics go to `log`. `desk_dsn`: how its tools connect, if otherwise;
        `lease_seconds`: instead of the setting's."""
        command = [sys.executable, "-m", "callboard", "node", APP, "--label", label]
        for key, value in options.items():
            command += ["--option", f"{key}={value}"]
        # The DSN goes by the environment: it may hold a password, and arguments are visible to everybody here.
        environment = {**os.environ, "CALLBOARD_DSN": dsn, **({OWN_DSN: desk_dsn} if desk_dsn else {})}
        if lease_seconds is not None:
            environment["CALLBOARD_LEASE_SECONDS"] = f"{lease_seconds:g}"
        with log.open("ab") as errors:
            process = await anyio.open_process(command, stdin=None, stderr=errors, env=environment)
        return cls(label, process, log)

    async def listen(self) -> None:
        """Read what the process announces, until it ends."""
        assert self.process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(self.process.stdout):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                self._announced(line)
        await self.process.wait()

    def _announced(self, line: str) -> None:
        try:
            event = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            return
        if event.get("event") == "ready":
            self.ready.set()
        self.told(self, event)

    async def wait_ready(self) -> None:
        """Return once it serves.

        Raises:
            NodeFailed: it ended, or said nothing for START_SECONDS.
        """
        with anyio.move_on_after(START_SECONDS):
            while not self.ready.is_set():
                if self.process.returncode is not None:
                    break
                with anyio.move_on_after(0.1):
                    await self.ready.wait()
        if not self.ready.is_set():
            said = self.log.read_text(errors="replace")[-1500:]
            raise NodeFailed(f"node {self.label} did not start (exit {self.process.returncode}): {said}")

    def kill(self) -> None:
        """kill -9, without a word to it."""
        self.killed = True
        self.process.send_signal(signal.SIGKILL)

    async def stop(self) -> int:
        """Drain it and wait for its end; the exit code."""
        if self.process.returncode is None:
            self.process.terminate()
            with anyio.move_on_after(STOP_SECONDS):
                return await self.process.wait()
            self.process.kill()
        return await self.process.wait()
