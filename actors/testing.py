"""Testing actors: the same runtime on the memory store, with time driven by hand.

    async with TestKit(TREE) as kit:
        await kit.send("/crm/desk/ticket:1", Opened("broken"))   # and lets it be handled
        await kit.advance(hours=4)                               # timers fire on the way, in order
        assert (await kit.state("/crm/desk/ticket:1", TicketState)).late

Nothing here is a mock: turns, batches, retries and take-overs are the ones that run in production.
"""

import asyncio
import heapq
import itertools
import sys
from collections.abc import Awaitable, Callable, Iterator, Sized
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
from anyio.lowlevel import checkpoint

from ..mailbox.message import Message
from ..persistence.memory import MemorySession, MemoryStore
from ..persistence.port import RealPort, Signal
from ..persistence.rows import ActorRow
from .client import Client
from .node import Node, NodeSettings
from .quarantine import Quarantine, Survived, Trial, Verdict
from .spec import Child, Supervisor, Tree

T = TypeVar("T")
R = TypeVar("R")

START = 1_800_000_000.0

THREAD_SECONDS = 5.0
"""How long, in real time, hand-driven time waits for a thread to end."""

CALM = NodeSettings(lease_seconds=30.0, beat_seconds=5.0)
"""A node that is alone need not look after the others so often; an hour of its time passes in a second or two."""


async def all_tasks_wait() -> None:
    """Return when every other task waits for something.

    Not anyio's `wait_all_tasks_blocked`: that sleeps a tenth of a second whenever a task does not wait yet. Here the
    loop itself tells: with nothing left that is ready to run, everybody waits.
    """
    ready: Sized = getattr(asyncio.get_running_loop(), "_ready")  # noqa: B009 - asyncio does not say so in public
    while True:
        await checkpoint()
        if not ready:
            return


class ManualPort(RealPort):
    """A port whose time moves only when told to. Chance always says 0.5; tokens count up."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._tokens = itertools.count(1)
        self._threads: set[anyio.Event] = set()

    def wall(self) -> float:
        return START + self.elapsed

    def monotonic(self) -> float:
        return self.elapsed

    def random(self) -> float:
        return 0.5

    def token(self) -> str:
        return f"{next(self._tokens):08x}" * 4  # every part of it, as callers cut it to size

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
            if seconds == 0:
                scope.cancel()  # no time has to pass for this
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

    async def in_thread(self, function: Callable[..., R], *args: Any) -> R:
        ended = anyio.Event()
        self._threads.add(ended)
        try:
            return await super().in_thread(function, *args)
        finally:
            self._threads.discard(ended)
            ended.set()

    async def settle(self) -> None:
        """Return when nothing more happens unless time passes.

        Threads take real time, which hand-driven time knows nothing of: each is waited for, `THREAD_SECONDS` at most.
        One that takes longer is taken to wait for something itself, and is not waited for again.
        """
        await all_tasks_wait()
        while self._threads:
            ended = next(iter(self._threads))
            with anyio.move_on_after(THREAD_SECONDS):
                await ended.wait()
            self._threads.discard(ended)
            await all_tasks_wait()

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass: everything that falls due on the way happens in its order."""
        end = self.elapsed + seconds
        await self.settle()
        while self._alarms and self._alarms[0][0] <= end:
            at = self._alarms[0][0]
            self.elapsed = max(self.elapsed, at)
            while self._alarms and self._alarms[0][0] <= at:
                heapq.heappop(self._alarms)[2]()
            await self.settle()
        self.elapsed = end
        await self.settle()


class ScriptedQuarantine:
    """A quarantine that says what a test has it say; by default that every handler comes through."""

    def __init__(self, verdict: Callable[[Trial], Verdict] | None = None) -> None:
        self.verdict = verdict or (lambda trial: Survived())
        self.tried: list[Trial] = []

    async def try_message(self, trial: Trial) -> Verdict:
        """See `Quarantine.try_message`."""
        self.tried.append(trial)
        await checkpoint()
        return self.verdict(trial)


class TestKit:
    """Nodes on one memory store, by hand-driven time.

    `nodes` of them run from the start, `join` adds one, `leave` drains one; `crash` is a kill -9, `freeze` a SIGSTOP.
    Suspect messages (`callboard.actors.quarantine`) are handled as any other unless a `quarantine` is given.
    The store's hooks (`kit.store.down`, `restart`, `lost_answer`, …) have the other faults.
    """

    __test__ = False

    def __init__(
        self,
        tree: Supervisor | Child | Tree,
        *,
        nodes: int = 1,
        settings: NodeSettings | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        if isinstance(tree, Child):
            tree = Supervisor("test", (tree,))
        self.tree = tree if isinstance(tree, Tree) else Tree(tree)
        self.port = ManualPort()
        self.store = MemoryStore(self.port)
        self.client = Client(self.store, self.port)
        self.settings = settings or (CALM if nodes == 1 else None)
        self.quarantine = quarantine
        self.nodes: list[Node] = []
        self._first = nodes
        self._scopes: dict[Node, anyio.CancelScope] = {}
        self._awake: dict[Node, anyio.Event] = {}
        self._group: anyio.abc.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        self._group = await anyio.create_task_group().__aenter__()
        try:
            for _ in range(self._first):
                await self.join()
        except BaseException:
            await self.__aexit__(*sys.exc_info())
            raise
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        assert self._group is not None
        self._group.cancel_scope.cancel()
        for awake in self._awake.values():
            awake.set()  # a commit that hangs is shielded from cancellation
        result = await self._group.__aexit__(*error)
        await self.store.__aexit__(None, None, None)
        return result

    async def join(self, *, tree: Tree | None = None, serves: frozenset[int] | None = None) -> Node:
        """One node more; it hosts `tree` (a newer version, say), or the same one as the others."""
        assert self._group is not None
        node = Node(self.store, tree or self.tree, self.port, self.settings, serves=serves, quarantine=self.quarantine)
        self.nodes.append(node)
        self._group.start_soon(self._run, node)
        await self.settle()
        return node

    async def _run(self, node: Node) -> None:
        with anyio.CancelScope() as scope:
            self._scopes[node] = scope
            await node.run()

    def session(self, node: Node) -> MemorySession:
        """A node's session.

        Raises:
            LookupError: the node has not joined.
        """
        if node.life is None or not isinstance(node.life.session, MemorySession):
            raise LookupError("this node has not joined")
        return node.life.session

    async def crash(self, node: Node) -> None:
        """Kill a node's process: what it had in memory is gone, and nobody is told."""
        self.session(node).crash()
        self.nodes.remove(node)
        self._scopes.pop(node).cancel()
        await self.settle()

    def freeze(self, node: Node) -> None:
        """Stop a node's process without ending it: it beats no more, and each of its calls to the store hangs.

        Takes the store's `before` hook, as `thaw` does.
        """
        session = self.session(node)
        session.freeze()
        awake = self._awake[node] = anyio.Event()
        others = self.store.before

        async def before(number: int, operation: str) -> None:
            if number == session.number:
                await awake.wait()
            elif others is not None:
                await others(number, operation)

        self.store.before = before

    async def thaw(self, node: Node) -> None:
        """Let a frozen node go on, not knowing that time has passed."""
        self.session(node).thaw()
        self._awake.pop(node).set()
        await self.settle()

    async def leave(self, node: Node) -> None:
        """Drain a node, for as long as its drain limit at most."""
        node.stop()
        await self.settle()

    async def send(self, to: str, message: Message) -> None:
        """Send from outside and let it be handled."""
        await self.client.send(to, message)
        await self.settle()

    async def settle(self) -> None:
        """Return when nothing more happens unless time passes."""
        await self.port.settle()

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
