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
LogLevel = Annotated[
    str | None, typer.Option("--log-level", metavar="debug|info|warning|error", help="The least that is logged.")
]
Jsonl = Annotated[
    bool, typer.Option("--jsonl", help="Lists: one JSON document a line, an item each, instead of one for all.")
]
"""Of commands that list something; goes into `watch.Shown`."""
Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        "-w",
        help="Go on until ctrl-C: in place on a terminal, else (and with --json) one JSON line for each change.",
    ),
]
"""Of commands that look at what changes; goes into `watch.Shown`."""
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="relative|local|utc",
        help="How text says times; relative on a terminal, utc elsewhere. JSON has RFC 3339 in UTC always.",
    ),
]
"""How times are said in text (`times.When`); goes into `watch.Shown`, or into `times.when` in other commands."""
Color = Annotated[
    str | None,
    typer.Option(
        "--color", metavar="auto|always|never", help="Colours; auto means on a terminal, and NO_COLOR is heard."
    ),
]
"""Goes into `read_settings(color=color)`; `terminal.print_lines(lines, settings.color)` follows it."""
