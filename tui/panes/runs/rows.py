"""A run as a row of the list: pure, from what the list's window says to pieces of text."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from callboard.service.operations.filters import Field, Filter
from callboard.service.operations.views import RunLine, RunWish
from callboard.service.operations.watching import Word
from callboard.tui.look import state
from callboard.tui.table import Column, Row
from callboard.tui.text import Line, Role, count, line, money, piece

WORD_OF: dict[str, Word] = {
    "awaiting_approval": "NEEDS YOU",
    "failed": "FAILED",
    "escalated": "ESCALATED",
    "provider_down": "RETRY",
    "parked": "PARKED",
    "paused": "PAUSED",
    "running": "RUNNING",
    "recorded": "WAITING",
    "not_started": "WAITING",
    "stopped": "STOPPED",
    "completed": "COMPLETED",
    "cancelled": "CANCELLED",
}
"""What is said of a run's status, or of its actor's where that stands still."""
WORDS: tuple[Word, ...] = tuple(dict.fromkeys(WORD_OF.values()))
FIELDS = (
    Field("state", "word", "what it is at", WORDS),
    Field("run", "path", "its id, or where it lives"),
    Field("goal", "text", "what it shall do"),
    Field("waits", "text", "what it waits for"),
    Field("by", "path", "who asked for it"),
    Field("agent", "path", "which agent of the desk"),
    Field("age", "duration", "since it began"),
    Field("steps", "number", "model calls"),
    Field("tokens", "number", "tokens"),
    Field("cost", "money", "in USD"),
)


def word_of(status: str) -> Word:
    """The word for a run's status; RUNNING for what this release does not know."""
    return WORD_OF.get(status, "RUNNING")


def columns(width: int) -> tuple[Column, ...]:
    """Columns for a table of so many cells."""
    return (
        Column("state", "state", 11),
        Column("run", "run", 13 if width < 80 else 18),
        Column("goal", "goal", 20, grow=1, most=60),
        Column("step", "step", 4, right=True, drop=2),
        Column("tokens", "tokens", 7, right=True, drop=4),
        Column("cost", "cost", 7, right=True, whole=True, drop=3),
        Column("started", "started", 11, right=True, drop=5),
        Column("waits", "waits for, or came of it", 18, grow=3, drop=1),
    )


def row(one: RunLine, when: Callable[[float], str]) -> Row:
    """A row. `when`: a moment as all moments are said now."""
    word = word_of(one.status)
    quiet: Role = "dim" if word in ("COMPLETED", "CANCELLED", "STOPPED", "WAITING") else ""
    waits = one.waits_for or one.detail
    cells: list[Line] = [
        line(state(word)),
        line(piece(one.run_id, quiet)),
        line(piece(f"fork of {one.origin}: {one.goal}" if one.origin else one.goal, quiet)),
        line(piece(count(one.step), "dim")),
        line(piece(count(one.tokens), "dim")),
        line(piece(cost_text(one), "dim")),
        line(piece(when(one.started_at), "dim")),
        line(piece(waits, "needs" if word in ("NEEDS YOU", "PARKED") else "bad" if word == "FAILED" else "dim")),
    ]
    return Row(one.address, cells)


def cost_text(one: RunLine) -> str:
    """What it cost, as it is; `·` for nothing."""
    cost = _cost(one)
    return money(cost, "USD") if cost else "·"


def value_of(one: RunLine, name: str, now: float) -> Any:
    """What a filter's word is about; the fields are FIELDS."""
    match name:
        case "state":
            return word_of(one.status)
        case "run":
            return [one.run_id, one.address]
        case "waits":
            return one.waits_for or one.detail or None
        case "age":
            return now - one.started_at if one.started_at else None
        case "cost":
            return _cost(one)
    return {"goal": one.goal, "by": one.requested_by, "agent": one.agent, "steps": one.step, "tokens": one.tokens}[name]


def _cost(one: RunLine) -> Decimal | None:
    try:
        return Decimal(one.cost_usd)
    except InvalidOperation:
        return None


def wish_of(filter: Filter, now: float) -> RunWish:
    """What of a filter the list's window can be narrowed by: it leaves out nothing that fits."""
    if not filter:
        return RunWish()
    words = filter.pick("state")
    statuses = [status for status, word in WORD_OF.items() if word in words]
    by, agent = filter.pick("by"), filter.pick("agent")
    _, oldest = filter.bounds("age")
    return RunWish(
        status=statuses[0] if len(statuses) == 1 else "",
        since=now - float(oldest) - 1.0 if oldest is not None else 0.0,
        requested_by=by[0] if len(by) == 1 else "",
        agent=agent[0] if len(agent) == 1 else "",
    )
