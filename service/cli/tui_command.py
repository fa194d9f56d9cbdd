"""`tui` as a command: what it takes, and its help. What it does is in `tui`, which goes without Typer."""

from typing import Annotated

import typer

from .options import Dsn
from .tui import Wanted, show


def add_to(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("tui")(tui)


def tui(
    readonly: Annotated[bool, typer.Option("--readonly", help="Look, and change nothing.")] = False,
    label: Annotated[
        str, typer.Option("--as", metavar="LABEL", help="A label beside your authenticated name; shown, never trusted.")
    ] = "",
    theme: Annotated[
        str | None,
        typer.Option(
            "--theme",
            metavar="auto|dark|light|mono|ansi",
            help="Colours; auto heeds NO_COLOR, TERM and COLORFGBG.",
        ),
    ] = None,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII signs only.")] = False,
    *,
    demo: Annotated[
        bool, typer.Option("--demo", help="Open a demonstration desk to look at; it ends with this.")
    ] = False,
    dsn: Dsn = None,
) -> int:
    """Watch actors, decide what waits for a person, and see what happened."""
    return show(Wanted(readonly, label, theme, ascii_only, demo, dsn))
