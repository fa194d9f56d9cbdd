"""What an exception of a tool says about another attempt. Pure, and total: exceptions are foreign objects too.

permanent   the same call would fail the same way: a bug, a bad value, a refusal (HTTP 400, 401, 403, 404, ...)
transient   the world may be different in a moment: networks, timeouts, HTTP 408, 409, 425, 429 and 5xx
(unknown)   an exception of a kind that says nothing; treated as transient, since attempts are few
"""

import math
from typing import Final

from .options import Retries


class NotBegun(Exception):
    """A tool raises it when surely nothing was done: the call may be attempted again, whatever it does otherwise."""


_BUGS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
_MAX_RETRY_AFTER_SECONDS: Final = 86_400.0


def is_permanent(error: BaseException, retries: Retries) -> bool:
    """Whether another attempt would not help."""
    if isinstance(error, retries.no_retry):
        return True
    status = http_status(error)
    if status is not None:
        return 400 <= status < 500 and status not in _PASSING_STATUSES
    return isinstance(error, _BUGS)


def http_status(error: BaseException) -> int | None:
    """The status of the HTTP response that an error is about, as the usual client libraries give it."""
    for owner in (error, _attribute(error, "response")):
        for name in ("status_code", "status"):
            status = _attribute(owner, name)
            if type(status) is int and 100 <= status < 600:
                return status
    return None


def retry_after_seconds(error: BaseException) -> float | None:
    """How long the server behind an error asks to be left alone; None where it gives no number."""
    headers = _attribute(_attribute(error, "response"), "headers")
    try:
        seconds = float(headers["retry-after"])  # type: ignore[index]  # whatever it is
    except Exception:  # noqa: BLE001 - no headers, no such header, or a date
        return None
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_SECONDS) if math.isfinite(seconds) else None


def _attribute(owner: object, name: str) -> object:
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001 - a property with a will of its own
        return None
