"""The state machine of a supervisor against simulated children, in many random orders: nothing hangs, nothing overlaps.

Children are told and answer as real ones do, each answer at any later moment; they crash, end and fail to start or stop
as they like, and operators ask for this and that in between. Only the order within a child's mailbox, and from it to
its supervisor, is kept.
"""

import random
from collections import deque
from typing import Any

import msgspec
import pytest

from callboard.actors.actor import Actor, Stateless
from callboard.actors.backoff import RestartBackoff
from callboard.actors.context import Event
from callboard.actors.on_demand import OnDemand
from callboard.actors.restart import NOBODY, ReplyTo
from callboard.actors.spec import AutoShutdown, Child, Restart, Strategy, Supervisor
from callboard.actors.supervisor_state import Ending, SupervisorState
from callboard.actors.system import Abandon, RestartDue, ShutdownOver, Start, Stop
from callboard.mailbox.message import Message


class Nobody(Actor[Stateless], kind="machine-test"):
    """Never made."""


class Process:
    """A child: what waits for it, and whether it runs."""

    def __init__(self) -> None:
        self.mailbox: deque[Message] = deque()
        self.said: deque[tuple[str, int]] = deque()
        self.incarnation = 0
        self.status = "none"
        self.dies = "crash"


class World:
    """The effects of one machine, and everything around it."""

    fresh = False
    address = "/t"

    def __init__(self, chance: random.Random, spec: Supervisor) -> None:
        self.random = chance
        self.spec = spec
        self.state = SupervisorState()
        self.children: dict[str, Process] = {}
        self.timers: dict[str, Message] = {}
        self.asked: set[int] = set()
        self.answered: list[int] = []
        self.now = 0.0
        self.booted_times = 0
        self.end: Ending | None = None
        self.quiet = False
        self.paused = False

    # --- effects -----------------------------------------------------------------------------------------------

    def chance(self) -> float:
        return self.random.random()

    def tell(self, child: str, message: Message) -> None:
        self.children.setdefault(child, Process()).mailbox.append(message)

    def record(self, event: Event) -> None:
        pass

    def answer(self, reply_to: ReplyTo, message: Message) -> None:
        if reply_to != NOBODY:
            self.answered.append(reply_to[1])

    def wake(self, key: str, seconds: float, message: Message) -> None:
        self.timers[key] = message

    def forget(self, key: str) -> None:
        self.timers.pop(key, None)

    def ask_census(self, message: Message) -> None:
        raise AssertionError("there is no pool here")

    def booted(self) -> None:
        self.booted_times += 1

    def ended(self, ending: Ending) -> None:
        assert self.end is None
        self.end = ending
        up = [name for name, process in self.children.items() if process.status == "up"]
        assert up == [], f"orphans of a supervisor that has ended: {up}"

    # --- what may happen next ----------------------------------------------------------------------------------

    def machine(self) -> OnDemand:
        # As from one turn to the next: nothing but the state is kept.
        self.state = msgspec.msgpack.decode(msgspec.msgpack.encode(self.state), type=SupervisorState)
        return OnDemand(self.spec, self.state, self)

    def moves(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for name, process in self.children.items():
            found += [("hears", name)] * bool(process.mailbox) + [("is heard", name)] * bool(process.said)
            if process.status == "up" and not self.quiet:
                found.append(("dies", name))
        found += [("wakes", key) for key in self.timers]
        if not self.quiet and self.end is None:
            found += [("asks", name) for name in ("a", "b", "c", "d")]
            found += [("pauses", "")] * (self.random.random() < 0.2)
        return found

    def step(self, move: tuple[Any, ...]) -> None:
        what, name = move
        match what:
            case "hears":
                self._hear(self.children[name])
            case "is heard":
                self._say(name, *self.children[name].said.popleft())
            case "dies":
                process = self.children[name]
                process.status = "down"
                process.said.append((self.random.choice(["crash", "crash", "end"]), process.incarnation))
            case "wakes":
                self._wake(self.timers.pop(name))
            case "asks":
                self._ask(name)
            case "pauses":
                self.paused = not self.paused
                self.machine().advance()

    def _hear(self, process: Process) -> None:
        message = process.mailbox.popleft()
        if isinstance(message, Start):
            if process.status == "up":
                process.said.append(("started", process.incarnation))
                return
            process.incarnation = max(message.incarnation, process.incarnation + 1)
            luck = 1.0 if self.quiet else self.random.random()
            process.status = "up" if luck > 0.3 else "down"
            process.said.append(
                ("started" if luck > 0.3 else "ignored" if luck > 0.25 else "crash", process.incarnation)
            )
        elif isinstance(message, Stop):
            if 0 < message.incarnation < process.incarnation:
                process.said.append(("stopped", message.incarnation))
            elif process.status == "up" and not self.quiet and not message.kill and self.random.random() < 0.15:
                process.status = "down"
                process.said.append(("crash", process.incarnation))
            else:
                process.status = "down"
                process.said.append(("stopped", message.incarnation or process.incarnation))
        else:
            assert isinstance(message, Abandon)

    def _say(self, name: str, what: str, incarnation: int) -> None:
        machine = self.machine()
        match what:
            case "started":
                machine.started(name, incarnation)
            case "ignored":
                machine.ignored(name, incarnation)
            case "stopped":
                machine.down(name, incarnation, "shutdown", abnormal=False)
            case "end":
                machine.down(name, incarnation, "normal", abnormal=False, ended=True)
            case "crash":
                machine.down(name, incarnation, "boom", abnormal=True)

    def _wake(self, message: Message) -> None:
        self.now += 0.5
        if isinstance(message, ShutdownOver):
            self.machine().overdue(message.child, message.incarnation)
        else:
            assert isinstance(message, RestartDue)
            self.machine().due(message.child)

    def _ask(self, name: str) -> None:
        if self.random.random() < 0.8:
            return
        number = len(self.asked) + 1
        self.asked.add(number)
        reply_to = ("/asker", number)
        machine = self.machine()
        match self.random.randrange(6):
            case 0 | 1:
                machine.terminate_child(f"{name}:1" if name == "d" else name, reply_to)
            case 2 | 3:
                machine.restart_child(f"{name}:1" if name == "d" else name, reply_to)
            case 4:
                machine.start_child(name, "1" if name == "d" else "", reply_to)
            case _:
                machine.delete_child(f"{name}:1" if name == "d" else name, reply_to)


def some_tree(chance: random.Random) -> Supervisor:
    def child(name: str) -> Child:
        restart: Restart = chance.choice(["permanent", "permanent", "transient", "temporary"])
        significant = restart != "permanent" and auto != "never" and chance.random() < 0.5
        return Child(Nobody, name, restart, significant=significant, dynamic=name == "d")

    strategies: list[Strategy] = ["one_for_one", "one_for_all", "rest_for_one"]
    autos: list[AutoShutdown] = ["never", "never", "any_significant", "all_significant"]
    auto = chance.choice(autos)
    return Supervisor(
        "t",
        tuple(child(name) for name in "abcd"),
        strategy=chance.choice(strategies),
        max_restarts=chance.choice([0, 2, 8, 1_000]),
        auto_shutdown=auto,
        backoff=chance.choice([None, RestartBackoff()]),
    )


@pytest.mark.parametrize("block", range(12))
def test_whatever_happens_in_whatever_order_nothing_hangs_overlaps_or_is_left_running(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        chance = random.Random(seed)
        world = World(chance, some_tree(chance))
        world.machine().boot("digest")
        for turn in range(250):
            moves = world.moves()
            if not moves:
                break
            world.step(chance.choice(moves))
            if turn == 200 and world.end is None and chance.random() < 0.5:
                world.machine().end(Ending("stopped", "shutdown", kill=chance.random() < 0.3))
        world.quiet = True
        world.paused = False
        world.machine().advance()
        for _ in range(5_000):
            moves = world.moves()
            if not moves:
                break
            world.step(chance.choice(moves))
        else:
            raise AssertionError(f"seed {seed}: it never comes to rest")
        check_rest(world, seed)


def check_rest(world: World, seed: int) -> None:
    """With nothing left to be said: everything is done, answered, and as the supervisor believes."""
    state = world.state
    assert state.job is None and state.waiting == [], f"seed {seed}: {state.job} {state.waiting}"
    assert sorted(world.answered) == sorted(world.asked), f"seed {seed}: each asker has one answer"
    believed = {child.name: child for child in state.children}
    for name, process in world.children.items():
        child = believed.get(name)
        running = child is not None and child.status == "running"
        assert running == (process.status == "up"), f"seed {seed}: {name} is {process.status}, believed {child}"
        if child is not None and running:
            assert child.incarnation == process.incarnation, f"seed {seed}: {name}"
    if world.end is None:
        odd = {
            name: child.status
            for name, child in believed.items()
            if child.status in ("waiting", "starting", "stopping")
        }
        assert odd == {}, f"seed {seed}: {odd}"
        assert "restarting" not in {child.status for child in believed.values()}, f"seed {seed}: nobody restarts it"
