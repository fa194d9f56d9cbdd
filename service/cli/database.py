"""`init-db`: the schema."""

from functools import partial
from typing import Annotated

import typer

from .options import Dsn, Json
from .terminal import print_json, print_line, print_text


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("init-db")(init_db)


def init_db(
    print_sql: Annotated[bool, typer.Option("--print-sql", help="Print the SQL instead; touches no database.")] = False,
    roles: Annotated[
        bool, typer.Option("--roles", help="Also make the database roles callboard_runtime and callboard_reader.")
    ] = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Make the database schema, or bring an older one up to date.

    Harmless when it is there, and for many callers at once. With --roles also the roles to grant to those who connect:
    callboard_runtime for daemons and commands, callboard_reader for those who only look.
    """
    import anyio

    from ...persistence.postgres import roles_sql, schema_sql
    from ..settings import read_settings
    from ..wiring import prepare_database

    if print_sql:
        print_text(schema_sql() + (roles_sql() if roles else ""))
        return
    shown = anyio.run(partial(prepare_database, read_settings(dsn=dsn), roles=roles))
    if json:
        print_json({"schema": "callboard.database/1", "ready": True, "dsn": shown, "roles": roles})
    else:
        print_line(f"the schema is ready in {shown}" + (", with its roles" if roles else ""))
