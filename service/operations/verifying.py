"""Proving all runs of a store: each one's state is the fold of its journal (G9)."""

from collections.abc import AsyncIterator

import msgspec

from ...actors.agent.runs import Verification
from .lookup import KIND
from .runs import Operations

_PAGE = 200


class Verified(msgspec.Struct, frozen=True):
    """One run's proof."""

    run_id: str
    address: str
    found: Verification


async def verify_all(operations: Operations, *, prefix: str = "") -> AsyncIterator[Verified]:
    """Prove every run (of addresses that begin with `prefix`), in order of address."""
    after = ""
    while page := await operations.store.actors(kind=KIND, prefix=prefix, limit=_PAGE, after=after):
        for row in page:
            run_id, found = await operations.verify(row.address)
            yield Verified(run_id, row.address, found)
        after = page[-1].address


async def count_runs(operations: Operations, *, prefix: str = "") -> int:
    """How many there are to prove."""
    count, after = 0, ""
    while page := await operations.store.actors(kind=KIND, prefix=prefix, limit=1_000, after=after):
        count, after = count + len(page), page[-1].address
    return count
