"""One actor closely, as lines: its events, mailbox, conversation, state, and why it does not move. Pure.

What models, customers and other programs wrote stands behind a bar, on every line that it takes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from callboard.service.operations.glancing import ATTENTION
from callboard.service.operations.redaction import Body
from callboard.service.operations.watching import ActorGlance
from callboard.tui.look import LOOKS
from callboard.tui.text import Line, Role, cut, fit, grid, line, lines, piece, wrapped

if TYPE_CHECKING:
    from callboard.service.operations.actors import ActorLine, MailboxView, MessageLine
    from callboard.service.operations.closeup import Happenings, Said
    from callboard.service.operations.why import Kind, Why

MAX_LINES = 1_000
SHOWN_MESSAGES = 30
_BAR = "│ "
_WHY: "dict[Kind, Role]" = {"moves": "ok", "waits": "needs", "stuck": "bad", "ended": "dim"}
_GOOD = (".completed", ".granted", ".started", ".settled", ".released")
_BAD = ("failed", "denied", "expired", "error", "gave_up", "cancelled", "abandoned", "terminated")
_WAITS = ("approval.requested", "in_doubt", "paused", "waited", "down")


def doing_lines(glance: ActorGlance | None, width: int) -> list[Line]:
    """What it is at, whole: the list has room for its beginning only."""
    if glance is None or not glance.doing or glance.word not in ATTENTION:
        return []
    return wrapped(line(piece(glance.doing, LOOKS[glance.word].role)), width)


def event_lines(found: "Happenings", width: int, when: Callable[[float], str]) -> list[Line]:
    """Its events, the newest first, one line each."""
    if not found.items:
        return [
            line(
                piece(
                    f"Nothing is on record; it has made {found.turns:,} turn{'' if found.turns == 1 else 's'}.", "dim"
                )
            )
        ]
    times = [when(one.at) for one in found.items]
    room = min(max(map(len, times)), 24)
    types = min(max(len(one.type) for one in found.items), max(14, width // 3))
    shown = [
        cut(
            line(
                *fit(line(piece(at, "dim")), room), "  ", *fit(line(piece(one.type, role_of(one.type))), types), "  ",
                piece(one.text, "" if role_of(one.type) else "dim"),
            ),
            width,
        )
        for at, one in zip(times, found.items, strict=True)
    ]  # fmt: skip
    if found.total > len(found.items):
        shown.append(line(piece(f"… {found.total - len(found.items):,} older ones", "dim")))
    return shown


def role_of(type: str) -> Role:
    """How loud an event of this type is."""
    if any(part in type for part in _WAITS):
        return "needs"
    if "retried" in type or "recovered" in type:
        return "retry"
    if any(part in type for part in _BAD):
        return "bad"
    return "ok" if type.endswith(_GOOD) else ""


def mailbox_lines(view: "MailboxView", width: int, when: Callable[[float], str]) -> list[Line]:
    """The first messages of its mailbox, and its calls that have not ended."""
    found: list[Line] = []
    for title, messages in (("", view.messages), ("its calls", view.calls)):
        if messages and title:
            found.append(line(piece(title, "strong")))
        for one in messages[:SHOWN_MESSAGES]:
            found += _message(one, width, when, call=bool(title))
        if len(messages) > SHOWN_MESSAGES:
            found.append(line(piece(f"… {len(messages) - SHOWN_MESSAGES} more; m shows them", "dim")))
    return found or [line(piece("Its mailbox is empty.", "dim"))]


def _message(one: "MessageLine", width: int, when: Callable[[float], str], *, call: bool) -> Iterator[Line]:
    way = f"to {one.recipient}" if call else f"from {one.sender or 'outside'}"
    tries = f" · try {one.attempt}" if one.attempt > 1 else ""
    yield cut(
        line(piece(f"{one.state:<10}", _state_role(one.state)), piece(one.type), piece(f"  {way}  ", "dim"),
             piece(f"{when(one.sent_at)}{tries}", "dim")), width,
    )  # fmt: skip
    yield from wrapped(line("  ", piece(one.why.text, _WHY[one.why.kind])), width, hang=2)


def _state_role(state: str) -> Role:
    return {"in turn": "ok", "retrying": "retry", "held": "needs", "dead": "bad"}.get(state, "")  # type: ignore[return-value]


def said_lines(said: "Sequence[Said]", width: int) -> list[Line]:
    """A conversation, the latest message last."""
    found: list[Line] = []
    for one in said:
        found.append(line(piece(one.who, "strong")))
        found += _quoted(one.text, width)
        for call in one.calls:
            found += _quoted(call, width, "info")
    return found or [line(piece("Nothing was said yet.", "dim"))]


def state_lines(body: Body, width: int) -> list[Line]:
    """Its state as JSON; what was left out is told first."""
    found = [line(piece(f"{body.size:,} bytes", "dim"))]
    if body.redacted:
        found += wrapped(line(piece(f"not shown: {', '.join(body.redacted)}", "needs")), width)
    return [*found, *_quoted(body.text(), width)][:MAX_LINES]


def why_lines(known: "ActorLine", glance: ActorGlance | None, width: int, when: Callable[[float], str]) -> list[Line]:
    """Why it does not move, and what to do next; then what it is."""
    pairs: list[tuple[str, Line]] = [("why", line(piece(f"{known.why.kind}: {known.why.text}", _WHY[known.why.kind])))]
    pairs += [("do", line(piece(way, "key"))) for way in _ways(known.why)]
    pairs.append(("status", line(f"{known.status or 'not yet there'}, incarnation {known.incarnation}")))
    pairs.append(("kind", line(f"{known.kind or 'unknown'}, {known.version:,} turns")))
    pairs.append(("mailbox", line(_mailbox(known, when))))
    if known.holder is not None:
        heard = f"{known.holder.text}, {known.holder.status}" if known.holder.node else "nobody"
        pairs.append(("served by", line(f"{heard}, shard {known.holder.shard}")))
    if glance is not None and glance.run_id:
        pairs.append(("run", line(glance.run_id)))
    if glance is not None and glance.decision:
        pairs.append(("decision", line(piece(glance.decision, "needs"), " · a decides")))
    if glance is not None and glance.created_at:
        pairs.append(("made", line(when(glance.created_at))))
    return grid(pairs, width)


def _ways(why: "Why") -> list[str]:
    return [why.way_out] if why.way_out else []


def _mailbox(known: "ActorLine", when: Callable[[float], str]) -> str:
    oldest = f", the oldest {when(known.oldest_at)}" if known.oldest_at else ""
    return f"{known.waiting:,} message{'' if known.waiting == 1 else 's'}{oldest}" if known.waiting else "empty"


def _quoted(text: str, width: int, role: Role = "") -> list[Line]:
    room = max(width - len(_BAR), 2)
    parts = (part for one in lines(text, role) for part in wrapped(one, room))
    return [line(piece(_BAR, "dim"), *part) for part in parts][:MAX_LINES]
