"""A network that can be made bad: what stands between one node and PostgreSQL, in the process of the bench.

    cut       every connection is reset, on both sides
    stall     connections are half open: what is sent is kept, nobody is told, and new connections work; afterwards they
              go on where they were (what was kept arrives late, as from a zombie), or are reset
    slow      everything arrives after a while, in order

A node is given the proxy's address instead of the server's. Bytes are kept in memory while a connection is stalled,
which the stall's own length bounds.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

CALM_BYTES = 1 << 20
"""So much may wait to be sent to one side before the other is not read any more."""


class _Side(asyncio.Protocol):
    """One end of a connection through the proxy; what it receives is sent by its `peer`."""

    def __init__(self, link: "_Link") -> None:
        self.link = link
        self.peer: _Side | None = None
        self.transport: asyncio.Transport | None = None
        self.kept: deque[tuple[float, bytes]] = deque()
        """What this end is to be sent, with the time before which it is not."""
        self.lost = False
        self.due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=CALM_BYTES)
        self.flush()

    def data_received(self, data: bytes) -> None:
        assert self.peer is not None
        self.peer.kept.append((self.link.loop.time() + self.link.proxy.delay_seconds, data))
        self.peer.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if self.peer is not None and not self.link.stalled:
            self.link.close_after_flush(self.peer)
        self.link.forget_if_over()

    def pause_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None and not self.peer.transport.is_closing():
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None and not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()

    def flush(self) -> None:
        """Send what may be sent by now."""
        if self.due is not None:
            self.due.cancel()
            self.due = None
        if self.link.stalled or self.transport is None:
            return
        now = self.link.loop.time()
        while self.kept and self.kept[0][0] <= now:
            _, data = self.kept.popleft()
            if not self.transport.is_closing():
                self.transport.write(data)
        if self.kept:
            self.due = self.link.loop.call_at(self.kept[0][0], self.flush)
        elif self.peer is not None and self.peer.lost:
            self.transport.close()


@dataclass(eq=False)
class _Link:
    """One connection: the node's end and the server's."""

    proxy: "Proxy"
    loop: asyncio.AbstractEventLoop
    stalled: bool = False
    ends: list[_Side] = field(default_factory=list)

    def close_after_flush(self, side: _Side) -> None:
        """What was sent before its peer went arrives before the end does."""
        side.flush()

    def resume(self) -> None:
        """Go on where it was; an end that was lost meanwhile is told now."""
        self.stalled = False
        for side in self.ends:
            side.flush()
        self.forget_if_over()

    def reset(self) -> None:
        """Both ends at once, without a word."""
        self.stalled = False
        for side in self.ends:
            side.kept.clear()
            if side.transport is not None:
                side.transport.abort()

    def forget_if_over(self) -> None:
        if all(side.lost or side.transport is None for side in self.ends):
            self.proxy.links.discard(self)


class Proxy:
    """Forwards the connections of one node to a PostgreSQL that listens at a Unix socket."""

    def __init__(self, socket_path: str) -> None:
        self.socket_path = socket_path
        self.links: set[_Link] = set()
        self.delay_seconds = 0.0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def open(cls, socket_path: str) -> AsyncIterator["Proxy"]:
        """One that listens, for as long as the block."""
        proxy = cls(socket_path)
        proxy._server = await asyncio.get_running_loop().create_server(proxy._accept, "127.0.0.1", 0)
        try:
            yield proxy
        finally:
            proxy._server.close()
            proxy.cut()
            for task in proxy._tasks:
                task.cancel()

    @property
    def port(self) -> int:
        """Where it listens, on the loopback."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def dsn(self, user: str, database: str) -> str:
        """How a node connects to `database` through this proxy."""
        return f"postgresql://{quote(user)}@127.0.0.1:{self.port}/{quote(database)}?sslmode=disable&gssencmode=disable"

    def _accept(self) -> _Side:
        link = _Link(self, asyncio.get_running_loop())
        near, far = _Side(link), _Side(link)
        near.peer, far.peer = far, near
        link.ends = [near, far]
        self.links.add(link)
        task = link.loop.create_task(self._reach(link, far))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return near

    async def _reach(self, link: _Link, far: _Side) -> None:
        try:
            await link.loop.create_unix_connection(lambda: far, self.socket_path)
        except OSError:  # no server: whoever connected sees it go
            far.lost = True
            link.reset()
            self.links.discard(link)

    # --- what is done to it --------------------------------------------------------------------------------------

    def cut(self) -> int:
        """Reset every connection; how many."""
        links = list(self.links)
        for link in links:
            link.reset()
        return len(links)

    def stall(self) -> "Stall":
        """Make the connections of this moment half open, until the stall is over."""
        links = [link for link in self.links if not link.stalled]
        for link in links:
            link.stalled = True
        return Stall(links)


@dataclass(frozen=True)
class Stall:
    """Connections that are half open."""

    links: list[_Link]

    def over(self, *, resume: bool) -> None:
        """They go on, or are reset."""
        for link in self.links:
            if resume:
                link.resume()
            else:
                link.reset()
