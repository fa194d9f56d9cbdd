"""`config`: the settings that are in force, and where each came from."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Dsn, Json

if TYPE_CHECKING:
    from ..settings import Settings

_Origin = Annotated[bool, typer.Option("--origin", help="Say where each value came from.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["--help", "-h"]})
    group.callback(invoke_without_command=True)(config)
    group.command("show")(show)
    app.add_typer(group, name="config")


def config(context: typer.Context, dsn: Dsn = None, json: Json = False) -> None:
    """Show the settings in force, and where each came from."""
    if context.invoked_subcommand is None:
        _show(dsn, origin=True, json=json)


def show(*, origin: _Origin = False, dsn: Dsn = None, json: Json = False) -> None:
    """Show the settings in force; with --origin, where each came from. Passwords are not shown.

    They come from flags, then CALLBOARD_* variables, then callboard.toml (or the file that CALLBOARD_CONFIG names),
    then defaults. What the file says of runs (budget, guardrails, policy, model, classifier) is checked, and its tables
    are named.
    """
    _show(dsn, origin=origin, json=json)


def _show(dsn: str | None, *, origin: bool, json: bool) -> None:
    from ..configuration import read_configuration
    from ..settings import read_settings
    from .render import print_table
    from .terminal import note, print_json

    settings, configuration = read_settings(dsn=dsn), read_configuration()
    rows = [_row(settings, name) for name in _names()]
    tables = sorted([*configuration.tables, *(["budget"] if configuration.budget is not None else [])])
    if json:
        print_json({"schema": "callboard.config/1", "settings": rows, "file": configuration.path, "rules": tables})
        return
    heads = ("setting", "value", *(("origin",) if origin else ()))
    print_table(heads, [tuple(_text(row[head]) for head in ("key", *heads[1:])) for row in rows])
    if tables:
        note(f"{configuration.path} also has rules for runs: {', '.join(tables)}")


def _names() -> list[str]:
    from ..setting_sources import FILE_KEYS

    return list(FILE_KEYS)


def _row(settings: "Settings", name: str) -> dict[str, Any]:
    from ..setting_sources import FILE_KEYS, PREFIX

    return {
        "name": name,
        "key": FILE_KEYS[name],
        "variable": PREFIX + name.upper(),
        "value": _shown(name, getattr(settings, name)),
        "origin": settings.origin(name),
    }


def _shown(name: str, value: Any) -> Any:
    from ..settings import SECRET

    if name in SECRET and value:
        from ..wiring import without_password

        return without_password(value)
    return value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
