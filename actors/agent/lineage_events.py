"""Events of where a run comes from, what it may spend, and the runs that it calls. `events` names them all.

Neighbours: `forking` makes forks, `run_children` calls agents, `classifier` lowers budgets; `state` folds all of them.
"""

from decimal import Decimal
from typing import Any

import msgspec

from ..context import Event
from .budget import Budget


class ToolVersion(msgspec.Struct, frozen=True):
    """A tool as it was when the run started."""

    name: str
    version: str


class ToolsChanged(Event, tag="run.tools_changed"):
    """The run goes on with other tools, or other versions of them, than it had up to here."""

    added: list[ToolVersion] = msgspec.field(default_factory=list)
    removed: list[ToolVersion] = msgspec.field(default_factory=list)
    changed: list[ToolVersion] = msgspec.field(default_factory=list)
    """With their new versions."""
    code_version: str = ""
    """Of the program that goes on with it."""


class RunForked(Event, tag="run.forked"):
    """A run exists that goes on from an event of another one, which does not notice."""

    run_id: str
    at: float
    """Seconds since 1970."""
    origin: str
    """Address of the other run."""
    origin_seq: int
    """Number of the last event that they share; what comes before is read there."""
    state: dict[str, Any]
    """The other run's state at that event."""
    budget: Budget
    """Counted anew: the fork has spent nothing."""
    elsewhere: dict[str, str] = msgspec.field(default_factory=dict)
    """What the other run did beyond that event: fingerprints of calls, and which calls they are."""
    requested_by: str = "unknown"
    note: str = ""
    tools: list[ToolVersion] = msgspec.field(default_factory=list)
    scope: str = ""
    code_version: str = ""


class BudgetSet(Event, tag="run.budget_set"):
    """A classifier said how big the task is, before the first model call; `budget` holds from here on."""

    label: str
    budget: Budget
    reason: str = ""


class BudgetRaised(Event, tag="run.budget_raised"):
    """The lowered budget did not do; this one, no more than the run's own, holds from here on. It happens once."""

    budget: Budget
    reason: str = ""
    """The limit that was reached."""


class ChildStarted(Event, tag="child.started"):
    """The call is answered by a run of an agent."""

    call: int
    agent: str
    child: str
    """Address of that run."""
    budget: Budget
    """What it may spend."""


class ChildEnded(Event, tag="child.ended"):
    """That run has ended; what it spent counts here too. Its answer, or why there is none, is the call's outcome."""

    call: int
    agent: str
    child: str
    status: str
    """completed, failed or cancelled; `lost` where it could not say."""
    iterations: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
