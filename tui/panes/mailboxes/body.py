"""The body of a message on the page: pretty or on one line, its keys told from its values, what is redacted told of."""

import re
from collections.abc import Iterator

from callboard.service.operations.redaction import REDACTED, Body
from callboard.tui.text import Piece, Role, piece

from .reader import GAP, Para

_KEY = re.compile(r'^(\s*)("(?:[^"\\]|\\.)*")(:\s?)(.*)$', re.DOTALL)
_SHOWN_PATHS = 5


def size_text(size: int) -> str:
    """`412 B`, `2.1 kB`."""
    return f"{size:,} B" if size < 1_000 else f"{size / 1_000:,.1f} kB"


def body_paras(body: Body, *, raw: bool) -> Iterator[Para]:
    """All of a body that may be shown."""
    yield GAP
    if body.redacted:
        paths = ", ".join(body.redacted[:_SHOWN_PATHS])
        more = f" and {len(body.redacted) - _SHOWN_PATHS} more" if len(body.redacted) > _SHOWN_PATHS else ""
        told = f"▲ {len(body.redacted)} value(s) not shown, as they look like secrets: {paths}{more}"
        yield Para((piece(told, "needs"),), hang=2)
    for one in body.text(pretty=not raw).split("\n"):
        yield Para(tuple(_coloured(one)), hang=len(one) - len(one.lstrip(" ")) + 2)


def _coloured(text: str) -> Iterator[Piece]:
    found = _KEY.match(text)
    if found is None:
        yield from _values(text, "dim" if text.strip() in ("{", "}", "[", "]", "},", "],") else "")
        return
    yield piece(found[1])
    yield piece(found[2], "info")
    yield piece(found[3], "dim")
    yield from _values(found[4], "")


def _values(text: str, role: Role) -> Iterator[Piece]:
    for number, part in enumerate(text.split(REDACTED)):
        if number:
            yield piece(REDACTED, "needs")
        if part:
            yield piece(part, role)
