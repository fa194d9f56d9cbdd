"""The lines that runs are told in: our words, and foreign text behind a bar.

A line carries a style's name and no colour, and has not been through `safe`, which is the printer's business.
"""

import json
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

Style = Literal["title", "section", "event", "data", "good", "bad", "waits"]


class Line(msgspec.Struct, frozen=True):
    """One line, and how it may be dressed."""

    text: str
    style: Style = "event"


def duration(seconds: float) -> str:
    """A time span for people: `12 ms`, `3.2 s`, `4 min 05 s`, `3 h 12 min`, `2 d 4 h`."""
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def block(text: str) -> Iterator[Line]:
    """Foreign text, behind a bar."""
    for part in text.split("\n"):
        yield Line(f"      │ {part}", "data")


def json_block(value: Any) -> Iterator[Line]:
    """A foreign value, behind a bar."""
    return block(json.dumps(value, ensure_ascii=False, indent=2) if value else json.dumps(value))
