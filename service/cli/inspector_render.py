"""How actors, mailboxes, messages and dead letters look as text."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..operations.views import moment
from ..trace_text import Line, Style, block, duration
from .render import print_table
from .terminal import note
from .times import When, utc

if TYPE_CHECKING:
    from ...persistence.operating import Trail
    from ..operations.actors import ActorLine, MailboxView, MessageLine
    from ..operations.dead import DeadDetail, DeadLine, DeadList
    from ..operations.facts import Holder
    from ..operations.flow import Flow
    from ..operations.message_views import MailboxList, MessageDetail
    from ..operations.redaction import Body
    from ..operations.why import Why

_STYLES: dict[str, Style] = {"moves": "good", "waits": "waits", "stuck": "bad", "ended": "data"}
_SHOWN_CHARS = 100
_CAUSES = 6
"""So much of a chain of causes is shown as text."""

_BARS = "·▁▂▃▄▅▆▇█"
"""Nothing, and eighths of the greatest depth."""


def _short(text: str, limit: int = _SHOWN_CHARS) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def actors_table(found: "Sequence[ActorLine]") -> None:
    """Actors in a list."""
    rows = [
        (line.address, line.status or "not yet", str(line.waiting or ""), f"{line.why.kind}: {line.why.text}")
        for line in found
    ]
    print_table(("actor", "status", "waiting", "why"), rows)


def actor_lines(line: "ActorLine", when: When = utc) -> Iterator[Line]:
    """One actor."""
    yield Line(f"{line.address}  {line.status or 'not yet'}", "title")
    kind = f"{line.kind}, incarnation {line.incarnation}, {line.version} turns, " if line.kind else ""
    oldest = f", the oldest since {when(line.oldest_at)}" if line.oldest_at else ""
    yield Line(f"  {kind}{line.waiting} message(s) in its mailbox{oldest}")
    if line.holder is not None:
        yield Line(f"  served by  {holder_text(line.holder)}")
    yield from why_lines(line.why, "  ")


def holder_text(holder: "Holder") -> str:
    """Who serves a shard, and when it was last heard of."""
    if not holder.node:
        return f"nobody serves shard {holder.shard}"
    return (
        f"{holder.text}, {holder.status}, heard {duration(holder.heard_seconds)} ago; it holds shard {holder.shard} "
        f"and {holder.shards - 1} more"
    )


def why_lines(why: "Why", indent: str) -> Iterator[Line]:
    """Why something does not move, and the way out."""
    yield Line(f"{indent}{why.kind}: {why.text}", _STYLES[why.kind])
    if why.way_out:
        yield Line(f"{' ' * len(indent)}→ {why.way_out}")


def stuck_lines(lines: "Sequence[ActorLine]", when: When) -> Iterator[Line]:
    """Actors that stand still, each with its reason and what to do."""
    for line in lines:
        waiting = f"  {line.waiting} waiting" if line.waiting else ""
        since = f", the oldest since {when(line.oldest_at)}" if line.oldest_at else ""
        yield Line(f"{line.address}  {line.status or 'not yet'}{waiting}{since}", "title")
        yield from why_lines(line.why, "  ")


def mailboxes_table(found: "MailboxList", when: When) -> None:
    """Mailboxes in a list."""
    names = ("in_turn", "ready", "scheduled", "retrying", "held", "stashed")
    rows = [
        (
            f"{line.address} (worker)" if line.worker else line.address,
            str(line.depth),
            *(str(getattr(line, name) or "·") for name in names),
            when(line.oldest_at),
            "callers' nodes" if line.holder is None else line.holder.text,
            f"{line.why.kind}: {_short(line.why.text)}",
        )
        for line in found.items
    ]
    columns = ("mailbox", "depth", *(name.replace("_", " ") for name in names), "oldest", "served by", "why")
    print_table(columns, rows)
    if not found.complete:
        note("there are more; --limit shows them")


def message_lines(line: "MessageLine", when: When, *, way: str) -> Iterator[Line]:
    """A message in a list."""
    attempt = f", attempt {line.attempt}" if line.attempt > 1 else ""
    due = f", not before {when(line.due_at)}" if line.due_at else ""
    yield Line(f"{line.id}  {line.type}.v{line.version}  {line.state}, {line.lane} lane, {way}")
    losses = f", {line.losses} process(es) died of it" if line.losses else ""
    yield Line(f"  sent {when(line.sent_at)}{attempt}{due}{losses}", "data")
    yield from why_lines(line.why, "  ")


def mailbox_lines(view: "MailboxView", when: When) -> Iterator[Line]:
    """A mailbox, and the calls that its actor waits for."""
    yield from actor_lines(view.actor, when)
    if view.flow is not None:
        yield Line(flow_text(view.flow), "data")
    for title, lines in (("waiting", view.messages), ("its calls", view.calls)):
        if lines:
            yield Line("")
            yield Line(title, "section")
        for line in lines:
            way = f"to {line.recipient}" if title == "its calls" else f"from {line.sender or 'outside'}"
            yield from message_lines(line, when, way=way)
    if not view.complete:
        yield Line("there are more; --limit shows them", "data")


def flow_text(flow: "Flow") -> str:
    """What went in and out lately, and how deep it was at the end of each minute, the newest last."""
    top = max(flow.depth)
    bars = "".join(_BARS[0] if not deep else _BARS[1 + deep * (len(_BARS) - 2) // top] for deep in flow.depth)
    least = "" if flow.complete else "at least "
    counts = f"{least}{sum(flow.arrived)} in, {sum(flow.handled)} out"
    return f"last {len(flow.depth)} min: {counts}; depth {bars} {min(flow.depth)} to {top}"


def found_lines(lines: "Sequence[MessageLine]", when: When) -> Iterator[Line]:
    """Messages that were searched for."""
    for line in lines:
        yield from message_lines(line, when, way=f"from {line.sender or 'outside'} to {line.recipient}")


def detail_lines(detail: "MessageDetail", when: When, *, raw: bool = False) -> Iterator[Line]:
    """One message, with all that is known of it."""
    yield Line(f"message {detail.id}  {detail.type}  {detail.state}", "title")
    for name, text in _facts(detail, when):
        if text:
            yield Line(f"  {name:<11}{text}")
    yield from why_lines(detail.why, "  ")
    yield from _trails(detail, when)
    if detail.body is not None:
        yield from body_lines(detail.body, raw=raw)


def _facts(detail: "MessageDetail", when: When) -> Iterator[tuple[str, str]]:
    line = detail.line
    yield "to", detail.recipient
    yield "from", detail.sender or "outside"
    yield ("sent" if line else "handled"), when(detail.at)
    yield "run", detail.run
    if line is not None:
        yield "lane", line.lane + (f", number {detail.sender_seq} of its sender" if detail.sender_seq else "")
        yield "not before", when(line.due_at)
        yield "attempt", _attempt(detail, line)
        yield "last error", line.last_error
        yield "begun", "its effect may have happened" if line.started else ""
    if detail.holder is not None:
        yield "served by", holder_text(detail.holder)
    yield "key", detail.client_id and f"{detail.client_id} (sent again under it, it is the same message)"
    yield "effect key", detail.idempotency_key
    yield "held for", detail.decision and f"decision {detail.decision}: callboard approvals show {detail.decision}"
    answers = f"of message {detail.correlation}" if detail.correlation else ""
    yield (
        "answer",
        f"{answers}{', ' if answers and detail.reply_to else ''}"
        + (f"goes to {detail.reply_to}" if detail.reply_to else ""),
    )
    yield "sent again", f"was dead letter {detail.requeued_from}" if detail.requeued_from else ""
    yield "trace", detail.traceparent


def _attempt(detail: "MessageDetail", line: "MessageLine") -> str:
    parts = [f"{line.attempt}"]
    if line.deliveries:
        parts.append(f"handed out {line.deliveries} time(s)")
    if detail.timeouts:
        parts.append(f"over the time limit {detail.timeouts} time(s)")
    if line.losses:
        parts.append(f"{line.losses} process(es) died of it")
    if detail.failing_seconds:
        parts.append(f"failing for {duration(detail.failing_seconds)}")
    return ", ".join(parts)


def _trails(detail: "MessageDetail", when: When) -> Iterator[Line]:
    if detail.caused_by:
        yield Line("  came from", "section")
        yield from _causes(detail.caused_by, when)
    elif not detail.causation:
        yield Line("  came from  outside")
    else:
        yield Line(f"  came from  message {detail.causation}, which is not on record any more")
    if detail.caused:
        yield Line("  led to", "section")
        for trail in detail.caused:
            yield Line(f"    ↓ {_trail(trail, when)}")
    if not detail.looked_through:
        yield Line("  led to     too much happened at that time to look through all of it", "waits")


def _causes(causes: "Sequence[Trail]", when: When) -> Iterator[Line]:
    """A chain of causes, nearest first; the first of all is always told."""
    shown = causes if len(causes) <= _CAUSES else [*causes[: _CAUSES - 1], causes[-1]]
    for place, trail in enumerate(shown):
        if place == _CAUSES - 1 and len(causes) > _CAUSES:
            yield Line(f"    ↑ … {len(causes) - _CAUSES} more; --json has them", "data")
        yield Line(f"    ↑ {_trail(trail, when)}")


def _trail(trail: "Trail", when: When) -> str:
    return f"{trail.id}  {trail.type}  {trail.sender or 'outside'} → {trail.recipient}  {trail.state}, {when(trail.at)}"


def body_lines(body: "Body", *, raw: bool = False) -> Iterator[Line]:
    """The body of a message, behind a bar."""
    hidden = f", {len(body.redacted)} value(s) redacted (--reveal shows them, and is audited)" if body.redacted else ""
    yield Line(f"  body, {body.size:,} bytes{hidden}", "section")
    yield from block(body.text(pretty=not raw))


def dead_table(found: "DeadList", when: When) -> None:
    """Dead letters in a list."""
    rows = [
        (
            str(line.number),
            when(line.at),
            line.type,
            line.recipient,
            line.reason,
            f"{line.settled} by {line.settled_by}" if line.settled else "open",
            _short(line.detail),
        )
        for line in found.items
    ]
    print_table(("dead letter", "given up", "type", "to", "reason", "state", "detail"), rows)
    if not found.complete:
        note("there are older ones; --limit shows more, --before N goes on")


def dead_lines(detail: "DeadDetail", when: When, *, raw: bool = False) -> Iterator[Line]:
    """One dead letter."""
    letter = detail.letter
    yield Line(f"dead letter {letter.number}  {letter.type}  {letter.settled or 'open'}", "title")
    yield Line(f"  message    {letter.message_id}, {letter.lane} lane")
    yield Line(f"  to         {letter.recipient}")
    yield Line(f"  from       {letter.sender or 'outside'}")
    yield Line(f"  given up   {when(letter.at)}: {letter.reason}")
    yield from _text("  because", letter.detail)
    if letter.failures or letter.deliveries:
        yield Line(f"  attempts   failed {letter.failures} time(s), handed out {letter.deliveries} time(s)")
    if letter.last_error and letter.last_error != letter.detail:
        yield from _text("  last error", letter.last_error)
    if letter.requeued_from:
        count = f", {detail.requeue_count} time(s) in all" if detail.requeue_count > 1 else ""
        yield Line(f"  sent again it was dead letter {letter.requeued_from} before{count}")
    if letter.settled:
        yield Line(f"  settled    {letter.settled} by {letter.settled_by}, {when(letter.settled_at)}")
    if detail.caused_by:
        yield Line("  came from", "section")
        yield from _causes(detail.caused_by, when)
    if detail.caused:
        yield Line("  led to", "section")
        yield from (Line(f"    ↓ {_trail(trail, when)}") for trail in detail.caused)
    yield from body_lines(detail.body, raw=raw)
    yield from _ways(detail)


def _text(title: str, text: str) -> Iterator[Line]:
    yield Line(title)
    yield from block(text)


def _ways(detail: "DeadDetail") -> Iterator[Line]:
    number = detail.letter.number
    if detail.letter.settled:
        return
    if detail.may_requeue:
        yield Line(f"  → send it again: callboard dead requeue {number}")
    else:
        yield Line(f"  not again: {detail.refusal}", "waits")
    yield Line(f"  → leave it for good: callboard dead discard {number}")


def settling_lines(letters: "Sequence[DeadLine]", when: Callable[[float], str | None] = moment) -> Iterator[Line]:
    """What is about to be settled, for who confirms it."""
    for letter in letters:
        text = f"{letter.number}  {letter.type} for {letter.recipient}, {letter.reason}: {_short(letter.detail)}"
        yield Line(f"{text}  ({when(letter.at)})")
