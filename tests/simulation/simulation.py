"""One run: nodes, faults and people, all from one seed; then healing, rest, and the checks."""

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import msgspec

from callboard.actors.node import Node, NodeSettings
from callboard.mailbox.errors import StoreUnavailable

from .checks import unrest, violations
from .loop import MASK, OUTSIDE, Process, SeededLoop, Stuck
from .outside import WORLD
from .port import SimulatedPort
from .profile import NAMES, Profile, profile_of
from .store import SimulatedStore
from .tree import PARTS, tree_of
from .workload import Workload

LEASE_SECONDS, BEAT_SECONDS = 0.7, 0.35
REST_SECONDS = 90.0
"""Virtual time within which a healed world must have come to rest."""
LOOK_SECONDS = 0.25


class Outcome(msgspec.Struct):
    """What came of a seed."""

    seed: int
    profile: str
    wrong: list[str]
    digest: int
    """Of the whole schedule: the same seed has the same one."""
    seconds: float
    """Virtual time until it came to rest."""
    steps: int
    commits: int
    trace: list[str] = []


class Simulation:
    """One seed."""

    def __init__(
        self, seed: int, profile: str = "", *, trace: bool = False, unfenced: bool = False, split_acks: bool = False
    ) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        name = self.chance.choice(NAMES)
        self.profile: Profile = profile_of(profile or name, self.chance)
        self.settings = NodeSettings(
            lease_seconds=LEASE_SECONDS, beat_seconds=BEAT_SECONDS, drain_seconds=self.profile.drain_seconds
        )
        self.loop = SeededLoop(self.chance.getrandbits(32) ^ (seed & MASK))
        self.trace: list[str] = []
        self.note: Callable[[str], None] = self._note if trace else lambda what: None
        self.store = SimulatedStore(
            self.loop,
            self.chance,
            self.profile,
            note=self.note,
            tracing=trace,
            kill=self._kill,
            freeze=self._freeze,
            unfenced=unfenced,
            split_acks=split_acks,
        )
        self.parts = self._choose()
        self.tree = tree_of(frozenset(self.parts))
        self.workload = Workload(self.store, self.chance, self.profile, self.parts)
        self.living: dict[Process, tuple[Node, anyio.CancelScope]] = {}
        self.leaving: set[Process] = set()
        self.wrong: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._processes = 0
        self._healed = False
        self.folds = False
        """Whether a fire tells how many periods it stands for."""
        WORLD.begin(self.store, self.chance)

    def _choose(self) -> list[str]:
        """A few parts of the world: all of them in each run would cost more and meet less."""
        parts = self.chance.sample(PARTS, self.chance.choice((1, 1, 2, 2, 3)))
        parts += ["agents"] if self.profile.agents else []
        return parts + (["victims"] if self.profile.poison else [])

    def _note(self, what: str) -> None:
        self.trace.append(f"{self.loop.now:9.4f}  {what}")

    # --- processes ---------------------------------------------------------------------------------------------

    def _spawn(self, process: Process, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = self.loop.create_task(coroutine, name=name, context=process.context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._ended, context=OUTSIDE.context)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.wrong.append(f"task {task.get_name()} died of {_causes(task.exception())}")

    def _start(self) -> Process:
        self._processes += 1
        process = Process(f"p{self._processes}")
        port = SimulatedPort(self.loop, self.chance, self.chance.uniform(-2, 2))
        node = process.context.run(lambda: Node(self.store, self.tree, port, self.settings))
        self.living[process] = (node, scope := anyio.CancelScope())
        process.on_doom = lambda: self._kill(process, "between two steps")
        self._spawn(process, self._host(process, node, scope), f"{process}")
        self.note(f"{process}: starts")
        return process

    async def _host(self, process: Process, node: Node, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await node.run()
            except* StoreUnavailable:
                # It found no store to join, and ends as a process would; whoever looks after it starts it again.
                if not process.dead and not self._healed:
                    self._kill(process, "by itself: there is no store")
        if self.living.pop(process, None) is not None:
            self.note(f"{process}: has left")

    def _kill(self, process: Process, when: str) -> None:
        """The process is gone at once, with all that it had in memory."""
        found = self.living.pop(process, None)
        if found is None:
            return
        self.note(f"{process}: killed {when}")
        process.dead = True
        if process.session is not None:
            process.session.crash()
        process.context.copy().run(found[1].cancel)
        if process.frozen:
            self.loop.thaw(process)
        if not self._healed:
            delay = self.chance.random() * 0.6
            self._spawn(OUTSIDE, self._restart(delay), "restart")

    async def _restart(self, delay: float) -> None:
        await asyncio.sleep(delay)
        if not self._healed:
            self._start()

    # --- faults ------------------------------------------------------------------------------------------------

    async def _storm(self) -> None:
        profile, chance = self.profile, self.chance
        faults: list[tuple[float, Callable[[], None]]] = [
            (profile.crash_rate, self._crash),
            (profile.freeze_rate, self._freeze_any),
            (profile.cut_rate, self._cut),
            (profile.outage_rate, self._outage),
            (profile.restart_rate, self.store.restart),
            (profile.leave_rate, self._leave),
            (profile.join_rate, self._join),
        ]
        rate = sum(weight for weight, _ in faults)
        while rate:
            await asyncio.sleep(chance.expovariate(rate))
            fault = chance.choices([act for _, act in faults], [weight for weight, _ in faults])[0]
            self.note(f"fault: {fault.__name__.strip('_')}")
            fault()

    def _victim(self) -> Process | None:
        return self.chance.choice(list(self.living)) if self.living else None

    def _crash(self) -> None:
        if victim := self._victim():
            victim.doom = self.chance.randrange(60)

    def _freeze_any(self) -> None:
        if victim := self._victim():
            self._freeze(victim, "somewhere")

    def _freeze(self, victim: Process, when: str) -> None:
        """Stop a process without ending it, mostly for longer than its lease."""
        if victim.frozen or victim.dead:
            return
        victim.frozen = True
        self.note(f"{victim}: frozen {when}")
        seconds = (0.1 + self.chance.random()) * self.profile.freeze_seconds
        self.loop.call_later(seconds, self._thaw, victim, context=OUTSIDE.context)

    def _thaw(self, victim: Process) -> None:
        if victim.frozen:
            self.note(f"{victim}: wakes")
            self.loop.thaw(victim)

    def _cut(self) -> None:
        victim = self._victim()
        if victim is not None and victim.session is not None:
            self.note(f"{victim}: cut off")
            victim.session.disconnect()

    def _outage(self) -> None:
        self.store.down = True
        seconds = self.chance.random() * self.profile.outage_seconds
        self.loop.call_later(seconds, setattr, self.store, "down", False, context=OUTSIDE.context)

    def _leave(self) -> None:
        if self._staying() > 1 and (victim := self._victim()):
            self.note(f"{victim}: leaves")
            self.leaving.add(victim)
            self.living[victim][0].stop()

    def _staying(self) -> int:
        """How many processes live and are not about to leave."""
        return sum(process not in self.leaving for process in self.living)

    def _join(self) -> None:
        if self._staying() < self.profile.nodes + 1:
            self._start()

    def _heal(self) -> None:
        self.note("healed")
        self._healed = True
        self.store.heal()
        self.store.down = False
        for process in self.living:
            process.doom = -1  # who is frozen wakes when its time has come, as a zombie perhaps
        for _ in range(self._staying(), self.chance.choice((1, 2))):
            self._start()

    # --- the run -----------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Do it all, and say what was wrong."""
        asyncio.set_event_loop(None)
        logging.disable(logging.CRITICAL)
        gc.disable()
        try:
            self.loop.run_until_complete(self._spawn(OUTSIDE, self._main(), "main"))
        except Stuck as stuck:
            self.wrong.append(f"G6: {stuck}")
        rest = self.loop.now
        found = len(self.wrong)
        try:
            self.loop.run_until_complete(self._clear_away())
        except Stuck as stuck:
            self.wrong.insert(found, f"a killed process cannot be cleared away: {stuck}")
        finally:
            self.loop.close()
            logging.disable(logging.NOTSET)
            gc.enable()
        wrong = list(dict.fromkeys([*self.wrong, *self.loop.broken]))
        return Outcome(
            self.seed,
            self.profile.name,
            wrong,
            self.loop.digest,
            rest,
            self.loop.steps,
            self.store.history.commits,
            self.trace,
        )

    async def _main(self) -> None:
        for _ in range(self.profile.nodes):
            self._start()
        work = self._spawn(OUTSIDE, self.workload.run(self.profile.storm_seconds), "workload")
        storm = self._spawn(OUTSIDE, self._storm(), "storm")
        await asyncio.sleep(self.profile.storm_seconds)
        storm.cancel()
        self._heal()
        end = self.loop.now + REST_SECONDS
        while still := unrest(self):
            if self.loop.now > end:
                self.wrong += [f"G6: no rest {REST_SECONDS:g} s after all was healed: {what}" for what in still[:10]]
                break
            await asyncio.sleep(LOOK_SECONDS)
        self.workload.over = True
        await asyncio.wait([work])
        if not self.wrong:
            await asyncio.sleep(LOOK_SECONDS)
        self.wrong += violations(self)

    async def _clear_away(self) -> None:
        """End all tasks; what they still do is nobody's business any more."""
        self._healed = True
        self.store.heal()
        for process in list(self.living):
            self._kill(process, "at the end")
        for task in list(self._tasks):
            if task.get_name() in ("storm", "workload", "restart", "main"):
                task.cancel()
        while self._tasks:
            await asyncio.wait(list(self._tasks))


def _causes(error: BaseException | None) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_causes(one) for one in error.exceptions)
    where = error.__traceback__ if error is not None else None
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    line = f" at {where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where is not None else ""
    return f"{error!r}{line}"


def simulate(seed: int, profile: str = "", **options: bool) -> Outcome:
    """Run one seed."""
    return Simulation(seed, profile, **options).run()
