"""pgqueuer: jobs that lie ready are worked off by one consumer, a hundred taken at a time; a job does nothing."""

import importlib
import logging
from typing import Any

PACKAGES = ("pgqueuer",)
LOOP = "uvloop"
BATCH = 100
FILL = 1_000
PAYLOAD = b'{"k":"hello","n":1}'


class Work:
    """Jobs of one kind."""

    def __init__(self, dsn: str, queries: Any) -> None:
        self._dsn = dsn
        self._queries = queries

    async def fill(self, count: int) -> None:
        """Lay jobs down."""
        for start in range(0, count, FILL):
            some = min(FILL, count - start)
            await self._queries.enqueue(["job"] * some, [PAYLOAD] * some, [0] * some)

    async def go(self, count: int, at_once: int) -> None:
        """Work off all there is."""
        mode = importlib.import_module("pgqueuer.domain.types").QueueExecutionMode.drain
        connection = await importlib.import_module("asyncpg").connect(self._dsn)
        driver = importlib.import_module("pgqueuer.db").AsyncpgDriver(connection)
        queue = importlib.import_module("pgqueuer").PgQueuer(driver)
        done = 0

        async def job(job: Any) -> None:
            nonlocal done
            done += 1

        queue.entrypoint("job")(job)
        await queue.qm.run(mode=mode, batch_size=BATCH)
        assert done == count, (done, count)


async def opened(dsn: str, options: list[str]) -> Work:
    """Ready to go."""
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    connection = await importlib.import_module("asyncpg").connect(dsn)
    driver = importlib.import_module("pgqueuer.db").AsyncpgDriver(connection)
    queries = importlib.import_module("pgqueuer.queries").Queries(driver)
    await queries.install()
    return Work(dsn, queries)
