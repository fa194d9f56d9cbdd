"""A store under test with what the tests need beside the protocol: to move its clock, and to hurt its nodes."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from callboard.persistence.memory import MemorySession, MemoryStore, invariants
from callboard.persistence.port import Port, RealPort
from callboard.persistence.store import NodeInfo, Session, Store

LEASE_SECONDS = 15.0
"""Longer than a test of who is not silent takes, on a machine that has much else to do."""


class MovedPort(RealPort):
    """The real machine, but its wall clock can be moved."""

    def __init__(self) -> None:
        self.moved_seconds = 0.0

    def wall(self) -> float:
        return super().wall() + self.moved_seconds


class World(Protocol):
    """One store and the ways to bend it."""

    @property
    def store(self) -> Store:
        """The store under test."""
        ...

    @property
    def port(self) -> Port:
        """What its nodes and askers wait with."""
        ...

    def join(
        self, boot: str = "boot-1", *, guest: bool = False, label: str = ""
    ) -> AbstractAsyncContextManager[Session]:
        """A node; its lease is LEASE_SECONDS."""
        ...

    async def pass_time(self, seconds: float) -> None:
        """Move the store's clock."""
        ...

    async def outlast_leases(self) -> None:
        """Move the store's clock so far that whoever does not beat is silent, to a store that dares to say so."""
        ...

    async def crash(self, session: Session) -> None:
        """Its process dies: the lock is free, nothing of it runs any more."""
        ...

    async def cut(self) -> None:
        """Every connection of every node breaks, as when the server restarts; all locks are free."""
        ...

    async def violations(self) -> list[str]:
        """What breaks an invariant, each with its number first."""
        ...

    async def charges(self) -> int:
        """How many failures are charged."""
        ...

    async def ended(self) -> dict[str, tuple[int, int]]:
        """Incarnation and version of each actor that has ended."""
        ...

    async def audit(self, decision: str) -> list[tuple[str, str, str, str, str, str]]:
        """Who did what to a decision: (who, label, action, before, after, note), oldest first; people only."""
        ...

    async def end_earlier(self, session: Session) -> None:
        """Pretend that a node that has ended did so an hour before."""
        ...


class MemoryWorld:
    """The memory store, by its own hooks."""

    def __init__(self) -> None:
        self.port = MovedPort()
        self.store = MemoryStore(self.port)

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[World]:
        """A new one."""
        yield cls()

    @asynccontextmanager
    async def join(self, boot: str = "boot-1", *, guest: bool = False, label: str = "") -> AsyncIterator[Session]:
        info = NodeInfo(boot, label=label, lease_seconds=LEASE_SECONDS, beat_seconds=0.02, guest=guest)
        async with self.store.join(info, self.port) as session:
            yield session

    async def pass_time(self, seconds: float) -> None:
        self.port.moved_seconds += seconds

    async def outlast_leases(self) -> None:
        await self.pass_time(LEASE_SECONDS + 1)

    async def crash(self, session: Session) -> None:
        assert isinstance(session, MemorySession)
        session.crash()

    async def cut(self) -> None:
        self.store.restart()

    async def violations(self) -> list[str]:
        return invariants.violations(self.store.tables, self.store.cluster, self.store.clock())

    async def charges(self) -> int:
        return invariants.charges(self.store.tables)

    async def ended(self) -> dict[str, tuple[int, int]]:
        return invariants.ended(self.store.tables)

    async def audit(self, decision: str) -> list[tuple[str, str, str, str, str, str]]:
        found = [row for row in self.store.tables.audit if row.object == decision]
        return [(row.who, row.label, row.action, row.before, row.after, row.note) for row in found]

    async def end_earlier(self, session: Session) -> None:
        self.store.cluster.nodes[session.number].ended_at -= 3600
