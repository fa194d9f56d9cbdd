"""One session that hears of replies to outside askers, shared by all that wait in this process.

A reply of a node of this process is told of here, without the server. Lost news do no harm, as every waiter also looks
by itself a few times a second (S11); so a session that is cut is opened again with the next asker.
"""

import re
from contextlib import suppress

import anyio

from ...mailbox.errors import StoreUnavailable
from ..port import Port, Signal
from .connect import Link
from .inbox import Inbox

_CLIENT = re.compile(r"/sys/client:([0-9]{1,4})-")
EARLY = 1_000
"""Mailboxes with news that nobody waits for yet which are remembered, the latest: an asker waits after it has sent."""


class Attention:
    """Somebody's wait for news about one mailbox."""

    __slots__ = ("news", "wake")

    def __init__(self) -> None:
        self.news = False
        self.wake = Signal()


class Listener:
    """Waits for notifications about mailboxes of outside askers."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._link: Link | None = None
        self._inbox: Inbox | None = None
        self._opening = anyio.Lock()
        self._channels: set[str] = set()
        self._waiting: dict[str, list[Attention]] = {}
        self._early: dict[str, None] = {}
        self._here: dict[int, float] = {}
        """Numbers of clients that live in this process, and until when: what is told to these is told here alone."""

    async def attend(self, address: str) -> Attention:
        """What `wait` waits with, for what arrives for `address` from now until `forget`.

        There is news at once where some came before, or may have come.
        """
        attention = Attention()
        if client := _CLIENT.match(address):
            channel = f"callboard_client_{client[1]}"
            if channel not in self._channels:
                attention.news = True
                with suppress(StoreUnavailable):
                    await self._listen(channel)
        if address in self._early:
            del self._early[address]
            attention.news = True
        self._waiting.setdefault(address, []).append(attention)
        return attention

    def forget(self, address: str, attention: Attention) -> None:
        """The end of waiting."""
        self._waiting[address].remove(attention)
        if not self._waiting[address]:
            del self._waiting[address]

    async def wait(self, attention: Attention, seconds: float, port: Port) -> None:
        """Return when there is news, or after `seconds`; where no news can be had, they are waited for in vain."""
        deadline = port.monotonic() + seconds
        while not attention.news and (left := deadline - port.monotonic()) > 0:
            await port.wait(attention.wake, left)
        attention.news = False

    def tell(self, address: str) -> None:
        """There is news about a mailbox."""
        for attention in self._waiting.get(address, ()):
            attention.news = True
            attention.wake.set()
        if address not in self._waiting:
            self._early[address] = None
            if len(self._early) > EARLY:
                del self._early[next(iter(self._early))]

    def lives_here(self, number: int, seconds: float) -> None:
        """For so long a client of this number lives in this process and nowhere else."""
        self._here[number] = anyio.current_time() + seconds

    def takes(self, address: str) -> bool:
        """Tell of a mailbox of a client that lives in this process; False where it lives elsewhere, or nobody knows."""
        client = _CLIENT.match(address)
        if client is None or self._here.get(int(client[1]), 0.0) < anyio.current_time():
            return False
        self.tell(address)
        return True

    def _lost(self) -> None:
        self._channels.clear()

    async def close(self) -> None:
        """End the session."""
        link, self._link = self._link, None
        inbox, self._inbox = self._inbox, None
        self._channels.clear()
        if inbox is not None:
            inbox.close()
        if link is not None:
            await link.close()

    async def _listen(self, channel: str) -> None:
        async with self._opening:
            if channel in self._channels:
                return
            if self._link is not None and self._link.closed:
                await self.close()
            if self._link is None:
                self._link = await Link.open(self._dsn, "callboard client replies")
                self._inbox = self._link.hear(self.tell, self._lost)
            await self._link.listen(channel)
            self._channels.add(channel)
