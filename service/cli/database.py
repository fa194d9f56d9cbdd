"""`init-db`: the schema."""

from typing import Annotated

import typer

from .options import Dsn, Json
from .terminal import print_json, print_line, print_text


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("init-db")(init_db)


def init_db(
    print_sql: Annotated[bool, typer.Option("--print-sql", help="Print the SQL instead; touches no database.")] = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Make the database schema, or bring an older one up to date.

    Harmless when it is there, and for many callers at once.
    """
    import anyio

    from ...persistence.postgres import schema_sql
    from ..settings import read_settings
    from ..wiring import prepare_database

    if print_sql:
        print_text(schema_sql())
        return
    shown = anyio.run(prepare_database, read_settings(dsn=dsn))
    if json:
        print_json({"schema": "callboard.database/1", "ready": True, "dsn": shown})
    else:
        print_line(f"the schema is ready in {shown}")
