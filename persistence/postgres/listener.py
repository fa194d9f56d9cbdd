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


class Listener:
    """Waits for notifications about mailboxes of outside askers."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._link: Link | None = None
        self._opening = anyio.Lock()
        self._channels: set[str] = set()
        self._waiting: dict[str, list[Signal]] = {}
        self._pumping = False

    async def attend(self, address: str) -> Signal:
        """A signal that is raised when something arrives for `address`, until `forget`."""
        if client := _CLIENT.match(address):
            with suppress(StoreUnavailable):
                await self._listen(f"callboard_client_{client[1]}")
        signal = Signal()
        self._waiting.setdefault(address, []).append(signal)
        return signal

    def forget(self, address: str, signal: Signal) -> None:
        """The end of waiting."""
        self._waiting[address].remove(signal)
        if not self._waiting[address]:
            del self._waiting[address]

    async def wait(self, signal: Signal, seconds: float, port: Port) -> None:
        """Return when the signal is raised, after `seconds`, or now and then for nothing."""
        if self._pumping or self._link is None:
            await port.wait(signal, seconds)
            return
        self._pumping = True
        try:
            async for address in self._link.notifications(seconds):
                for waiting in self._waiting.get(address, ()):
                    waiting.set()
        except StoreUnavailable:
            await self.close()
        finally:
            self._pumping = False
            for signals in self._waiting.values():  # one of them pumps from now on
                signals[0].set()
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
