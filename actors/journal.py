"""The tail of journals that a node keeps in memory, so that a step of a long run costs the same as of a short one.

A model call needs its run's transcript, which is the journal. Whoever reads a journal here asks for what is beyond the
last event it knows; events that this node commits meanwhile are kept for it. A bounded cache: what is not here is read
from the store, and the store is the truth.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from ..persistence.rows import EventRow

KEEP_ADDRESSES = 4_096
KEEP_EVENTS = 512
"""Events kept for one address before it is left to the store."""

Read = Callable[..., Awaitable[list[EventRow]]]


class JournalTail:
    """Recent events by address."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._tails: OrderedDict[str, tuple[int, list[EventRow]]] = OrderedDict()
        self._reading: dict[str, int] = {}
        """How often each journal is being read from the store just now."""
        self._moved: set[str] = set()
        """Those of them that have grown or left meanwhile: what was read may be older than what is known."""

    def committed(self, events: list[EventRow]) -> None:
        """Events of one actor that are on disk now, in order."""
        address = events[0].address
        if address in self._reading:
            self._moved.add(address)
        known = self._tails.get(address)
        if known is None:
            if events[0].seq != 1:
                return
            known = (0, [])
            self._tails[address] = known
            if len(self._tails) > KEEP_ADDRESSES:
                self._tails.popitem(last=False)
        since, tail = known
        if since + len(tail) + 1 != events[0].seq or len(tail) > KEEP_EVENTS:
            del self._tails[address]
            return
        tail.extend(events)

    async def read(self, address: str, *, after: int = 0) -> list[EventRow]:
        """The events of `address` beyond `after`, all of them."""
        known = self._tails.get(address)
        if known is not None and known[0] <= after <= known[0] + len(known[1]):
            since, tail = known
            news = tail[after - since :]
            self._tails[address] = (after, news)
            self._tails.move_to_end(address)
            return list(news)
        events, current = await self._read_all(address, after)
        if current:
            self._tails[address] = (after + len(events), [])
            if len(self._tails) > KEEP_ADDRESSES:
                self._tails.popitem(last=False)
        return events

    async def _read_all(self, address: str, after: int) -> tuple[list[EventRow], bool]:
        """All that the store has beyond `after`, and whether that is the end of it still."""
        self._reading[address] = self._reading.get(address, 0) + 1
        events: list[EventRow] = []
        try:
            while page := await self._read(address, after=after + len(events)):
                events.extend(page)
            return events, address not in self._moved
        finally:
            self._reading[address] -= 1
            if not self._reading[address]:
                del self._reading[address]
                self._moved.discard(address)

    def forget(self, addresses: list[str]) -> None:
        """These are another node's now."""
        for address in addresses:
            self._tails.pop(address, None)
            if address in self._reading:
                self._moved.add(address)

    def clear(self) -> None:
        """Forget everything."""
        self._tails.clear()
        self._moved.update(self._reading)
