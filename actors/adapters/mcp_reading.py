"""What an MCP server says that the SDK cannot read, read as far as it can be.

Servers write lone surrogates (half a character, where a text was cut), NaN, and numbers without end. The SDK throws
such an answer away, and who waits for it would wait for all of its time, and then not know whether the effect happened.
"""

import json
from typing import Any, Final

from callboard.actors.agent.result import normalise
from callboard.actors.agent.text import well_formed

MAX_DIGITS: Final = 600
"""Of a whole number; a longer one is a text."""
MAX_BYTES: Final = 64 << 20


def answer_in(error: Exception) -> tuple[int, dict[str, Any] | None] | None:
    """The number of the request that is answered by what could not be read, and its result, if it is one; None where it
    is no answer (a line for people, say)."""
    said = _said(error)
    if not isinstance(said, dict) or type(said.get("id")) is not int or "method" in said:
        return None
    result = said.get("result")
    return said["id"], _well_formed(normalise(result, MAX_BYTES)) if isinstance(result, dict) else None


def _said(error: Exception) -> Any:
    """What was to be read, out of pydantic's error about it."""
    complaints = getattr(error, "errors", None)
    if not callable(complaints):
        return None
    said = complaints(include_url=False, include_context=False)[0]["input"]
    if not isinstance(said, str | bytes):
        return said
    try:
        return json.loads(said, parse_int=_number)
    except (ValueError, RecursionError):
        return None


def _number(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_DIGITS else digits


def _well_formed(value: Any) -> Any:
    match value:
        case str():
            return well_formed(value)
        case dict():
            return {well_formed(name): _well_formed(part) for name, part in value.items()}
        case list():
            return [_well_formed(part) for part in value]
    return value
