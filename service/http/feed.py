"""Live events for many readers from one look at the database: the hub.

One task reads the feed of all journals (S17) as long as anybody listens, and keeps the latest RING events. A reader has
a place and nothing else: no queue of its own, so a slow one costs nothing, however slow. While its place is in the ring
it takes what follows from there; else (it came back with an old cursor, or fell behind) it reads the feed itself, a few
readers at a time, until it has caught up. Neither way leaves an event out or gives one twice.
"""

import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import NamedTuple

import anyio
import anyio.abc

from ...mailbox.errors import CallboardError, NotFound
from ...persistence.port import Port, RealPort
from ...persistence.rows import EventRow
from ...persistence.store import Store

log = logging.getLogger(__name__)

RING = 4_000
RING_BYTES = 32 << 20
"""Of the bodies of what is kept, as some results of tools are large."""
PAGE = 200
PAGE_BYTES = 256 << 10
"""Of the bodies of what one reader is given at a time (or one event, if that is larger): a reader that does not take it
keeps it, and there are as many as there are streams."""
CATCHING_UP = 2
"""How many readers read the feed themselves at a time."""
LOOK_SECONDS = 0.5
IDLE_SECONDS = 1.0
FAILED_SECONDS = 3.0
"""How long between two looks: while there is news, while there is none, and while the database does not answer."""


class Told(NamedTuple):
    """An event, and the cursor after it."""

    cursor: str
    event: EventRow


def fitting(told: list[Told]) -> list[Told]:
    """The first of these that have no more than PAGE_BYTES together; one at least."""
    size = 0
    for place, one in enumerate(told):
        size += len(one.event.body)
        if size > PAGE_BYTES and place:
            return told[:place]
    return told


class Hub:
    """What is new in a store, for any number of readers."""

    def __init__(self, store: Store, port: Port | None = None, *, ring: int = RING) -> None:
        self.store = store
        self.port: Port = port or RealPort()
        self.closed = False
        self._ring: deque[Told] = deque()
        self._size, self._bytes = ring, 0
        self._base = 0
        """The number of the ring's first event; one that fell out has a lower one."""
        self._places: dict[str, int] = {}
        """Cursor to the number of the event that comes after it."""
        self._news = anyio.Event()
        self._wanted = anyio.Event()
        self._cursor: str | None = None
        """Up to where the ring has everything; None: nothing is read yet."""
        self._looking = anyio.Lock()
        self._readers = 0
        self._catching_up = anyio.Semaphore(CATCHING_UP)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look for news while the block lasts."""
        async with anyio.create_task_group() as group:
            self.port.spawn(group, self._look, name="http feed")
            try:
                yield
            finally:
                self.close()
                group.cancel_scope.cancel()

    def close(self) -> None:
        """Let every reader come to its end. Harmless when done again, and from a signal's handler."""
        self.closed = True
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def wait(self, seconds: float) -> None:
        """Until there is news, at most so long."""
        with anyio.move_on_after(seconds):
            await self._news.wait()

    @asynccontextmanager
    async def reader(self, after: str | None) -> AsyncIterator["Reader"]:
        """One who reads from a cursor on; "" is the beginning of what is kept, None is now."""
        self._readers += 1
        self._wanted.set()
        try:
            yield Reader(self, after)
        finally:
            self._readers -= 1
            if not self._readers:
                self._wanted = anyio.Event()

    @property
    def readers(self) -> int:
        """How many read."""
        return self._readers

    # --- the one who looks -------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            if not self._readers:
                # The next reader begins where it says; what happens meanwhile is nobody's news.
                self._forget()
                await self._wanted.wait()
            pause = IDLE_SECONDS
            try:
                async with self._looking:
                    if await self._advance():
                        pause = LOOK_SECONDS
            except NotFound:
                self._forget()  # everybody reads on by themselves, and those who cannot are told
            except CallboardError as error:
                log.warning("no news of the feed: %s", error)
                pause = FAILED_SECONDS
            await self.port.sleep(pause)

    async def _advance(self) -> bool:
        """Add what is new, all of it; whether there was any."""
        before = self.end
        while True:
            page = await self.store.feed(self._cursor, limit=PAGE)
            self._cursor = page.cursor
            self._add([Told(*one) for one in zip(page.cursors, page.events, strict=True)])
            if len(page.events) < PAGE:
                return self.end > before

    def _add(self, told: list[Told]) -> None:
        for one in told:
            self._ring.append(one)
            self._places[one.cursor] = self.end
            self._bytes += len(one.event.body)
            while len(self._ring) > self._size or self._bytes > RING_BYTES:
                oldest = self._ring.popleft()
                del self._places[oldest.cursor]
                self._bytes -= len(oldest.event.body)
                self._base += 1
        if told:
            self._tell()

    def _forget(self) -> None:
        # One more than there were: who stood at the end is behind now, and looks for itself.
        self._base, self._cursor = self.end + 1, None
        self._ring.clear()
        self._places.clear()
        self._bytes = 0
        self._tell()

    # --- what readers ask --------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The number of the event that will be added next."""
        return self._base + len(self._ring)

    @property
    def begun(self) -> bool:
        """Whether everything that the feed gets from now on is added."""
        return self._cursor is not None

    def place_of(self, cursor: str) -> int | None:
        """The number of the event after this cursor, where that is in the ring."""
        return self._places.get(cursor)

    def since(self, number: int, limit: int) -> list[Told] | None:
        """The events from this number on; None: it is not in the ring any more."""
        if number < self._base:
            return None
        start = number - self._base
        return fitting(list(islice(self._ring, start, start + limit)))

    async def read(self, cursor: str) -> list[Told]:
        """A page of the feed itself."""
        async with self._catching_up:
            page = await self.store.feed(cursor, limit=PAGE)
        return fitting([Told(*one) for one in zip(page.cursors, page.events, strict=True)])

    async def join(self, cursor: str | None) -> tuple[int, str] | None:
        """Where one who has read everything up to this cursor goes on in the ring, and the cursor there; None: there is
        more to read first.

        The ring is brought up to now before the look after the cursor: a reader may have read further than the ring
        had been, and would be given again what is added to it later.
        """
        async with self._looking:
            await self._advance()
            end = self.end
            page = await self.store.feed(cursor, limit=1)
        return None if page.events else (end, page.cursor)


class Reader:
    """One who reads the feed: a place in it."""

    def __init__(self, hub: Hub, after: str | None) -> None:
        self._hub = hub
        self.cursor = after
        """After the event that was given last; None: now, as long as that is not known."""
        self._number: int | None = None
        """Of the next event, once caught up with the ring."""

    async def next(self) -> list[Told]:
        """What comes next; nothing where there is nothing yet.

        Raises:
            UsageError: that is no cursor. NotFound: what came after it is not kept any more.
        """
        if self._number is not None:
            found = self._hub.since(self._number, PAGE)
            if found is not None:
                self._number += len(found)
                return self._given(found)
            self._number = None
        if self.cursor is not None:
            number = self._hub.place_of(self.cursor)
            if number is not None:
                self._number = number
                return await self.next()
            found = await self._hub.read(self.cursor)
            if found:
                return self._given(found)
        joined = await self._hub.join(self.cursor)
        if joined is not None:
            self._number, self.cursor = joined
        return []

    def restart(self) -> None:
        """Go on from now, as what came after the cursor is lost."""
        self.cursor = self._number = None

    def _given(self, found: list[Told]) -> list[Told]:
        if found:
            self.cursor = found[-1].cursor
        return found
