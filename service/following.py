"""Reading on in a run's journal while it grows: for who works on the run, and for who only watches it.

Watching is looking: it sends nothing, and the run does not notice. How often is bounded: from twenty times a second
where something happens, to twice where nothing does.
"""

from collections.abc import Callable

import anyio

from ..actors.agent.runs import Recorded, Runs
from ..mailbox.errors import StoreUnavailable
from ..mailbox.message import decode_tagged
from ..persistence.port import Port
from ..persistence.store import Store
from .operations.lookup import find_run, pool_of, run_id_of
from .operations.runs import Operations
from .operations.views import RunView

FIRST_LOOK_SECONDS = 0.05
CAP_LOOK_SECONDS = 0.5
CAP_AWAY_SECONDS = 15.0
"""Between two looks while the database is away."""

PAGE = 10_000
"""Events that are read at once, unless somebody wants fewer."""

Told = Callable[[Recorded], None]


class Journal:
    """Reads on in a journal."""

    def __init__(self, store: Store, address: str, told: Told, *, after: int = 0, page: int = PAGE) -> None:
        """`told` is called with each event beyond `after`. `page`: events of one look, at most."""
        self._store = store
        self._address = address
        self._told = told
        self.seen = after
        self._page = page
        self._looking = anyio.Lock()

    async def look(self) -> bool:
        """Tell what is new; whether there was anything. Several may look at once: each event is told once."""
        async with self._looking:
            rows = await self._store.journal(self._address, after=self.seen, limit=self._page)
            for row in rows:
                self.seen = row.seq
                self._told(Recorded(row.seq, row.at, row.node, row.type, decode_tagged(row.type, row.body)))
            return bool(rows)

    async def follow(self, port: Port) -> None:
        """For ever; looks ever more seldom while nothing happens."""
        pause = FIRST_LOOK_SECONDS
        while True:
            pause = FIRST_LOOK_SECONDS if await self.look() else min(2 * pause, CAP_LOOK_SECONDS)
            await port.sleep(pause)


async def follow_run(
    operations: Operations,
    given: str,
    told: Told,
    *,
    seconds: float | None = None,
    until: str = "rest",
    after: int = 0,
    away: Callable[[str], None] | None = None,
) -> RunView:
    """Tell a run's events beyond `after` as they come, until it rests (`until="end"`: until it has ended); how it is.

    A database that goes away meanwhile is waited for, and `away` is told ("" when it is back).

    Raises:
        RunNotFound; UsageError: several begin like that. TimeoutError: not within `seconds`.
    """
    operations.require("read")
    address = await find_run(operations.store, given)
    runs, run_id, port = Runs(operations.client, pool_of(address)), run_id_of(address), operations.client.port
    journal = Journal(operations.store, address, told, after=after)

    async def resting() -> bool:
        if until == "end":
            row = await operations.store.actor(address)
            return row is not None and bool((await runs.state(run_id)).finished)
        return await runs.at_rest(run_id)

    end = None if seconds is None else port.monotonic() + seconds
    pause, lost = FIRST_LOOK_SECONDS, False
    while True:
        try:
            rests = await resting()  # asked first, so that what led to it is told when it is said to rest
            pause = FIRST_LOOK_SECONDS if await journal.look() else min(2 * pause, CAP_LOOK_SECONDS)
            if lost and away is not None:
                away("")
            lost = False
        except StoreUnavailable as error:
            rests, lost, pause = False, True, min(2 * pause, CAP_AWAY_SECONDS)
            if away is not None:
                away(str(error))
        if rests:
            return await operations.run(address)
        if end is not None and port.monotonic() >= end:
            raise TimeoutError(
                f"run {run_id} did not rest within {seconds:g} s; it goes on when a node serves it: "
                f"callboard show {run_id}"
            )
        await port.sleep(pause)
