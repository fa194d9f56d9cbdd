"""Reports as tables: the rows that a terminal shows and that docs/THREAT_MODEL.md holds."""

from collections.abc import Sequence

from callboard.evals.agentdojo import DojoReport
from callboard.evals.compromised import DeskReport
from callboard.evals.rates import Rate, counted

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
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


def short(one: Rate) -> str:
    """A share with its interval: `12.5 % [10–15]`."""
    return f"{100 * one.share:.1f} % [{100 * one.low:.1f}–{100 * one.high:.1f}]" if one.of else "–"
