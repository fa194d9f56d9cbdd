"""Handlers that wait, told from those that do not before either has begun.

A handler does no I/O, so it nearly always runs from its beginning to its end without waiting, and the task that it
would need otherwise costs more than the whole turn. But what may wait must be a task of its own *from its beginning*: a
timeout or a cancel scope that it opens before its first wait belongs to the task that runs it then, and would else
cancel the pump. So it is the code that decides, not the run: a coroutine whose own code has no `await` in it (nor
`async with`, `async for`) can never wait, whatever it calls.
"""

import dis
import inspect
from collections.abc import Awaitable, Callable
from types import CodeType, CoroutineType
from typing import Any

import anyio

_SEND = dis.opmap.get("SEND")
"""What each `await` is compiled to. Where an interpreter has no such instruction, everything may wait."""

_known: dict[int, tuple[CodeType, bool]] = {}
"""By the code's id, as hashing a code object reads all of it; the code itself keeps its id from being used again."""
_straight: set[int] = set()
"""The ids of those that cannot wait: asked in every turn."""


def _waits(code: CodeType) -> bool:
    known = _known.get(id(code))
    if known is None:
        operations = {each.opcode for each in dis.get_instructions(code)}
        known = _known[id(code)] = (code, _SEND is None or _SEND in operations)
        if not known[1]:
            _straight.add(id(code))
    return known[1]


def may_wait(function: Callable[..., Any]) -> bool:
    """Whether a call of this function gives something that may have to wait; False also for a plain function."""
    if not inspect.iscoroutinefunction(function):
        return False
    code = getattr(function, "__code__", None)
    return not isinstance(code, CodeType) or _waits(code)


class CancelledFromWithin(Exception):
    """What a handler awaited was cancelled, and the handler was not: a fault of its own, like any other."""


def stray(error: BaseException) -> CancelledFromWithin | None:
    """What to make of a cancellation that nobody here has asked for; None where it was asked for, or is none.

    Let through, it would end the task that it comes out of without a word, as if that had been cancelled.
    """
    if not isinstance(error, anyio.get_cancelled_exc_class()) or anyio.current_effective_deadline() == float("-inf"):
        return None
    return CancelledFromWithin("something that it waited for was cancelled")


def run_ahead(result: Any) -> Awaitable[None] | None:
    """What a handler returned: run it to its end here if it cannot wait; else what is to be awaited, not yet begun."""
    if result is None:
        return None
    if type(result) is CoroutineType:
        if id(result.cr_code) not in _straight and _waits(result.cr_code):
            return result
        try:
            result.send(None)
        except StopIteration:
            return None
        raise RuntimeError(f"{result.__qualname__} has no await, and waits")
    return result if inspect.isawaitable(result) else None
