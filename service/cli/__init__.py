"""The command line: `main` picks one command, and only that one's libraries are loaded.

    overview   the text of `callboard --help`, which needs no library at all
    app        every command as one Typer application; one file a noun beside it
    options    what many commands take: --dsn, --json, …
    terminal   the only door to stdout and stderr: everything printed is made safe there
    render     how runs and approvals look
    errors     which exit code an error gets, and how it is said

stdout carries data only; words, progress and errors go to stderr.
"""

import io
import sys


def main(arguments: list[str] | None = None) -> None:
    """Run the command that `arguments` (by default the process's own) name, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode still gets everything
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("--help", "-h", "help"):
        from .overview import overview

        sys.stdout.write(overview())
        sys.exit(0 if given else 2)
    from .app import run_command

    sys.exit(run_command(given))
