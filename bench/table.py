"""A report as text that people read: one line a figure, grouped as the report is."""

from collections.abc import Iterator
from typing import Any

import msgspec

_WIDTH = 34


def lines(report: msgspec.Struct) -> Iterator[str]:
    """The lines of a report."""
    yield from _lines(msgspec.to_builtins(report), 0)


def _lines(value: dict[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, item in value.items():
        label = indent + name.replace("_", " ")
        if isinstance(item, dict):
            yield label
            yield from _lines(item, depth + 1)
        elif isinstance(item, list) and not any(isinstance(part, dict) for part in item):
            yield f"{label:<{_WIDTH}} {', '.join(map(_figure, item)) or 'none'}"
        elif isinstance(item, list):
            for index, part in enumerate(item, 1):
                yield f"{label} {index}"
                yield from _lines(part, depth + 1)
        else:
            yield f"{label:<{_WIDTH}} {_figure(item)}"


def _figure(value: Any) -> str:
    if value is None:
        return "not available"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
