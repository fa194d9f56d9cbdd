"""Databases for one measurement: made on a server, and dropped when it is over."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from callboard.persistence.embedded import default_root, ensure
from callboard.persistence.port import Port, RealPort
from callboard.persistence.postgres import create_schema
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.databases import create_database, drop_idle_databases

PREFIX: Final = "callboard_eval_"


@asynccontextmanager
async def fresh_databases(dsn: str, count: int, port: Port | None = None) -> AsyncIterator[list[str]]:
    """DSNs of `count` new databases with the runtime's schema, on the server of `dsn` ("": on the embedded one).

    They are dropped at the end, and with them those of measurements that were killed: which nobody is connected to. So
    each is held by a connection meanwhile, as the processes of a measurement come and go.

    Raises:
        StoreUnavailable: the server does not answer. StoreError: it refuses.
    """
    here = port or RealPort()
    server = dsn or await here.in_thread(ensure, default_root(Path.cwd()))
    mine = PREFIX + here.token()[:8]
    made: list[str] = []
    try:
        async with AsyncExitStack() as held:
            for number in range(1, count + 1):
                made.append(await create_database(server, f"{mine}_{number}"))
                await held.enter_async_context(await Database.open(made[-1]))
                await create_schema(made[-1])
            yield made
    finally:
        await drop_idle_databases(server, PREFIX)
