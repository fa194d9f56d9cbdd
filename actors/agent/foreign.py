"""Running foreign code (a model's client, a tool) so that whatever it does to itself ends as an ordinary exception.

A `SystemExit` out of a tool would end the node, and a `CancelledError` of the tool's own making would look like the
runtime's: the call would vanish without an answer, and the run would wait for ever.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


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
