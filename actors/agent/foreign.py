"""Running foreign code (a model's client, a tool) so that whatever it does to itself ends as an ordinary exception.

A `SystemExit` out of a tool would end the node, and a `CancelledError` of the tool's own making would look like the
runtime's: the call would vanish without an answer, and the run would wait for ever.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

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


async def call_foreign(function: Callable[..., Any], values: dict[str, Any], in_thread: InThread) -> Any:
    """What `function(**values)` gives: an async one in this task, a blocking one in a thread.

    Raises:
        Exception: what it raises.
    """
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        return await function(**values)
    outcome = await in_thread(functools.partial(_blocking, function, values))
    return await outcome if inspect.isawaitable(outcome) else outcome  # a blocking wrapper around an async function


def _blocking(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    try:
        return function(**values)
    except StopIteration as error:
        # A future refuses StopIteration, and whoever waits for it would wait for ever.
        name = getattr(function, "__name__", type(function).__name__)
        raise RuntimeError(f"{name} raised StopIteration") from error
