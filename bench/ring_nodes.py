"""Node processes that a bench starts, asks, measures and kills (`ring_node.py`)."""

import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from callboard.bench.meter import family_cpu
from callboard.bench.ring_node import Done, Ready

START_SECONDS = 120.0
"""How long a node may take until it serves, and for an answer; on a quiet machine it takes one."""
_LINE_BYTES = 4_096
_LOOK_SECONDS = 0.05


class RingNode:
    """One process."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        assert process.stdout is not None
        self._lines = BufferedByteReceiveStream(process.stdout)
        self.number = 0
        """Of the node."""
        self.ready_at = 0.0
        """By the monotonic clock."""

    @classmethod
    async def start(cls, dsn: str, actors: int) -> Self:
        """Start one; it need not be ready yet."""
        command = [sys.executable, "-m", "callboard.bench.ring_node", dsn, str(actors)]
        return cls(await anyio.open_process(command, stderr=None))

    async def ready(self) -> None:
        """Wait until it serves."""
        self.number = msgspec.json.decode(await self._line(), type=Ready).number
        self.ready_at = time.monotonic()

    async def done(self) -> Done:
        """What it has done so far."""
        assert self._process.stdin is not None
        await self._process.stdin.send(b"\n")
        return msgspec.json.decode(await self._line(), type=Done)

    async def owns(self, least: int) -> None:
        """Wait until it owns so many shards."""
        with anyio.fail_after(START_SECONDS):
            while (await self.done()).owned < least:  # noqa: ASYNC110 - another process raises no event
                await anyio.sleep(_LOOK_SECONDS)

    async def _line(self) -> bytes:
        with anyio.fail_after(START_SECONDS):
            return await self._lines.receive_until(b"\n", _LINE_BYTES)

    @property
    def cpu_seconds(self) -> float:
        """What it has used."""
        return family_cpu(self._process.pid)

    def hit(self, sign: signal.Signals) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, sign)

    async def end(self) -> None:
        """Kill it, if it still runs, and bury it."""
        with anyio.CancelScope(shield=True):
            self.hit(signal.SIGKILL)
            await self._process.wait()
            await self._process.aclose()


@asynccontextmanager
async def ring_nodes(dsn: str, count: int, actors: int) -> AsyncIterator[list[RingNode]]:
    """So many nodes, each ready and with a fair share of the 256 shards; the list may be changed in the block."""
    nodes = [await RingNode.start(dsn, actors) for _ in range(count)]
    try:
        for node in nodes:
            await node.ready()
        for node in nodes:
            await node.owns(256 // count)
        yield nodes
    finally:
        for node in nodes:
            await node.end()
