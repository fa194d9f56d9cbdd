"""Kill a run at every commit, on both sides of it, and count what was done twice, asked twice, or lost.

A real process works on the reference run (`durability_program`) over a real PostgreSQL and kills itself with SIGKILL at
commit number N: before it, so that what it says is lost, or right after it, so that nobody learns that it landed. A
second process goes on. So for every N, until a process ends of itself. Commits are all that is written: turns with
their messages, messages from outside, decisions. In which order siblings commit is the machine's business, so that the
number of commits may differ by a few from run to run; the counts may not.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final, Self

import anyio
import anyio.to_thread
import msgspec

from callboard.actors.agent.events import LLMCallCompleted, ToolCallCompleted
from callboard.actors.agent.runtime import Runtime
from callboard.actors.llm.scripted import ScriptedLLM
from callboard.evals.durability_program import EFFECTS, PAID, TABLES, Order, Side
from callboard.evals.fresh import fresh_databases
from callboard.mailbox.errors import CallboardError
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.witnessed import WitnessedStore

SIDES: Final[tuple[Side, ...]] = ("before", "after")
COMMITS: Final = range(1, 501)
"""A run that writes more often does not end; the measurement does."""


class DurabilityFailed(CallboardError):
    """A process ended neither well nor by its own hand."""


class Damage(msgspec.Struct, frozen=True):
    """What one kill did, or all of them; the first five are 0 where the promises hold."""

    repeated_effects: int = 0
    """Things done outside more than once."""
    repeated_model_calls: int = 0
    """Calls of a model whose answer was on record when the second process began."""
    lost_steps: int = 0
    """Answers and results that the undisturbed run has and this one has not."""
    lost_effects: int = 0
    """Things that were never done."""
    unfinished: int = 0
    """Runs that did not complete, or whose journal does not replay to their state."""
    calls_made_again: int = 0
    """Calls of a model that was under way, or whose answer was in the lost commit. No runtime can avoid these."""

    def __add__(self, other: "Damage") -> "Damage":
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Damage(*(one + two for one, two in zip(mine, theirs, strict=True)))

    @property
    def none(self) -> bool:
        """Whether all promises held."""
        return not any(msgspec.structs.astuple(self)[:5])


class DurabilityRow(msgspec.Struct, frozen=True):
    """All kills of one kind."""

    name: str
    kills: int
    damage: Damage


class DurabilityReport(msgspec.Struct, frozen=True):
    """The table: both sides of every commit, and the control."""

    store: str
    commits: int
    """At how many of them it was killed."""
    steps: int
    """Answers of models and results of tools in it."""
    effects: int
    """What it does outside."""
    rows: list[DurabilityRow]
    control: DurabilityRow
    """The same kills, with a tool that does not look at its key: repeated effects have to show."""
    control_noticed: bool
    schema: str = "callboard.eval.durability/1"


class _Lane:
    """Kills in one database, one after the other; a context manager that has the program running."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "callboard.evals.durability_program"]
        self._program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._program.stdin is not None and self._program.stdout is not None
        self._program.stdin.close()
        self._program.stdout.close()
        self._program.wait()

    def ended(self, order: Order) -> int:
        """The exit code of a process that works on the run.

        Raises:
            DurabilityFailed: the program that starts the processes is gone.
        """
        assert self._program.stdin is not None and self._program.stdout is not None
        self._program.stdin.write(msgspec.json.encode(order).decode() + "\n")
        self._program.stdin.flush()
        line = self._program.stdout.readline()
        if not line:
            raise DurabilityFailed(f"the program that works on run {order.run} ended")
        return int(line)

    def kill(self, order: Order) -> bool:
        """Kill at this commit and go on in another process; False where the run has no such commit.

        Raises:
            DurabilityFailed: a process ends in another way.
        """
        code = self.ended(order)
        if code == 0:
            return False
        if code != -signal.SIGKILL:
            raise DurabilityFailed(f"run {order.run} ended with exit code {code} instead of a kill")
        code = self.ended(msgspec.structs.replace(order, commit=0, mark=""))
        if code:
            raise DurabilityFailed(f"run {order.run} was not finished by the second process (exit code {code})")
        return True


def measure(
    dsn: str = "",
    *,
    processes: int = 2,
    sides: Sequence[Side] = SIDES,
    commits: Sequence[int] = COMMITS,
    advance: Callable[..., None] = lambda count=1: None,
) -> DurabilityReport:
    """Kill at these commits of the reference run, or as many of them as it has, with `processes` runs side by side.

    `dsn`: a server where databases may be made; "": the embedded one. `advance` is told of each kill.

    Raises:
        DurabilityFailed: a process ends in a way that nobody planned. StoreError: the server refuses.
    """
    return anyio.run(_measure, dsn, max(1, processes), tuple(sides), commits, advance)


async def _measure(
    dsn: str, lanes: int, sides: tuple[Side, ...], commits: Sequence[int], advance: Callable[..., None]
) -> DurabilityReport:
    async with fresh_databases(dsn, lanes) as databases:
        for database in databases:
            async with await Database.open(database) as tables:
                await tables.execute(TABLES)
        with ExitStack() as stack:
            work = _Work([stack.enter_context(_Lane(database)) for database in databases], commits, advance)
            calm = await anyio.to_thread.run_sync(work.calm)
            killed = {side: await anyio.to_thread.run_sync(work.killed, side, False) for side in sides}
            control = [
                *await anyio.to_thread.run_sync(work.killed, "before", True),
                await anyio.to_thread.run_sync(work.aimed),
            ]
        steps = await _steps(databases[0], calm)
        rows = [DurabilityRow(f"killed {side} the commit", *await _damage(killed[side], steps)) for side in sides]
        careless = DurabilityRow("a tool that ignores its key", *await _damage(control, steps))
    written, noticed = max(len(found) for found in killed.values()), careless.damage.repeated_effects > 0
    return DurabilityReport("PostgreSQL", written, sum(steps.values()), len(EFFECTS), rows, careless, noticed)


class _Work:
    """The lanes, and the commits that are killed at in them."""

    def __init__(self, lanes: Sequence[_Lane], commits: Sequence[int], advance: Callable[..., None]) -> None:
        self._lanes = lanes
        self._commits = commits
        self._advance = advance

    def calm(self) -> str:
        """The undisturbed run, in the first lane; its name.

        Raises:
            DurabilityFailed: it does not end well.
        """
        order = Order(self._lanes[0].dsn, "calm")
        if code := self._lanes[0].ended(order):
            raise DurabilityFailed(f"the undisturbed run ended with exit code {code}")
        return order.run

    def aimed(self) -> Order:
        """The control once more, at the commit that records a payment, whichever number it has: a number may miss it,
        as the order of commits is the machine's business.

        Raises:
            DurabilityFailed: the run has no such commit.
        """
        order = Order(self._lanes[0].dsn, "careless-aimed", mark=PAID, careless=True)
        if not self._lanes[0].kill(order):
            raise DurabilityFailed("no commit records the child's payment")
        self._advance()
        return order

    def killed(self, side: Side, careless: bool) -> list[Order]:
        """Kill at every commit; what was done, in the order of the commits."""
        with ThreadPoolExecutor(len(self._lanes)) as pool:
            done = pool.map(lambda place: self._in_lane(place, side, careless), range(len(self._lanes)))
            return sorted((order for orders in done for order in orders), key=lambda order: order.commit)

    def _in_lane(self, place: int, side: Side, careless: bool) -> list[Order]:
        done: list[Order] = []
        lane = self._lanes[place]
        for commit in self._commits[place :: len(self._lanes)]:
            name = f"{'careless' if careless else 'killed'}-{side}-{commit:03d}"
            order = Order(lane.dsn, name, commit, side, careless=careless)
            if not lane.kill(order):
                break
            done.append(order)
            self._advance()
        return done


async def _damage(orders: Sequence[Order], steps: dict[str, int]) -> tuple[int, Damage]:
    total = Damage()
    for order in orders:
        total += await _of(order, steps)
    return len(orders), total


async def _of(order: Order, steps: dict[str, int]) -> Damage:
    """What the kill of one order did."""
    async with await Database.open(order.dsn) as database:
        effects = await _counts(
            database, "SELECT what AS what, count(*) AS n FROM effect WHERE run = %s GROUP BY 1", order
        )
        recorded = await _counts(
            database, "SELECT role AS what, max(turns) AS n FROM answered WHERE run = %s GROUP BY 1", order
        )
        calls = await database.rows(
            "SELECT role, turn, count(*) AS n FROM model_call WHERE run = %s GROUP BY role, turn", [order.run]
        )
    again = {(call["role"], call["turn"]): call["n"] - 1 for call in calls if call["n"] > 1}
    mine = await _steps(order.dsn, order.run)
    return Damage(
        repeated_effects=sum(count - 1 for count in effects.values()),
        repeated_model_calls=sum(count for (role, turn), count in again.items() if turn < recorded.get(role, 0)),
        lost_steps=sum(max(0, count - mine.get(what, 0)) for what, count in steps.items()),
        lost_effects=sum(what not in effects for what in EFFECTS),
        unfinished=0 if await _whole(order.dsn, order.run) else 1,
        calls_made_again=sum(count for (role, turn), count in again.items() if turn >= recorded.get(role, 0)),
    )


async def _counts(database: Database, query: str, order: Order) -> dict[str, int]:
    return {row["what"]: row["n"] for row in await database.rows(query, [order.run])}


async def _steps(dsn: str, run: str) -> dict[str, int]:
    """Answers and results in the journals of a run and its children, counted by what they are."""
    found: dict[str, int] = {}
    runtime = Runtime(WitnessedStore(dsn), ScriptedLLM([]), [])
    for one in await _family(runtime, run):
        for recorded in await runtime.events(one):
            match recorded.event:
                case LLMCallCompleted():
                    what = "answer"
                case ToolCallCompleted(tool=tool):
                    what = tool
                case _:
                    continue
            found[what] = found.get(what, 0) + 1
    return found


async def _whole(dsn: str, run: str) -> bool:
    runtime = Runtime(WitnessedStore(dsn), ScriptedLLM([]), [])
    completed = (await runtime.state(run)).status == "completed"
    return completed and all([(await runtime.verify(one)).ok for one in await _family(runtime, run)])


async def _family(runtime: Runtime, run: str) -> list[str]:
    """A run and its children."""
    names = [name for name, _ in await runtime.list(limit=10_000)]
    return [name for name in names if name == run or name.startswith(f"{run}.")]
