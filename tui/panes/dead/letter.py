"""Why a letter died, on a page: tries, errors, effects, whether it may be sent again, its causes, its body."""

from collections.abc import Iterator

from callboard.service.operations.settling import Autopsy
from callboard.tui.panes.mailboxes.body import body_paras, size_text
from callboard.tui.panes.mailboxes.message import When, address_para, trail_paras
from callboard.tui.panes.mailboxes.reader import Para, fact
from callboard.tui.panes.mailboxes.states import state
from callboard.tui.text import Line, duration, line, piece

REASONS = {
    "failed": "its tries are used up",
    "rejected": "its actor refused it",
    "unreadable": "nobody could read it",
    "no-such-actor": "nobody is there",
    "recipient-ended": "its actor has ended",
    "recipient-failed": "its actor has failed",
    "denied": "it was denied",
    "worker_lost": "it ended the process it ran in",
    "discarded": "a person gave it up",
    "quarantined": "a person put it here",
}


def letter_paras(found: Autopsy, when: When, *, raw: bool) -> Iterator[Para]:
    """All that is known of a death."""
    letter = found.detail.letter
    yield from _errors(found)
    yield fact("tries", tries(found))
    yield fact("sent", when(found.prospect.sent_at))
    yield fact("died", when(letter.at))
    meaning = REASONS.get(letter.reason, "")
    if letter.reason == "failed" and not letter.failures:
        meaning = "in a way that is not tried again"
    yield fact("reason", line(piece(letter.reason), piece(f" · {meaning}".rstrip(" ·"), "dim")))
    yield fact("effects", effects(found))
    yield from _again(found, when)
    yield address_para("to", letter.recipient)
    yield address_para("from", letter.sender)
    if found.run:
        yield fact("run", piece(found.run, "info"), f"run:{found.run}")
    if letter.requeued_from:
        times = f", {found.detail.requeue_count} times in all" if found.detail.requeue_count > 1 else ""
        text = f"dead letter {letter.requeued_from}, sent again{times}"
        yield fact("before", piece(text, "info"), f"dead:{letter.requeued_from}")
    yield fact("message", piece(str(letter.message_id)), f"message:{letter.message_id} {letter.recipient}")
    yield fact("size", size_text(found.prospect.size))
    yield from trail_paras(found.causation, found.detail.caused_by, found.detail.caused, when)
    yield from body_paras(found.detail.body, raw=raw)


def tries(found: Autopsy) -> str:
    """`3 in 42m 10s`."""
    letter = found.detail.letter
    took = duration(letter.at - found.prospect.sent_at)
    if not letter.failures:
        if letter.reason == "failed":
            return f"1 in {took}: what it failed of is not tried again"
        return "refused, and so not tried again" if letter.reason == "rejected" else "it never failed"
    return f"{letter.failures} in {took}"


def effects(found: Autopsy) -> Line:
    """Whether anything came of it, as far as it is known."""
    unknown = found.prospect.effects == "unknown"
    return line(piece(f"▲ unknown: {found.prospect.known}", "needs") if unknown else piece(found.prospect.known, "ok"))


def _errors(found: Autopsy) -> Iterator[Para]:
    letter = found.detail.letter
    if letter.detail:
        yield from _text("died of", letter.detail)
    if letter.last_error and letter.last_error != letter.detail:
        yield from _text("last error", letter.last_error)


def _text(label: str, text: str) -> Iterator[Para]:
    """An error, line by line as it was said."""
    for number, one in enumerate(text.splitlines() or [""]):
        yield Para(line(piece(one.expandtabs(4), "" if number else "bad")), " " if number else label)


def _again(found: Autopsy, when: When) -> Iterator[Para]:
    letter, detail = found.detail.letter, found.detail
    if letter.settled:
        text = line(state(letter.settled), piece(f" by {letter.settled_by}, {when(letter.settled_at)}"))
        yield fact("settled", text)
    elif detail.may_requeue:
        where = f"may go to the end of its mailbox ({found.prospect.waiting:,} waiting): R"
        yield fact("again", line(piece(where, "ok")))
    else:
        yield fact("again", line(piece("✗ not by hand: ", "needs"), piece(detail.refusal)))
