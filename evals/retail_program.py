"""The processes that play retail tasks over PostgreSQL, and kill themselves at the commit that they are told.

The runtime's store and the desk's rows are in one database. What a process is to do comes in a line; it is a fork of
this program, which has the data loaded and has neither threads nor connections. Which commit is meant, is said by what
is in it (`retail_marks`).
"""

import logging
import os
import sys
from pathlib import Path
from typing import Final

import anyio
import msgspec

from callboard.actors.agent.events import LLMCallCompleted
from callboard.actors.agent.runtime import Runtime
from callboard.evals.profiles import EVERY_WRITE, compared
from callboard.evals.retail_keys import keyed_tools
from callboard.evals.retail_kills import Side
from callboard.evals.retail_marks import Marks, marked_store
from callboard.evals.retail_play import APPROVER, UNBOUNDED, scripted
from callboard.evals.retail_rows import Records
from callboard.evals.retail_sql import SqlShop
from callboard.evals.retail_tasks import RetailTask, read_retail_data
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.witnessed import WitnessedStore

END_SECONDS: Final = 300.0
"""Bounds one process, which takes about a second: a run that hangs fails the measurement."""


class Order(msgspec.Struct, frozen=True):
    """What one process is to do."""

    dsn: str
    play: str
    """Names the run and its rows."""
    task_id: str
    mark: str = ""
    """What is in the commit at which it kills itself; "": it does not, and writes down which marks there were."""
    side: Side = "before"
    careless: bool = False
    """Whether the tools do not look at their keys: the negative control."""


async def play_over_postgres(order: Order, task: RetailTask, records: Records) -> None:
    """Work on the play's run to its end, or to this process's; an approver says yes whenever it asks."""
    marks = Marks(order.mark, order.side)
    async with await Database.open(order.dsn, size=2) as database:
        shop = SqlShop(database, order.play, records, careless=order.careless)
        runtime = _runtime(order, task, shop, database, marked_store(order.dsn, order.play, marks))
        await _note_answers(runtime, order, database)
        async with runtime:
            await runtime.create(task.goal, run_id=order.play, plan={}, requested_by="a customer")
            state = await runtime.resume(order.play)
            while not state.finished:
                for call in state.pending_approvals:
                    await runtime.approve(order.play, APPROVER, call=call.call)
                state = await runtime.resume(order.play)
        if not order.mark:
            await database.execute("INSERT INTO retail.mark SELECT %s, unnest(%s::text[])", [order.play, marks.seen])


def _runtime(order: Order, task: RetailTask, shop: SqlShop, database: Database, store: WitnessedStore) -> Runtime:
    async def note(turn: int) -> None:
        await database.execute("INSERT INTO retail.model_call VALUES (%s, %s)", [order.play, turn])

    (row,) = compared([EVERY_WRITE])
    return Runtime(
        store,
        scripted(task.calls, task.told, note),
        keyed_tools(shop),
        budget=UNBOUNDED,
        guardrail_profile=row.profile,
        compaction=None,
    )


async def _note_answers(runtime: Runtime, order: Order, database: Database) -> None:
    """How many answers of the model are on record before this process does anything."""
    if (await runtime.state(order.play)).status != "not_started":
        events = [one.event for one in await runtime.events(order.play)]
        turns = sum(isinstance(one, LLMCallCompleted) for one in events)
        await database.execute("INSERT INTO retail.answered VALUES (%s, %s)", [order.play, turns])


def main() -> None:
    """For each order on standard input, one a line, a process; its exit code on standard output.

    The first argument, if there is one, is the folder of the benchmark's data.
    """
    data = read_retail_data(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    tasks = {task.task_id: task for task in data.tasks}
    for line in sys.stdin:
        order = msgspec.json.decode(line, type=Order)
        child = os.fork()
        if not child:
            sys.stdin.close()
            logging.getLogger("callboard").setLevel(logging.ERROR)  # that a dead node is taken over is no news here
            anyio.run(_bounded, order, tasks[order.task_id], data.records)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 - the answer


async def _bounded(order: Order, task: RetailTask, records: Records) -> None:
    with anyio.fail_after(END_SECONDS):
        await play_over_postgres(order, task, records)


if __name__ == "__main__":
    main()
