"""Text from outside (models, tools, people), made such that every row, journal and provider can take it.

Journals and mailboxes hold any text, but snapshots and the requests of most SDKs are UTF-8, which has no lone
surrogates, and text columns take no NUL. What one of those refuses must not stop a run whose work is done and paid.
"""

import math
from typing import Any

from .result import text_of

MAX_SAID_CHARS = 10_000
"""How much of what a person says about a decision is kept."""
MAX_LINE_CHARS = 2_000
MAX_DEPTH = 64


def well_formed(text: str) -> str:
    """`text` without lone surrogates: each becomes U+FFFD, and two halves side by side the character they are."""
    if text.isascii():
        return text  # known without looking at it, and true of most
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def said(text: str) -> str:
    """What somebody said, well-formed and bounded."""
    kept = well_formed(text)
    return kept if len(kept) <= MAX_SAID_CHARS else kept[:MAX_SAID_CHARS] + " …"


def row_text(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Text for a column of a row: well-formed, without NUL, bounded."""
    if type(text) is str and len(text) <= limit and text.isascii() and "\x00" not in text:
        return text
    return well_formed(text).replace("\x00", "")[:limit]


def error_line(error: BaseException) -> str:
    """An error as one bounded text; never fails, whatever the error's own `__str__` does."""
    name = type(error).__name__
    text = text_of(error)
    return row_text(text if text.startswith(name) else f"{name}: {text}" if text else name)


def well_formed_values(value: Any, depth: int = 0) -> Any:
    """JSON values with all their texts well-formed.

    Raises:
        ValueError: for NaN and infinity, which JSON does not have, for whole numbers of more than 64 bits
            (`require_short_numbers`), and for deeper nesting than 64.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"they are nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    if kind is str:
        return well_formed(value)
    if kind is dict:
        return {
            well_formed(key) if isinstance(key, str) else key: well_formed_values(item, depth + 1)
            for key, item in value.items()
        }
    match value:  # the others, and subclasses
        case str():
            return well_formed(value)
        case float() if not math.isfinite(value):
            raise ValueError(f"they hold {value}, which is not a JSON value")
        case int():
            require_short_numbers(value)
        case dict():
            return {
                well_formed(key) if isinstance(key, str) else key: well_formed_values(item, depth + 1)
                for key, item in value.items()
            }
        case list() | tuple():
            return [well_formed_values(item, depth + 1) for item in value]
    return value


def require_short_numbers(values: Any) -> None:
    """Refuse what a run's snapshot cannot hold, which would stop the run.

    Raises:
        ValueError: for whole numbers of more than 64 bits.
    """
    waiting = [values]
    while waiting:
        value = waiting.pop()
        match value:
            case int() if not -(1 << 63) <= value < 1 << 64:
                size = value.bit_length()
                raise ValueError(f"they hold a whole number of {size} bits; at most 64 can be kept, or a text")
            case dict():
                waiting.extend(value.values())
            case list() | tuple():
                waiting.extend(value)
