"""Making, migrating and checking the schema.

A new database gets `schema.sql`; an older one the migrations it lacks. In both cases all functions are made anew. The
version of the schema is the number of the newest migration. Everything happens in one transaction under an advisory
lock: many processes may do it at once, and a failure leaves what was there.
"""

from typing import Any

import psycopg

from ...mailbox.errors import SchemaMismatch
from .connect import STATEMENT_SECONDS, Row, connect, run
from .errors import translated
from .sql import folder, texts

OLDEST_SERVER = 14


def migrations() -> list[tuple[int, str]]:
    """Number and text of every migration, in order."""
    return [(int(name.partition("_")[0]), text) for name, text in texts("migrations")]


def version() -> int:
    """The schema version of this program."""
    return migrations()[-1][0]


def schema_sql() -> str:
    """All of the schema as SQL text: what `create_schema` runs in an empty database."""
    tables = (folder() / "schema.sql").read_text(encoding="utf-8")
    functions = (text for _, text in texts("functions"))
    return "\n".join([tables, *functions, f"SELECT callboard.note_version({version()});\n"])


async def create_schema(dsn: str) -> None:
    """Make the schema, or bring an older one up to date; harmless when it is there, and for many callers at once.

    Raises:
        StoreUnavailable: the database does not answer.
        SchemaMismatch: the schema is of a newer program, or the server is too old or not in UTF-8.
        StoreError: the role may not do it.
    """
    connection = await connect(dsn, "callboard schema")
    try:
        await _check_server(connection)
        with translated():
            async with connection.transaction():
                await _ask(connection, "lock_schema")
                await _bring_up_to_date(connection)
    finally:
        await connection.close()


async def _bring_up_to_date(connection: psycopg.AsyncConnection[Row]) -> None:
    found = await _find_version(connection)
    if found > version():
        raise SchemaMismatch(_newer(found))
    if not found:
        await connection.execute(schema_sql().encode())
        return
    for (drop,) in await _ask(connection, "drop_functions"):
        await connection.execute(drop.encode())
    for number, text in migrations():
        if number > found:
            await connection.execute(text.encode())
    for _, text in texts("functions"):
        await connection.execute(text.encode())
    if version() > found:
        await _ask(connection, "note_version", {"version": version()})


async def _check_server(connection: psycopg.AsyncConnection[Row]) -> None:
    [(number, encoding)] = await _ask(connection, "server")
    if number < OLDEST_SERVER * 10_000:
        raise SchemaMismatch(f"this is PostgreSQL {number // 10_000}; Callboard needs {OLDEST_SERVER} or newer")
    if encoding != b"UTF8":
        raise SchemaMismatch(f"the database's encoding is {encoding.decode()}; create one with ENCODING 'UTF8'")


async def _find_version(connection: psycopg.AsyncConnection[Row]) -> int:
    [(exists,)] = await _ask(connection, "find_schema")
    if not exists:
        return 0
    [(found,)] = await _ask(connection, "version")
    return int(found)


async def _ask(connection: psycopg.AsyncConnection[Row], query: str, params: dict[str, Any] | None = None) -> list[Row]:
    return await run(connection, query, params, STATEMENT_SECONDS)


async def check_schema(connection: psycopg.AsyncConnection[Row]) -> None:
    """Compare the database's schema with this program.

    Raises:
        SchemaMismatch: it is missing, older or newer; the message says what to run.
    """
    found = await _find_version(connection)
    if not found:
        raise SchemaMismatch("this database has no callboard tables; run: callboard init-db")
    if found < version():
        raise SchemaMismatch(
            f"this database has callboard schema {found}, this program needs {version()}; run: callboard init-db"
        )
    if found > version():
        raise SchemaMismatch(_newer(found))


def _newer(found: int) -> str:
    return f"this database has callboard schema {found}, this program knows {version()}; run a newer callboard"
