"""Reports as tables: the rows that a terminal shows and that docs/THREAT_MODEL.md holds."""

from collections.abc import Sequence

from callboard.evals.agentdojo import DojoReport
from callboard.evals.compromised import DeskReport
from callboard.evals.guardrails import Shares, TextReport
from callboard.evals.rates import Rate, counted

Table = tuple[Sequence[str], list[Sequence[str]]]
"""Columns, and rows of as many cells."""


def dojo_table(report: DojoReport) -> Table:
    """One row a profile."""
    columns = ("gate", "attacks that land", "of ceiling", "tasks asking", "writes asked", "done unanswered")
    rows = [
        (
            row.name,
            counted(row.landed),
            f"{100 * row.of_ceiling:.1f} %",
            short(row.tasks_asking),
            counted(row.writes_asked),
            counted(row.tasks_done),
        )
        for row in report.rows
    ]
    return columns, list(rows)


def desk_table(report: DeskReport) -> Table:
    """One row a profile."""
    columns = ("gate", "attacks that land", "of ceiling", "tickets asking", "questions a ticket", "writes asked")
    rows = [
        (
            row.name,
            counted(row.landed),
            f"{100 * row.landed.count / report.ceiling:.1f} %" if report.ceiling else "–",
            short(row.tasks_asking),
            f"{row.asked_per_task:.2f}",
            counted(row.writes_asked),
        )
        for row in report.rows
    ]
    return columns, list(rows)


def signal_table(report: TextReport) -> Table:
    """What signals find, on all texts and on held out groups."""
    columns = ("signal", "found", "wrong", "found, held out", "wrong, held out", "ms a text")
    rows = [
        (
            one.name,
            short(one.attacks),
            short(one.benign),
            short(one.attacks_held_out),
            short(one.benign_held_out),
            f"{report.milliseconds_per_text.get(one.name, 0):.1f}",
        )
        for one in report.signals
    ]
    return columns, list(rows)


def text_table(report: TextReport) -> Table:
    """What each profile makes of texts: of attacks first, then of honest ones."""
    columns = ("profile", "texts", "detected", "raised", "carried: held", "unrelated: held")
    rows: list[Sequence[str]] = []
    for row in report.rows:
        rows.append((row.name, "attacks", *_cells(row.attacks)))
        rows += [(row.name, kind, *_cells(one)) for kind, one in row.attacks_by_kind.items()]
        rows.append((row.name, "honest", *_cells(row.benign)))
        rows += [(row.name, kind, *_cells(one)) for kind, one in row.benign_by_kind.items()]
    return columns, rows


def short(one: Rate) -> str:
    """A share with its interval: `12.5 % [10–15]`."""
    return f"{100 * one.share:.1f} % [{100 * one.low:.1f}–{100 * one.high:.1f}]" if one.of else "–"


def _cells(one: Shares) -> tuple[str, ...]:
    return short(one.detected), short(one.raised), short(one.carried), short(one.unrelated)
