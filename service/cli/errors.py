"""From an error to an exit code and what is said of it: the one table, and the one place that says errors.

An error reads `what and why; next: a command` in one line on stderr; with --json (or --jsonl) it is one problem object
there. stdout stays empty, so that a script never takes an error for data. What went wrong and why is the error's own
message; the table knows what its kind is called and what to do next where the message does not say it already.
"""

import errno
import json
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from ...mailbox import errors as e
from .terminal import complain


class Exit(IntEnum):
    """What a command's end says to the shell."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    EXPIRED = 6
    TIMED_OUT = 7
    UNAVAILABLE = 75
    INTERRUPTED = 130


@dataclass(frozen=True)
class Kind:
    """What one kind of error is to its reader."""

    code: Exit
    name: str
    title: str
    next: str = ""
    """A command, or what to do, where the message names none."""


_BUG = Kind(Exit.FAILED, "bug", "A bug of Callboard", "CALLBOARD_LOG_LEVEL=debug with the same command shows where")
_BIND = Kind(Exit.FAILED, "cannot-bind", "The address cannot be listened on", "choose another address or port")
_DENIED = Kind(Exit.NOT_ALLOWED, "permission", "The operating system says no")
_EXTRAS = {
    "http": ("litestar", "uvicorn"),
    "langgraph": ("langgraph", "langchain_core"),
    "mcp": ("mcp", "jsonschema"),
    "otel": ("opentelemetry",),
    "evals": ("sklearn",),
}
"""Extra, and the modules that it brings."""


def _table() -> tuple[tuple[type[BaseException], Kind], ...]:
    """The first row that fits counts, so children come before their parents."""
    from ...persistence.embedded import EmbeddedServerError
    from ..operations.decisions import Expired

    doctor = "callboard doctor"
    return (
        (e.UsageError, Kind(Exit.USAGE, "usage", "Wrong usage", "callboard --help")),
        (e.NotFound, Kind(Exit.NOT_FOUND, "not-found", "Nothing by that name")),
        (Expired, Kind(Exit.EXPIRED, "expired", "Too late: it has expired", "callboard approvals")),
        (e.AlreadyDecided, Kind(Exit.CONFLICT, "already-decided", "Decided before", "callboard approvals list --all")),
        (e.MailboxFull, Kind(Exit.CONFLICT, "mailbox-full", "The mailbox is full", "try again later")),
        (e.Conflict, Kind(Exit.CONFLICT, "conflict", "Not as things stand")),
        (e.NotAllowed, Kind(Exit.NOT_ALLOWED, "not-allowed", "Not allowed")),
        (e.StoreUnavailable, Kind(Exit.UNAVAILABLE, "database-unavailable", "The database does not answer", doctor)),
        (EmbeddedServerError, Kind(Exit.UNAVAILABLE, "database-unavailable", "No embedded database", doctor)),
        (e.SchemaMismatch, Kind(Exit.FAILED, "schema-mismatch", "Another schema than expected", doctor)),
        (e.CallboardError, Kind(Exit.FAILED, "failed", "It failed", doctor)),
        (TimeoutError, Kind(Exit.TIMED_OUT, "timed-out", "Not in time")),
        (KeyboardInterrupt, Kind(Exit.INTERRUPTED, "interrupted", "Interrupted")),
        (PermissionError, _DENIED),
    )


def described(error: BaseException) -> tuple[Kind, str]:
    """What kind of error it is, and what and why in words."""
    error = e.leaf(error)
    for reader in (_of_the_system, _of_an_extra):
        found = reader(error)
        if found is not None:
            return found
    for kind, row in _table():
        if isinstance(error, kind):
            detail = "interrupted" if row.code is Exit.INTERRUPTED else str(error) or type(error).__name__
            return row, detail
    return _BUG, f"this is a bug: {type(error).__name__}: {error}"


def _of_the_system(error: BaseException) -> tuple[Kind, str] | None:
    if not isinstance(error, OSError) or isinstance(error, e.CallboardError | TimeoutError):
        return None
    said = error.strerror or str(error)
    where = f"{error.filename}: " if error.filename else ""
    match error.errno:
        case errno.EADDRINUSE | errno.EADDRNOTAVAIL:
            return _BIND, f"{where}cannot listen: {said}"
        case errno.EACCES | errno.EPERM:
            way_out = "give this user the right to it, or name another place"
            return Kind(_DENIED.code, _DENIED.name, _DENIED.title, way_out), f"{where}{said}"
        case errno.ENOSPC:
            return Kind(Exit.FAILED, "disk-full", "The disk is full", "make room, then try again"), f"{where}{said}"
        case errno.EMFILE | errno.ENFILE:
            return Kind(Exit.FAILED, "too-many-files", "Too many open files", "ulimit -n shows how many may be"), said
        case errno.ENOENT | errno.ENOTDIR | errno.EISDIR if error.filename:
            return Kind(Exit.NOT_FOUND, "not-found", "Nothing by that name"), f"{where}{said}"
    return None


def _of_an_extra(error: BaseException) -> tuple[Kind, str] | None:
    if not isinstance(error, ModuleNotFoundError):
        return None
    missing = (error.name or "").split(".")[0]
    for extra, modules in _EXTRAS.items():
        if missing in modules:
            install = f"pip install 'callboard[{extra}]'"
            kind = Kind(Exit.FAILED, "not-installed", "An extra is not installed", install)
            return kind, f"this needs the extra [{extra}], which is not installed (there is no module {missing!r})"
    return None


_COMMAND = re.compile(r"`(callboard [^`]+)`(?! has no )|: (callboard [^;,`]+)")


def next_of(detail: str, otherwise: str) -> str:
    """What to do next: the command that a message names, else what its kind suggests."""
    found = _COMMAND.search(detail)
    return next(filter(None, found.groups())).strip() if found else otherwise


def problem_of(error: BaseException) -> dict[str, Any]:
    """An error as a problem object, for commands that tell of several."""
    kind, detail = described(error)
    return _problem(kind, " ".join(detail.split()), kind.next)


def _problem(kind: Kind, detail: str, way_out: str) -> dict[str, Any]:
    return {
        "schema": "callboard.problem/1",
        "type": kind.name,
        "title": kind.title,
        "detail": detail,
        "code": kind.name,
        "exit_code": int(kind.code),
        "next": next_of(detail, way_out),
    }


def report(error: BaseException, *, as_json: bool, with_traceback: bool = False, command: str = "") -> int:
    """Say what went wrong on stderr; the exit code. `command`: which one it was, whose help is worth reading."""
    kind, detail = described(error)
    if kind.code is Exit.USAGE and command:
        kind = replace(kind, next=f"callboard {command} --help")
    if kind is _BUG and with_traceback:
        traceback.print_exception(e.leaf(error), file=sys.stderr)
    say(kind, detail, as_json=as_json)
    return int(kind.code)


def ended_by(error: BaseException, arguments: list[str], *, as_json: bool = False) -> int:
    """Say what ended the command of these arguments, unless its reader has left; the exit code."""
    from . import reader_left
    from .help_texts import command_in, pages

    if isinstance(e.leaf(error), BrokenPipeError):
        return reader_left()
    asked = command_in(arguments, pages())
    return report(error, as_json=as_json, with_traceback=_wants_traceback(), command=asked)


def _wants_traceback() -> bool:
    from ..settings import read_settings

    try:
        return read_settings().log_level == "debug"
    except e.SettingError:
        return False


def say(kind: Kind, detail: str, *, as_json: bool) -> None:
    """One problem, as a line or as an object."""
    detail = " ".join(detail.split())
    if as_json:
        sys.stderr.write(json.dumps(_problem(kind, detail, kind.next)) + "\n")
        return
    way_out = next_of(detail, kind.next)
    complain(detail if not way_out or way_out in detail else f"{detail}; next: {way_out}")


def misread(error: BaseException, closest: Callable[[str, list[str]], list[str]]) -> tuple[Kind, str]:
    """What is wrong with a command line that could not be read, and what was perhaps meant.

    `error` is Typer's; what it knows besides its message is read off it where it is there.
    """
    context = getattr(error, "ctx", None)
    command = getattr(context, "command", None)
    path = getattr(context, "command_path", "callboard") or "callboard"
    way_out = f"{path} --help"
    kind = Kind(Exit.USAGE, "usage", "Wrong usage", way_out)
    option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and option:
        known = [name for one in getattr(command, "params", ()) for name in (*one.opts, *one.secondary_opts)]
        return kind, f"`{path}` has no option {option}{_perhaps(closest(option, known))}"
    said = getattr(error, "format_message", None)
    detail = str(said() if callable(said) else error).rstrip(". ")
    unknown = re.match(r"No such command '(.*?)'", detail, re.DOTALL)
    if unknown:
        known = [name for name, one in getattr(command, "commands", {}).items() if not one.hidden]
        return kind, f"`{path}` has no command {unknown[1]!r}{_perhaps(closest(unknown[1], known))}"
    return kind, detail


def _perhaps(names: list[str]) -> str:
    return f"; did you mean {' or '.join(names)}?" if names else ""
