"""Pausing and resuming all actors below a place of the tree: a supervisor, a pool, or one actor and what it has.

A supervisor that is paused does no more than that: it starts nothing again, and its children go on. So what is paused
here are the actors themselves, those that are active, and the supervisors stay at work; resuming lets those go on that
are paused, and leaves what is parked or failed to be looked at. Each is told by one system message, in batches, and the
audit row of a batch is written in its transaction. Doing it again is harmless: it reaches those that were left.

An instance of a pool that comes into being later is not paused.
"""

from collections.abc import Sequence

import msgspec

from ...actors.supervisor import SupervisorActor
from ...actors.system import Pause, Resume
from ...mailbox.address import parse
from ...mailbox.errors import NotFound
from ...mailbox.lane import Lane
from ...mailbox.message import Message
from ...persistence.rows import ActorStatus
from .runs import Operations

EVERYTHING = "/"
BATCH = 500
"""Actors that are told in one transaction."""
MOST = 10_000
"""Actors that are told in one go."""


class ToldBelow(msgspec.Struct, frozen=True):
    """What came of it."""

    place: str
    actors: int
    """Told so."""
    complete: bool
    """False: there are more, which asking again reaches."""


class Subtree:
    """Asking something of many actors, as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def pause(self, place: str, reason: str = "") -> ToldBelow:
        """Let all active actors at this place and below take no more messages until they are resumed.

        `place`: an address, with or without a key; `/` for all there are.

        Raises:
            NotFound: there is nothing. BadAddress. NotAllowed: without `operate`.
        """
        return await self._tell(place, "active", Pause(by=self.operations.principal, reason=reason), "pause", reason)

    async def resume(self, place: str, reason: str = "") -> ToldBelow:
        """Let all paused actors at this place and below go on. Raises as `pause`."""
        return await self._tell(place, "paused", Resume(by=self.operations.principal), "resume", reason)

    async def _tell(self, place: str, status: ActorStatus, message: Message, action: str, note: str = "") -> ToldBelow:
        self.operations.require("operate")
        prefix = "" if place == EVERYTHING else parse(place)
        told, after = 0, ""
        while told < MOST:
            rows = await self.store.window(prefix=prefix, statuses=(status,), after=after, limit=BATCH)
            found = [
                one.row.address
                for one in rows
                if one.row.kind != SupervisorActor.kind and _is_at(one.row.address, prefix)
            ]
            if found:
                await self._batch(place, found, message, action, note)
            told += len(found)
            if len(rows) < BATCH:
                break
            after = rows[-1].row.address
        else:
            return ToldBelow(place, told, complete=False)
        if not told and not await self.store.actors(prefix=prefix, limit=1):
            raise NotFound(f"no actor at {place} or below; `callboard actors` lists those there are")
        return ToldBelow(place, told, complete=True)

    async def _batch(self, place: str, addresses: Sequence[str], message: Message, action: str, note: str) -> None:
        client = self.operations.client
        envelopes = [await client.envelope(address, message, lane=Lane.SYSTEM) for address in addresses]
        entry = self.operations.entry(f"{action} below", place, after=f"{len(addresses)} actor(s)", note=note)
        await self.store.send(envelopes, (), (entry,))


def _is_at(address: str, place: str) -> bool:
    return not place or address == place or address[len(place) : len(place) + 1] in ("/", ":")
