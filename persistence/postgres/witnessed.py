"""A store whose writes somebody watches, before and after each: for measurements that count commits, or die at one."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Literal, TypeAlias

from ...mailbox.envelope import Envelope
from ..operating import AuditEntry
from ..port import Port
from ..rows import Decision, Verdict
from ..store import NodeInfo
from ..unit import CommitResult, Unit
from .session import PostgresSession
from .store import PostgresStore

Written = Literal["turns", "sent", "decided"]
Around: TypeAlias = Callable[[Written, Sequence[Unit]], AbstractAsyncContextManager[None]]
"""Entered before a write and left after it landed; the units are those of turns, else none."""


def _unwatched(what: Written, units: Sequence[Unit]) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class WitnessedStore(PostgresStore):
    """A store on PostgreSQL; each commit of turns, messages from outside and decisions is made within `around`."""

    def __init__(self, dsn: str, around: Around = _unwatched) -> None:
        super().__init__(dsn)
        self._around = around

    def join(self, info: NodeInfo, port: Port) -> AbstractAsyncContextManager[PostgresSession]:
        """See `Store.join`."""
        return self._watched(super().join(info, port))

    @asynccontextmanager
    async def _watched(self, joining: AbstractAsyncContextManager[PostgresSession]) -> AsyncIterator[PostgresSession]:
        async with joining as session:
            inner = session.commit

            async def commit(units: Sequence[Unit]) -> CommitResult:
                async with self._around("turns", units):
                    return await inner(units)

            session.commit = commit  # type: ignore[method-assign]
            yield session

    async def send(
        self, envelopes: Sequence[Envelope], client_ids: Sequence[str] = (), audits: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """See `Store.send`."""
        async with self._around("sent", ()):
            return await super().send(envelopes, client_ids, audits)

    async def decide(self, verdict: Verdict, notice: Envelope) -> Decision:
        """See `Store.decide`."""
        async with self._around("decided", ()):
            return await super().decide(verdict, notice)
