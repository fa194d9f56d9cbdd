"""How far the words of a tool's result can be relied on, field by field.

    returns_trust={"orders[].id": "trusted", "orders[].note": "untrusted", "by_sku.*.price": "trusted"}

A label stands for the field and all that is in it; of several that fit, the one that says most about the path decides,
and between equals distrust. What no label fits is untrusted, and so is what does not look like a path.
`secret` is `trusted`, for values that are not meant to leave the house.

Invariant: a result's own keys cannot claim a label. `orders[0].id` as one key is another path than `id` in `orders`,
because paths are compared part by part, and written (`result_path`) with such keys in quotes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, get_args

from ..guard.taint import Label
from .result import text_of
from .schema import BadTool

Labels = tuple[tuple[tuple[str | None, ...], Label], ...]
"""Patterns with their labels. `None` in a pattern is any position of a list, `*` any key."""

_CARE: Final[tuple[Label, ...]] = ("trusted", "secret", "untrusted")
"""Of labels that say as much, the later one counts."""
MAX_PATH_CHARS: Final = 200
MAX_PATH_PARTS: Final = 32

_PLAIN_KEY: Final = re.compile(r"[^.\[\]\"*]+")
_PART: Final = re.compile(r"""(?:^|\.)(?P<key>[^.\[\]"]+)|\[(?P<index>\d*)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]""")
_RESERVED: Final = frozenset({"summary", "truncated_bytes"})
"""What a result that is too large becomes (result.py): words from all of it."""


def result_path(parts: Sequence[str | int]) -> str:
    """Keys and positions as one path: `orders[0].id`, with a key that could be misread in quotes: `["a.b"].c`."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]"
    return text


def short_path(parts: Sequence[str | int]) -> str:
    """`result_path` for people to read: cut, since keys are as long as whoever wrote them liked."""
    cut = [part if isinstance(part, int) else part[:MAX_PATH_CHARS] for part in parts[:MAX_PATH_PARTS]]
    return result_path(cut)[:MAX_PATH_CHARS]


def labels_of(declared: object, tool: str) -> Label | Labels:
    """What `returns_trust` says.

    Raises:
        BadTool: it is neither a label nor a mapping of paths to labels.
    """
    if isinstance(declared, str) and declared in get_args(Label):
        return declared  # type: ignore[return-value]
    if not isinstance(declared, Mapping):
        raise BadTool(
            f"tool {tool!r}: returns_trust must be one of {list(_CARE)}, or a mapping of the "
            f"result's fields to these, not {text_of(declared):.200}"
        )
    found: list[tuple[tuple[str | None, ...], Label]] = []
    for path, label in declared.items():
        pattern = _parsed(path) if isinstance(path, str) else None
        if not pattern:
            raise BadTool(
                f"tool {tool!r}: returns_trust has no usable path {text_of(path)!r:.200}; write 'orders[].id'"
            )
        if label not in get_args(Label):
            raise BadTool(
                f"tool {tool!r}: returns_trust[{path!r}] must be 'untrusted', 'trusted' or 'secret', not {label!r:.200}"
            )
        if pattern[0] in _RESERVED and label != "untrusted":
            raise BadTool(
                f"tool {tool!r}: returns_trust cannot trust {path!r}: a result that is too large is given as "
                "{'summary', 'truncated_bytes'}, with words of every field; give the field another name"
            )
        found.append((pattern, label))
    return tuple(found)


def trust_at(labels: Label | Labels, path: str | Sequence[str | int]) -> Label:
    """The label of the value at `path` in a result as it is recorded."""
    if isinstance(labels, str):
        return labels
    parts = _parsed(path) if isinstance(path, str) else tuple(None if isinstance(p, int) else p for p in path)
    fitting = [(_weight(pattern), label) for pattern, label in labels if _fits(pattern, parts)] if parts else []
    return max(fitting, key=lambda found: (found[0], _CARE.index(found[1])), default=((0, 0), "untrusted"))[1]


def _parsed(path: str) -> tuple[str | None, ...] | None:
    """The parts of a path; None where it is none."""
    parts: list[str | None] = []
    end = 0
    while end < len(path):
        found = _PART.match(path, end)
        if found is None or (found["key"] is not None and (end == 0) != (path[end] != ".")):
            return None
        try:
            parts.append(json.loads(found["quoted"]) if found["quoted"] else found["key"])
        except ValueError:
            return None
        end = found.end()
    return tuple(parts)


def _fits(pattern: tuple[str | None, ...], parts: tuple[str | None, ...]) -> bool:
    """Whether a label at `pattern` says something about `parts`: the same, or what it is in."""
    if len(pattern) > len(parts):
        return False
    if pattern[0] == "*" and parts[0] in _RESERVED:
        return False  # `*` with one field left out would trust the words of that field in the summary
    return all(
        expected == part or (expected == "*" and part is not None)
        for expected, part in zip(pattern, parts, strict=False)
    )


def _weight(pattern: tuple[str | None, ...]) -> tuple[int, int]:
    """How much a pattern says: its length, then how many of its parts are no `*`."""
    return len(pattern), sum(part != "*" for part in pattern)
