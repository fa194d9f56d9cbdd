"""Plays many cases on a store: in memory one after the other, on PostgreSQL a few at a time, each on its own database.

Cases on PostgreSQL mostly wait; a node owns all of its database, so those that run at the same time need one each.
What such a case shows depends on the order of moments that are milliseconds apart, and a busy machine does not keep it:
a case that is wrong is played again, slower and alone, and only what is wrong at each pace is wrong.
"""

import itertools
from collections.abc import AsyncIterator, Sequence

import anyio

from callboard.persistence.postgres import PostgresStore

from .cases import Case
from .play import Verdict, duration_ms, play_case

LANES = 4
SLOWER = (4.0, 16.0)
"""By how much the times of a case are stretched when it is played again."""
CASE_SECONDS = 60.0
"""How long a case may take beyond its own times."""

_numbers = itertools.count()


async def in_memory(cases: Sequence[Case]) -> AsyncIterator[Verdict]:
    """Verdicts in the order of the cases."""
    for case in cases:
        yield await _bounded(case, None)


async def on_postgres(cases: Sequence[Case], stores: Sequence[PostgresStore]) -> list[Verdict]:
    """Verdicts in the order of the cases; as many at a time as there are stores."""
    verdicts: dict[int, Verdict] = {}
    waiting = list(enumerate(cases))[::-1]

    async def lane(store: PostgresStore) -> None:
        while waiting:
            number, case = waiting.pop()
            verdicts[number] = await _bounded(case, store)

    async with anyio.create_task_group() as group:
        for store in stores[: len(cases)]:
            group.start_soon(lane, store)
    for slower in SLOWER:
        for number in [number for number, verdict in verdicts.items() if verdict.wrong]:
            verdicts[number] = await _bounded(cases[number], stores[0], slower)
    return [verdicts[number] for number in sorted(verdicts)]


async def _bounded(case: Case, store: PostgresStore | None, slower: float = 1.0) -> Verdict:
    """A case whose play breaks off has failed, and the others go on."""
    where = "memory" if store is None else "postgres"
    try:
        with anyio.fail_after(CASE_SECONDS * slower + 2 * slower * duration_ms(case) / 1000.0):
            suffix = "" if store is None else f"-{next(_numbers)}"
            return await play_case(case, store, suffix=suffix, slower=slower)
    except Exception as error:  # noqa: BLE001 - whatever breaks off a case is said of that case
        return Verdict(case.id, where, 1, f"the play broke off: {_innermost(error)!r}")


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
