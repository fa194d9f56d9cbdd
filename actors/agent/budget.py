"""Budgets: what a run may spend, checked at the top of each iteration.

A limit of N allows N: the N-th model call is made and its answer counts. An answer that was paid for is never thrown
away, so the last call may overshoot a token or cost limit; what is refused is the next one. Two limits are looked at
elsewhere too: tool calls when the model asks for them (none of a turn is made that asks for more than is left), and the
duration when an attempt at a model call has failed, as it could be tried again for ever.
"""

from decimal import Decimal
from math import ceil, isnan
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ...mailbox.errors import UsageError

if TYPE_CHECKING:
    from .state import RunState

FailureReason = Literal[
    "max_steps_exceeded",
    "max_tokens_exceeded",
    "max_duration_exceeded",
    "max_cost_exceeded",
    "max_tool_calls_exceeded",
    "unrecoverable_error",
]


MAX_LIMIT = 1 << 53
"""Of what is counted; a greater limit is none."""


class Budget(msgspec.Struct, frozen=True):
    """The limits of one run; None: no limit."""

    max_iterations: int | None = 50
    max_tokens: int | None = 150_000
    max_duration_seconds: float | None = None
    """From the start of the run; waiting for a person counts too."""
    max_cost_usd: Decimal | None = None
    max_tool_calls: int | None = None


class Overrun(msgspec.Struct, frozen=True):
    """The limit that was reached, by the name that events use, and a sentence with the amounts."""

    reason: FailureReason
    detail: str


def check(budget: Budget) -> None:
    """Refuse a budget with which a run could never succeed, or which no journal can hold: it would read as something
    else, or not at all, and the run stand still.

    Raises:
        UsageError: naming the limit.
    """
    for name in ("max_iterations", "max_tokens", "max_tool_calls"):
        limit = getattr(budget, name)
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit > MAX_LIMIT):
            raise UsageError(f"a budget with {name}={limit!r:.40} means nothing; give a whole number, or None")
    for name in ("max_duration_seconds", "max_cost_usd"):
        limit = getattr(budget, name)
        if limit is not None and not _is_amount(limit):
            raise UsageError(f"a budget with {name}={limit!r:.40} means nothing; give a number, or None")
    for name in ("max_iterations", "max_tokens", "max_duration_seconds"):
        limit = getattr(budget, name)
        if limit is not None and not limit > 0:
            raise UsageError(f"a budget with {name}={limit} allows no model call; give a number above 0, or None")
    for name in ("max_cost_usd", "max_tool_calls"):
        limit = getattr(budget, name)
        if limit is not None and not limit >= 0:
            raise UsageError(f"a budget with {name}={limit} means nothing; give 0 or more, or None")


def _is_amount(limit: object) -> bool:
    """Infinity is one: it means the same as None."""
    match limit:
        case Decimal():
            return not limit.is_nan()
        case float():
            return not isnan(limit)
    return isinstance(limit, int) and not isinstance(limit, bool)


def least(one: Budget, other: Budget) -> Budget:
    """The stricter of each limit."""
    return Budget(**{name: _least(getattr(one, name), getattr(other, name)) for name in Budget.__struct_fields__})


def _least(*limits: Any) -> Any:
    return min((limit for limit in limits if limit is not None), default=None)


def scaled(budget: Budget, factor: float) -> Budget:
    """A part of each limit, whole ones rounded up, so that what allows anything still allows something."""
    cost = budget.max_cost_usd
    return Budget(
        max_iterations=None if budget.max_iterations is None else ceil(budget.max_iterations * factor),
        max_tokens=None if budget.max_tokens is None else ceil(budget.max_tokens * factor),
        max_duration_seconds=None if budget.max_duration_seconds is None else budget.max_duration_seconds * factor,
        max_cost_usd=None if cost is None else cost * Decimal(str(factor)),
        max_tool_calls=None if budget.max_tool_calls is None else ceil(budget.max_tool_calls * factor),
    )


TOP_UP = 1.5
"""What a limit that a classifier lowered grows by, once. More would save less of what a run spends that never comes to
an end; with this much no task of `callboard eval budget` is cut short (docs/AGENTS.md)."""


def topped_up(lowered: Budget, own: Budget) -> Budget:
    """The limits of a run for which lowered ones did not do: `TOP_UP` times those, and no more than its own."""
    return least(own, scaled(lowered, TOP_UP))


def left(budget: Budget, state: "RunState", now: float, shares: int = 1) -> Budget | Overrun:
    """What a child run of this run may spend: an equal share of what the run has left, and what its running children
    were not given; or which limit leaves nothing.

    Duration is not shared, since children run side by side. What the children spend counts here too once they end, so
    the limits of a run are limits of the whole tree of runs under it.
    """
    given = [call.granted for call in state.pending.values() if call.granted is not None]

    def free(name: str, used: Any) -> Any:
        limit = getattr(budget, name)
        return None if limit is None else limit - used - sum(getattr(one, name) or 0 for one in given)

    over = overdue(budget, state, now)
    duration = budget.max_duration_seconds
    iterations, tokens = free("max_iterations", state.iterations), free("max_tokens", state.total_tokens)
    calls, cost = free("max_tool_calls", state.tool_calls), free("max_cost_usd", state.total_cost_usd)
    if over is not None:
        return over
    if iterations is not None and iterations // shares < 1:
        return Overrun("max_steps_exceeded", f"{max(0, iterations)} of {budget.max_iterations} iterations are left")
    if tokens is not None and tokens // shares < 1:
        return Overrun("max_tokens_exceeded", f"{max(0, tokens):,} of {budget.max_tokens:,} tokens are left")
    if cost is not None and budget.max_cost_usd and cost <= 0:
        return Overrun("max_cost_exceeded", f"0 of {budget.max_cost_usd} USD are left")
    return Budget(
        max_iterations=None if iterations is None else iterations // shares,
        max_tokens=None if tokens is None else tokens // shares,
        max_duration_seconds=None if duration is None else duration - (now - state.started_at),
        max_cost_usd=None if cost is None else max(Decimal(0), cost / shares),
        max_tool_calls=None if calls is None else max(0, calls // shares),
    )


def calls_left(budget: Budget, state: "RunState", call: int, later: int) -> int | None:
    """How many tool calls the child that answers `call` may make: not that call itself, nor what people or running
    children may still make of the limit, nor the `later` ones of the same turn. None: any number."""
    if budget.max_tool_calls is None:
        return None
    spoken_for = sum(other.granted.max_tool_calls or 0 for other in state.pending.values() if other.granted is not None)
    spoken_for += sum(other.status == "held" and other.call != call for other in state.pending.values())
    return max(0, budget.max_tool_calls - state.tool_calls - spoken_for - later - 1)


def overrun(budget: Budget, state: "RunState", now: float) -> Overrun | None:
    """Which limit, if any, forbids another iteration of a run in this state at `now` (seconds since 1970)."""
    if budget.max_iterations is not None and state.iterations >= budget.max_iterations:
        return Overrun("max_steps_exceeded", f"{state.iterations} of {budget.max_iterations} iterations are used")
    if budget.max_tokens is not None and state.total_tokens >= budget.max_tokens:
        return Overrun("max_tokens_exceeded", f"{state.total_tokens:,} of {budget.max_tokens:,} tokens are used")
    spent = state.total_cost_usd
    if budget.max_cost_usd is not None and (spent >= budget.max_cost_usd if budget.max_cost_usd else spent):
        return Overrun("max_cost_exceeded", f"{spent} of {budget.max_cost_usd} USD are spent")
    return overdue(budget, state, now)


def spent_ratio(budget: Budget, state: "RunState", now: float) -> float:
    """What a run has spent of the limit that it has come nearest to; 0.0 where there are no limits."""
    ratio = 0.0
    if budget.max_iterations:
        ratio = state.iterations / budget.max_iterations
    if budget.max_tokens:
        ratio = max(ratio, state.total_tokens / budget.max_tokens)
    if budget.max_cost_usd:
        ratio = max(ratio, float(state.total_cost_usd) / float(budget.max_cost_usd))
    if budget.max_tool_calls:
        ratio = max(ratio, state.tool_calls / budget.max_tool_calls)
    if budget.max_duration_seconds:
        ratio = max(ratio, (now - state.started_at) / budget.max_duration_seconds)
    return ratio


def overdue(budget: Budget, state: "RunState", now: float) -> Overrun | None:
    """Whether the run has lasted for as long as it may at `now`."""
    elapsed = now - state.started_at
    if budget.max_duration_seconds is not None and elapsed >= budget.max_duration_seconds:
        return Overrun("max_duration_exceeded", f"{elapsed:.1f} of {budget.max_duration_seconds:g} seconds have passed")
    return None


def overcalled(budget: Budget, state: "RunState", wanted: int) -> Overrun | None:
    """Whether `wanted` more tool calls are too many."""
    limit = budget.max_tool_calls
    if limit is not None and wanted and state.tool_calls + wanted > limit:
        more = f"{wanted} more {'was' if wanted == 1 else 'were'} asked for"
        return Overrun("max_tool_calls_exceeded", f"{state.tool_calls} of {limit} tool calls are made, and {more}")
    return None
