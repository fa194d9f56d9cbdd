"""The retail report as tables, as `tables.py` does it for the other reports."""

from collections.abc import Sequence

from callboard.evals.rates import counted
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
            counted(row.writes_asked),
            counted(row.same_answered),
            counted(row.same_unanswered),
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
            counted(one.noticed),
            counted(one.noticed_in_rows),
        )
        for one in report.controls
    ]
    return columns, rows
