"""Doing what a chaos schedule says: to nodes, to their networks and clocks, and to the database."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from callboard.bench.chaos_nodes import Nest, Slot
from callboard.bench.chaos_storm import OUTAGES, Blow, Deed
from callboard.bench.failover import Kill
from callboard.bench.restartable import RestartableServer
from callboard.bench.small_disk import SmallDisk
from callboard.mailbox.errors import CallboardError
from callboard.persistence.embedded import EmbeddedServerError
from callboard.persistence.postgres.database import Database, DatabaseUnavailable

READY_BEFORE_SECONDS = 1.0
"""A node is killed that has been ready for so long."""
LOOK_SECONDS = 0.02
FILL_AGAIN_SECONDS = 0.1
MOST_AHEAD_SECONDS = 12 * 3600.0
VICTIM_SECONDS = 15.0
"""How long a deed waits for somebody to be there; without, it is left out."""
SETTLE_SECONDS = 3.0
"""After a database is back, nodes may still be coming back."""
_OWNS = """
SELECT n.number, coalesce(array_agg(s.id) FILTER (WHERE s.id IS NOT NULL), '{}') AS shards
FROM callboard.node n LEFT JOIN callboard.shard s ON s.node = n.number
WHERE n.label = %s AND n.status IN ('up', 'draining') GROUP BY n.number
"""
_BACKEND = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'callboard node %%' AND pid <> pg_backend_pid()
ORDER BY pid OFFSET %s LIMIT 1
"""


@dataclass
class Deeds:
    """What can be done to one site, and what was."""

    nest: Nest
    server: RestartableServer
    disk: SmallDisk
    database: Database
    """Of the bench itself: it does not go through the bad network."""
    done: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    """What could not be done, as there was nobody to do it to in time."""
    skipped: dict[str, str] = field(default_factory=dict)
    """What cannot be done here at all, with the reason."""
    kills: list[Kill] = field(default_factory=list)
    starved: int = 0
    """Nodes that ended by themselves for want of memory; the others were killed for it."""
    doing: str = ""
    """What is being done at this moment, besides kills."""
    _away_until: float = 0.0

    def __post_init__(self) -> None:
        self.nest.away = lambda: time.monotonic() < self._away_until
        if self.disk.why_not:
            self.skipped["full disk"] = self.disk.why_not

    # --- kills -----------------------------------------------------------------------------------------------------

    async def kill_on(
        self, began: float, times: list[float], every: float, until: float, draw: Callable[[], float]
    ) -> None:
        """kill -9 at these times after `began`, each time a node that has been ready for a while; `draw` says which."""
        for at in times:
            await anyio.sleep(max(0.0, began + at - time.monotonic()))
            if time.monotonic() > began + at + every:
                self.missed["kill node"] += 1  # nobody was there for so long that it is the next one's turn already
                continue
            while not (there := self.nest.serving(READY_BEFORE_SECONDS)):
                if time.monotonic() > began + until:
                    return
                await anyio.sleep(LOOK_SECONDS)
            await self._kill(there[int(draw() * len(there))])

    async def _kill(self, slot: Slot) -> None:
        life, owned = slot.life, None
        with suppress(DatabaseUnavailable, CallboardError), anyio.move_on_after(1.0):
            owned = await self.database.row(_OWNS, (life.label,))
        if life.code is not None or slot.life is not life or not self.nest.kill(slot):
            return
        at = time.time()
        self.done["kill node"] += 1
        if owned is not None and owned["shards"]:
            self.kills.append(Kill(at, owned["number"], owned["shards"], self._trouble()))

    def _trouble(self) -> str:
        return self.doing or ("outage" if time.monotonic() < self._away_until else "")

    # --- the others ------------------------------------------------------------------------------------------------

    async def do_all(self, began: float, blows: list[Blow], until: float) -> None:
        """One after the other, each not before its time."""
        for blow in blows:
            await anyio.sleep(max(0.0, began + blow.at_seconds - time.monotonic()))
            if time.monotonic() > began + until:
                self.missed[blow.deed] += 1
            elif blow.deed not in self.skipped:
                await self._do(blow)

    async def _do(self, blow: Blow) -> None:
        slot = None if blow.deed in OUTAGES else await self._victim(blow.who)
        if slot is None and blow.deed not in OUTAGES:
            self.missed[blow.deed] += 1
            return
        self.doing = blow.deed
        try:
            if slot is None:
                await self._outage(blow)
            else:
                slot.busy = blow.deed if blow.deed in ("freeze node", "out of memory") else ""
                await self._hit(slot, blow)
            self.done[blow.deed] += 1
        except (ProcessLookupError, FileNotFoundError, DatabaseUnavailable):
            self.missed[blow.deed] += 1  # its victim was killed before, or its name could not be asked for
        finally:
            self.doing = ""
            if slot is not None:
                slot.busy = ""

    async def _victim(self, who: float) -> Slot | None:
        end = time.monotonic() + VICTIM_SECONDS
        while not (there := self.nest.serving(0.0)):
            if time.monotonic() > end:
                return None
            await anyio.sleep(LOOK_SECONDS)
        return there[int(who * len(there))]

    async def _hit(self, slot: Slot, blow: Blow) -> None:
        proxy = slot.proxy
        match blow.deed:
            case "freeze node":
                await self.nest.freeze(slot, blow.seconds)
            case "cut connections":
                proxy.cut()
            case "half-open connections":
                stall = proxy.stall()
                try:
                    await anyio.sleep(blow.seconds)
                finally:
                    stall.over(resume=blow.gentle)
            case "slow network":
                slowed = [one.proxy for one in self.nest.slots] if blow.gentle else [proxy]
                for one in slowed:
                    one.delay_seconds = blow.amount
                try:
                    await anyio.sleep(blow.seconds)
                finally:
                    for one in slowed:
                        one.delay_seconds = 0.0
            case "clock jump":
                ahead = slot.clock.ahead_seconds + blow.amount
                slot.clock.ahead_seconds = ahead if abs(ahead) <= MOST_AHEAD_SECONDS else 0.0
            case _:
                self.starved += await self.nest.starve(slot, blow.seconds)

    async def _outage(self, blow: Blow) -> None:
        self._away_until = float("inf")
        try:
            await _OUTAGES[blow.deed](self, blow)
        finally:
            self._away_until = time.monotonic() + SETTLE_SECONDS

    async def _restart(self, blow: Blow) -> None:
        await self.server.stop(crash=False)
        await anyio.sleep(blow.seconds)
        await self.server.start()

    async def _kill_server(self, blow: Blow) -> None:
        await self.server.kill()
        await anyio.sleep(blow.seconds)
        await self.server.start()

    async def _kill_backend(self, blow: Blow) -> None:
        """One session's process: the server ends all others too, recovers and goes on by itself."""
        row = await self.database.row(_BACKEND, (int(8 * blow.who),)) or await self.database.row(_BACKEND, (0,))
        if row is not None:
            os.kill(row["pid"], signal.SIGKILL)
        await self.server.start()  # until it answers again; nothing is started where it runs

    async def _fill(self, blow: Blow) -> None:
        """No room at all for a while. Afterwards the server is started again, where it has given up."""
        end = time.monotonic() + blow.seconds
        try:
            while time.monotonic() < end:
                self.disk.fill()
                await anyio.sleep(FILL_AGAIN_SECONDS)
        finally:
            self.disk.empty()
        with suppress(EmbeddedServerError):  # one that is ending just now is not there a moment later
            await self.server.start()
        await self.server.start()


_OUTAGES = {
    "restart database": Deeds._restart,
    "kill -9 database": Deeds._kill_server,
    "kill -9 backend": Deeds._kill_backend,
    "full disk": Deeds._fill,
}
__all__ = ["Deed", "Deeds"]
