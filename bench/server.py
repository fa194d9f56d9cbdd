"""The PostgreSQL that is measured: by default an embedded one of its own, durable as in production, gone afterwards.

Each bench gets a database of its own, so that none inherits another's dead rows. A server given by its DSN is used as
it is: whoever gives it answers for its settings, which are printed with the results.
"""

import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from callboard.persistence.embedded import ensure, release
from callboard.persistence.postgres import create_schema
from callboard.persistence.postgres.database import Database


@contextmanager
def server(dsn: str = "") -> Iterator[str]:
    """The DSN of a server: the given one, or that of an embedded one that lives as long as the block."""
    if dsn:
        yield dsn
        return
    root = Path(tempfile.mkdtemp(prefix="callboard-bench-"))
    root.chmod(0o711)  # where the server runs as another account, that must get in
    try:
        yield ensure(root)
    finally:
        release(root)
        shutil.rmtree(root, ignore_errors=True)


@asynccontextmanager
async def fresh_database(server_dsn: str, *, schema: bool = True) -> AsyncIterator[str]:
    """The DSN of a new database on that server, with our `schema` or empty; dropped afterwards."""
    name = f"bench_{uuid.uuid4().hex[:12]}"
    async with await Database.open(server_dsn, size=1) as maintenance:
        await maintenance.execute(f"create database {name} template template0")
        # What was done before shall not be written down while we measure.
        await maintenance.execute("checkpoint")
        try:
            dsn = urlsplit(server_dsn)._replace(path=f"/{name}").geturl()
            if schema:
                await create_schema(dsn)
            yield dsn
        finally:
            await maintenance.execute(f"drop database {name} with (force)")
