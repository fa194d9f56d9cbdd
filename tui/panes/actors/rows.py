"""An actor as a row of the long table: pure, from a glance to pieces of text."""

from collections.abc import Sequence
from typing import Any

from callboard.persistence.watching import place_of
from callboard.service.operations.filters import Field
from callboard.service.operations.glancing import ATTENTION, WORDS
from callboard.service.operations.watching import ActorGlance
from callboard.tui.look import state
from callboard.tui.table import Column, Row
from callboard.tui.text import Line, Piece, Role, budget, count, cut_start, duration, line, piece, spark

OLD_SECONDS = 600.0
"""What waits so long is told loudly."""
MANY = 20
"""So many messages are."""

FIELDS = (
    Field("state", "word", "what it is at", tuple(WORDS)),
    Field("address", "path", "where it lives"),
    Field("kind", "path", "what it is"),
    Field("mbox", "number", "messages in its mailbox"),
    Field("oldest", "duration", "how long the oldest has waited"),
    Field("budget", "number", "per cent that is spent"),
    Field("doing", "text", "what it does"),
    Field("run", "path", "its run"),
)


def columns(width: int) -> tuple[Column, ...]:
    """Columns for a table of so many cells."""
    actor = 17 if width < 84 else 18 if width < 95 else min(40, 18 + (width - 95) // 2)
    return (
        Column("state", "state", 12),
        Column("actor", "actor", actor),
        Column("mbox", "mbox", 4, right=True),
        Column("oldest", "oldest", 7, right=True),
        Column("trend", "10 min", 8, drop=3),
        Column("budget", "budget", 10, drop=2),
        Column("doing", "doing", 17 if width >= 70 else 11, grow=1, drop=1),
    )


def row(glance: ActorGlance, *, now: float, base: str, width: int, trend: Sequence[int] = ()) -> Row:
    """A row. `now`: by the store's clock; `base`: what all addresses begin with and need not be said; `width`: cells
    of the column of actors."""
    waits = max(0.0, now - glance.oldest_at) if glance.oldest_at else 0.0
    quiet: Role = "" if glance.word in ATTENTION and glance.word != "PAUSED" else "dim"
    cells: list[Line] = [
        line(state(glance.word)),
        line(address_piece(glance.address, base, width)),
        line(piece(_waiting(glance.waiting), "needs" if glance.waiting >= MANY else "" if glance.waiting else "dim")),
        line(piece(duration(waits), "needs" if waits >= OLD_SECONDS else "" if waits else "dim")),
        line(piece(spark(trend), "info")),
        budget(glance.spent),
        line(piece(glance.doing, quiet)),
    ]
    return Row(glance.address, cells)


def _waiting(number: int) -> str:
    return "999+" if number > 999 else count(number)


def address_piece(address: str, base: str, width: int) -> Piece:
    """An address without `base`; of one that is too long the end, which tells it from the others."""
    return piece(
        "".join(one.text for one in cut_start(line(address.removeprefix(base).removeprefix("/") or address), width))
    )


def value_of(glance: ActorGlance, name: str, now: float) -> Any:
    """What a filter's word is about; the fields are FIELDS."""
    match name:
        case "state":
            return glance.word
        case "address":
            return glance.address
        case "kind":
            return glance.kind
        case "mbox":
            return glance.waiting
        case "oldest":
            return now - glance.oldest_at if glance.oldest_at else None
        case "budget":
            return None if glance.spent is None else glance.spent * 100
        case "doing":
            return glance.doing
    return glance.run_id or None


def lies_below(address: str, place: str) -> bool:
    """Whether it is at this place of the tree, or below it."""
    if place in ("", "/"):
        return True
    keyless = place_of(address)[0]
    return keyless == place or keyless.startswith(f"{place}/")
