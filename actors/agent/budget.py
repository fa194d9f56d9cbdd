"""Budgets: what a run may spend, checked at the top of each iteration and nowhere else.

A limit of N allows N: the N-th model call is made and its answer counts. An answer that was paid for is never thrown
away, so the last call may overshoot a token or cost limit; what is refused is the next one.
"""

from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from .state import RunState


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

    reason: str
    detail: str


def overrun(budget: Budget, state: "RunState", now: float) -> Overrun | None:
    """Which limit, if any, forbids another iteration of a run in this state at `now` (seconds since 1970)."""
    elapsed = now - state.started_at
    if budget.max_iterations is not None and state.step >= budget.max_iterations:
        return Overrun("max_steps_exceeded", f"{state.step} of {budget.max_iterations} iterations are used")
    if budget.max_tokens is not None and state.total_tokens >= budget.max_tokens:
        return Overrun("max_tokens_exceeded", f"{state.total_tokens:,} of {budget.max_tokens:,} tokens are used")
    if budget.max_cost_usd is not None and state.step and state.total_cost_usd >= budget.max_cost_usd > 0:
        return Overrun("max_cost_exceeded", f"{state.total_cost_usd} of {budget.max_cost_usd} USD are spent")
    if budget.max_duration_seconds is not None and elapsed >= budget.max_duration_seconds:
        return Overrun("max_duration_exceeded", f"{elapsed:.1f} of {budget.max_duration_seconds:g} seconds have passed")
    if budget.max_tool_calls is not None and state.tool_calls >= budget.max_tool_calls:
        return Overrun("max_tool_calls_exceeded", f"{state.tool_calls} of {budget.max_tool_calls} tool calls are made")
    return None
