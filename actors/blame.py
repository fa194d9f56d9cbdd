"""Which handlers run right now, in a file that outlives this process and is read by the one that watches it.

A process that ends takes its memory along, and with it the answer to the one question that matters then: which handlers
had begun? Only they can have ended it. So their messages stand in a small mapped file: slot 0 has the synchronous turn
in hand, the others have handlers that wait and calls of workers. Writing one costs well under a microsecond and no
system call. The parent (`service.daemon`) makes the file, hands its descriptor down, reads it when the process has
ended unasked, and tells the next owner of each message (`tell_lost`); what that costs a message is decided in
`quarantine`.

Invariants: a slot is written before its handler begins and cleared when it has ended. The byte that says that it is in
use is written last and cleared first: what a process was writing in the moment it ended counts as nothing. A file
belongs to one process: the reader names its pid, so that nothing of an earlier one is believed.
"""

import mmap
import os
import tempfile
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple, Protocol

from ..mailbox.envelope import Envelope
from ..mailbox.errors import UsageError
from ..mailbox.lane import Lane
from .client import Client
from .system import HandlerLost

SLOTS = 256
"""Handlers that a file has room for. What begins while it is full is not charged with anything."""
SLOT_BYTES = 1_024
_MAGIC = b"callblm1"
_HEAD = Struct("<8sQQ")
_TICKS = Struct("<Q")
_TICKS_AT = 16
MAX_ADDRESS_BYTES = SLOT_BYTES - 13
"""A handler of a longer address is not written down; four keys of the greatest length fit."""
_SLOT = Struct(f"<QHH{MAX_ADDRESS_BYTES}sB")
"""Id, shard, length, address, and whether it is in use."""
_IN_USE_AT = SLOT_BYTES - 1
_FIRST_AT = 64
SIZE = _FIRST_AT + SLOTS * SLOT_BYTES


class Running(NamedTuple):
    """A handler that had begun: whose message it was, and the mailbox which that lies in."""

    message: int
    shard: int
    address: str


class Report(NamedTuple):
    """What a file says of a process."""

    ticks: int
    """How often its loop has turned past; when this stands still, so does the loop."""
    running: list[Running]


class Blame(Protocol):
    """Where a node writes down what runs."""

    def enter(self, envelope: Envelope) -> None:
        """A turn begins, in this very moment. One at a time."""
        ...

    def leave(self) -> None:
        """That turn has ended, or waits."""
        ...

    def hold(self, envelope: Envelope) -> int:
        """A handler begins, or goes on, that others may run beside; its slot, for `release`."""
        ...

    def release(self, slot: int) -> None:
        """That handler has ended."""
        ...

    def clear(self) -> None:
        """Nothing runs: this node begins anew, and what it had begun under another number was cancelled."""
        ...

    def tick(self) -> None:
        """The loop turns."""
        ...


class Unwatched:
    """Nobody watches this process: nothing is written down."""

    def enter(self, envelope: Envelope) -> None: ...

    def leave(self) -> None: ...

    def hold(self, envelope: Envelope) -> int:
        return -1

    def release(self, slot: int) -> None: ...

    def clear(self) -> None: ...

    def tick(self) -> None: ...


UNWATCHED = Unwatched()


class BlameFile:
    """The file, as its process writes it."""

    def __init__(self, memory: mmap.mmap | bytearray, pid: int) -> None:
        self._memory = memory
        self._ticks = 0
        self._free: list[int] = []
        self.clear()
        _HEAD.pack_into(memory, 0, _MAGIC, pid, 0)

    @classmethod
    def inherited(cls, descriptor: int) -> "BlameFile":
        """The file behind a descriptor that the parent handed down.

        Raises:
            UsageError: it is none of `create`'s.
        """
        try:
            os.set_inheritable(descriptor, False)  # what this process starts has nothing to write here
            return cls(mmap.mmap(descriptor, SIZE), os.getpid())
        except (OSError, ValueError) as error:
            raise UsageError(f"descriptor {descriptor} is no file for running handlers ({error})") from error

    def enter(self, envelope: Envelope) -> None:
        self._write(_FIRST_AT, envelope)

    def leave(self) -> None:
        self._memory[_FIRST_AT + _IN_USE_AT] = 0

    def hold(self, envelope: Envelope) -> int:
        if not self._free:
            return -1
        slot = self._free.pop()
        self._write(_FIRST_AT + slot * SLOT_BYTES, envelope)
        return slot

    def release(self, slot: int) -> None:
        if slot < 0:
            return
        self._memory[_FIRST_AT + slot * SLOT_BYTES + _IN_USE_AT] = 0
        # The one that was used last goes first: few pages of the file are ever touched.
        self._free.append(slot)

    def clear(self) -> None:
        self._memory[_FIRST_AT:] = bytes(SIZE - _FIRST_AT)
        self._free = list(range(SLOTS - 1, 0, -1))

    def tick(self) -> None:
        self._ticks += 1
        _TICKS.pack_into(self._memory, _TICKS_AT, self._ticks)

    def _write(self, at: int, envelope: Envelope) -> None:
        address = envelope.recipient.encode()
        if len(address) <= MAX_ADDRESS_BYTES:
            # One call, not one for each field: it is on the way of every turn.
            _SLOT.pack_into(self._memory, at, envelope.id, envelope.shard, len(address), address, 1)


def create() -> int:
    """A new file, as a descriptor to hand down to the process that shall write it; it goes when both are closed."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("callboard-blame")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, SIZE)
    return descriptor


def look(descriptor: int, pid: int) -> Report | None:
    """What the process `pid` has written; None where it has written nothing (yet)."""
    return read(os.pread(descriptor, SIZE, 0), pid)


def read(content: bytes, pid: int) -> Report | None:
    """What a file with this content says of the process `pid`; None where it is another one's, or none."""
    if len(content) != SIZE:
        return None
    magic, owner, ticks = _HEAD.unpack_from(content)
    if magic != _MAGIC or owner != pid:
        return None
    found: dict[int, Running] = {}
    for at in range(_FIRST_AT, SIZE, SLOT_BYTES):
        running = _read_slot(content, at)
        if running is not None:
            found[running.message] = running
    return Report(ticks, list(found.values()))


def _read_slot(content: bytes, at: int) -> Running | None:
    identifier, shard, length, address, in_use = _SLOT.unpack_from(content, at)
    if in_use != 1 or length > MAX_ADDRESS_BYTES:
        return None
    return Running(identifier, shard, address[:length].decode(errors="replace"))


async def tell_lost(client: Client, running: Sequence[Running], how: str, process: str) -> None:
    """Put into each message's mailbox that the process which ran its handler has ended.

    `process`: a token of that process, so that saying it twice charges once.

    Raises:
        StoreUnavailable: try again.
    """
    notices = []
    for lost in running:
        notice = await client.envelope(lost.address, HandlerLost(lost.message, how), lane=Lane.SYSTEM)
        # Where the lost one lies: a worker's call is in its caller's shard.
        notice.shard = lost.shard
        notices.append(notice)
    if notices:
        await client.store.send(notices, [f"lost:{process}:{lost.message}" for lost in running])
