"""Making, migrating and checking the schema.

A new database gets `schema.sql`; an older one the migrations it lacks. In both cases all functions are made anew. The
version of the schema is the number of the newest migration. Everything happens in one transaction under an advisory
lock: many processes may do it at once, and a failure leaves what was there.
"""

import psycopg

from ...mailbox.errors import SchemaMismatch, StoreError
from .connect import Row, connect
from .errors import translated
from .sql import folder, queries, texts

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
    note = f"INSERT INTO callboard.schema_version (version, applied_at) VALUES ({version()}, clock_timestamp());\n"
    return "\n".join([tables, *(text for _, text in texts("functions")), note])


async def create_schema(dsn: str) -> None:
    """Make the schema, or bring an older one up to date; harmless when it is there, and for many callers at once.

    Raises:
        StoreUnavailable: the database does not answer.
        SchemaMismatch: the schema is of a newer program, or the server is too old or not in UTF-8.
        StoreError: the role may not do it.
    """
    connection = await connect(dsn, "callboard schema")
    try:
        with translated():
            await _check_server(connection)
            async with connection.transaction():
                await connection.execute(queries()["lock_schema"])
                await _bring_up_to_date(connection)
    finally:
        await connection.close()


async def _bring_up_to_date(connection: psycopg.AsyncConnection[Row]) -> None:
    found = await find_version(connection)
    if found > version():
        raise SchemaMismatch(_newer(found))
    if not found:
        await _run_script(connection, schema_sql())
        return
    for row in await (await connection.execute(queries()["functions"])).fetchall():
        # Names of functions as the catalogue itself spells them.
        await _run_script(connection, f"DROP FUNCTION {row[0]}")
    for number, text in migrations():
        if number > found:
            await _run_script(connection, text)
            await connection.execute(queries()["note_version"], {"version": number})
    for _, text in texts("functions"):
        await _run_script(connection, text)


async def _run_script(connection: psycopg.AsyncConnection[Row], text: str) -> None:
    await connection.execute(text.encode())


async def _check_server(connection: psycopg.AsyncConnection[Row]) -> None:
    row = await (await connection.execute(queries()["server"])).fetchone()
    if row is None:
        raise StoreError("the database did not say its version")
    if row[0] < OLDEST_SERVER * 10_000:
        raise SchemaMismatch(f"this is PostgreSQL {row[0] // 10_000}; Callboard needs {OLDEST_SERVER} or newer")
    if row[1] != "UTF8":
        raise SchemaMismatch(f"the database's encoding is {row[1]}; create one with ENCODING 'UTF8'")


async def find_version(connection: psycopg.AsyncConnection[Row]) -> int:
    """The schema version of the database; 0 without a schema."""
    row = await (await connection.execute(queries()["find_schema"])).fetchone()
    if row is None or not row[0]:
        return 0
    row = await (await connection.execute(queries()["version"])).fetchone()
    return 0 if row is None else int(row[0])


async def check_schema(connection: psycopg.AsyncConnection[Row]) -> None:
    """Compare the database's schema with this program.

    Raises:
        SchemaMismatch: it is missing, older or newer; the message says what to run.
    """
    with translated():
        found = await find_version(connection)
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
