"""Every command as one Typer application, and running one: arguments in, exit code out.

Typer's own error pages and tracebacks are off: errors are said by `errors`, the same way everywhere.
"""

from importlib import import_module
from typing import Any

import typer

from ...mailbox.errors import leaf
from . import reader_left, without_typer
from .errors import ended_by, misread, report, say

_UNREADABLE = typer.BadParameter.__mro__[2]
"""The root of what a command line that cannot be read raises; Typer has no public name for it."""

_HOMES = {
    "database": ("init-db",),
    "daemon": ("daemon", "node"),
    "demo": ("demo",),
    "runs": ("run", "submit", "tell", "cancel", "fork", "pause", "resume"),
    "history": ("runs", "show", "replay", "record", "verify"),
    "approvals": ("approvals",),
    "deciding": ("approve", "deny", "edit", "take-back"),
    "audit": ("audit",),
    "inspector": ("actors",),
    "mailbox": ("mailbox",),
    "dead": ("dead",),
    "status": ("status", "health"),
    "http": ("http",),
    "token": ("token",),
    "prune": ("prune",),
    "evals": ("eval",),
    "config": ("config",),
    "doctor": ("doctor",),
    "shell": ("completion",),
    "tui_command": ("tui",),
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
    as_json = "--json" in arguments or "--jsonl" in arguments
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    try:
        found = without_typer(arguments)
        if found is not None:
            return found
        command = typer.main.get_command(build(next((word for word in arguments if not word.startswith("-")), "")))
        _spare_coercion(command, with_help="--help" in arguments or "-h" in arguments)
        code = command.main(arguments, prog_name="callboard", standalone_mode=False)
    except SystemExit as end:
        if end.__context__ is not None and isinstance(leaf(end.__context__), BrokenPipeError):
            return reader_left()  # Typer calls that a failure; what was asked for was done
        raise
    except typer.Abort:
        return report(KeyboardInterrupt(), as_json=as_json)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last line of defence: every error is said
        if isinstance(error, _UNREADABLE):
            kind, detail = misread(error, _closest)
            say(kind, detail, as_json=as_json)
            return int(kind.code)
        return ended_by(error, arguments, as_json=as_json)
    return code if isinstance(code, int) else 0


def _closest(given: str, known: list[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(given, sorted(set(known)), n=2)


class _AsGiven:
    """A parameter's value where it needs no conversion, which is nearly always: texts, and defaults.

    Typer converts every value with pydantic, whose import takes longer than most commands. Whatever is not of its type
    already (a number as it was typed) still goes Typer's way.
    """

    def __init__(self, parameter: Any) -> None:
        self._parameter = parameter

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as the command gets it."""
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        annotation = self._parameter.type_descriptor.annotation
        if many and annotation == list[str] and isinstance(value, list | tuple):
            return list(value)
        if not many and (type(value) is annotation or (type(value) is str and annotation in (str, str | None))):
            return value
        self._parameter._runtime_param = None
        return self._parameter.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _spare_coercion(command: Any, *, with_help: bool) -> None:
    """Have the parameters of a command, and of those beneath it, take what needs no conversion as it is."""
    command.add_help_option = with_help  # one more parameter to convert; help was asked for only where no page is there
    for parameter in command.params:
        # Typer's own place for it, filled at first use; a Typer without it converts everything, only more slowly.
        if getattr(parameter, "_runtime_param", parameter) is None:
            parameter._runtime_param = _AsGiven(parameter)
    for child in getattr(command, "commands", {}).values():
        _spare_coercion(child, with_help=with_help)
