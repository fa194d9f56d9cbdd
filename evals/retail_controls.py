"""Whether the comparison of tables can fail: a model that leaves a write out, and one that makes a write twice.

Each write of each task is spoilt once, through the whole runtime with nothing held, and the tables must differ from
those of the task as it is. The desk's own checks refuse most second writes, so a doubled one often shows only among the
attempts; how many show in customers and orders too is counted beside.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from callboard.actors.guard.profiles import PROFILES
from callboard.evals.rates import Rate, rate_of
from callboard.evals.retail_play import play_task, replayed
from callboard.evals.retail_rows import Records
from callboard.evals.retail_tasks import RetailTask, writes_of
from callboard.evals.worst_case import Call

Spoil = Callable[[Sequence[Call], int], Sequence[Call]]
SPOILS: Final[dict[str, Spoil]] = {
    "a write is left out": lambda calls, place: [*calls[:place], *calls[place + 1 :]],
    "a write is made twice": lambda calls, place: [*calls[: place + 1], *calls[place:]],
}


class Control(msgspec.Struct, frozen=True):
    """One way to spoil tasks, on every write of every task."""

    name: str
    noticed: Rate
    """Writes whose spoiling makes other tables; all of them, or the comparison is worth nothing."""
    noticed_in_rows: Rate
    """Writes whose spoiling shows in customers and orders alone."""


async def control(name: str, tasks: Sequence[RetailTask], records: Records) -> Control:
    """Spoil every write of the tasks in one of the ways of `SPOILS`."""
    noticed: list[bool] = []
    in_rows: list[bool] = []
    for task in tasks:
        right = await replayed(task.calls, records)
        for place in writes_of(task.calls):
            spoilt = SPOILS[name](task.calls, place)
            played = await play_task(task.goal, spoilt, records, PROFILES["off"])
            noticed.append(played.tables != right)
            in_rows.append(not played.tables.same_rows(right))
    return Control(name, rate_of(noticed), rate_of(in_rows))
