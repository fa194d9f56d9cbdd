"""`completion`: the script that lets a shell complete. Without options it is answered before this file is loaded."""

from typing import Annotated

import typer

from ...mailbox.errors import UsageError
from .options import Dsn, Json
from .terminal import print_json, print_text

_Shell = Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="Which shell it is for.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("completion")(completion)


def completion(shell: _Shell, dsn: Dsn = None, json: Json = False) -> None:
    """Print a script with which a shell completes commands, options and names.

    Names are those of runs, approvals that wait, and actors. They are asked of the database at each press of the key:
    50 at most, within a fifth of a second, else none.
    """
    from .completion import SCRIPTS

    del dsn  # taken as by every command; the script asks the database that the settings mean when a word is completed
    if shell not in SCRIPTS:
        raise UsageError(f"shell: expected bash, zsh or fish, got {shell[:80]!r}")
    if json:
        print_json({"schema": "callboard.completion/1", "shell": shell, "script": SCRIPTS[shell]})
    else:
        print_text(SCRIPTS[shell].rstrip("\n"))
