"""Where a case is played: a node on the memory store by hand-driven time, or one on PostgreSQL in real time."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import anyio.abc

from callboard.actors.client import Client
from callboard.actors.node import Node, NodeSettings
from callboard.actors.spec import Tree
from callboard.actors.testing import TestKit
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.store import Store

from .recorder import Recorder

STEP_SECONDS = 0.005
"""By how much time is moved while something is waited for."""
POLL_SECONDS = 0.01
CALM_SECONDS = 0.015
"""Real time without any sign of life after which a node does nothing by itself any more."""
HEARD_SECONDS = 0.06
"""Real time in which a message from outside has come to its actor, unless the machine is busy."""


class Stage(Protocol):
    """One case's world, with its node."""

    client: Client
    store: Store
    node: Node

    async def settle(self) -> None:
        """Return when nothing more happens unless time passes."""
        ...

    async def heard(self) -> None:
        """Return when messages that were sent from outside have come to their actors."""
        ...

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        ...

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Let no more time pass than it takes; False when nothing at all has happened for `seconds` before it held."""
        ...


class MemoryStage:
    """By the test kit."""

    def __init__(self, kit: TestKit, node: Node, recorder: Recorder) -> None:
        self.kit = kit
        self.recorder = recorder
        self.client = kit.client
        self.store: Store = kit.store
        self.node = node

    async def settle(self) -> None:
        await self.kit.settle()

    heard = settle

    async def advance(self, seconds: float) -> None:
        await self.kit.port.advance(seconds)

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        port, recorder = self.kit.port, self.recorder
        await self.kit.settle()
        seen, last = recorder.activity, port.elapsed
        while not condition():
            if recorder.activity != seen:
                seen, last = recorder.activity, port.elapsed
            if port.elapsed >= last + seconds:
                return False
            await port.advance(STEP_SECONDS)
        return True


@asynccontextmanager
async def memory_stage(tree: Tree, recorder: Recorder) -> AsyncIterator[MemoryStage]:
    """A node on a memory store of its own, whose tree has booted."""
    async with TestKit(tree, nodes=0) as kit:
        node = Node(kit.store, kit.tree, kit.port, NodeSettings(lease_seconds=30.0, beat_seconds=5.0))
        recorder.node = node
        with recorder.watching(kit.store):
            async with anyio.create_task_group() as group:
                group.start_soon(node.run)
                await kit.settle()
                yield MemoryStage(kit, node, recorder)
                group.cancel_scope.cancel()


class PostgresStage:
    """By the clock on the wall."""

    def __init__(self, store: PostgresStore, node: Node, recorder: Recorder, slower: float) -> None:
        """`slower`: by how much longer it waits for signs of life."""
        self.slower = slower
        self.store: Store = store
        self.client = Client(store, RealPort())
        self.node = node
        self.recorder = recorder

    async def settle(self) -> None:
        seen = -1
        while seen != self.recorder.activity or self._committing():
            seen = self.recorder.activity
            await anyio.sleep(self.slower * CALM_SECONDS)

    def _committing(self) -> bool:
        life = self.node.life
        return life is not None and any(cell.in_flight or cell.unit for cell in life.cells.cells.values())

    async def heard(self) -> None:
        await anyio.sleep(self.slower * HEARD_SECONDS)
        await self.settle()

    async def advance(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        monotonic, recorder = self.client.port.monotonic, self.recorder
        seen, last = recorder.activity, monotonic()
        while not condition():
            if recorder.activity != seen:
                seen, last = recorder.activity, monotonic()
            if monotonic() >= last + seconds:
                return False
            await anyio.sleep(POLL_SECONDS)
        return True


@asynccontextmanager
async def postgres_stage(
    tree: Tree, recorder: Recorder, store: PostgresStore, slower: float = 1.0
) -> AsyncIterator[PostgresStage]:
    """A node on a database that other cases may have used before it."""
    node = Node(store, tree, RealPort(), NodeSettings(drain_seconds=0.2))
    recorder.node = node
    with recorder.watching(store):
        async with anyio.create_task_group() as group:
            group.start_soon(node.run)
            await node.ready.wait()
            yield PostgresStage(store, node, recorder, slower)
            group.cancel_scope.cancel()
