"""The one door to the outside of the program: clocks, chance, sleeping, threads and tasks.

Every runtime module is handed a port and uses nothing else for these, so that a test can drive time by hand
(`callboard.actors.testing`) and a simulator can own the schedule. SQL has its own single door, the function
`callboard.clock()`; the database's clock decides whatever is stored, a node's own clock only when it stops sooner.
"""

import asyncio
import contextvars
import functools
import random
import threading
import time
import uuid
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Protocol, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

T = TypeVar("T")


class Signal:
    """A level that one task waits for and others raise; waiting lowers it again. Wakes one waiter at a time."""

    __slots__ = ("_event", "_raised")

    def __init__(self) -> None:
        self._raised = False
        self._event: anyio.Event | None = None

    def set(self) -> None:
        """Raise the level; a raised level stays raised until somebody has waited."""
        self._raised = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Return once the level is raised, and lower it."""
        while not self._raised:
            self._event = anyio.Event()
            await self._event.wait()
        self._event = None
        self._raised = False


class Port(Protocol):
    """What a runtime may ask of the machine it runs on."""

    def wall(self) -> float:
        """Seconds since 1970; may step back."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that only grows."""
        ...

    def random(self) -> float:
        """Uniform in [0, 1); for jitter, never for secrets."""
        ...

    def token(self) -> str:
        """32 hexadecimal digits that nobody else gets."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...

    async def wait(self, signal: Signal, seconds: float | None) -> bool:
        """Wait for `signal`, at most `seconds` (None: for ever); whether it came."""
        ...

    def deadline(self, seconds: float | None) -> AbstractContextManager[anyio.CancelScope | None]:
        """A context that raises TimeoutError when its block takes longer than `seconds` (None: never, and no scope)."""
        ...

    def spawn(
        self, group: anyio.abc.TaskGroup, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any, name: str
    ) -> None:
        """Run `function(*args)` as a task of `group`."""
        ...

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Run blocking code in a thread and give back what it returns."""
        ...

    def start_thread(self, function: Callable[[], None], name: str) -> Callable[[float], None]:
        """Run `function` in a daemon thread of its own; returns its `join(timeout_seconds)`."""
        ...


def _answer(answer: "asyncio.Future[T]", work: Callable[[], T]) -> None:
    """In a thread: do `work`, and tell its outcome to whoever still waits."""

    def tell(how: Callable[[Any], None], outcome: Any) -> None:
        if not answer.done():
            how(outcome)

    outcome: Any
    how: Callable[[Any], None] = answer.set_exception
    try:
        outcome = work()
        how = answer.set_result
    except StopIteration as error:  # a future refuses it, and its waiter would wait for ever
        outcome = RuntimeError(f"blocking code raised StopIteration({error.value!r:.200})")
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        outcome = error
    with suppress(RuntimeError):  # the loop has ended, and nobody waits
        answer.get_loop().call_soon_threadsafe(tell, how, outcome)


class _Limit:
    """`anyio.fail_after` on asyncio, at two thirds of its price: it asks nobody which event loop this is."""

    __slots__ = ("_scope", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> anyio.CancelScope:
        self._scope = anyio.CancelScope(deadline=asyncio.get_running_loop().time() + self._seconds)
        return self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        swallowed = self._scope.__exit__(kind, error, trace)
        if self._scope.cancelled_caught and asyncio.get_running_loop().time() >= self._scope.deadline:
            raise TimeoutError from None
        return bool(swallowed)


LONG_SECONDS = 60.0
"""A limit from here on need not be kept to the millisecond."""
LOOK_SECONDS = 1.0
"""How often those are looked at: so much later, at most, they cut off."""


class _LongLimits:
    """The long limits of one event loop. One timer looks at all of them, where a timer of its own for each would be set
    and taken back 20,000 times for each time that it fires."""

    __slots__ = ("_timer", "loop", "under_way")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.under_way: dict[_LongLimit, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, limit: "_LongLimit") -> None:
        """Look at it from now on, until it leaves `under_way`."""
        self.under_way[limit] = None
        if self._timer is None:
            self._timer = self.loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now = self.loop.time()
        for limit in [limit for limit in self.under_way if limit.due <= now]:
            limit.scope.cancel()
        self._timer = self.loop.call_later(LOOK_SECONDS, self._look) if self.under_way else None


class _LongLimit:
    """As `_Limit`, of `LONG_SECONDS` or more."""

    __slots__ = ("_limits", "due", "scope")

    def __init__(self, seconds: float, limits: _LongLimits) -> None:
        self.due = limits.loop.time() + seconds
        self.scope = anyio.CancelScope()
        self._limits = limits

    def __enter__(self) -> anyio.CancelScope:
        self.scope.__enter__()
        self._limits.add(self)
        return self.scope

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._limits.under_way.pop(self, None)
        swallowed = self.scope.__exit__(kind, error, trace)
        if self.scope.cancelled_caught and self._limits.loop.time() >= self.due:
            raise TimeoutError from None
        return bool(swallowed)


class RealPort:
    """The machine itself."""

    _long: _LongLimits | None = None
    """Those of the event loop that asked last."""

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def random(self) -> float:
        return random.random()  # jitter only

    def token(self) -> str:
        return uuid.uuid4().hex

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def wait(self, signal: Signal, seconds: float | None) -> bool:
        if seconds is None:
            await signal.wait()
            return True
        with anyio.move_on_after(seconds):
            await signal.wait()
            return True
        return False

    def deadline(self, seconds: float | None) -> AbstractContextManager[anyio.CancelScope | None]:
        # No scope where there is no limit: it would cost as much as the rest of a short call.
        if seconds is None:
            return nullcontext()
        if seconds < LONG_SECONDS:
            return _Limit(seconds)
        loop, limits = asyncio.get_running_loop(), self._long
        if limits is None or limits.loop is not loop:
            limits = self._long = _LongLimits(loop)  # those of a loop before have their own timer
        return _LongLimit(seconds, limits)

    def spawn(
        self, group: anyio.abc.TaskGroup, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any, name: str
    ) -> None:
        group.start_soon(functools.partial(function, *args), name=name)

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        # Not anyio's pool: its threads are waited for at the end of the process, so that blocking code which never
        # returns would keep a drained node for ever (tests/service/test_daemon.py).
        async with anyio.to_thread.current_default_thread_limiter():
            answer = asyncio.get_running_loop().create_future()
            work = functools.partial(contextvars.copy_context().run, function, *args)
            self.start_thread(functools.partial(_answer, answer, work), "blocking code")
            result: T = await answer
            return result

    def start_thread(self, function: Callable[[], None], name: str) -> Callable[[float], None]:
        thread = threading.Thread(target=function, name=name, daemon=True)
        thread.start()
        return thread.join
