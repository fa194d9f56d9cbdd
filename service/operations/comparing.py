"""Two runs read for a comparison; what a fork goes on from is read where it happened."""

from ...actors.agent.events import RunForked
from ...actors.agent.runs import Recorded, Runs
from ...mailbox.errors import UsageError
from ..trace_diff import Difference, Side, compare
from .lookup import find_run, pool_of, run_id_of
from .runs import Operations

ORIGIN = "origin"
"""Says, in place of a run's id, the run that the other one was forked from."""
MAX_DEPTH = 100
"""Of forks of forks."""


async def compare_runs(operations: Operations, given: str, other: str) -> Difference:
    """Compare two runs; `other` may be ORIGIN.

    Raises:
        RunNotFound; UsageError: several begin like that, the run is no fork, or both are the same.
    """
    first = await find_run(operations.store, given)
    if other == ORIGIN:
        second = (await operations.run(first)).state.origin
        if not second:
            raise UsageError(f"run {run_id_of(first)} is no fork; name the run to compare it with: --diff RUN")
    else:
        second = await find_run(operations.store, other)
    if first == second:
        raise UsageError(f"run {run_id_of(first)} is compared with itself; name another one")
    sides = [Side(await operations.run(one), await _events(operations, one)) for one in (first, second)]
    return compare(sides[0], sides[1])


async def _events(operations: Operations, address: str, depth: int = 0) -> list[tuple[str, Recorded]]:
    """A run's events, after those of others that it goes on from."""
    run_id = run_id_of(address)
    own = [(run_id, one) for one in await Runs(operations.client, pool_of(address)).events(run_id)]
    forked = own[0][1].event if own else None
    if not isinstance(forked, RunForked) or depth >= MAX_DEPTH or await operations.store.actor(forked.origin) is None:
        return own
    origin = run_id_of(forked.origin)
    past = await _events(operations, forked.origin, depth + 1)
    return [pair for pair in past if pair[0] != origin or pair[1].seq <= forked.origin_seq] + own
