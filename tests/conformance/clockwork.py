"""A tiny deterministic scheduler for the model: coroutines, gates they wait at, and a clock that jumps.

Whoever was made ready first runs first, and each runs until it waits: the order in which one thing causes another is
the order of the trace.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

Task = Coroutine["Gate", Any, None]


class Gate:
    """What one coroutine waits at until somebody opens it with a value."""

    def __init__(self, clockwork: "Clockwork") -> None:
        self._clockwork = clockwork
        self._waiter: Task | None = None
        self.is_open = False
        self.value: Any = None

    def open(self, value: Any = None) -> None:
        """Once; later openings change nothing."""
        if not self.is_open:
            self.is_open, self.value = True, value
            if self._waiter is not None:
                self._clockwork.ready.append(self._waiter)

    def wait_of(self, task: Task) -> None:
        self._waiter = task

    def __await__(self) -> Generator["Gate", None, Any]:
        if not self.is_open:
            yield self
        return self.value


class Alarm:
    """Something that happens at a time, unless it is cancelled."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self.ring = ring
        self.cancelled = False


class Clockwork:
    """The scheduler."""

    def __init__(self) -> None:
        self.now = 0.0
        """Milliseconds."""
        self.ready: deque[Task] = deque()
        self._ended: set[Task] = set()
        self._alarms: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()

    def spawn(self, task: Task) -> None:
        self.ready.append(task)

    def later(self, ms: float, ring: Callable[[], None]) -> "Alarm":
        """Call `ring` after a time."""
        alarm = Alarm(ring)
        heapq.heappush(self._alarms, (self.now + ms, next(self._order), alarm))
        return alarm

    def sleep(self, ms: float) -> Gate:
        """A gate that opens after a time."""
        gate = Gate(self)
        self.later(ms, gate.open)
        return gate

    def end(self, task: Task) -> None:
        """A task that never goes on."""
        self._ended.add(task)
        if getattr(task, "cr_running", False):
            return
        task.close()

    def run_ready(self, steps: int = 100_000) -> None:
        """Everything that can go on without time passing.

        Raises:
            RuntimeError: it never ends.
        """
        for _ in range(steps):
            if not self.ready:
                return
            task = self.ready.popleft()
            if task in self._ended:
                continue
            try:
                gate = task.send(None)
            except StopIteration:
                continue
            if task in self._ended:
                task.close()
            else:
                gate.wait_of(task)
        raise RuntimeError("the model does not come to rest")

    def advance(self, ms: float) -> None:
        """Let time pass, everything that falls due on the way in its order."""
        end = self.now + ms
        self.run_ready()
        while (due := self._next()) is not None and due <= end:
            self.now, _, alarm = heapq.heappop(self._alarms)
            alarm.ring()
            self.run_ready()
        self.now = end

    def rest(self, quiet_ms: float, limit_ms: float) -> None:
        """Let time pass until nothing falls due for `quiet_ms`; at most `limit_ms`."""
        end = self.now + limit_ms
        self.run_ready()
        while (due := self._next()) is not None and due <= min(self.now + quiet_ms, end):
            self.advance(due - self.now)

    def _next(self) -> float | None:
        while self._alarms and self._alarms[0][2].cancelled:
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None
