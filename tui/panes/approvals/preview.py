"""The request under the cursor, as far as it can be read beside the list."""

from callboard.service.operations.views import ApprovalView

from ...decide.sheet import When, sums_line, words_lines
from ...decide.subject import Subject, whom
from ...text import Line, duration, grid, line, piece, wrapped

WORDS = 2


def preview(subject: Subject, now: float, width: int, when: When) -> list[Line]:
    """Its lines."""
    view = subject.view
    rows: list[Line] = wrapped((piece(view.tool, "strong"), piece("  "), *sums_line(view, "needs")), width)
    rows += wrapped(line(piece(whom(view))), width)
    rows += [(), *grid(_facts(subject, now, when), width)]
    rows += [(), line(piece("checks", "dim")), *_checks(view, width)]
    if subject.words:
        rows += [(), line(piece("last words", "dim"))]
        spoken = [one for one in subject.words if one.who != "tool"] or subject.words
        rows += words_lines(spoken[-WORDS:], width, when)
    return rows


def _facts(subject: Subject, now: float, when: When) -> list[tuple[str, Line]]:
    view, run = subject.view, subject.run
    facts: list[tuple[str, Line]] = []
    if run is not None:
        facts.append(("asks for", line(piece(" ".join(run.state.goal.split())))))
    facts += [
        ("asked by", line(view.run_address)),
        ("policy", line(view.policy or "tool")),
        ("because", line(view.reason)),
        ("waits", line(duration(max(now - view.requested_at, 0)))),
    ]
    if view.expires_at:
        facts.append(("expires", line(f"in {duration(max(view.expires_at - now, 0))} → deny")))
    needed = f"{view.needed} needed"
    if view.approved_by:
        needed += f", {', '.join(one.by for one in view.approved_by)} so far"
    facts.append(("approvers", line(needed)))
    if subject.demand.refused:
        facts.append(("not you", line(piece(subject.demand.why, "needs"))))
    return facts


def _checks(view: ApprovalView, width: int) -> list[Line]:
    rows: list[Line] = []
    for one in view.checks:
        mark = piece("✓ ", "ok") if one.get("ok") else piece("▲ ", "bad")
        text = piece(str(one.get("detail") or one.get("check")), "" if one.get("ok") else "bad")
        rows += wrapped((mark, text), width, hang=2)
    return rows or [line(piece("none", "dim"))]
