"""Every command as one Typer application, and running one: arguments in, exit code out.

Typer's own error pages and tracebacks are off: errors are said by `errors`, the same way everywhere.
"""

import os
import sys
from importlib import import_module

import typer

from .errors import Exit, report, say

_UNREADABLE = typer.BadParameter.__mro__[2]
"""The root of what a command line that cannot be read raises; Typer has no public name for it."""

_HOMES = {
    "database": ("init-db",),
    "daemon": ("daemon", "node"),
    "demo": ("demo",),
    "runs": ("run", "submit", "tell", "cancel", "fork"),
    "history": ("runs", "show", "replay", "record", "verify"),
    "approvals": ("approvals", "approve", "deny", "edit", "take-back"),
    "inspector": ("actors", "mailbox"),
    "evals": ("eval",),
}
"""Module of this folder, and the commands in it."""


def build(command: str = "") -> typer.Typer:
    """The commands that live with `command`; all of them where there is no such command.

    Reading what every command takes costs Typer more than most commands cost themselves. Modules of commands import no
    more than Typer; a command loads what it needs when it runs.
    """
    app = typer.Typer(
        name="callboard",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    homes = [home for home, commands in _HOMES.items() if command in commands] or list(_HOMES)
    for home in homes:
        import_module(f".{home}", __package__).add_to(app)
    if len(homes) == 1:
        app.callback()(_only)  # without it Typer makes a single command the whole program
    return app


def _only() -> None:
    """Callboard's command line."""


def run_command(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    as_json = "--json" in arguments
    command = typer.main.get_command(build(next((word for word in arguments if not word.startswith("-")), "")))
    try:
        code = command.main(arguments, prog_name="callboard", standalone_mode=False)
    except typer.Abort:
        return report(KeyboardInterrupt(), as_json=as_json)
    except BrokenPipeError:
        # Whoever read us has left. Nothing more can be said, and the interpreter must not try at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.FAILED)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last line of defence: every error is said
        if isinstance(error, _UNREADABLE):
            say("usage", f"{_message(error)}; see callboard --help", int(Exit.USAGE), as_json=as_json)
            return int(Exit.USAGE)
        return report(error, as_json=as_json, with_traceback=_wants_traceback())
    return code if isinstance(code, int) else 0


def _message(error: BaseException) -> str:
    said = getattr(error, "format_message", None)
    return str(said() if callable(said) else error).rstrip(". ")


def _wants_traceback() -> bool:
    from ...mailbox.errors import SettingError
    from ..settings import read_settings

    try:
        return read_settings().log_level == "debug"
    except SettingError:
        return False
