"""Running foreign code (a model's client, a tool) so that whatever it does to itself ends as an ordinary exception.

A `SystemExit` out of a tool would end the node, and a `CancelledError` of the tool's own making would look like the
runtime's: the call would vanish without an answer, and the run would wait for ever.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, TypeVar

from ..waiting import may_wait
from .result import text_of

T = TypeVar("T")
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""How blocking code is run: the port's `in_thread`, or anything like `anyio.to_thread.run_sync`."""


class Gone(Exception):
    """Foreign code ended in a way that is not its to choose."""


async def contained(work: Awaitable[T]) -> T:
    """What `work` gives.

    Raises:
        Gone: it called exit, or something inside of it was cancelled and nobody caught that.
        Exception: what it raises.
    """
    try:
        return await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # from outside: a deadline, a withdrawn call, a node that goes
        raise Gone("something inside of it was cancelled") from error
    except SystemExit as error:
        raise Gone(f"it called exit({error.code!r})") from error
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise  # an error like any other; a person at the keyboard; a coroutine that is being thrown away
    except BaseException as error:
        # Not `Exception`: it would end the task group it is in, and with it the node.
        raise Gone(f"it raised {type(error).__name__}, which is no Exception: {text_of(error)}") from error


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call of it gives something to await, as far as its declaration tells."""
    if type(function) is FunctionType:  # nearly always, and told at a tenth of the price
        return bool(function.__code__.co_flags & inspect.CO_COROUTINE) or inspect.iscoroutinefunction(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def never_waits(function: Callable[..., Any]) -> bool:
    """Whether it is an async function without an `await`: it runs to its end at once, so no limit of time could cut it
    off, and none has to be set, which would cost as much as the call."""
    return type(function) is FunctionType and is_async(function) and not may_wait(function)


async def call_foreign(function: Callable[..., Any], values: dict[str, Any], in_thread: InThread) -> Any:
    """What `function(**values)` gives: an async one in this task, a blocking one in a thread.

    Raises:
        TypeError: it gives a generator.
        Exception: what it raises.
    """
    if is_async(function):
        outcome = await function(**values)
    else:
        outcome = await in_thread(functools.partial(_blocking, function, values))
        if inspect.isawaitable(outcome):  # a blocking wrapper around an async function
            outcome = await outcome
    if inspect.isgenerator(outcome) or inspect.isasyncgen(outcome):
        inner = function.func if isinstance(function, functools.partial) else function
        name = getattr(inner, "__name__", type(inner).__name__)
        raise TypeError(f"{name} gave a generator, whose body has not run and never will; let it give a list")
    return outcome


def _blocking(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    try:
        return function(**values)
    except (StopIteration, GeneratorExit, KeyboardInterrupt) as error:
        # A future refuses StopIteration, and whoever waits for it would wait for ever. The others mean something to who
        # waits, but not here: no coroutine is thrown away in this thread, and nobody is at its keyboard.
        name = getattr(function, "__name__", type(function).__name__)
        raise RuntimeError(f"{name} raised {type(error).__name__}") from error


class Threads:
    """An `in_thread` that tells of blocking code which was cut off whether it had begun: threads are not without end,
    and what waited for one in vain has done nothing."""

    def __init__(self, in_thread: InThread) -> None:
        self._in_thread = in_thread
        self.never_begun = False
        """Whether something was cut off that never began, and never will."""

    async def __call__(self, function: Callable[[], Any]) -> Any:
        turn = [True]  # whoever takes it decides whether it begins; to take it is one step, for all threads

        def begin() -> Any:
            return function() if _taken(turn) else None

        try:
            return await self._in_thread(begin)
        except asyncio.CancelledError:
            self.never_begun = _taken(turn)
            raise


def _taken(turn: list[bool]) -> bool:
    try:
        return turn.pop()
    except IndexError:
        return False
