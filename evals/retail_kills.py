"""The retail tasks with a node that dies at a commit, for every commit of a run and both sides of it; another goes on.

Here that is in one process, on the memory store, with time driven by hand: the node's session is cut off at the commit,
its tasks are cancelled with no clean-up, and a new node joins. `retail_sigkill.py` does it to real processes over
PostgreSQL. Every call with an effect asks, and an approver says yes, so that decisions are among what is interrupted.
"""

from typing import Final, Literal

import msgspec

from callboard.actors.agent.events import LLMCallCompleted
from callboard.actors.agent.runtime import Runtime
from callboard.actors.agent.state import RunState
from callboard.actors.spec import Supervisor
from callboard.actors.testing import CALM, TestKit
from callboard.evals.profiles import EVERY_WRITE, compared
from callboard.evals.retail_desk import RetailDesk, Tables
from callboard.evals.retail_keys import MemoryShop, keyed_tools
from callboard.evals.retail_play import APPROVER, UNBOUNDED, RunStuck, replayed, scripted
from callboard.evals.retail_rows import Records
from callboard.evals.retail_tasks import RetailTask

Side = Literal["before", "after"]
SIDES: Final[tuple[Side, ...]] = ("before", "after")
RUN: Final = "task"
MAX_COMMITS: Final = 1000
"""A run that commits more often does not end; the measurement does."""
_TAKE_OVER_SECONDS: Final = 40.0
"""Of the kit's time: until the dead node is missed, and its work goes on."""


class Harm(msgspec.Struct, frozen=True):
    """What the kills of one task, or of many, did. All but the first are 0 where the promises hold."""

    kills: int = 0
    other_tables: int = 0
    """Runs that left other customers, orders or attempts than the task's calls alone."""
    repeated_effects: int = 0
    """Effects made again under their key."""
    repeated_model_calls: int = 0
    """Calls of the model for an answer that was on record when the next node began."""
    unfinished: int = 0
    """Runs that did not complete, or whose journal does not replay to their state."""

    def __add__(self, other: "Harm") -> "Harm":
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Harm(*(one + two for one, two in zip(mine, theirs, strict=True)))

    @property
    def none(self) -> bool:
        """Whether all promises held."""
        return not (self.other_tables or self.repeated_effects or self.repeated_model_calls or self.unfinished)


class KilledTask(msgspec.Struct, frozen=True):
    """All kills of one task on one side of the commits."""

    task_id: str
    harm: Harm
    calls_made_again: int = 0
    """Calls of the model that was under way, or whose answer was in the lost commit. No runtime can avoid these. They
    are counted in one process alone: elsewhere what is under way at a commit is the machine's business."""


async def killed_at_every_commit(
    task: RetailTask, records: Records, side: Side, *, careless: bool = False
) -> KilledTask:
    """Play the task once for each of its commits, with a death on this side of it.

    `careless`: the tools do not look at their keys, which has to show.

    Raises:
        RunStuck: a run does not go on after a death.
    """
    right = await replayed(task.calls, records)
    total, made_again = Harm(), 0
    for commit in range(1, MAX_COMMITS):
        play = _Play(task, records, side, commit, careless=careless)
        harm = await play.harm(right)
        if not play.died:
            break
        total, made_again = total + harm, made_again + play.made_again
    return KilledTask(task.task_id, total, made_again)


class _Play:
    """One run of a task, whose first node dies at one commit."""

    def __init__(self, task: RetailTask, records: Records, side: Side, commit: int, *, careless: bool) -> None:
        self._task, self._side, self._at = task, side, commit
        self._shop = MemoryShop(RetailDesk(records), careless=careless)
        self._turns: list[int] = []
        """One for each call of the model: how many answers came before it."""
        self._calls_before = 0
        self._answers = 0
        """How many were on record when the next node began."""
        self._commits = 0
        self.died = False
        self.made_again = 0
        """See `KilledTask.calls_made_again`."""
        self._kit = TestKit(Supervisor("nothing", ()), nodes=0, settings=CALM)
        self._kit.store.before = self._before_call
        self._kit.store.lost_answer = self._is_lost
        self._runtime = self._made()

    def _made(self) -> Runtime:
        (row,) = compared([EVERY_WRITE])
        return Runtime(
            self._kit.store,
            scripted(self._task.calls, self._task.told, self._note),
            keyed_tools(self._shop),
            budget=UNBOUNDED,
            guardrail_profile=row.profile,
            compaction=None,
            settings=CALM,
            port=self._kit.port,
        )

    async def _note(self, turn: int) -> None:
        self._turns.append(turn)

    # --- the death ---------------------------------------------------------------------------------------------------

    async def _before_call(self, number: int, operation: str) -> None:
        if operation == "commit" and not self.died:
            self._commits += 1
            if self._commits == self._at and self._side == "before":
                self._die()

    def _is_lost(self, number: int) -> bool:
        if self.died or self._commits != self._at or self._side != "after":
            return False
        self._die()
        return True

    def _die(self) -> None:
        self.died = True
        self._kit.session(self._kit.nodes[0]).crash()

    async def _go_on(self) -> None:
        """Another node, if the first one has died."""
        await self._kit.settle()
        if self.died and self._kit.store.before is not None:
            self._kit.store.before = None
            await self._kit.crash(self._kit.nodes[0])
            self._calls_before = len(self._turns)
            self._answers = await self._answers_on_record()
            await self._kit.join(tree=self._runtime.tree)
            await self._kit.advance(seconds=_TAKE_OVER_SECONDS)

    async def _answers_on_record(self) -> int:
        if (await self._runtime.state(RUN)).status == "not_started":
            return 0
        return sum(isinstance(one.event, LLMCallCompleted) for one in await self._runtime.events(RUN))

    # --- the run -----------------------------------------------------------------------------------------------------

    async def harm(self, right: Tables) -> Harm:
        """Play it, and compare."""
        async with self._kit:
            await self._kit.join(tree=self._runtime.tree)
            await self._runtime.create(self._task.goal, run_id=RUN, plan={}, requested_by="a customer")
            state = await self._to_the_end()
            whole = (await self._runtime.verify(RUN)).ok
        again = self._turns[self._calls_before :] if self.died else []
        repeated = sum(turn < self._answers for turn in again)
        self.made_again = len(self._turns) - len(set(self._turns)) - repeated
        return Harm(
            1,
            int(self._shop.tables() != right),
            len(self._shop.keys) - len(set(self._shop.keys)),
            repeated,
            int(state.status != "completed" or not whole),
        )

    async def _to_the_end(self) -> RunState:
        """Where the run ends; an approver says yes whenever it asks."""
        for _ in range(2 * len(self._task.calls) + 4):
            await self._go_on()
            state = await self._runtime.state(RUN)
            if state.finished:
                return state
            if state.status == "awaiting_approval":
                await self._runtime.approve(RUN, APPROVER)
        raise RunStuck(f"task {self._task.task_id}, killed {self._side} commit {self._at}, does not go on")
