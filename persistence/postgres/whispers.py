"""Whispers between processes: NOTIFY on a channel of each topic's own, on sessions that do nothing else.

Never on a session that commits, as a notification makes its transaction wait for others that notify. One session
speaks for all topics of this process, each listener has its own; both are opened when first needed. What cannot be said
at once is not said: a session that fails is closed, and for a while nobody tries again. (See `persistence.whispers`.)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256

import anyio
import psycopg

from ...mailbox.errors import StoreUnavailable
from ..port import Port
from ..whispers import parts_of
from .connect import Link, Row, connect
from .errors import translated

SPEAK_SECONDS = 1.0
"""How long saying something may take before the session is given up."""
SILENT_SECONDS = 5.0
"""After a failure, so long nothing is said."""


class PostgresWhispers:
    """Speaks and listens for one process."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._mouth: psycopg.AsyncConnection[Row] | None = None
        self._speaking = anyio.Lock()
        self._silent_until = 0.0

    async def whisper(self, topic: str, text: str) -> None:
        """See `Store.whisper`."""
        if anyio.current_time() < self._silent_until:
            return
        try:
            with anyio.fail_after(SPEAK_SECONDS):
                async with self._speaking:
                    await self._say(channel_of(topic), text)
        except (StoreUnavailable, TimeoutError):
            await self.close()
            self._silent_until = anyio.current_time() + SILENT_SECONDS
        except BaseException:
            # Cancelled in mid-sentence: what the session would say next nobody knows.
            await self.close()
            raise

    async def _say(self, channel: str, text: str) -> None:
        if self._mouth is None:
            self._mouth = await connect(self._dsn, "callboard whispers")
        with translated():
            for part in parts_of(text):
                await self._mouth.execute("select pg_notify(%s, %s)", (channel, part.replace("\x00", "")))

    @asynccontextmanager
    async def overhear(self, topic: str) -> AsyncIterator["PostgresEar"]:
        """See `Store.overhear`."""
        ear = PostgresEar(self._dsn, channel_of(topic))
        await ear.open()
        try:
            yield ear
        finally:
            await ear.close()

    async def close(self) -> None:
        """Say no more for now."""
        mouth, self._mouth = self._mouth, None
        if mouth is not None:
            with anyio.CancelScope(shield=True), suppress(psycopg.Error, OSError):
                await mouth.close()


class PostgresEar:
    """One listener's session."""

    def __init__(self, dsn: str, channel: str) -> None:
        self._dsn = dsn
        self._channel = channel
        self._link: Link | None = None
        self._heard: list[str] = []

    async def open(self) -> None:
        """Listen from now on; what is said before is not heard."""
        link = await Link.open(self._dsn, "callboard watcher")
        try:
            await link.listen(self._channel)
        except BaseException:
            await link.close()
            raise
        self._link = link

    async def next(self, seconds: float, port: Port) -> str | None:
        """The next whisper; None when there is none within `seconds`, which on PostgreSQL are the machine's."""
        if not self._heard:
            try:
                if self._link is None:
                    await self.open()
                assert self._link is not None
                self._heard = [payload async for payload in self._link.notifications(seconds)]
            except StoreUnavailable:
                await self.close()
                await port.sleep(seconds)
        return self._heard.pop(0) if self._heard else None

    async def close(self) -> None:
        """Listen no more."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()


def channel_of(topic: str) -> str:
    """The channel of a topic: names of channels are short."""
    return f"callboard_whisper_{sha256(topic.encode('utf-8', 'replace')).hexdigest()[:32]}"
