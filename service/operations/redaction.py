"""Bodies of messages as people see them: parsed, without what looks like a secret, and no longer than a screen bears.

What is redacted is told by its path, so that nobody takes what is shown for what is stored. Redaction goes by names and
by the form of values; it is a courtesy against eyes over a shoulder and no guard: a secret under another name shows.
"""

import json
import re
from typing import Any

import msgspec

REDACTED = "[redacted]"
MAX_SHOWN_CHARS = 16_384
"""Of one body as text; the whole of it is in `mailbox export`."""
MAX_DEPTH = 64

_SECRET = re.compile(
    r"pass(word|wd|phrase)?$|secret|token$|authorization|api[_-]?key|private[_-]?key|credential|cookie|^cvv$|^cvc2?$"
    r"|^pin$|card[_-]?number|^iban$",
    re.IGNORECASE,
)
"""Names of fields that hold secrets; `tokens`, a number of them, is none."""
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_SAID = re.compile(
    r"\b(password|passwd|passphrase|secret|api[ _-]?key|access[ _-]?token)(\s*[:=]\s*)\S+", re.IGNORECASE
)
"""Said in a sentence."""
_CARD = re.compile(r"(?<!\w)(?<!\d\.)\d(?:[ -]?\d){12,18}(?!\w|\.\d)")


class Body(msgspec.Struct, frozen=True):
    """The body of a message."""

    value: Any
    """As JSON gives it; the text itself where it is none."""
    size: int
    """Bytes as stored."""
    redacted: list[str] = []
    """Paths of what is not shown."""

    def text(self, *, pretty: bool = True, limit: int = MAX_SHOWN_CHARS) -> str:
        """As text, cut at `limit` characters."""
        whole = json.dumps(self.value, ensure_ascii=False, indent=2 if pretty else None)
        if len(whole) <= limit:
            return whole
        return f"{whole[:limit]}\n… {len(whole) - limit:,} more characters; `callboard mailbox export` has them"


def body_of(text: str, *, reveal: bool = False) -> Body:
    """The body that is stored as `text`; with `reveal` nothing is taken out of it."""
    size = len(text.encode(errors="replace"))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return Body(text if reveal else _text(text, "", []), size)
    if reveal:
        return Body(value, size)
    found: list[str] = []
    return Body(_value(value, "", found, 0), size, found)


def redacted_text(text: str) -> str:
    """A text of an error or a reason, without what looks like a secret."""
    return _text(text, "", [])


def _value(value: Any, path: str, found: list[str], depth: int) -> Any:
    if depth > MAX_DEPTH:
        found.append(path)
        return REDACTED
    if isinstance(value, dict):
        return {
            key: _hidden(f"{path}.{key}".lstrip("."), found)
            if _SECRET.search(key) and _holds(key, each)
            else _value(each, f"{path}.{key}".lstrip("."), found, depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_value(each, f"{path}[{index}]", found, depth + 1) for index, each in enumerate(value)]
    return _text(value, path, found) if isinstance(value, str) else value


def _holds(key: str, value: Any) -> bool:
    """Whether a field of such a name holds anything to hide."""
    if isinstance(value, bool) or value is None or value == "":
        return False
    return not isinstance(value, int | float) or not key.lower().endswith("token")


def _hidden(path: str, found: list[str]) -> str:
    found.append(path)
    return REDACTED


def _text(text: str, path: str, found: list[str]) -> str:
    if text[:1] in "{[" and len(text) > 2 and (inside := _nested(text, path, found)) is not None:
        return inside
    shown = _BEARER.sub(lambda match: f"{match[1]} {REDACTED}", text)
    shown = _CARD.sub(_card, _SAID.sub(lambda match: f"{match[1]}{match[2]}{REDACTED}", shown))
    if shown != text:
        found.append(path)
    return shown


def _nested(text: str, path: str, found: list[str]) -> str | None:
    """A text that is JSON itself, as arguments of tools are; None where it is not."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    inside: list[str] = []
    shown = _value(value, path, inside, 1)
    found.extend(inside)
    return json.dumps(shown, ensure_ascii=False) if inside else text


def _card(match: re.Match[str]) -> str:
    digits = [int(character) for character in match[0] if character.isdigit()]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[-2::-2]]
    if (sum(digits[-1::-2]) + sum(doubled)) % 10:
        return match[0]  # some other number
    return f"{REDACTED} {''.join(map(str, digits[-4:]))}"
