"""One message on the page: where it is, what it waits for, what it came from and led to, and its body.

Lines that lead elsewhere have a target, `what:key`: a mailbox, another message, a run, a decision, a dead letter.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from callboard.persistence.operating import Trail
from callboard.service.operations.message_views import MessageDetail
from callboard.tui.text import line, piece

from .body import body_paras, size_text
from .reader import Para, fact
from .states import short, state, way_line, why_line

When = Callable[[float], str]
CAUSES = 8
"""So much of a chain of causes is shown; the first of all is always told."""


class Target(NamedTuple):
    """Where a line leads."""

    what: str
    """mailbox, message, run, decision or dead."""
    key: str
    recipient: str = ""
    """Of a message: where it is looked for."""

    @property
    def text(self) -> str:
        """As a page keeps it."""
        return f"{self.what}:{self.key} {self.recipient}".rstrip()


def target_of(text: str) -> Target:
    """What `Target.text` was made of."""
    what, _, rest = text.partition(":")
    if what != "message":
        return Target(what, rest)
    key, _, recipient = rest.partition(" ")
    return Target(what, key, recipient)


def address_para(label: str, address: str) -> Para:
    """An address, that leads to its mailbox; from outside nobody has one."""
    if not address.startswith("/"):
        return fact(label, piece(address or "outside"))
    return fact(label, piece(address, "info"), Target("mailbox", address).text)


def message_paras(detail: MessageDetail, when: When, *, raw: bool) -> Iterator[Para]:
    """All that is known of a message."""
    yield fact("state", state(detail.state))
    yield fact("why", why_line(detail.why))
    if detail.why.way_out:
        yield fact("", way_line(detail.why))._replace(label=" ")
    yield address_para("from", detail.sender)
    yield address_para("to", detail.recipient)
    yield from _times(detail, when)
    yield from _keys(detail)
    yield from trail_paras(detail.causation, detail.caused_by, detail.caused, when)
    if not detail.looked_through:
        yield Para((piece("too much happened at that time to look through all of it", "needs"),), "led to")
    if detail.body is not None:
        yield from body_paras(detail.body, raw=raw)
    else:
        yield Para((piece("its body is not kept: it was handled", "dim"),), "body")


def _times(detail: MessageDetail, when: When) -> Iterator[Para]:
    one = detail.line
    yield fact("sent" if one else "ended", when(detail.at))
    if one is None:
        return
    if one.due_at:
        yield fact("due", when(one.due_at))
    yield fact("try", _tries(detail))
    if one.last_error:
        yield fact("error", piece(" ".join(one.last_error.split()), "bad"))
    if one.started:
        yield fact("begun", piece("its effect may have happened", "needs"))
    yield fact("lane", one.lane + (f", number {detail.sender_seq} of its sender" if detail.sender_seq else ""))
    if detail.holder is not None:
        holder = detail.holder
        yield fact("served by", holder.text if holder.node else piece(f"nobody serves shard {holder.shard}", "bad"))


def _tries(detail: MessageDetail) -> str:
    one = detail.line
    assert one is not None
    parts = [str(one.attempt)]
    if detail.timeouts:
        parts.append(f"over the time limit {detail.timeouts} time(s)")
    if one.losses:
        parts.append(f"{one.losses} process(es) died of it")
    return ", ".join(parts)


def _keys(detail: MessageDetail) -> Iterator[Para]:
    if detail.client_id:
        yield fact("key", line(piece(detail.client_id), piece(" · sent again under it, it is the same", "dim")))
    if detail.idempotency_key:
        yield fact("effect key", detail.idempotency_key)
    if detail.decision:
        yield fact("held for", line("decision ", piece(detail.decision, "info")), f"decision:{detail.decision}")
    if detail.run:
        yield fact("run", piece(detail.run, "info"), f"run:{detail.run}")
    if detail.dead_letter:
        yield fact("dead", piece(f"letter {detail.dead_letter}", "info"), f"dead:{detail.dead_letter}")
    if detail.requeued_from:
        yield fact(
            "before", piece(f"dead letter {detail.requeued_from}, sent again", "info"), f"dead:{detail.requeued_from}"
        )
    if detail.correlation:
        yield fact("answers", line("message ", piece(str(detail.correlation), "info")), f"message:{detail.correlation}")
    if detail.reply_to and detail.reply_to != detail.sender:
        yield address_para("reply to", detail.reply_to)
    yield fact("id", str(detail.id))
    if detail.body is not None:
        yield fact("size", size_text(detail.body.size))


def trail_paras(causation: int, caused_by: Sequence[Trail], caused: Sequence[Trail], when: When) -> Iterator[Para]:
    """What a message came from, nearest first, and what it led to."""
    if not causation:
        yield fact("cause", piece("outside", "dim"))
    elif not caused_by:
        yield fact("cause", piece(f"message {causation}, not on record any more", "dim"))
    shown = caused_by if len(caused_by) <= CAUSES else [*caused_by[: CAUSES - 1], caused_by[-1]]
    for number, trail in enumerate(shown):
        if number == CAUSES - 1 < len(caused_by) - 1:
            yield fact("", piece(f"… {len(caused_by) - CAUSES} between", "dim"))._replace(label=" ")
        yield _trail("cause" if not number else " ", "↑" * min(number + 1, 3), trail, when)
    for number, trail in enumerate(caused):
        yield _trail("caused" if not number else " ", "↓", trail, when)


def _trail(label: str, arrow: str, trail: Trail, when: When) -> Para:
    text = line(
        piece(f"{arrow} ", "dim"),
        piece(trail.type, "info"),
        piece(f"  {short(trail.sender)} → {short(trail.recipient)}  "),
        state(trail.state),
        piece(f"  {when(trail.at)}", "dim"),
    )
    return Para(text, label, Target("message", str(trail.id), trail.recipient).text)
