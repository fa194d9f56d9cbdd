"""What a checkpointer keeps, as records in a journal: one record an operation, its values opaque bytes of the serde.

Records are applied in order to LangGraph's own in-memory saver, so that what is read is read by LangGraph's own rules;
a record that was applied before changes nothing. The channels of a checkpoint that did not change are not kept again.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from langgraph.checkpoint.memory import InMemorySaver

Typed = tuple[str, bytes]
Version = str | int | float
Place = tuple[str, str]
"""Namespace and id of a checkpoint."""


class CheckpointPut(msgspec.Struct, tag="put", array_like=True):
    """A checkpoint, with the values of the channels that changed."""

    thread: str
    ns: str
    id: str
    parent: str | None
    checkpoint: Typed
    metadata: Typed
    values: list[tuple[str, Version, str, bytes]]
    """Channel, version, type, value."""


class WritesPut(msgspec.Struct, tag="writes", array_like=True):
    """What a task has written before its superstep is over."""

    thread: str
    ns: str
    id: str
    task: str
    path: str
    writes: list[tuple[int, str, str, bytes]]
    """Index, channel, type, value; an index below 0 replaces what is there."""


class ThreadDeleted(msgspec.Struct, tag="deleted", array_like=True):
    """Everything of a thread is gone."""

    thread: str


class CheckpointsDropped(msgspec.Struct, tag="dropped", array_like=True):
    """These checkpoints of a thread are gone."""

    thread: str
    places: list[Place]


Record = CheckpointPut | WritesPut | ThreadDeleted | CheckpointsDropped

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)


BASE64 = "/"
"""Begins a record as text; one that begins with anything else is of before, in base 85, whose alphabet lacks it."""


def to_text(record: Record) -> str:
    """A record as text that a journal can hold."""
    # Not base 85: that is written in Python, and a checkpoint of 50 MB would hold the event loop for half a minute.
    return BASE64 + base64.b64encode(_encoder.encode(record)).decode()


def from_text(text: str) -> Record:
    """The record that was kept."""
    kept = base64.b64decode(text[1:]) if text.startswith(BASE64) else base64.b85decode(text)
    found: Record = _decoder.decode(kept)
    return found


class Mirror:
    """The checkpoints of some threads in memory: the fold of their records."""

    def __init__(self, memory: InMemorySaver) -> None:
        self.memory = memory

    def apply(self, texts: Iterable[str]) -> None:
        """Take in what was kept next."""
        for text in texts:
            match from_text(text):
                case CheckpointPut() as put:
                    self._put(put)
                case WritesPut() as put:
                    self._write(put)
                case ThreadDeleted(thread=thread):
                    self.memory.delete_thread(thread)
                case CheckpointsDropped() as dropped:
                    for ns, name in dropped.places:
                        self.memory.storage[dropped.thread][ns].pop(name, None)
                        self.memory.writes.pop((dropped.thread, ns, name), None)

    def _put(self, put: CheckpointPut) -> None:
        for channel, version, kind, value in put.values:
            self.memory.blobs[put.thread, put.ns, channel, version] = (kind, value)
        self.memory.storage[put.thread][put.ns][put.id] = (put.checkpoint, put.metadata, put.parent)

    def _write(self, put: WritesPut) -> None:
        known = self.memory.writes[put.thread, put.ns, put.id]
        for index, channel, kind, value in put.writes:
            if index < 0 or (put.task, index) not in known:
                known[put.task, index] = (put.task, channel, (kind, value), put.path)

    # --- what bigger operations come down to -------------------------------------------------------------------

    def places(self, thread: str) -> list[Place]:
        """All checkpoints of a thread, oldest first within a namespace."""
        spaces = self.memory.storage.get(thread, {})
        return [(ns, name) for ns in sorted(spaces) for name in sorted(spaces[ns])]

    def copied(self, source: str, target: str) -> list[Record]:
        """The records that make `target` what `source` is."""
        records: list[Record] = []
        for ns, name in self.places(source):
            checkpoint, metadata, parent = self.memory.storage[source][ns][name]
            versions: dict[str, Version] = self.memory.serde.loads_typed(checkpoint)["channel_versions"]
            values = [
                (channel, version, *self.memory.blobs[source, ns, channel, version])
                for channel, version in versions.items()
                if (source, ns, channel, version) in self.memory.blobs
            ]
            records.append(CheckpointPut(target, ns, name, parent, checkpoint, metadata, values))
            for (task, index), (_, channel, typed, path) in self.memory.writes.get((source, ns, name), {}).items():
                records.append(WritesPut(target, ns, name, task, path, [(index, channel, *typed)]))
        return records

    def of_runs(self, thread: str, runs: Sequence[str]) -> list[Place]:
        """The checkpoints of a thread that these runs of LangGraph's made."""
        wanted = set(runs)
        return [
            (ns, name) for ns, name in self.places(thread) if self._metadata(thread, ns, name).get("run_id") in wanted
        ]

    def _metadata(self, thread: str, ns: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.memory.serde.loads_typed(self.memory.storage[thread][ns][name][1])
        return found

    def superfluous(self, thread: str) -> list[Place]:
        """The checkpoints of a thread without which its latest ones can still be read."""
        needed: set[Place] = set()
        for ns, spaces in self.memory.storage.get(thread, {}).items():
            if spaces:
                latest = max(spaces)
                needed.add((ns, latest))
                needed.update((ns, name) for name in self._ancestors(thread, ns, latest))
        return [place for place in self.places(thread) if place not in needed]

    def _ancestors(self, thread: str, ns: str, name: str) -> list[str]:
        """Those whose writes are the value of a channel that the checkpoint itself has none of (a delta channel)."""
        spaces, blobs = self.memory.storage[thread][ns], self.memory.blobs
        versions: dict[str, Version] = self.memory.serde.loads_typed(spaces[name][0])["channel_versions"]
        open_channels = {
            channel
            for channel, version in versions.items()
            if blobs.get((thread, ns, channel, version), _NONE)[0] == "empty"
        }
        chain: list[str] = []
        needed = 0
        parent = spaces[name][2]
        while parent in spaces and open_channels:
            chain.append(parent)
            written = {channel for _, channel, _, _ in self.memory.writes.get((thread, ns, parent), {}).values()}
            if written & open_channels:
                needed = len(chain)
            older: dict[str, Version] = self.memory.serde.loads_typed(spaces[parent][0])["channel_versions"]
            seeds = {
                channel
                for channel in open_channels & older.keys()
                if blobs.get((thread, ns, channel, older[channel]), _NONE)[0] != "empty"
            }
            if seeds:
                needed = len(chain)
            open_channels -= seeds
            parent = spaces[parent][2]
        return chain[:needed]


_NONE: Typed = ("empty", b"")
