"""How a handler chooses what happens to its message: raise one of these. Anything else it raises is a bug.

    Transient   the world is at fault: the same message again after a back-off; charged by age, not by count
    Reject      the message is at fault: a dead letter now, the actor goes on
    Park        a person must look: the actor stops taking messages, this one stays first in line
    Fatal       the actor is at fault: a dead letter and an actor failure at once, its supervisor decides
    (a bug)     the turn is discarded and retried with back-off; after `max_failures` it is a dead letter and one actor
                failure

The most severe one in an exception's explicit `__cause__` chain, or in an exception group, decides: wrapping an error
never loses what it meant (unlike systems that look at the outermost one only).
"""

from datetime import timedelta
from math import isnan

from ..mailbox.message import Message

AFTER_FLOOR_SECONDS, AFTER_CAP_SECONDS = 0.02, 86_400.0
"""What bounds `Transient.after_seconds`: at once would be for ever without a pause, and a provider that asks for a year
must not have it."""


class Directive(Exception):
    """Base of what a handler may raise on purpose; `reason` is a sentence for a person."""

    severity = 0
    reason = ""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason or "")


class Transient(Directive):
    """Try the same message again.

    `after_seconds` overrides the back-off (Retry-After), up to a day. `notice` is sent to whoever waits for the reply,
    in the same commit, so that a failed attempt can be journaled. `charge` counts it as one of the message's failures.
    """

    severity = 1
    # Also of a subclass that does not call this `__init__`.
    after_seconds: float | None = None
    notice: Message | None = None
    charge = False

    def __init__(
        self,
        reason: str = "",
        *,
        after_seconds: timedelta | float | None = None,
        notice: Message | None = None,
        charge: bool = False,
    ) -> None:
        super().__init__(reason)
        self.after_seconds = _bounded(after_seconds)
        self.notice = notice
        self.charge = charge


def _bounded(after: timedelta | float | None) -> float | None:
    if after is None:
        return None
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    # What is no length of time is nothing that was asked for.
    return min(max(seconds, AFTER_FLOOR_SECONDS), AFTER_CAP_SECONDS) if not isnan(seconds) else None


class Reject(Directive):
    """Make this message a dead letter; the actor is fine."""

    severity = 3


class Park(Directive):
    """Stop this actor until somebody resumes it; the message stays."""

    severity = 4


class Fatal(Directive):
    """This actor is broken."""

    severity = 5


BUG_SEVERITY = 2
_MAX_DEPTH = 100
"""How far a chain of causes is followed; more than any program makes, and it may be a circle."""


def _worst(error: BaseException, depth: int) -> tuple[int, Directive | None]:
    parts = [*error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    if error.__cause__ is not None:
        parts.append(error.__cause__)
    found = [_worst(part, depth + 1) for part in parts] if depth < _MAX_DEPTH else []
    if isinstance(error, Directive):
        # Said on purpose: a plain error that was the occasion does not make it a bug.
        found = [(error.severity, error), *(part for part in found if part[1] is not None)]
    return max(found, key=lambda part: part[0], default=(BUG_SEVERITY, None))


def is_out_of_memory(error: BaseException, depth: int = 0) -> bool:
    """Whether memory ran out, somewhere in a chain of causes or a group."""
    if isinstance(error, MemoryError):
        return True
    parts = [*error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    if error.__cause__ is not None:
        parts.append(error.__cause__)
    return depth < _MAX_DEPTH and any(is_out_of_memory(part, depth + 1) for part in parts)


def directive_of(error: BaseException) -> Directive | None:
    """The directive that `error` carries; None when it is a bug."""
    return _worst(error, 0)[1]
