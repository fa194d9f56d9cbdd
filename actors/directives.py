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

from collections.abc import Iterator

from ..mailbox.message import Message


class Directive(Exception):
    """Base of what a handler may raise on purpose; `reason` is a sentence for a person."""

    severity = 0

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Transient(Directive):
    """Try the same message again.

    `after_seconds` overrides the back-off (Retry-After). `notice` is sent to whoever waits for the reply, in the same
    commit, so that a failed attempt can be journaled. `charge` counts it as one of the message's failures.
    """

    severity = 1

    def __init__(
        self,
        reason: str = "",
        *,
        after_seconds: float | None = None,
        notice: Message | None = None,
        charge: bool = False,
    ) -> None:
        super().__init__(reason)
        self.after_seconds = after_seconds
        self.notice = notice
        self.charge = charge


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


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    stack = [error]
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            stack.extend(current.exceptions)
        if current.__cause__ is not None:
            stack.append(current.__cause__)


def directive_of(error: BaseException) -> Directive | None:
    """The directive that `error` carries; None when it is a bug."""
    found = [cause for cause in _causes(error) if isinstance(cause, Directive)]
    worst = max(found, key=lambda directive: directive.severity, default=None)
    if worst is None or isinstance(error, Directive):
        return worst
    if isinstance(error, BaseExceptionGroup) and worst.severity < BUG_SEVERITY:
        plain = any(not isinstance(part, Directive) and part.__cause__ is None for part in error.exceptions)
        return None if plain else worst
    return worst
