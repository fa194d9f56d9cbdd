"""Pages of lists: `?limit=50&cursor=…`, answered as `{items, next_cursor}`.

A cursor is where the last item stood in an order that does not change (a keyset, never an offset), so what is added or
taken away meanwhile moves nothing. It is opaque outside: text of ours, checked when it comes back, of one kind of list.
"""

import base64
import binascii
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from litestar.params import QueryParameter

from ...mailbox.errors import UsageError

T = TypeVar("T")
MAX_PAGE = 200

Limit = Annotated[int, QueryParameter(ge=1, le=MAX_PAGE, description="How many items a page has.")]
Cursor = Annotated[
    str, QueryParameter(max_length=2_000, description="`next_cursor` of the page before; without it the first page.")
]


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list."""

    items: list[T]
    next_cursor: str | None
    """For the page after; null where there is none."""


def write_cursor(kind: str, *place: str | float) -> str:
    """A place in a list of this kind, as text."""
    return base64.urlsafe_b64encode(msgspec.json.encode([kind, *place])).decode().rstrip("=")


def read_cursor(kind: str, cursor: str, *parts: type) -> list[Any]:
    """The place of a cursor; the parts have these types.

    Raises:
        UsageError: it is none of ours, or of another list.
    """
    refused = UsageError(f"cursor: expected the next_cursor of a page of this list, got {cursor[:80]!r}")
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        found = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=list[Any])
        name, *place = found
        converted: list[Any] = [msgspec.convert(one, part) for one, part in zip(place, parts, strict=True)]
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise refused from None
    if name != kind or any(isinstance(one, str) and "\0" in one for one in converted):
        raise refused
    return converted
