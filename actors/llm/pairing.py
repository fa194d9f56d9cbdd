"""Tool calls and their answers, with ids that agree.

Providers refuse a conversation whose answers do not name a call of the turn before, or name two; some of them also one
in which two turns have the same id. Ids in a journal may be empty, repeated, or of another provider's making, so they
are settled here for every request anew, the same way each time.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .client import ChatMessage

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAME_CHARS = 64


def paired(messages: Sequence[ChatMessage]) -> Iterator[tuple[ChatMessage, tuple[str, ...]]]:
    """Each message with its ids: one for every call of an assistant message, the one it answers for a tool message."""
    waiting: list[tuple[str, str]] = []  # (id in the conversation, id on the wire), in the order of the calls
    used: set[str] = set()
    for position, message in enumerate(messages):
        if message.role == "assistant":
            own = [call.id for call in message.tool_calls]
            good = all(own) and len(set(own)) == len(own) and used.isdisjoint(own)
            ids = tuple(own) if good else tuple(_unused(position, number, used) for number in range(len(own)))
            used.update(ids)
            waiting = list(zip(own, ids, strict=True))
            yield message, ids
        elif message.role == "tool":
            named = [pair for pair in waiting if pair[0] == message.tool_call_id] or waiting
            if named:
                waiting.remove(named[0])
            yield message, (named[0][1] if named else message.tool_call_id or made_id(position, 0),)
        else:
            yield message, ()


def conversation(
    messages: Sequence[ChatMessage],
    system_prompt: str,
    wire: Callable[[ChatMessage, tuple[str, ...]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """The messages as a provider takes them, the system prompt first where there is one; `wire` makes one of them."""
    first = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*first, *(wire(message, ids) for message, ids in paired(messages))]


def _unused(position: int, number: int, used: set[str]) -> str:
    """One for a call of this conversation; a conversation that was made shorter has made ids of other positions."""
    found = made_id(position, number)
    while found in used:
        found += "x"
    return found


def made_id(position: int, number: int) -> str:
    """An id for a call that has none: nothing else in its turn has it."""
    return f"call_{position}_{number}"


def wire_name(name: str) -> str:
    """A tool's name as providers take it; models make up others, and the conversation repeats them."""
    return _NOT_IN_NAMES.sub("_", name)[:MAX_NAME_CHARS] or "unnamed"
