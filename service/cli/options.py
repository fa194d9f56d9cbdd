"""What many commands take, declared once."""

from typing import Annotated

import typer

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn", metavar="DSN", help="PostgreSQL to use. Passwords are better in CALLBOARD_DSN: flags show in ps."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; problems as JSON on stderr.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Run id, the unique beginning of one, or its address.")]
Application = Annotated[str, typer.Argument(metavar="APP", help="module:attribute, such as callboard.crm.app:app.")]
Goal = Annotated[str, typer.Argument(metavar="GOAL", help="What the agent shall do; - reads it from stdin.")]
AppOption = Annotated[
    list[str], typer.Option("--option", "-o", metavar="KEY=VALUE", help="Passed to the application; may be repeated.")
]
LogJson = Annotated[bool | None, typer.Option("--log-json/--log-text", help="Log to stderr as JSON lines.")]
LogLevel = Annotated[str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")]
