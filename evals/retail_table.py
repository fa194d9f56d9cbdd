"""The retail report as tables, as `tables.py` does it for the other reports."""

from collections.abc import Sequence

from callboard.evals.retail import RetailReport
from callboard.evals.tables import Table, short


def retail_table(report: RetailReport) -> Table:
    """One row a profile, walk and trust of the goal."""
    columns = ("gate", "calls", "goal", "tasks asking", "questions a task", "writes asked", "same", "same unanswered")
    rows: list[Sequence[str]] = [
        (
            row.name,
            row.walk,
            row.goal,
            short(row.tasks_asking),
            f"{row.asked_per_task:.2f}",
            f"{row.writes_asked.count} of {row.writes_asked.of}",
            f"{row.same_answered.count} of {row.same_answered.of}",
            f"{row.same_unanswered.count} of {row.same_unanswered.of}",
        )
        for row in report.rows
    ]
    return columns, rows


def control_table(report: RetailReport) -> Table:
    """One row a control."""
    columns = ("control", "noticed", "noticed in customers and orders alone")
    rows: list[Sequence[str]] = [
        (
            one.name,
            f"{one.noticed.count} of {one.noticed.of}",
            f"{one.noticed_in_rows.count} of {one.noticed_in_rows.of}",
        )
        for one in report.controls
    ]
    return columns, rows
