"""The only composition root: which store there is, and where.

A DSN leads to that database, whose schema somebody made with `callboard init-db`. Without one an embedded PostgreSQL of
the working directory starts by itself, and gets its schema here.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio.to_thread

from ..mailbox.errors import SchemaMismatch, SettingError
from ..persistence.postgres import PostgresStore, create_roles, create_schema, is_dsn, make_dsn_safe
from ..persistence.postgres.databases import database_on
from ..persistence.postgres.schema import version
from ..persistence.store import Store
from .settings import Settings

EMBEDDED = "embedded:"


async def find_database(settings: Settings) -> str:
    """The DSN to use; an embedded server runs, for as long as this process does, when this returns its DSN.

    `embedded:NAME` means the database NAME of the embedded server.

    Raises:
        SettingError: the DSN is none. EmbeddedServerError: there is none, and no server can be started here.
    """
    name = settings.dsn.removeprefix(EMBEDDED)
    if name and name == settings.dsn:
        if not is_dsn(settings.dsn):
            raise SettingError(
                "dsn: expected a PostgreSQL DSN such as postgresql://user:password@host:5432/database, got something "
                "that cannot be read as one (not shown, it may hold a password)"
            )
        return settings.dsn
    from ..persistence.embedded import default_root, ensure

    root = default_root(home=Path(settings.home) if settings.home else None)
    server = await anyio.to_thread.run_sync(partial(ensure, root))
    return database_on(server, name) if name else server


def make_store(dsn: str) -> Store:
    """The store of a database, to be opened by `async with`."""
    return PostgresStore(dsn)


@asynccontextmanager
async def open_store_at(dsn: str, *, create: bool = False) -> AsyncIterator[Store]:
    """The store of a database; with `create` a schema that is missing or older is made first.

    Raises:
        StoreUnavailable: the database does not answer.
        SchemaMismatch: its schema is missing (and not to be made), older or newer.
    """
    store = make_store(dsn)
    try:
        await store.__aenter__()
    except SchemaMismatch:
        # Only where it is needed: making it anew replaces functions that running nodes are using.
        if not create:
            raise
        await create_schema(dsn)
        await store.__aenter__()
    async with store:  # which is harmless on an open store, and closes it
        yield store


@asynccontextmanager
async def open_store(settings: Settings, *, create: bool = False) -> AsyncIterator[Store]:
    """The store that these settings mean; see `find_database` and `open_store_at`."""
    dsn = await find_database(settings)
    async with open_store_at(dsn, create=create or not settings.dsn) as store:
        yield store


async def prepare_database(settings: Settings, *, roles: bool = False) -> str:
    """Make the schema or bring it up to date, and with `roles` those that have rights on it; the DSN without its
    password."""
    dsn = await find_database(settings)
    await create_schema(dsn)
    if roles:
        await create_roles(dsn)
    return make_dsn_safe(dsn)


def schema_version() -> int:
    """The version of the schema that this program works with."""
    return version()


def without_password(dsn: str) -> str:
    """A DSN as it may be shown."""
    return dsn if dsn.startswith(EMBEDDED) else make_dsn_safe(dsn)
