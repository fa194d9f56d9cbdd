"""The model's processes: signals, exits, and the recorded workers.

Exit signals go both ways between a process and its parent, as links do in OTP: a parent is told of an end by
("exit", process, reason) in its mailbox, a child whose parent ends gets that reason as an exit signal.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from .behaviour import behaviour_of
from .cases import Event
from .clockwork import Clockwork, Gate

Started = tuple[str, str]
"""("ok" | "ignored" | "error", reason)."""


class World:
    """All processes of a case, and what they showed."""

    def __init__(self) -> None:
        self.clock = Clockwork()
        self.events: list[Event] = []
        self.kept: dict[str, tuple[Any, set[str]]] = {}
        """What a supervisor of ours leaves to its next incarnation, by its id."""
        self.latest: dict[str, Process] = {}
        """The last process of each id."""
        self._starts: Counter[str] = Counter()

    def log(self, *event: Any) -> None:
        self.events.append(event)

    def next_incarnation(self, id: str) -> int:
        self._starts[id] += 1
        return self._starts[id]


class Process:
    """One process: a worker, a supervisor, or the owner of the tree."""

    traps = True

    def __init__(self, world: World, id: str, parent: "Process | None") -> None:
        self.world = world
        self.id = id
        self.parent = parent
        self.linked = True
        """Whether the parent is told of the end, and is to be obeyed."""
        self.alive = True
        self.incarnation = world.next_incarnation(id)
        self.mailbox: list[tuple[Any, ...]] = []
        self.paused = False
        self.started = Gate(world.clock)
        """Opened with `Started`."""
        self._news: Gate | None = None
        self._monitors: list[Process] = []
        world.latest[id] = self
        self._task = self.run()
        world.clock.spawn(self._task)

    async def run(self) -> None:
        """Its life."""

    # --- messages ----------------------------------------------------------------------------------------------

    def send(self, *message: Any) -> None:
        if self.alive:
            self.mailbox.append(message)
            self._wake()

    def resume(self) -> None:
        self.paused = False
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self.paused:
            news, self._news = self._news, None
            news.open()

    async def receive(
        self, wanted: Callable[[tuple[Any, ...]], bool] = lambda _: True, timeout_ms: float | None = None
    ) -> tuple[Any, ...] | None:
        """The first message that is wanted; None after the timeout."""
        clock = self.world.clock
        end = None if timeout_ms is None else clock.now + timeout_ms
        while True:
            if not self.paused:
                for index, message in enumerate(self.mailbox):
                    if wanted(message):
                        return self.mailbox.pop(index)
            if end is not None and clock.now >= end:
                return None
            self._news = Gate(clock)
            alarm = None if end is None else clock.later(end - clock.now, self._news.open)
            await self._news
            if alarm is not None:
                alarm.cancelled = True

    def monitor(self, watcher: "Process") -> None:
        self._monitors.append(watcher)

    # --- ends --------------------------------------------------------------------------------------------------

    def exit_signal(self, reason: str) -> None:
        """The parent asks it to end, or has ended itself."""
        if self.traps:
            self.send("stop", reason)
        else:
            self.end(reason)

    def end(self, reason: str) -> None:
        """It is gone, and whom it concerns is told."""
        if not self.alive:
            return
        self.world.log("exit", self.id, self.incarnation, reason)
        self.gone(reason)

    def gone(self, reason: str, *, quietly: bool = False) -> None:
        """As `end`, without the event; quietly: its parent learns of it in another way."""
        self.alive = False
        self.world.clock.end(self._task)
        if self.linked and self.parent is not None and not quietly:
            self.parent.send("exit", self, reason)
        for watcher in self._monitors:
            watcher.send("down", self, reason)
        self.after_end(reason)

    def after_end(self, reason: str) -> None:
        """What its end does to others."""


class WorkerProcess(Process):
    """A recorded worker."""

    def __init__(self, world: World, id: str, parent: Process, spec: dict[str, Any]) -> None:
        self.behaviour = behaviour_of(spec)
        self.traps = self.behaviour.traps
        super().__init__(world, id, parent)

    async def run(self) -> None:
        world, does = self.world, self.behaviour
        if does.start_takes:
            await world.clock.sleep(does.start_takes)
        if does.fails(self.incarnation):
            world.log("start_failed", self.id, self.incarnation, "init_failed")
            self.gone("init_failed", quietly=True)
            self.started.open(("error", "init_failed"))
            return
        if does.ignored(self.incarnation):
            world.log("start_ignored", self.id, self.incarnation)
            self.gone("normal", quietly=True)
            self.started.open(("ignored", ""))
            return
        world.log("start", self.id, self.incarnation)
        self.started.open(("ok", ""))
        if does.crashes_after is not None:
            world.clock.later(does.crashes_after, lambda: self.send("crash", does.crash_reason))
        message = await self.receive()
        assert message is not None
        what, reason = message
        if what == "stop":
            world.log("stopping", self.id, self.incarnation, reason)
            if does.cleanup_takes:
                await world.clock.sleep(does.cleanup_takes)
            reason = does.cleanup_exits_with or reason
        self.end(reason)
