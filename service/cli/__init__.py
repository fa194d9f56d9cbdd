"""The command line: `main` picks one command, and only that one's libraries are loaded.

    overview     the text of `callboard --help`; `examples`, `help_pages` and `help_texts` make and read a command's own
    app          every command as one Typer application; one file a noun beside it
    options      what many commands take: --dsn, --json, --watch, …
    watch        printing what was read, as text, JSON or lines, once or for as long as somebody watches
    terminal     the only door to stdout and stderr: everything printed is made safe there
    times        how a moment is said
    progress     bars for long work, on stderr
    render       how runs and approvals look
    completion   what a shell may complete
    errors       which exit code an error gets, and how it is said

stdout carries data only; words, progress and errors go to stderr. Help, the version and completion take the standard
library only, so they cost no more than starting Python.
"""

import io
import sys


def main(arguments: list[str] | None = None) -> None:
    """Run the command that `arguments` (by default the process's own) name, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode still gets everything
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = without_typer(given)
        sys.stdout.flush()
    except BrokenPipeError:
        code = reader_left()
    if code is None and given[:1] == ["tui"]:
        from .tui import run_plainly

        code = run_plainly(given[1:])
    if code is None:
        from .app import run_command

        code = run_command(given)
    sys.exit(code)


def without_typer(given: list[str]) -> int | None:
    """Answer what needs no library: the exit code, or None where a command has to run."""
    if not given or given[0] in ("--help", "-h") or given == ["help"]:
        from .overview import overview

        sys.stdout.write(overview())
        return 0 if given else 2
    if given[0] in ("--version", "-V"):
        return _version(as_json="--json" in given)
    asked = given[: given.index("--")] if "--" in given else given
    if given[0] == "help" or "--help" in asked or "-h" in asked:
        from .help_texts import page

        found = page(asked[1:] if given[0] == "help" else asked)
        if found is not None:
            sys.stdout.write(found)
            return 0
    if given[0] in ("completion", "complete"):
        from . import completion

        if len(given) == 2 and given[0] == "completion":
            return completion.script(given[1])
        if len(given) == 3 and given[0] == "complete":
            return completion.complete(given[1], given[2])
    return None


def _version(*, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(f'{{"schema": "callboard.version/1", "version": "{version()}"}}\n')
    else:
        sys.stdout.write(f"callboard {version()}\n")
    return 0


def version() -> str:
    """Of this program. The public face is loaded before anything in it; asking the installed package takes long."""
    return str(sys.modules["callboard"].__version__)


def reader_left() -> int:
    """Whoever read our stdout has what it wanted: end in silence, also when the interpreter flushes at its end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
