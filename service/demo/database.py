"""A database for one demonstration: new each time, so that two of them never meet, and kept for looking around in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from callboard.crm.desk import Desk
from callboard.crm.load import DeskFacts, load
from callboard.crm.schema import install, install_login
from callboard.crm.tickets import TicketCase, make_tickets
from callboard.persistence.embedded import default_root, ensure
from callboard.persistence.port import Port
from callboard.persistence.postgres import create_schema, make_dsn_safe
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.databases import create_database, drop_idle_databases, user_on

PREFIX = "callboard_demo_"


class DemoDatabase(msgspec.Struct, frozen=True):
    """Where the demonstration takes place."""

    dsn: str
    owner: Database
    facts: DeskFacts
    embedded: bool
    desk_dsn: str
    """How the desk's tools connect: as a user without rights on the runtime's schema; "" on somebody's own server,
    where they take that user's role instead."""
    name: str
    """What to give as --dsn to look around in it."""


@asynccontextmanager
async def open_database(
    dsn: str, port: Port, home: Path | None = None, desk: Desk | None = None
) -> AsyncIterator[DemoDatabase]:
    """A fresh database on the server of `dsn` (or on the embedded one, whose data are under `home`), with both schemas
    and the records of `desk` (default: the best ones installed).

    Databases of earlier demonstrations that nobody is connected to are dropped first; this one stays.
    """
    server = dsn or await port.in_thread(ensure, default_root(Path.cwd(), home=home))
    await drop_idle_databases(server, PREFIX)
    name = PREFIX + port.token()[:8]
    fresh = await create_database(server, name)
    await create_schema(fresh)
    async with await Database.open(fresh) as owner:
        await install(owner)
        desk_dsn = "" if dsn else user_on(fresh, await install_login(owner))
        shown = make_dsn_safe(fresh) if dsn else f"embedded:{name}"
        facts = await load(owner, desk)
        yield DemoDatabase(fresh, owner, facts, embedded=not dsn, desk_dsn=desk_dsn, name=f"'{shown}'")


async def write_tickets(database: DemoDatabase, count: int, seed: int) -> list[TicketCase]:
    """`count` tickets made from the loaded records."""
    return await make_tickets(database.owner, count, seed=seed)
