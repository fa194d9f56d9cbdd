"""A request as lines: what is asked, by whom and why, what was checked, the arguments, and what happens next.

Two arrangements. `wide` has cards and the last words of the conversation; `narrow` has headings across and, at 80
cells, an ordinary request in the 18 lines that a small terminal has for it. In both, what the runtime checked stands
apart from what the agent says, and every argument is there in full: `Sheet.end` is where they end.
"""

from collections.abc import Callable
from dataclasses import dataclass

from callboard.service.operations.demands import failed_checks
from callboard.service.operations.views import ApprovalView
from callboard.service.operations.words import Said

from ..text import Line, Piece, Role, cells, cut, duration, grid, line, lines, money, piece, wrapped
from ..times import short_span
from .paper import beside, card, columns, ends, rule
from .subject import Subject, differences, leaves, source_of

When = Callable[[float], str]
"""A moment as a time of day."""

LAST_WORDS = 4
ARGUMENTS = "Arguments · exactly what the tool will get"
CHECKED = "Checked by the runtime, not by the agent"
NEXT = "What happens next"


@dataclass(frozen=True)
class Sheet:
    """The lines of a request."""

    lines: list[Line]
    end: int
    """Number of the line after its last argument."""


def short_digest(digest: str) -> str:
    """`sha256 9f3a…c21d`."""
    return f"sha256 {digest[:4]}…{digest[-4:]}"


MOST_UNREAD_CHARS = 24


def sums_line(view: ApprovalView, role: Role = "strong") -> Line:
    """Its sums with their currencies, and what may be one and cannot be read; nothing where it moves no money."""
    text = " + ".join(money(one.value, one.currency) for one in view.money)
    found = [piece(text, role)] if text else []
    for one in view.unread:
        shown = one.text if len(one.text) <= MOST_UNREAD_CHARS else f"{one.text[: MOST_UNREAD_CHARS - 1]}…"
        found.append(piece(f"{' + ' if found else ''}▲ “{shown}”", "bad"))
    return tuple(found)


def head(subject: Subject, now: float, width: int) -> Line:
    """The first line: tool, sum, checks; how long it waits, and how long it has."""
    view = subject.view
    left: list[Piece] = [piece(f" {view.tool} ", "cursor"), piece("  "), *sums_line(view)]
    left += [piece("   " if view.money or view.unread else " "), checks_word(view)]
    waits = piece((duration if width >= 96 else short_span)(max(now - view.requested_at, 0)), "needs")
    if width >= 96:
        right = [piece("waits ", "dim"), waits]
        if view.expires_at:
            right += [piece("   expires in ", "dim"), *left_piece(view, now), piece(" → denied", "dim")]
    else:
        right = [waits, piece(" waits", "dim")]
        if view.expires_at:
            right += [piece(" · ", "dim"), *left_piece(view, now, short=True), piece(" left", "dim")]
    if cells(tuple(left)) + cells(tuple(right)) + 1 > width:
        right = [*left_piece(view, now), piece(" left", "dim")] if view.expires_at else [waits]
    return cut(ends(tuple(left), (*right, piece(" ")), width), width)


def left_piece(view: ApprovalView, now: float, *, short: bool = False) -> Line:
    """How long people still have."""
    seconds = view.expires_at - now
    if seconds <= 0:
        return line(piece("expired", "bad"))
    return line(piece((short_span if short else duration)(seconds), "bad" if seconds < 1_800 else "strong"))


def checks_word(view: ApprovalView) -> Piece:
    """What the checks say, in three words; else how risky policy calls it."""
    failed = len(failed_checks(view))
    if failed:
        return piece(f"▲ {failed} of {len(view.checks)} checks failed", "bad")
    if view.risk in ("high", "never"):
        return piece(f"▲ {view.risk} risk" if view.risk == "high" else "■ forbidden", "bad")
    if view.checks:
        count = len(view.checks)
        return piece(f"✓ {count} check{'' if count == 1 else 's'} passed", "ok")
    return piece(f"· {view.risk or 'no'} risk", "dim")


def narrow(subject: Subject, width: int, when: When) -> Sheet:
    """For 60 to 99 cells."""
    view = subject.view
    rows: list[Line] = []
    if view.status == "pending" and subject.run is not None:
        rows.append(cut(line(piece(" ".join(subject.run.state.goal.split()))), width))
    rows += wrapped(_asked_by(subject, when), width)
    rows += wrapped(
        (piece("policy ", "dim"), piece(view.policy or "tool"), piece(": ", "dim"), *_because(subject)), width
    )
    rows += [rule(CHECKED, width), *_checks(view, width)]
    if changed := _changed(subject, width):
        rows += [rule("Changed", width, "needs"), *changed]
    title, digest = ARGUMENTS, short_digest(view.digest)
    beside_title = len(title) + len(digest) + 4 <= width
    rows += [rule(f"{title} · {digest}" if beside_title else title, width), *_arguments(view, width)]
    rows += [] if beside_title else [line(piece(digest, "dim"))]
    end = len(rows)
    rows += [rule(NEXT, width), *_next(subject, width, when)]
    return Sheet(rows, end)


def wide(subject: Subject, width: int, when: When) -> Sheet:
    """From 100 cells on."""
    view, inner = subject.view, width - 4
    rows: list[Line] = [()]
    if subject.run is not None:
        rows += [
            (piece(" "), *one) for one in wrapped(line(piece(" ".join(subject.run.state.goal.split()))), width - 2)
        ]
    rows += [(piece(" "), *one) for one in wrapped(_asked_by(subject, when), width - 2)]
    half = width * 2 // 5
    why, checks = _why(subject, half - 4, when), _checks(view, width - half - 5)
    tall = max(len(why), len(checks))
    why, checks = [*why, *([()] * (tall - len(why)))], [*checks, *([()] * (tall - len(checks)))]
    rows += beside(card("Why you are asked", why, half), card(CHECKED, checks, width - half - 1), half)
    if changed := _changed(subject, inner):
        rows += card("Changed", changed, width)
    rows += card(ARGUMENTS, _arguments(view, inner), width, foot=short_digest(view.digest))
    end = len(rows)
    rows += card(NEXT, _next(subject, inner, when), width)
    if subject.words:
        last = subject.words[-LAST_WORDS:]
        title = f"Transcript · said, not checked · last {len(last)} of {len(subject.words)}"
        rows += card(title, words_lines(last, inner, when), width)
    return Sheet(rows, end)


def words_lines(words: list[Said], width: int, when: When) -> list[Line]:
    """What was said, each behind when and by whom."""
    found: list[Line] = []
    times = [when(one.at) for one in words]
    room = max([9, *map(len, times)])  # a moment of another day has its date
    indent = room + 11
    for one, time in zip(words, times, strict=True):
        role: Role = "retry" if one.who == "tool" else "info"
        who = one.name if one.who == "person" and one.name else one.who
        text = f"{one.name} → {one.text}" if one.who == "tool" else one.text
        said = [part for each in lines(text) for part in wrapped(each, max(width - indent, 10))]
        if not one.trusted:
            said[0] = (piece("untrusted ", "needs"), *said[0])
            said = [part for each in said for part in wrapped(each, max(width - indent, 10))]
        for number, part in enumerate(said):
            start = columns([line(piece(time, "dim")), line(piece(who[:9], role)), ()], [room, 9, 1])[0]
            found.append((*(start if number == 0 else (piece(" " * indent),)), *part))
    return found


def _asked_by(subject: Subject, when: When) -> Line:
    view, run = subject.view, subject.run
    parts = [piece("asked by ", "dim"), piece(view.run_address), piece(f" at {when(view.requested_at)}", "dim")]
    if view.requested_by not in ("", "unknown"):
        parts += [piece(" for ", "dim"), piece(view.requested_by)]
    if run is not None:
        parts.append(piece(f", step {run.state.step}", "dim"))
        limit = run.state.budget.max_cost_usd
        of = f" of ${limit:f}" if limit is not None else ""
        parts.append(piece(f" · spent ${run.state.total_cost_usd:f}{of}", "dim"))
    return tuple(parts)


def _because(subject: Subject) -> Line:
    return (piece(subject.view.reason or "it asks for it"), piece(" · ", "dim"), *_needs(subject))


def _needs(subject: Subject) -> Line:
    view, demand = subject.view, subject.demand
    who = "1 approver" if view.needed == 1 else f"{view.needed} approvers"
    parts: list[Piece] = [piece(who)]
    if view.approved_by:
        parts.append(piece(f", {', '.join(one.by for one in view.approved_by)} approved already", "needs"))
    parts.append(piece(", not you", "needs") if demand.refused else piece(", you may", "dim"))
    return tuple(parts)


def _why(subject: Subject, width: int, when: When) -> list[Line]:
    view = subject.view
    expiry = f"denied by itself at {when(view.expires_at)}" if view.expires_at else "never; it waits"
    pairs: list[tuple[str, Line]] = [
        ("policy", line(view.policy or "tool")),
        ("because", line(view.reason)),
        ("needs", _needs(subject)),
        ("on expiry", line(expiry)),
    ]
    if view.may_not_approve:
        pairs.append(("not by", line(", ".join(view.may_not_approve))))
    return grid(pairs, width)


def _checks(view: ApprovalView, width: int) -> list[Line]:
    if not view.checks:
        return [line(piece("· nothing: this tool has no checks", "dim"))]
    found: list[Line] = []
    for one in view.checks:
        ok = bool(one.get("ok"))
        text = str(one.get("detail") or one.get("check"))
        mark = piece("✓ ", "ok") if ok else piece("▲ ", "bad")
        found += wrapped((mark, piece(text, "" if ok else "bad")), width, hang=2)
    return found


def _changed(subject: Subject, width: int) -> list[Line]:
    view = subject.view
    found: list[Line] = []
    if subject.before is not None:
        told = differences(subject.before, view)
    else:
        told = [(str(one.get("path")), _json(one.get("before")), _json(one.get("after"))) for one in view.diff]
    by = ", ".join(view.edited_by)
    for path, old, new in told:
        parts = (piece(f"{path}  ", "dim"), piece(old or "—", "dim"), piece(" → ", "needs"), piece(new or "—", "needs"))
        found += wrapped(parts, width, hang=2)
    if found and by:
        found += wrapped(line(piece(f"changed by {by}", "dim")), width)
    return found


def _json(value: object) -> str:
    import json

    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _arguments(view: ApprovalView, width: int) -> list[Line]:
    values = leaves(view.arguments)
    if not view.arguments:
        return [line(piece("none", "dim"))]
    amounts, unread = {one.field: one for one in view.money}, {one.field for one in view.unread}
    sources = [_source(view, one.path) for one in values]
    names = min(max(cells(line(one.path)) for one in values), width // 4)
    told = min(max((cells(one) for one in sources), default=0), width // 3)
    middle = width - names - told - 4
    found: list[Line] = []
    for one, source in zip(values, sources, strict=True):
        value: list[Piece] = []
        role: Role = "needs" if one.path in amounts else "bad" if one.path in unread else ""
        for number, part in enumerate(lines(one.text, role)):
            value += [*(() if number == 0 else line(" ")), *part]
        if one.path in amounts and amounts[one.path].shown not in one.text:
            value.append(piece(f"  = {money(amounts[one.path].value, amounts[one.path].currency)}", "needs"))
        if one.path in unread:
            value.append(piece("  ▲ no sum that can be read", "bad"))
        found += columns([line(piece(one.path, "dim")), tuple(value), source], [names, middle, told], gap=2)
    return found


def _source(view: ApprovalView, path: str) -> Line:
    one = source_of(view, path)
    if one is None:
        return ()
    source, origin = str(one.get("source")), str(one.get("origin") or "")
    words = {
        "tool": f"from {origin.partition('#')[0] or 'a tool'}",
        "secret": f"from {origin.partition('#')[0] or 'a tool'}, not meant to leave",
        "goal": "from the request",
        "system": "from the prompt",
        "said": origin if origin.startswith("edited by ") else f"said by {origin}" if origin else "said to the run",
        "composed": "written by the agent",
        "novel": "written by the agent",
        "unread": "not traced",
    }
    trusted = one.get("trust") == "trusted"
    doubt = "" if trusted or source in ("composed", "novel", "unread") else ", untrusted"
    return line(piece(f"{words.get(source, source)}{doubt}", "dim" if trusted else "needs"))


def _next(subject: Subject, width: int, when: When) -> list[Line]:
    view, demand = subject.view, subject.demand
    leave = f"denied by itself at {when(view.expires_at)}" if view.expires_at else "nothing happens by itself"
    rows: list[tuple[Piece, str]] = [
        (piece("approve", "ok"), approval_follows(subject)),
        (piece("deny", "bad"), denial_follows(view)),
        (piece("leave", "strong"), f"stays in the list for everyone → {leave}"),
    ]
    if demand.refused:
        rows[0] = (piece("approve", "dim"), f"off: {demand.why}")
    return [row for name, text in rows for row in columns([(name,), line(text)], [7, width - 9], gap=2)]


def approval_follows(subject: Subject) -> str:
    """What happens after a yes, and how to take it back."""
    view, hold = subject.view, subject.demand.hold_seconds
    if view.kind == "in-doubt":
        return f"you say that {view.tool} did happen → it is not made again"
    held = f"held {duration(hold)}, u takes it back → " if hold else ""
    runs = f"{held}{view.tool} runs once" + ("" if hold else ", at once; it cannot be taken back")
    if view.missing > 1:
        return f"your yes is {len(view.approved_by) + 1} of {view.needed} → after the others: {runs}"
    return runs


def denial_follows(view: ApprovalView) -> str:
    """What happens after a no."""
    if view.kind == "in-doubt":
        return f"you say that {view.tool} did not happen → it is made again"
    return f"{'no money moves' if view.money else 'it is not made'} → the agent reads your reason and goes on"
