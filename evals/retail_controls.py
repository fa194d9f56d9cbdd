"""Whether the comparison of tables can fail: models and desks that do one thing wrong.

Each write of each task is spoilt once, left out or made twice, through the whole runtime with nothing held, and the
tables must differ from those of the task as it is. The desk's own checks refuse most second writes, so a doubled one
often shows only among the attempts; how many show in customers and orders too is counted beside. A desk that takes a
cent too much, and a model that does not say what the customer is to be told, are noticed as well.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from callboard.actors.guard.profiles import PROFILES
from callboard.evals.rates import Rate, rate_of
from callboard.evals.retail_desk import RetailDesk
from callboard.evals.retail_play import play_task, replayed
from callboard.evals.retail_reward import told
from callboard.evals.retail_rows import OrderRow, Records
from callboard.evals.retail_tasks import RetailTask, writes_of
from callboard.evals.worst_case import Call

Spoil = Callable[[Sequence[Call], int], Sequence[Call]]
SPOILS: Final[dict[str, Spoil]] = {
    "a write is left out": lambda calls, place: [*calls[:place], *calls[place + 1 :]],
    "a write is made twice": lambda calls, place: [*calls[: place + 1], *calls[place:]],
}


A_CENT: Final = "an amount is a cent too much"
UNSAID: Final = "the customer is not told"
CONTROLS: Final = (*SPOILS, A_CENT, UNSAID)


class Control(msgspec.Struct, frozen=True):
    """One way to spoil tasks: on every write of every task, or on every task where there is an amount, or an answer."""

    name: str
    noticed: Rate
    """How often it was scored 0; always, or the comparison is worth nothing."""
    noticed_in_rows: Rate
    """How often it shows in customers and orders alone."""


async def control(name: str, tasks: Sequence[RetailTask], records: Records) -> Control:
    """Spoil the tasks in one of the ways of `CONTROLS`."""
    if name == A_CENT:
        found = [one for task in tasks for one in await _with_a_cent_more(task, records)]
    elif name == UNSAID:
        found = [(not await _all_said(task, records), False) for task in tasks if task.told]
    else:
        found = [one for task in tasks for one in await _with_calls_spoilt(SPOILS[name], task, records)]
    return Control(name, rate_of(noticed for noticed, _ in found), rate_of(in_rows for _, in_rows in found))


async def _with_calls_spoilt(spoil: Spoil, task: RetailTask, records: Records) -> list[tuple[bool, bool]]:
    """For each write: whether its spoiling is noticed, and whether in rows."""
    right = await replayed(task.calls, records)
    found = []
    for place in writes_of(task.calls):
        played = await play_task(task.goal, spoil(task.calls, place), records, PROFILES["off"])
        found.append((played.tables != right, not played.tables.same_rows(right)))
    return found


async def _with_a_cent_more(task: RetailTask, records: Records) -> list[tuple[bool, bool]]:
    """The same for the task, if there is an amount in it."""
    right, desk = await replayed(task.calls, records), Overcharging(records)
    played = await play_task(task.goal, task.calls, records, PROFILES["off"], desk=desk)
    return [(played.tables != right, not played.tables.same_rows(right))] if desk.overcharged else []


async def _all_said(task: RetailTask, records: Records) -> bool:
    played = await play_task(task.goal, task.calls, records, PROFILES["off"])
    return told(task.told, played.said)


class Overcharging(RetailDesk):
    """A desk that writes a cent too much down, the first time that it writes an amount down."""

    overcharged = False

    def put_order(self, order: OrderRow) -> None:
        """See `RetailDesk.put_order`."""
        super().put_order(order if self.overcharged else self._with_a_cent_more(order))

    def _with_a_cent_more(self, order: OrderRow) -> OrderRow:
        new = order.payments[len(self.order(order.order_id).payments) :]
        self.overcharged = bool(new) or (order.asked is not None and order.asked.kind == "exchange")
        if new:
            more = msgspec.structs.replace(new[0], amount_cents=new[0].amount_cents + 1)
            kept = order.payments[: -len(new)]
            return msgspec.structs.replace(order, payments=(*kept, more, *new[1:]))
        if not self.overcharged or order.asked is None:
            return order
        asked = msgspec.structs.replace(order.asked, difference_cents=order.asked.difference_cents + 1)
        return msgspec.structs.replace(order, asked=asked)
