"""Where a checkpointer's records are: in the journal of a hosted run, or of an actor for each thread.

Within a run they are said under the attempt's number, so that a node which was superseded writes nothing. Elsewhere
each thread has an actor of its own, which does nothing but record.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import msgspec

from ....mailbox.address import child, key_of
from ....mailbox.errors import BadAddress, CallboardError, UsageError
from ....mailbox.message import Message, decode_tagged
from ....mailbox.request import Request
from ....persistence.port import Port, RealPort
from ....persistence.store import Store
from ...actor import Actor, on
from ...agent.events import OpaqueKept
from ...client import Client
from ...context import Context
from ...node import Node, NodeSettings
from ...spec import Child, Supervisor, Tree
from ..loop_attempt import MAX_PART_CHARS, Attempt
from ..loop_replay import Replay

ASK_SECONDS = 30.0
POOL = "thread"


class Shelf(Protocol):
    """Records by thread, in order."""

    port: Port

    async def keep(self, thread: str, text: str) -> None:
        """Put a record at the end; it is on disk when this returns."""
        ...

    def another(self) -> "Shelf":
        """The same records, given from the first."""
        ...

    async def news(self, thread: str) -> list[str]:
        """The records of a thread that this shelf has not given yet."""
        ...

    async def threads(self) -> list[str]:
        """All threads that have records."""
        ...


class RunShelf:
    """The journal of a hosted run; all its threads are in one."""

    def __init__(self, attempt: Attempt) -> None:
        self.port: Port = attempt.port
        self._attempt = attempt
        self._given = 0

    def another(self) -> "RunShelf":
        return RunShelf(self._attempt)

    async def keep(self, thread: str, text: str) -> None:
        await self._attempt.keep_opaque(text)

    async def news(self, thread: str) -> list[str]:
        texts = [text for _, text in self._attempt.replay.opaque[self._given :]]
        self._given += len(texts)
        return texts

    async def threads(self) -> list[str]:
        return []


class KeepRecord(Request["RecordKept"], tag="checkpoints.keep"):
    """Anybody to a thread: a part of a record."""

    record: str
    part: int
    parts: int
    text: str


class RecordKept(Message, tag="checkpoints.kept"):
    """A thread, to who asked."""


class ThreadState(msgspec.Struct):
    """All that a thread of a graph knows of itself: its journal has the rest."""

    records: int = 0


class GraphThread(Actor[ThreadState], kind="graph-thread"):
    """The checkpoints of one thread of a graph."""

    @on(creates=True)
    def keep(self, message: KeepRecord, ctx: Context) -> None:
        ctx.record(OpaqueKept(message.record, message.part, message.parts, message.text))
        self.state.records += message.part == message.parts
        ctx.reply(RecordKept())


class ThreadShelf:
    """The journals of the actors of a pool, one for each thread."""

    def __init__(self, client: Client, pool: str) -> None:
        self.port: Port = client.port
        self._client = client
        self._pool = pool
        self._read: dict[str, Replay] = {}
        self._reading = anyio.Lock()

    def another(self) -> "ThreadShelf":
        return ThreadShelf(self._client, self._pool)

    def _address(self, thread: str) -> str:
        parent, _, name = self._pool.rpartition("/")
        try:
            return child(parent, name, str(thread))
        except BadAddress as error:
            raise UsageError(
                f"thread_id {str(thread)!r:.80}: a thread is called by 1 to 200 bytes of UTF-8; give it a shorter name"
            ) from error

    async def keep(self, thread: str, text: str) -> None:
        record, address = self.port.token(), self._address(thread)
        parts = [text[at : at + MAX_PART_CHARS] for at in range(0, len(text), MAX_PART_CHARS)]
        for number, part in enumerate(parts, 1):
            answer: Message = await self._client.ask(
                address, KeepRecord(record, number, len(parts), part), seconds=ASK_SECONDS
            )
            if not isinstance(answer, RecordKept):
                raise CannotKeepRecord(f"thread {thread!r} did not take a record: {answer}; see its dead letters")

    async def news(self, thread: str) -> list[str]:
        async with self._reading:
            replay = self._read.setdefault(thread, Replay())
            while page := await self._client.store.journal(self._address(thread), after=replay.seq):
                replay.feed(decode_tagged(row.type, row.body) for row in page)
            texts = [text for _, text in replay.opaque]
            replay.opaque.clear()
            return texts

    async def threads(self) -> list[str]:
        found: list[str] = []
        after = ""
        while rows := await self._client.store.actors(prefix=f"{self._pool}:", limit=1_000, after=after):
            found += [key_of(row.address) or "" for row in rows]
            after = rows[-1].address
        return found


class CannotKeepRecord(CallboardError):
    """A checkpoint could not be put on record."""


def thread_children() -> tuple[Child, ...]:
    """Children of a supervisor under which threads of graphs have their actors; the pool is called `thread`."""
    return (Child(GraphThread, POOL, restart="temporary", pool=True),)


@asynccontextmanager
async def open_shelf(
    store: Store,
    name: str = "graphs",
    *,
    serve: bool = True,
    settings: NodeSettings | None = None,
    port: Port | None = None,
) -> AsyncIterator[ThreadShelf]:
    """A shelf for any graph of this process. `serve`: and be a node that looks after it; else another process must."""
    port = port or RealPort()
    tree = Tree(Supervisor(name, thread_children()))
    async with store, anyio.create_task_group() as group:
        node = Node(store, tree, port, settings or NodeSettings())
        if serve:
            group.start_soon(node.run)
            await node.ready.wait()
        try:
            yield ThreadShelf(Client(store, port), f"/{name}/{POOL}")
        finally:
            node.stop()
