"""Commands that answer whether all is well: `status` for people, `health` for units, containers and scripts.

`status` says what was looked at, what waits for somebody and what is wrong, each with the command to go on with; its
exit code is 1 where something is bad. `health` asks the same and says nothing where nothing is bad; with `--url` it
asks a daemon's `/readyz` instead, which costs no connection to the database.
"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import Exit
from .options import Color, Dsn, Json, Watch
from .terminal import complain, print_json, print_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..operations.health import Check, HealthReport
    from ..operations.runs import Operations
    from ..settings import Settings
    from ..trace import Line, Style
    from .times import When

_SAID_BYTES = 2_000
"""Of what a daemon answers."""
_URL_SECONDS = 5.0


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("status")(status)
    app.command("health")(health)


def status(watch: Watch = False, color: Color = None, dsn: Dsn = None, json: Json = False) -> None:
    """Say whether the system is healthy, what waits for somebody, and what is stuck; exit 1 where something is bad."""
    from ...mailbox.errors import SchemaMismatch, StoreUnavailable
    from ..operations.health import health_document, unreachable
    from ..settings import read_settings
    from .watch import Shown, watched

    settings = read_settings(dsn=dsn, color=color)

    def show(found: "HealthReport", _: "When") -> None:
        print_lines(status_lines(found), settings.color)

    try:
        found = watched(
            _look, show, settings, Shown(json=json, watch=watch), document=health_document, every_seconds=2.0
        )
    except (StoreUnavailable, SchemaMismatch) as error:
        found = unreachable(error)
        if json:
            print_json(health_document(found))
        else:
            print_lines(status_lines(found), settings.color)
    _end(found)


def health(
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="Ask this instead, such as http://127.0.0.1:9464/readyz of a daemon."
        ),
    ] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Say nothing and exit 0 where the system is healthy; else say what is bad and exit 1, or 75 without a database."""
    from ...mailbox.errors import SchemaMismatch, StoreUnavailable
    from ..operations.health import health_document, unreachable
    from ..settings import read_settings
    from .session import with_operations

    if url is not None:
        _ask(url, as_json=json)
        return
    settings: Settings = read_settings(dsn=dsn)
    try:
        found = with_operations(_look, settings)
    except (StoreUnavailable, SchemaMismatch) as error:
        found = unreachable(error)
    if json:
        print_json(health_document(found))
    else:
        for check in found.of("bad"):
            complain(f"{check.name}: {check.text}" + (f"; next: {check.way_out}" if check.way_out else ""))
    _end(found)


async def _look(operations: "Operations") -> "HealthReport":
    from ..operations.health import status as look

    return await look(operations.store)


def _end(found: "HealthReport") -> None:
    if not found.ok:
        away = any(check.name == "database" for check in found.of("bad"))
        raise typer.Exit(int(Exit.UNAVAILABLE if away else Exit.FAILED))


# --- asking a daemon -----------------------------------------------------------------------------------------------


def _ask(url: str, *, as_json: bool) -> None:
    """Exit 0 where a GET of `url` is answered with 200.

    Raises:
        UsageError: it is no http URL.
    """
    code, said = _get(url)
    if as_json:
        print_json({"schema": "callboard.health/1", "ok": code == 200, "url": url, "status": code, "answer": said})
    elif code != 200:
        complain(f"{url} answers {code}: {said}" if code else f"{url} does not answer: {said}")
    if code != 200:
        raise typer.Exit(int(Exit.FAILED))


def _get(url: str) -> tuple[int, str]:
    """The status and the beginning of the answer; 0 and why where there is none. Follows no redirect."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from urllib.parse import urlsplit

    from ...mailbox.errors import UsageError

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"--url: {error}") from None
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or any(c <= " " for c in url):
        raise UsageError(f"--url: expected something like http://127.0.0.1:9464/readyz, got {url[:80]!r}")
    connection = (HTTPSConnection if parts.scheme == "https" else HTTPConnection)(host, port, timeout=_URL_SECONDS)
    try:
        connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        answer = connection.getresponse()
        return answer.status, answer.read(_SAID_BYTES).decode("utf-8", "replace").strip()
    except (OSError, HTTPException) as error:
        return 0, str(error) or type(error).__name__
    finally:
        connection.close()


# --- as text -------------------------------------------------------------------------------------------------------


def status_lines(found: "HealthReport") -> "Iterator[Line]":
    """A report for people: the verdict, then a line for each check, with what to do where something is to be done."""
    from ..trace import Line

    marks = _marks()
    yield Line(*_verdict(found))
    yield Line("")
    for check in found.checks:
        mark, style = marks[check.level]
        yield Line(f"{mark} {check.name:<13} {check.text}", style)
        for example in check.examples:
            yield Line(f"    {example}", "data")
        if check.way_out and (check.level != "ok" or check.count):
            yield Line(f"    next: {check.way_out}", "data")


def _verdict(found: "HealthReport") -> "tuple[str, Style]":
    bad, warn = found.of("bad"), found.of("warn")
    if bad:
        return f"not healthy: {_names(bad)}", "bad"
    if warn:
        return f"healthy, and somebody should look at: {_names(warn)}", "waits"
    return "healthy", "good"


def _names(checks: "list[Check]") -> str:
    return ", ".join(check.name for check in checks)


def _marks() -> "dict[str, tuple[str, Style]]":
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    if encoding.replace("-", "").startswith("utf"):
        return {"ok": ("✓", "good"), "warn": ("▲", "waits"), "bad": ("✗", "bad")}
    return {"ok": ("ok  ", "good"), "warn": ("warn", "waits"), "bad": ("BAD ", "bad")}
