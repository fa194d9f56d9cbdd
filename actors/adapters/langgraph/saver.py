"""LangGraph's checkpointer on our store.

    async with open_shelf(PostgresStore(dsn)) as shelf:
        graph = builder.compile(checkpointer=CallboardSaver(shelf))

It keeps records (`records`) on a shelf (`shelf`) and reads from their fold. Everything is on disk when a `put` returns,
and what another process has put is read with the next look.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Collection, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from ....mailbox.errors import UsageError
from .records import (
    CheckpointPut,
    CheckpointsDropped,
    Mirror,
    Record,
    ThreadDeleted,
    WritesPut,
    to_text,
)
from .shelf import Shelf

T = TypeVar("T")


class CallboardSaver(BaseCheckpointSaver[str]):
    """A checkpointer; made within the event loop that its store was opened in."""

    def __init__(self, shelf: Shelf, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self.shelf = shelf.another()
        self.mirror = Mirror(InMemorySaver(serde=self.serde))
        self._loop = asyncio.get_running_loop()

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> BaseCheckpointSaver[str]:
        clone = super().with_allowlist(extra_allowlist)
        if isinstance(clone, CallboardSaver) and clone is not self:
            memory = copy.copy(self.mirror.memory)  # the same checkpoints, read by another serde
            memory.serde = clone.serde
            clone.mirror = Mirror(memory)
        return clone

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A number, and chance behind it: two branches of a thread must not have one version for two values."""
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        return f"{number + 1:032}.{self.shelf.port.token()[:16]}"

    # --- async -------------------------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        await self._refresh(config["configurable"]["thread_id"])
        return self.mirror.memory.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for thread in await self.shelf.threads() if config is None else [config["configurable"]["thread_id"]]:
            await self._refresh(thread)
        for found in list(self.mirror.memory.list(config, filter=filter, before=before, limit=limit)):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        place = config["configurable"]
        thread, ns = place["thread_id"], place.get("checkpoint_ns", "")
        rest: dict[str, Any] = {**checkpoint}
        values: dict[str, Any] = rest.pop("channel_values")
        put = CheckpointPut(
            thread,
            ns,
            checkpoint["id"],
            place.get("checkpoint_id"),
            self.serde.dumps_typed(rest),
            self.serde.dumps_typed(get_checkpoint_metadata(config, metadata)),
            [(name, version, *self._typed(values, name)) for name, version in new_versions.items()],
        )
        await self._keep(put)
        return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint["id"]}}

    def _typed(self, values: dict[str, Any], name: str) -> tuple[str, bytes]:
        return self.serde.dumps_typed(values[name]) if name in values else ("empty", b"")

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        place = config["configurable"]
        kept = [
            (WRITES_IDX_MAP.get(channel, index), channel, *self.serde.dumps_typed(value))
            for index, (channel, value) in enumerate(writes)
        ]
        thread, ns = place["thread_id"], place.get("checkpoint_ns", "")
        await self._keep(WritesPut(thread, ns, place["checkpoint_id"], task_id, task_path, kept))

    async def adelete_thread(self, thread_id: str) -> None:
        """As far as anybody can read: records stay in the journal until that is pruned."""
        await self._refresh(thread_id)
        if self.mirror.places(thread_id):
            await self._keep(ThreadDeleted(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        for thread in await self.shelf.threads() or list(self.mirror.memory.storage):
            await self._refresh(thread)
            if places := self.mirror.of_runs(thread, run_ids):
                await self._keep(CheckpointsDropped(thread, places))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._refresh(source_thread_id)
        for record in self.mirror.copied(source_thread_id, target_thread_id):
            await self._keep(record)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread in thread_ids:
            if strategy != "keep_latest":
                await self.adelete_thread(thread)
                continue
            await self._refresh(thread)
            if places := self.mirror.superfluous(thread):
                await self._keep(CheckpointsDropped(thread, places))

    async def _keep(self, record: Record) -> None:
        await self.shelf.keep(record.thread, to_text(record))
        await self._refresh(record.thread)

    async def _refresh(self, thread: str) -> None:
        self.mirror.apply(await self.shelf.news(thread))

    # --- from threads ------------------------------------------------------------------------------------------

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in the loop of the store, and wait for it here, in another thread."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            work.close()
            raise UsageError("a graph within an event loop is awaited: use ainvoke and astream, not invoke and stream")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._wait(self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        async def all_of_them() -> Sequence[CheckpointTuple]:
            return [found async for found in self.alist(config, filter=filter, before=before, limit=limit)]

        yield from self._wait(all_of_them())

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._wait(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._wait(self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        self._wait(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._wait(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._wait(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._wait(self.aprune(thread_ids, strategy=strategy))
