"""Whether a daemon lives, serves, and has ever served: what those who start it and who send it work ask.

    /livez      its event loop turns. Not whether the database is there: a restart would not bring that back
    /readyz     it can work now: the database answers with this program's schema, at least one node serves and hears
                what is new, the application's tree is up, and nobody has told it to leave
    /startupz   it was ready once

Each check is a line that says what is so, whether that is well or not, so that the answer is also the explanation.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ..persistence.port import Port
from .database_watch import DatabaseWatch

STATUS_SECONDS = 6.0
"""A child that has said nothing of itself for so long does not serve, as far as is known; it speaks once a second."""
LISTENER_SECONDS = 15.0
"""A child whose wake-ups take so long hears nothing any more; it would find what is new by looking only."""
_DOWN = ("escalated", "failed", "stopped")


class Check(msgspec.Struct, frozen=True):
    """One thing that has to be so."""

    name: str
    ok: bool
    detail: str


class ChildStatus(msgspec.Struct):
    """What a node process has said of itself."""

    heard_at: float
    ready: bool
    listener_lag_seconds: float
    shards: int


class Readiness:
    """Of one daemon."""

    def __init__(self, database: DatabaseWatch, port: Port, *, children: Callable[[], Sequence[ChildStatus | None]]):
        self._database = database
        self._port = port
        self._children = children
        """What each place's child has said; None where there is none, or it has said nothing yet."""
        self.draining = False
        self._was_ready = False

    def checks(self) -> list[Check]:
        """All of them, in the order in which they explain each other."""
        database, schema = self._database.problem(), self._database.schema_problem()
        found = [
            Check("database", not database, database or "answers"),
            Check("schema", not schema, schema or "is this program's" if not database else "cannot be seen"),
            *self._node_checks(),
            self._tree_check(),
            Check("draining", not self.draining, "was told to leave" if self.draining else "no"),
        ]
        self._was_ready = self._was_ready or is_well(found)
        return found

    def _node_checks(self) -> Iterable[Check]:
        now, children = self._port.monotonic(), self._children()
        serving = [c for c in children if c is not None and c.ready and now - c.heard_at <= STATUS_SECONDS]
        shards = sum(child.shards for child in serving)
        yield Check("nodes", bool(serving), f"{len(serving)} of {len(children)} serve, with {shards} shards")
        lags = [child.listener_lag_seconds for child in serving]
        lag = f"hears what is new within {min(lags):.3f} s" if lags else "no node serves"
        yield Check("listener", bool(lags) and min(lags) <= LISTENER_SECONDS, lag)

    def _tree_check(self) -> Check:
        status, reason = self._database.root_status, self._database.root_reason
        if status in _DOWN:
            return Check("tree", False, f"{self._database.root} is {status}: {reason or 'no reason is known'}")
        return Check("tree", True, f"{self._database.root or 'the root'} is {status or 'not seen yet'}")

    @property
    def escalated(self) -> bool:
        """Whether the application's root supervisor has given up."""
        return self._database.root_status == "escalated"

    @property
    def was_ready(self) -> bool:
        """Whether it has ever been ready, or is now."""
        return self._was_ready or is_well(self.checks())

    def summary(self) -> str:
        """All of it in a line for people."""
        wrong = [check for check in self.checks() if not check.ok]
        if self.draining:
            return "draining"
        if not wrong:
            return next(check.detail for check in self.checks() if check.name == "nodes")
        return "; ".join(f"{check.name} {check.detail}" for check in wrong)


def is_well(checks: Iterable[Check]) -> bool:
    """Whether all of them are."""
    return all(check.ok for check in checks)
