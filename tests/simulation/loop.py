"""An event loop whose clock and schedule come from a seed, and which can stop the tasks of one process.

asyncio runs what is ready in rounds, first come first served; nothing may rely on that, and here a round runs in an
order that the seed chooses, and some tasks are slow: they sit out some rounds. A task's own steps stay in order, as it
has at most one step ready. Time is virtual: it passes only when nothing is ready. Each callback belongs to the
`Process` whose code scheduled it (a context variable, inherited by tasks), so that one can be frozen as by SIGSTOP.

Invariant: the order depends on the seed alone, not on addresses of objects. So a task draws from a stream of its own:
anyio cancels the tasks of a scope in the order of a set, which must not show.
"""

import asyncio
import heapq
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

from callboard.persistence.memory import MemorySession

MASK = (1 << 64) - 1
ROUNDS_WITHOUT_TIME = 50_000
"""Rounds in which no time passes, before that counts as running in circles."""


def ring(bell: "asyncio.Future[None]") -> None:
    """Let whoever waits for it come up."""
    if not bell.done():
        bell.set_result(None)


BELLS = {ring, asyncio.futures._set_result_unless_cancelled}  # type: ignore[attr-defined]
"""What does no more than that: `asyncio.sleep` has one of its own."""


class Process:
    """A process of the simulated machines: what is scheduled by its code runs only while it is not frozen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.frozen = False
        self.dead = False
        self.session: MemorySession | None = None
        self.parked: list[asyncio.Handle] = []
        self.doom = -1
        """Callbacks that it has left to live; negative: no such end is set."""
        self.on_doom: Callable[[], None] = lambda: None
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)
        with suppress(ImportError):
            # Or anyio finds out anew, at each of its calls, on which library it runs.
            from sniffio import current_async_library_cvar

            self.context.run(current_async_library_cvar.set, "asyncio")

    def __repr__(self) -> str:
        return self.name


PROCESS: ContextVar[Process] = ContextVar("process")
OUTSIDE = Process("outside")


class Stuck(Exception):
    """Nothing is ready and nothing is scheduled, or no time passes any more."""


class SeededTask(asyncio.Task[Any]):
    """A task with its own stream of chance."""

    stream = 0
    laziness = 0


class SeededLoop(asyncio.BaseEventLoop):
    """See the module's text. Does no I/O at all."""

    _ready: Any  # of BaseEventLoop, which does not say so in public
    _scheduled: Any
    """(when, number, handle) of what is to come."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.now = 0.0
        self.steps = 0
        """Callbacks that were run."""
        self.digest = seed
        """Of the order in which tasks were run, and when."""
        self.broken: list[str] = []
        """Exceptions that nobody took."""
        self._stream = (seed * 2_862_933_555_777_941_757 + 3_037_000_493) & MASK
        self._idle_rounds = 0
        self._alarms = 0
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self.now

    def _chance(self) -> int:
        self._stream = (self._stream * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) & MASK
        return self._stream >> 33

    def _make_task(self, _loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> SeededTask:
        task = SeededTask(coroutine, loop=self, **options)
        task.stream = self._chance()
        # Most tasks are quick; one in eight sits out half of the rounds, and one in sixteen nearly all.
        kind = task.stream & 15
        task.laziness = 1 << 30 if kind < 2 else 7 << 28 if kind == 2 else 0
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.broken.append(f"{context.get('message')}: {error!r}")

    def _write_to_self(self) -> None:
        """Nobody outside of this thread wakes this loop."""

    def _process_events(self, event_list: Any) -> None:
        """There is no I/O."""

    # --- scheduling: what `BaseEventLoop` does, without what it does for threads, for debugging and for I/O ----------

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._alarms += 1
        # With a number: handles are compared in Python, and these tuples are not.
        heapq.heappush(self._scheduled, (when, self._alarms, handle))
        return handle

    def _run_once(self) -> None:
        ready = self._ready
        if not ready:
            self._pass_time()
        self._idle_rounds += 1
        if self._idle_rounds > ROUNDS_WITHOUT_TIME:
            raise Stuck(f"{ROUNDS_WITHOUT_TIME} rounds at {self.now:.3f} s, and time does not pass")
        if len(ready) == 1:
            self._step(ready.popleft(), 0)
            return
        handles = list(ready)
        ready.clear()
        turn: list[tuple[int, int, asyncio.Handle]] = []
        for index, handle in enumerate(handles):
            if handle._cancelled:
                continue
            task = getattr(handle._callback, "__self__", None)
            if isinstance(task, SeededTask):
                chance = task.stream = (task.stream * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) & MASK
                chance >>= 33
                if chance < task.laziness:
                    ready.append(handle)
                    continue
            else:
                chance = self._chance()
            turn.append((chance, index, handle))
        turn.sort()
        for chance, _, handle in turn:
            self._step(handle, chance)

    def _step(self, handle: Any, chance: int) -> None:
        if handle._cancelled:
            return
        context = handle._context
        process = context.get(PROCESS, OUTSIDE)
        if process.frozen:
            process.parked.append(handle)
            return
        if process.doom >= 0:
            if not process.doom:
                process.doom = -1
                process.on_doom()
            process.doom -= 1
        self.steps += 1
        self.digest = (self.digest * 31 + chance + int(self.now * 1e6)) & MASK
        try:
            context.run(handle._callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - told at the end of the run
            self.broken.append(f"{handle!r}: {error!r}")

    def _pass_time(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0][2]._cancelled:
            heapq.heappop(scheduled)
        if not scheduled:
            raise Stuck(f"nothing is ready and nothing is scheduled at {self.now:.3f} s")
        self.now = now = max(self.now, scheduled[0][0])
        self._idle_rounds = 0
        while scheduled and scheduled[0][0] <= now:
            handle = heapq.heappop(scheduled)[2]
            if handle._cancelled:
                continue
            if handle._callback in BELLS:
                # Rings for a task, which then comes up in its own order; so this needs no step of its own.
                handle._callback(*handle._args)
            else:
                self._ready.append(handle)

    # --- processes ---------------------------------------------------------------------------------------------

    def thaw(self, process: Process) -> None:
        """Let a frozen process go on."""
        process.frozen = False
        parked, process.parked = process.parked, []
        self._ready.extend(parked)
