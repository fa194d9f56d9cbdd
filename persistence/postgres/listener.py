"""One session that hears of replies to outside askers, shared by all that wait in this process.

There is no task of its own: one of those who wait reads the notifications for all (it pumps), and when it is done
another one takes over. Lost news do no harm, as every waiter also looks by itself a few times a second (S11); so a
session that is cut is opened again with the next asker.
"""

import re
from contextlib import suppress

import anyio

from ...mailbox.errors import StoreUnavailable
from ..port import Port, Signal
from .connect import Link

_CLIENT = re.compile(r"/sys/client:([0-9]{1,4})-")


class Attention:
    """Somebody's wait for news about one mailbox."""

    __slots__ = ("news", "wake")

    def __init__(self) -> None:
        self.news = False
        self.wake = Signal()
        """Raised with `news`, and when somebody must read the notifications from now on."""


class Listener:
    """Waits for notifications about mailboxes of outside askers."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._link: Link | None = None
        self._opening = anyio.Lock()
        self._channels: set[str] = set()
        self._waiting: dict[str, list[Attention]] = {}
        self._pumping = False

    async def attend(self, address: str) -> Attention:
        """What `wait` waits with, for what arrives for `address` from now until `forget`."""
        if client := _CLIENT.match(address):
            with suppress(StoreUnavailable):
                await self._listen(f"callboard_client_{client[1]}")
        attention = Attention()
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
            if self._pumping or self._link is None:
                await port.wait(attention.wake, left)
            else:
                await self._pump(self._link, attention, deadline, port)
        attention.news = False

    async def _pump(self, link: Link, mine: Attention, deadline: float, port: Port) -> None:
        """Read the notifications, for all who wait, until there are news for `mine`."""
        self._pumping = True
        try:
            while not mine.news and (left := deadline - port.monotonic()) > 0:
                async for address in link.notifications(left):
                    for attention in self._waiting.get(address, ()):
                        attention.news = True
                        attention.wake.set()
        except StoreUnavailable:
            await self.close()
        finally:
            self._pumping = False
            for attentions in self._waiting.values():  # one of them reads from now on
                attentions[0].wake.set()
                break

    async def close(self) -> None:
        """End the session."""
        link, self._link = self._link, None
        self._channels.clear()
        if link is not None:
            await link.close()

    async def _listen(self, channel: str) -> None:
        async with self._opening:
            if self._link is None:
                self._link = await Link.open(self._dsn, "callboard client replies")
            if channel not in self._channels:
                await self._link.listen(channel)
                self._channels.add(channel)
