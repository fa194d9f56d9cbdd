"""`doctor`: is everything here that Callboard needs, and what to do where it is not."""

import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from .options import Color, Dsn, Json
from .terminal import print_json, print_lines

if TYPE_CHECKING:
    from ..settings import Color as ColorChoice
    from ..trace import Style
    from .checks import Finding, Health

_GLYPHS: "dict[Health, tuple[str, str]]" = {"ok": ("✓", "ok"), "warn": ("▲", "!!"), "bad": ("✗", "XX")}
"""On a terminal with Unicode, and on one without."""
_STYLES: "dict[Health, Style]" = {"ok": "event", "warn": "waits", "bad": "bad"}


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("doctor")(doctor)


def doctor(
    offline: Annotated[bool, typer.Option("--offline", help="Look at this machine only, at no database.")] = False,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
) -> int:
    """Check the database, this machine and this terminal, and say what to do.

    Nothing is changed, but that an embedded server is started where a command would start it. Keys and passwords are
    not shown.

    Exit codes: 0 all is well or only warned of, 1 something is broken.
    """
    from ..settings import read_settings
    from .checks import database_findings, machine_findings, program_findings

    settings = read_settings(dsn=dsn, color=color)
    found = [*program_findings()]
    if not offline:
        origin = f"from {settings.origin('dsn')}" if settings.dsn else "embedded, of the working directory"
        found += database_findings(settings, origin)
    found += machine_findings(settings)
    broken = any(one.status == "bad" for one in found)
    if json:
        print_json(
            {
                "schema": "callboard.doctor/1",
                "ok": not broken,
                "checks": [
                    {"check": one.check, "status": one.status, "text": one.text, "next": one.next} for one in found
                ],
            }
        )
    else:
        for one in found:
            _print(one, settings.color)
    return 1 if broken else 0


def _print(one: "Finding", color: "ColorChoice") -> None:
    glyph = _GLYPHS[one.status][0 if _has_unicode() else 1]
    lines = [_Line(f"{glyph} {one.check:<12}{one.text}", _STYLES[one.status])]
    if one.next:
        arrow = "→" if _has_unicode() else "->"
        lines.append(_Line(f"{'':<14}{arrow} {one.next}", "data"))
    print_lines(lines, color)


class _Line(NamedTuple):
    """As `trace.Line`, without all that a trace is made of."""

    text: str
    style: "Style"


def _has_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")
