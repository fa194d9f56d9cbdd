"""What goes wrong in a step or a call, as the code of a hosted run gets it: the same at first and on replay."""

import builtins
from contextlib import suppress

from ...mailbox.errors import CallboardError
from ..llm.client import ModelError, PermanentModelError, TransientModelError
from .loop_replay import Outcome


class CallFailed(CallboardError):
    """A tool call came to nothing; the text says why."""


class CallDenied(CallFailed):
    """A person said no; `reason` is theirs, `by` is who."""

    def __init__(self, message: str, reason: str = "", by: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.by = by


class CallExpired(CallDenied):
    """Nobody decided in time, which means no."""


class StepError(CallboardError):
    """A step raised something that is no built-in exception; `error_type` is the name of its class."""

    def __init__(self, message: str, error_type: str) -> None:
        super().__init__(message)
        self.error_type = error_type


_KNOWN: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (TransientModelError, PermanentModelError, ModelError)
}


def error_of(outcome: Outcome) -> Exception:
    """The exception that an outcome without a value is for the code."""
    match outcome.came:
        case "denied":
            reason = outcome.error or "no reason given"
            return CallDenied(f"approval of {outcome.name} denied by {outcome.by}: {reason}", outcome.error, outcome.by)
        case "expired":
            return CallExpired(f"approval of {outcome.name} expired: {outcome.error}", outcome.error)
        case "failed" if not outcome.error_type:
            return CallFailed(outcome.error)
    kind = _KNOWN.get(outcome.error_type) or getattr(builtins, outcome.error_type, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(TypeError):  # UnicodeDecodeError and the like want more than a text
            return kind(outcome.error)
    return StepError(outcome.error, outcome.error_type)
