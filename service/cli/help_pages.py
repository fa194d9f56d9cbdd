"""Makes the pages that `help_texts` reads: what every command is for, an example, its options by group, and the rest.

A page is made from the command alone (its parameters and its docstring) and from `examples`; nothing is written twice.
A paragraph of the docstring that begins with "Exit codes:" goes to the end.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import typer

from .app import build
from .examples import EXAMPLES
from .overview import EXIT_CODES

WIDTH = 100
_COLUMN = 26
"""Where the words about an option begin."""
_OUTPUT = ("json", "jsonl", "watch", "time", "color", "log_json", "log_level")
_CONNECTION = ("dsn",)
_GROUPS = (("options", None), ("output", _OUTPUT), ("connection", _CONNECTION))
_CHOICES = re.compile(r"[a-z0-9.-]+(\|[a-z0-9.-]+)+")
ENVIRONMENT = (
    ("CALLBOARD_DSN", "The database, without --dsn; then DATABASE_URL; then an embedded one of the directory."),
    ("CALLBOARD_HOME", "Where embedded ones keep their data."),
    ("CALLBOARD_CONFIG", "The file of settings and rules instead of callboard.toml; see `callboard config`."),
    ("NO_COLOR, TERM=dumb", "No colours."),
)
_EXIT_CODES = ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES) + "."


def written() -> str:
    """The file."""
    root = typer.main.get_command(build())
    found = {" ".join(words): _page(words, command) for words, command in walk(root, ())}
    return json.dumps(found, indent=1, ensure_ascii=True, sort_keys=True) + "\n"


def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command beneath one, with its words."""
    for name, child in getattr(command, "commands", {}).items():
        yield (*words, name), child
        yield from walk(child, (*words, name))


def _page(words: tuple[str, ...], command: Any) -> dict[str, Any]:
    parameters = [one for one in command.params if not getattr(one, "hidden", False)]
    options = [one for one in parameters if one.param_type_name == "option"]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    beneath = {name: child for name, child in getattr(command, "commands", {}).items() if not child.hidden}
    lists = beneath and type(command) is not typer.core.TyperGroup  # see `grammar`
    stands_for = beneath.get("list") if lists else None
    if stands_for is not None:  # such a group lists when it is called without the name of a command
        options = [one for one in stands_for.params if one.param_type_name == "option"]
    paragraphs = [*_paragraphs(command.help or command.callback.__doc__ or "")]
    purpose, body = paragraphs[0], paragraphs[1:]
    exits = [one for one in body if one.startswith("Exit codes:")]
    lines = [
        purpose,
        "",
        *(f"  {example}" for example in EXAMPLES.get(" ".join(words), ())),
        "",
        f"usage: {_usage(words, arguments, beneath)}",
        *(f"\n{_wrapped(one)}" for one in body if one not in exits),
        *_beneath(beneath),
        *_arguments(arguments),
        *_options(options, " of list" if stands_for is not None else ""),
        *_titled("environment", ENVIRONMENT),
        "",
        *(_wrapped(one) for one in exits),
        _wrapped(("Of all commands: " if exits else "Exit codes: ") + _EXIT_CODES),
    ]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).split("\n")
    return {
        "purpose": purpose,
        "text": text,
        "hidden": bool(command.hidden),
        "commands": sorted(beneath),
        "arguments": [one.metavar or one.name.upper() for one in arguments or _looked_at(beneath, stands_for)],
        "options": {name: _values(one) for one in options for name in (*one.opts, *one.secondary_opts)},
    }


def _looked_at(beneath: dict[str, Any], stands_for: Any) -> list[Any]:
    """What a group that is called without the name of a command may be given: what its command to look takes."""
    look = beneath.get("peek") or beneath.get("show")
    if stands_for is None or look is None:
        return []
    return [one for one in look.params if one.param_type_name == "argument"]


def _paragraphs(docstring: str) -> Iterator[str]:
    for part in re.split(r"\n\s*\n", docstring.strip()):
        yield " ".join(part.split())


def _usage(words: tuple[str, ...], arguments: list[Any], beneath: dict[str, Any]) -> str:
    shown = [_argument(one) for one in arguments]
    return " ".join(["callboard", *words, *(["[COMMAND]"] if beneath else []), *shown, "[OPTIONS]"])


def _argument(one: Any) -> str:
    name = (one.metavar or one.name.upper()).strip("[]").removesuffix("...")
    shown = f"{name}..." if one.nargs == -1 else name
    return shown if one.required else f"[{shown}]"


def _beneath(commands: dict[str, Any]) -> Iterator[str]:
    rows = [(name, next(_paragraphs(child.help or child.callback.__doc__ or ""))) for name, child in commands.items()]
    yield from _titled("commands", rows)


def _arguments(arguments: list[Any]) -> Iterator[str]:
    yield from _titled("arguments", [(_argument(one), one.help or "") for one in arguments])


def _options(options: list[Any], whose: str) -> Iterator[str]:
    grouped = {name for _, names in _GROUPS if names for name in names}
    for title, names in _GROUPS:
        chosen = [one for one in options if (one.name in names if names else one.name not in grouped)]
        yield from _titled(title + whose, [(_spelled(one), _explained(one)) for one in chosen])


def _spelled(one: Any) -> str:
    short = sorted((name for name in one.opts if not name.startswith("--")), key=len)
    long = [name for name in one.opts if name.startswith("--")]
    metavar = "" if one.is_flag else f" {_metavar(one)}"
    off = "".join(f"/{name}" for name in one.secondary_opts)
    return ", ".join([*short, *long]) + off + metavar


def _metavar(one: Any) -> str:
    if one.metavar:
        return str(one.metavar)
    annotation = str(one.type_descriptor.annotation)
    return "N" if "int" in annotation or "float" in annotation else "TEXT"


def _explained(one: Any) -> str:
    from ..setting_sources import FILE_KEYS

    said = [one.help or ""]
    if one.required:
        said.append("Required.")
    elif not one.is_flag and one.default not in (None, "", (), []) and not callable(one.default):
        said.append(f"Default: {one.default}.")
    if one.name in FILE_KEYS:
        said.append(f"Environment: CALLBOARD_{one.name.upper()}.")
    return " ".join(part for part in said if part)


def _values(one: Any) -> str:
    """What a shell may offer for an option: `a|b|c`, the name of what it takes, or "" for a flag."""
    return "" if one.is_flag else _metavar(one)


def _titled(title: str, rows: Any) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield f"{title}:"
    for left, right in rows:
        first, *more = textwrap.wrap(right, WIDTH - _COLUMN - 2) or [""]
        if len(left) > _COLUMN - 2:
            yield f"  {left}"
            yield f"  {'':<{_COLUMN}}{first}".rstrip()
        else:
            yield f"  {left:<{_COLUMN}}{first}".rstrip()
        yield from (f"  {'':<{_COLUMN}}{line}" for line in more)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH)
