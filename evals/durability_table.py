"""The durability report as a table, as `tables.py` does it for the other reports."""

from collections.abc import Sequence

from callboard.evals.durability import DurabilityReport
from callboard.evals.tables import Table


def durability_table(report: DurabilityReport) -> Table:
    """One row for each side of the commits, and the control."""
    columns = (
        "killed with SIGKILL",
        "kills",
        "repeated effects",
        "repeated model calls",
        "lost steps",
        "lost effects",
        "unfinished",
        "calls under way made again",
    )
    rows: list[Sequence[str]] = [
        (
            row.name,
            str(row.kills),
            str(row.damage.repeated_effects),
            str(row.damage.repeated_model_calls),
            str(row.damage.lost_steps),
            str(row.damage.lost_effects),
            str(row.damage.unfinished),
            str(row.damage.calls_made_again),
        )
        for row in (*report.rows, report.control)
    ]
    return columns, rows
