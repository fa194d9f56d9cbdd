"""The history of a supervisor: what it records in its journal, in the order in which it happened.

Operators read this when they want to know why an actor runs in its fourth incarnation, or not at all. Recorded in the
turn that decided; a start or an end is recorded when the supervisor hears of it, not when it asks for it.
"""

from .context import Event


class ChildStarted(Event, tag="sys.supervision.child_started"):
    """Its on_start has committed."""

    child: str
    incarnation: int


class StartFailed(Event, tag="sys.supervision.start_error"):
    """It could not be started, at boot or in a restart."""

    child: str
    incarnation: int
    reason: str


class StartIgnored(Event, tag="sys.supervision.start_ignored"):
    """It declined its start."""

    child: str
    incarnation: int


class ChildTerminated(Event, tag="sys.supervision.child_terminated"):
    """It ended although it should not: abnormally, or at all where it is permanent."""

    child: str
    incarnation: int
    reason: str


class ChildEnded(Event, tag="sys.supervision.child_ended"):
    """It ended by itself, and in good order."""

    child: str
    incarnation: int
    reason: str


class ChildStopped(Event, tag="sys.supervision.child_stopped"):
    """It was asked to stop, and did."""

    child: str
    incarnation: int
    reason: str


class ShutdownError(Event, tag="sys.supervision.shutdown_error"):
    """It was asked to stop and failed instead, had failed before it could be asked, or had to be killed."""

    child: str
    incarnation: int
    reason: str


class GaveUp(Event, tag="sys.supervision.gave_up"):
    """One restart too many (of this child): the supervisor stops all and escalates."""

    reason: str
    child: str


class SupervisorStarted(Event, tag="sys.supervision.started"):
    """All its children are started."""

    incarnation: int


class SupervisorEnded(Event, tag="sys.supervision.ended"):
    """All its children are down, and so is it."""

    incarnation: int
    how: str
    """stopped, failed (could not start, or was killed), escalated."""
    reason: str


class InstanceAbandoned(Event, tag="sys.supervision.instance_abandoned"):
    """An instance of a pool failed more often than its supervisor's intensity allows: it stays failed."""

    child: str
    incarnation: int
    reason: str


class PoolPaused(Event, tag="sys.supervision.pool_paused"):
    """Too many instances of a pool failed within the window: restarts wait until it has passed."""

    pool: str
    failing: int
    instances: int
    seconds: float


class PoolResumed(Event, tag="sys.supervision.pool_resumed"):
    """The window has passed: what waited is started."""

    pool: str
    waiting: int
