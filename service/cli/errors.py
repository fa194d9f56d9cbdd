"""From an error to an exit code and a line: the one table, and the one place that says errors.

An error reads `what – why – next` in one line on stderr; with --json it is one problem object there. stdout stays
empty, so that a script never takes an error for data.
"""

import json
import sys
import traceback
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


def _table() -> tuple[tuple[type[BaseException], Exit, str], ...]:
    """Class, exit code and problem type; the first row that fits counts, so children come before their parents."""
    from ...persistence.embedded import EmbeddedServerError
    from ..decisions import Expired

    return (
        (e.UsageError, Exit.USAGE, "usage"),
        (e.NotFound, Exit.NOT_FOUND, "not-found"),
        (Expired, Exit.EXPIRED, "expired"),
        (e.AlreadyDecided, Exit.CONFLICT, "already-decided"),
        (e.Conflict, Exit.CONFLICT, "conflict"),
        (e.NotAllowed, Exit.NOT_ALLOWED, "not-allowed"),
        (e.StoreUnavailable, Exit.UNAVAILABLE, "database-unavailable"),
        (EmbeddedServerError, Exit.UNAVAILABLE, "database-unavailable"),
        (e.SchemaMismatch, Exit.FAILED, "schema-mismatch"),
        (e.CallboardError, Exit.FAILED, "failed"),
        (TimeoutError, Exit.TIMED_OUT, "timed-out"),
        (KeyboardInterrupt, Exit.INTERRUPTED, "interrupted"),
    )


def leaf(error: BaseException) -> BaseException:
    """The error inside of groups; of several the first that is more than a cancellation of the others."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def problem_of(error: BaseException) -> dict[str, Any]:
    """An error as a problem object, for commands that tell of several."""
    error = leaf(error)
    for kind, code, name in _table():
        if isinstance(error, kind):
            return _problem(name, " ".join(str(error).split()), int(code))
    return _problem("bug", f"this is a bug: {type(error).__name__}: {error}", int(Exit.FAILED))


def _problem(name: str, detail: str, code: int) -> dict[str, Any]:
    return {"schema": "callboard.problem/1", "type": name, "detail": detail, "exit_code": code}


def report(error: BaseException, *, as_json: bool, with_traceback: bool = False) -> int:
    """Say what went wrong on stderr; the exit code."""
    error = leaf(error)
    for kind, code, name in _table():
        if isinstance(error, kind):
            detail = "interrupted" if code is Exit.INTERRUPTED else str(error) or type(error).__name__
            say(name, detail, int(code), as_json=as_json)
            return int(code)
    if with_traceback:
        traceback.print_exception(error, file=sys.stderr)
    hint = "" if with_traceback else "; CALLBOARD_LOG_LEVEL=debug shows where"
    say("bug", f"this is a bug: {type(error).__name__}: {error}{hint}", int(Exit.FAILED), as_json=as_json)
    return int(Exit.FAILED)


def say(name: str, detail: str, code: int, *, as_json: bool) -> None:
    """One problem, as a line or as an object."""
    detail = " ".join(detail.split())
    if as_json:
        sys.stderr.write(json.dumps(_problem(name, detail, code)) + "\n")
    else:
        complain(detail)
