"""Rows of the mailbox list and of the messages in one, and the head of one: pure functions of what was read."""

from collections.abc import Iterator, Sequence

from callboard.persistence.operating import MailboxSummary
from callboard.service.operations.actors import MailboxView, MessageLine
from callboard.service.operations.message_views import MailboxLine
from callboard.tui.table import Column, Row
from callboard.tui.text import Line, Piece, Role, count, duration, line, piece

from .states import gist_line, short, state, way_line, why_line

BARS = " ▁▂▃▄▅▆▇█"
OLD_SECONDS = 60.0
"""What waits longer is told of as old."""

BOX_COLUMNS = (
    Column("mailbox", "mailbox", 20, grow=2, most=48, tail=True),
    Column("depth", "depth", 5, right=True),
    Column("in turn", "turn", 4, right=True, drop=5),
    Column("ready", "ready", 5, right=True, drop=3),
    Column("scheduled", "sched", 5, right=True, drop=6),
    Column("retrying", "retry", 5, right=True, drop=4),
    Column("held", "held", 4, right=True, drop=2),
    Column("stashed", "aside", 5, right=True, drop=7),
    Column("oldest", "oldest", 7, right=True),
    Column("holder", "served by", 9, drop=8),
    Column("why", "not delivered because", 22, grow=5, drop=1),
)
MESSAGE_COLUMNS = (
    Column("state", "state", 11),
    Column("type", "type", 12, grow=3),
    Column("from", "from", 10, grow=2, drop=3),
    Column("try", "try", 4, right=True, drop=2),
    Column("age", "age", 7, right=True),
    Column("note", "note", 10, grow=5, drop=1),
)


def box_row(box: MailboxSummary, known: MailboxLine | None, now: float) -> Row:
    """A mailbox; `known`: who serves it and why it waits, where that was read."""
    in_turn = 0 if known is None else min(known.in_turn, box.ready)
    cells: list[Line] = [
        line(piece(box.address), *([piece(" worker", "dim")] if known is not None and known.worker else [])),
        line(piece(f"{box.depth:,}", "strong")),
        _count(in_turn, "ok"),
        _count(box.ready - in_turn, ""),
        _count(box.scheduled, "dim"),
        _count(box.retrying, "retry"),
        _count(box.held, "needs"),
        _count(box.stashed, "dim"),
        _age(box.oldest_at, now),
        _holder(known),
        () if known is None else gist_line(known.why),
    ]
    return Row(box.address, cells)


def _count(number: int, role: Role) -> Line:
    return line(piece(count(number), role if number else "dim"))


def _age(at: float, now: float) -> Line:
    age = now - at if at else 0.0
    return line(piece(duration(age), "needs" if age >= OLD_SECONDS else ""))


def _holder(known: MailboxLine | None) -> Line:
    if known is None:
        return ()
    if known.holder is None:
        return line(piece("callers'", "dim"))
    holder = known.holder
    return line(piece(f"node {holder.node}") if holder.node else piece("nobody", "bad"))


def why_lines(known: MailboxLine | None) -> list[Line]:
    """All of why a mailbox waits."""
    if known is None:
        return []
    return [one for one in (why_line(known.why), way_line(known.why)) if one]


def message_rows(
    view: MailboxView, found: Sequence[MessageLine] | None, now: float, *, sight: set[str] | None = None
) -> list[Row]:
    """The messages of a mailbox; below them the calls of its actor that have not ended. `found`: only these; `sight`:
    only rows of these keys."""
    lines = view.messages if found is None else found
    rows = [message_row(one, view, now) for one in lines if sight is None or str(one.id) in sight]
    if found is None and view.calls:
        rows.append(Row(CALLS, [line(piece("its calls", "title")), (), (), (), (), line(piece("not ended", "dim"))]))
        rows += [message_row(one, view, now, call=True) for one in view.calls]
    return rows


CALLS = "calls"
"""Key of the row above the calls."""


def message_row(one: MessageLine, view: MailboxView, now: float, *, call: bool = False) -> Row:
    """A message."""
    who = f"→ {short(one.recipient)}" if call else short(one.sender)
    tried: Role = "retry" if one.attempt > 1 else "dim"
    cells = [
        line(state(one.state)), line(piece(one.type)), line(piece(who, "dim")), line(piece(str(one.attempt), tried)),
        _message_age(one, now), line(*_note(one, view, now)),
    ]  # fmt: skip
    return Row(str(one.id), cells)


def _message_age(one: MessageLine, now: float) -> Line:
    if one.state == "scheduled":
        return line(piece("·", "dim"))
    age = now - one.sent_at
    return line(piece(duration(age) if age > 0 else "0s", "needs" if age >= OLD_SECONDS else ""))


def _note(one: MessageLine, view: MailboxView, now: float) -> Iterator[Piece]:
    match one.state:
        case "in turn" if view.actor.holder is not None and view.actor.holder.node:
            yield piece(f"in a handler of {view.actor.holder.text}", "dim")
        case "scheduled":
            yield piece(f"due in {duration(one.due_at - now)}", "dim")
        case "retrying":
            yield piece(f"next in {duration(one.due_at - now)} · ", "dim")
            yield piece(" ".join(one.last_error.split()), "bad")
        case _:
            yield piece(" ".join(one.why.text.split()), "bad" if one.why.kind == "stuck" else "dim")


# -- the head of one mailbox


def head_lines(view: MailboxView, now: float, width: int) -> list[Line]:
    """Depth, rates, age, who serves it, and why nothing in it moves, in lines that are wrapped where they are shown."""
    why = view.actor.why
    lines = [_depth(view, width), _rates(view, now, holder=width >= 70)]
    if not view.messages and not view.calls:
        return [*lines, line(piece("nothing waits here", "dim"))]
    if why.kind == "moves":
        return [*lines, line(piece("moves: ", "ok"), piece(" ".join(why.text.split())))]
    told = line(piece("not delivered because: ", "strong"), *why_line(why))
    return [*lines, told, way_line(why)] if why.way_out else [*lines, told]


def _depth(view: MailboxView, width: int) -> Line:
    flow = view.flow
    depth = piece(f"depth {view.actor.waiting:,}", "strong")
    if flow is None:  # a worker's, whose calls lie with those who made them; or nothing of it was handled yet
        return line(depth)
    cells = max(1, min(5, (width - 40) // len(flow.depth)))
    least = "" if flow.complete else "at least "
    told = f"  {least}max {max(flow.depth):,} · last {len(flow.depth)} min"
    return line(depth, "  ", piece(bars(flow.depth, cells), "info"), piece(told, "dim"))


def bars(values: Sequence[int], cells: int) -> str:
    """Depths as bars, each `cells` wide, from nothing to the greatest."""
    top = max([*values, 1])
    return "".join(("·" if not value else BARS[1 + value * (len(BARS) - 2) // top]) * cells for value in values)


def _rates(view: MailboxView, now: float, *, holder: bool) -> Line:
    actor, parts = view.actor, list[Piece]()
    if view.flow is not None:
        for name, minutes in (("in", view.flow.arrived), ("out", view.flow.handled)):
            parts += [piece(f"{name} ", "dim"), piece(rate(minutes)), piece("   ")]
    age = now - actor.oldest_at if actor.oldest_at else 0.0
    parts += [piece("oldest ", "dim"), piece(duration(age), "needs" if age >= OLD_SECONDS else "")]
    if actor.status not in (None, "active"):
        parts += [piece("   "), piece(str(actor.status), "bad" if actor.status in ("failed", "escalated") else "needs")]
    if actor.holder is not None and (holder or not actor.holder.node):
        served = actor.holder
        told = served.text if served.node else f"nobody serves shard {served.shard}"
        parts += [piece("   served by ", "dim"), piece(told, "" if served.node else "bad")]
    return line(*parts)


def rate(minutes: Sequence[int]) -> str:
    """Of what went in, or out, in these minutes: `0.4/s`; where that says too little, how many in all."""
    a_second = sum(minutes) / (60.0 * len(minutes))
    return f"{a_second:,.1f}/s" if a_second >= 0.1 else str(sum(minutes))
