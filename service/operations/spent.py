"""What the runs that began since some moment have spent, read off the list of runs: a bounded look, not a ledger."""

from decimal import Decimal

import msgspec

from .run_windows import run_window
from .runs import Operations
from .views import RunWish

LOOKED_AT = 2_000
"""Runs that are looked at, the newest; beyond it the sums are of those only, and say so."""
_PAGE = 500


class Spent(msgspec.Struct, frozen=True):
    """Sums over runs."""

    since: float
    runs: int = 0
    steps: int = 0
    tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    complete: bool = True
    """All that began since then were looked at."""


async def spent_since(operations: Operations, since: float) -> Spent:
    """What the runs that began at that time or later have spent so far.

    Raises:
        NotAllowed: without the scope `read`.
    """
    operations.require("read")
    runs = steps = tokens = 0
    cost, after, complete = Decimal(0), "", False
    while runs < LOOKED_AT and not complete:
        window = await run_window(operations.store, RunWish(since=since), after=after, limit=_PAGE, look_at=_PAGE)
        runs += len(window.items)
        steps += sum(one.step for one in window.items)
        tokens += sum(one.tokens for one in window.items)
        cost += sum((Decimal(one.cost_usd) for one in window.items), Decimal(0))
        complete = window.end
        after = window.reached or next((place for place in reversed(window.cursors) if place), "")
        if not after:
            break
    return Spent(since, runs, steps, tokens, cost, complete)
