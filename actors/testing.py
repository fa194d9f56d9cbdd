"""Testing actors: the same runtime on the memory store, with time driven by hand.

    async with TestKit(TREE) as kit:
        await kit.send("/crm/desk/ticket:1", Opened("broken"))
        await kit.settle()                     # until nothing more happens by itself
        await kit.advance(hours=4)             # timers fire on the way, in order
        assert kit.state("/crm/desk/ticket:1").late

Nothing here is a mock: turns, batches, retries and take-overs are the ones that run in production.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
from anyio.lowlevel import checkpoint

from ..mailbox.message import Message
from ..persistence.memory import MemoryStore
from ..persistence.port import RealPort, Signal
from ..persistence.rows import ActorRow
from .client import Client
from .node import Node, NodeSettings
from .spec import Child, Supervisor, Tree

T = TypeVar("T")

START = 1_800_000_000.0


async def all_tasks_wait() -> None:
    """Return when every other task waits for something.

    Not anyio's `wait_all_tasks_blocked`: that sleeps a tenth of a second whenever a task does not wait yet.
    """
    this = asyncio.current_task()
    while True:
        await checkpoint()
        waiters = [getattr(task, "_fut_waiter", None) for task in asyncio.all_tasks() if task is not this]
        if all(waiter is not None and not waiter.done() for waiter in waiters):
            return


class ManualPort(RealPort):
    """A port whose time moves only when told to. Chance always says 0.5; tokens count up."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._tokens = itertools.count(1)

    def wall(self) -> float:
        return START + self.elapsed

    def monotonic(self) -> float:
        return self.elapsed

    def random(self) -> float:
        return 0.5

    def token(self) -> str:
        return f"{next(self._tokens):032x}"

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await checkpoint()
            return
        done = anyio.Event()
        self._alarm(seconds, done.set)
        await done.wait()

    async def wait(self, signal: Signal, seconds: float | None) -> bool:
        with anyio.CancelScope() as scope:
            if seconds is not None:
                self._alarm(seconds, scope.cancel)
            await signal.wait()
            return True
        return False

    @contextmanager
    def deadline(self, seconds: float | None) -> Iterator[anyio.CancelScope]:
        with anyio.CancelScope() as scope:
            if seconds is not None:
                self._alarm(seconds, scope.cancel)
            yield scope
        if scope.cancelled_caught:
            raise TimeoutError

    def _alarm(self, seconds: float, ring: Callable[[], None]) -> None:
        heapq.heappush(self._alarms, (self.elapsed + max(0.0, seconds), next(self._order), ring))

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass: everything that falls due on the way happens in its order."""
        end = self.elapsed + seconds
        await all_tasks_wait()
        while self._alarms and self._alarms[0][0] <= end:
            at, _, ring = heapq.heappop(self._alarms)
            self.elapsed = max(self.elapsed, at)
            ring()
            await all_tasks_wait()
        self.elapsed = end
        await all_tasks_wait()


class TestKit:
    """One node on a memory store (or on a given one), by hand-driven time."""

    __test__ = False

    def __init__(
        self, tree: Supervisor | Child | Tree, *, nodes: int = 1, settings: NodeSettings | None = None
    ) -> None:
        if isinstance(tree, Child):
            tree = Supervisor("test", (tree,))
        self.tree = tree if isinstance(tree, Tree) else Tree(tree)
        self.port = ManualPort()
        self.store = MemoryStore(self.port)
        self.client = Client(self.store, self.port)
        self.nodes = [Node(self.store, self.tree, self.port, settings) for _ in range(nodes)]
        self._group: anyio.abc.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        self._group = await anyio.create_task_group().__aenter__()
        for node in self.nodes:
            self._group.start_soon(node.run)
        await self.settle()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        assert self._group is not None
        self._group.cancel_scope.cancel()
        result = await self._group.__aexit__(*error)
        await self.store.__aexit__(None, None, None)
        return result

    async def send(self, to: str, message: Message) -> None:
        """Send from outside and let it be handled."""
        await self.client.send(to, message)
        await self.settle()

    async def settle(self) -> None:
        """Return when nothing more happens unless time passes."""
        await all_tasks_wait()

    async def advance(self, **duration: float) -> None:
        """Let time pass (`seconds=`, `minutes=`, `hours=`, `days=`)."""
        await self.port.advance(timedelta(**duration).total_seconds())

    async def row(self, address: str) -> ActorRow | None:
        """An actor as of its last turn."""
        return await self.store.actor(address)

    async def state(self, address: str, kind: type[T]) -> T:
        """An actor's state.

        Raises:
            LookupError: there is none.
        """
        row = await self.store.actor(address)
        if row is None:
            raise LookupError(f"no actor at {address}")
        return msgspec.msgpack.decode(row.state, type=kind)

    async def until(self, condition: Callable[[], Awaitable[bool]], *, seconds: float = 600.0) -> None:
        """Let time pass until the condition holds.

        Raises:
            AssertionError: not within `seconds` of the store's time.
        """
        end = self.port.elapsed + seconds
        while not await condition():
            if self.port.elapsed >= end:
                raise AssertionError(f"not so within {seconds:g} s")
            await self.port.advance(0.25)
