"""What an exception of a tool says about another attempt. Pure, and total: exceptions are foreign objects too.

permanent   the same call would fail the same way: a bug, a bad value, a refusal (HTTP 400, 401, 403, 404, ...)
transient   the world may be different in a moment: networks, timeouts, HTTP 408, 409, 425, 429 and 5xx
(unknown)   an exception of a kind that says nothing; treated as transient, since attempts are few
"""

import math
from typing import Final, Literal

from .options import Retries
from .policy import MAX_NEEDED


class NotBegun(Exception):
    """A tool raises it when surely nothing was done: the call may be attempted again, whatever it does otherwise."""


class NeedsApproval(Exception):
    """A tool raises it before it has done anything: people have to let this very call go first.

    The call is held as if its gate had said so, and when it was approved, the tool is called again, with the same key
    and the decision's id as `approval`. Raised by a call that was approved, it is an error for the model.
    """

    reason = ""
    risk: Literal["normal", "high"] = "normal"
    needed = 1

    def __init__(self, reason: str, *, risk: Literal["normal", "high"] = "normal", needed: int = 1) -> None:
        """`reason`: a sentence for the approver; `risk`: what it takes to approve; `needed`: how many people.

        Raises:
            ValueError: no reason, another risk, or a number of people that is not from 1 to 50.
        """
        if not reason.strip():
            raise ValueError("NeedsApproval wants a sentence that says why")
        if risk not in ("normal", "high"):
            raise ValueError(f"risk has to be 'normal' or 'high', not {risk!r:.40}")
        if type(needed) is not int or not 1 <= needed <= MAX_NEEDED:
            raise ValueError(f"needed={needed!r:.40}, which has to be from 1 to {MAX_NEEDED}")
        super().__init__(reason)
        self.reason, self.risk, self.needed = reason, risk, needed


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
