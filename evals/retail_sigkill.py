"""The retail tasks over a real PostgreSQL: all of them undisturbed, and some with SIGKILL at every commit.

A process works on a run and kills itself at a commit, before it or right after it; a second process goes on. So for
every commit that the undisturbed run has, known by its marks (`retail_marks`, `retail_program`). Afterwards the desk's
rows are compared with those that the task's calls leave in the same database when they are made directly, and these
with the ones in memory.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread
import msgspec

from callboard.actors.agent.runtime import Runtime
from callboard.actors.llm.scripted import ScriptedLLM
from callboard.evals.fresh import fresh_databases
from callboard.evals.retail_desk import Tables
from callboard.evals.retail_kills import Harm, KilledTask, Side
from callboard.evals.retail_play import replayed
from callboard.evals.retail_program import Order
from callboard.evals.retail_reward import said_in, told
from callboard.evals.retail_rows import Records
from callboard.evals.retail_sql import SCHEMA, SqlShop
from callboard.evals.retail_tasks import RetailData, RetailTask, customers_of
from callboard.mailbox.errors import CallboardError
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.witnessed import WitnessedStore

Advance = Callable[..., None]


class RetailFailed(CallboardError):
    """A process ended neither well nor by its own hand."""


class CalmTask(msgspec.Struct, frozen=True):
    """One task over PostgreSQL with nothing in its way."""

    task_id: str
    same: bool
    """The run completed, and left the rows and the attempts that its calls leave when they are made directly."""
    same_as_memory: bool
    """And those are the ones of the desk in memory: two ways to keep rows, one result."""
    rewarded: bool
    """As tau2-bench counts it: customers and orders are right, and what the customer is to be told was said."""


class Job(msgspec.Struct, frozen=True):
    """One task to play: undisturbed, or killed on one side of every commit."""

    task: RetailTask
    side: Side | None = None
    careless: bool = False
    only: str = ""
    """Only at commits that have a mark that begins so."""

    @property
    def name(self) -> str:
        """Of its plays."""
        return f"{self.task.task_id}-{'careless' if self.careless else 'keyed'}-{self.side or 'calm'}"


class _Lane:
    """Plays in one database, one after the other; a context manager that has the program running."""

    def __init__(self, dsn: str, folder: Path | None) -> None:
        self._dsn = dsn
        self._command = [sys.executable, "-m", "callboard.evals.retail_program", *([str(folder)] if folder else [])]

    def __enter__(self) -> Self:
        self._program = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._program.stdin is not None and self._program.stdout is not None
        self._program.stdin.close()
        self._program.stdout.close()
        self._program.wait()

    def done(self, job: Job, records: Records) -> CalmTask | KilledTask:
        """Play the job's task, once or once for each commit, and compare."""
        plays, total = _Plays(self._dsn, job, records), Harm()
        right = anyio.run(plays.directly)
        if job.side is None:
            return anyio.run(plays.calm, self._undisturbed(job, plays), right)
        marks = anyio.run(plays.marks, self._undisturbed(job, plays))
        for number, mark in enumerate((one for one in marks if one.startswith(job.only)), 1):
            order = self._order(job, number, mark)
            anyio.run(plays.open, order.play)
            if self._dies(order):
                self._must_end(msgspec.structs.replace(order, mark=""))
                total += anyio.run(plays.harm, order.play, right)
        return KilledTask(job.task.task_id, total)

    def _undisturbed(self, job: Job, plays: "_Plays") -> str:
        """Play the task with nothing in its way; the play's name."""
        order = self._order(job, 0, "")
        anyio.run(plays.open, order.play)
        self._must_end(order)
        return order.play

    def _order(self, job: Job, number: int, mark: str) -> Order:
        play = f"{job.name}-{number:03d}"
        return Order(self._dsn, play, job.task.task_id, mark, job.side or "before", job.careless)

    def _dies(self, order: Order) -> bool:
        code = self._ended(order)
        if code not in (0, -signal.SIGKILL):
            raise RetailFailed(f"play {order.play} ended with exit code {code} instead of a kill")
        return code != 0

    def _must_end(self, order: Order) -> None:
        if code := self._ended(order):
            raise RetailFailed(f"play {order.play} was not finished (exit code {code})")

    def _ended(self, order: Order) -> int:
        """The exit code of a process that works on the play."""
        assert self._program.stdin is not None and self._program.stdout is not None
        self._program.stdin.write(msgspec.json.encode(order).decode() + "\n")
        self._program.stdin.flush()
        line = self._program.stdout.readline()
        if not line:
            raise RetailFailed(f"the program that plays {order.play} ended")
        return int(line)


class _Plays:
    """What plays of one task find and leave in a database."""

    def __init__(self, dsn: str, job: Job, records: Records) -> None:
        self._dsn, self._job, self._records = dsn, job, records
        self._customers = customers_of(job.task, records)

    async def open(self, play: str) -> None:
        """The rows of the task's customers, for a play."""
        async with await Database.open(self._dsn, size=1) as database:
            await SqlShop(database, play, self._records).open(self._customers)

    async def directly(self) -> Tables:
        """What the task's calls leave in the same database, made one after the other with nothing around them."""
        async with await Database.open(self._dsn, size=1) as database:
            shop = SqlShop(database, f"{self._job.name}-direct", self._records)
            await shop.open(self._customers)
            for number, (name, arguments) in enumerate(self._job.task.calls):
                await shop.call(name, arguments, f"direct {number}")
            return await shop.tables()

    async def memory(self) -> Tables:
        """The same in memory, for these customers; rows of others are as they were, or nothing equals this."""
        found, records = await replayed(self._job.task.calls, self._records), self._records
        users = {key: row for key, row in found.users.items() if key in self._customers or row != records.users[key]}
        orders = {
            key: row
            for key, row in found.orders.items()
            if row.user_id in self._customers or row != records.orders[key]
        }
        return Tables(users, orders, found.attempts)

    async def harm(self, play: str, right: Tables) -> Harm:
        """What a play did that it should not have."""
        async with await Database.open(self._dsn, size=1) as database:
            shop = SqlShop(database, play, self._records)
            tables, keys = await shop.tables(), await shop.keys()
            calls = await database.rows("SELECT turn FROM retail.model_call WHERE play = %s", [play])
            recorded = await database.row("SELECT max(turns) AS turns FROM retail.answered WHERE play = %s", [play])
        answers = (recorded or {}).get("turns") or 0
        turns = [row["turn"] for row in calls]
        repeated = sum(turns.count(turn) - 1 for turn in set(turns) if turn < answers)
        whole = await self._whole(play)
        return Harm(
            1,
            int(tables != right),
            len(keys) - len(set(keys)),
            repeated,
            int(not whole),
        )

    async def calm(self, play: str, right: Tables) -> CalmTask:
        """How an undisturbed play ended."""
        harm, said = await self.harm(play, right), said_in(await self._runtime().events(play))
        async with await Database.open(self._dsn, size=1) as database:
            rows = await SqlShop(database, play, self._records).tables()
        rewarded = rows.same_rows(right) and told(self._job.task.told, said)
        return CalmTask(self._job.task.task_id, harm.none, await self.memory() == right, rewarded)

    async def marks(self, play: str) -> list[str]:
        """What an undisturbed play had in its commits."""
        async with await Database.open(self._dsn, size=1) as database:
            return [row["mark"] for row in await database.rows("SELECT mark FROM retail.mark WHERE play = %s", [play])]

    def _runtime(self) -> Runtime:
        """One that looks at runs."""
        return Runtime(WitnessedStore(self._dsn), ScriptedLLM([]), [])

    async def _whole(self, play: str) -> bool:
        runtime = self._runtime()
        completed = (await runtime.state(play)).status == "completed"
        return completed and (await runtime.verify(play)).ok


def _all(
    lanes: Sequence[_Lane], jobs: Sequence[Job], records: Records, advance: Advance
) -> list[CalmTask | KilledTask]:
    """What came of the jobs, in their order; each is done in whichever lane is free."""
    free = list(lanes)

    def done(job: Job) -> CalmTask | KilledTask:
        lane = free.pop()
        try:
            return lane.done(job, records)
        finally:
            free.append(lane)
            advance()

    with ThreadPoolExecutor(len(lanes)) as pool:
        return list(pool.map(done, jobs))


async def over_postgres(
    dsn: str, data: RetailData, jobs: Iterable[Job], *, processes: int, advance: Advance, folder: Path | None = None
) -> list[CalmTask | KilledTask]:
    """Do the jobs with so many programs side by side; what came of them, in order.

    `dsn`: a server where databases may be made; "": the embedded one. `folder`: where the data was read, if it was not
    the installed one.

    Raises:
        RetailFailed: a process ends in a way that nobody planned. StoreError: the server refuses.
    """
    async with fresh_databases(dsn, max(1, processes)) as databases:
        for database in databases:
            async with await Database.open(database, size=1) as opened:
                await opened.execute(SCHEMA)
        with ExitStack() as stack:
            lanes = [stack.enter_context(_Lane(database, folder)) for database in databases]
            return await anyio.to_thread.run_sync(_all, lanes, list(jobs), data.records, advance)
