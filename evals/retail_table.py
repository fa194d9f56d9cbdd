"""The retail report as tables, as `tables.py` does it for the other reports."""

from collections.abc import Sequence

from callboard.evals.rates import counted
from callboard.evals.retail import RetailReport
from callboard.evals.retail_model import ModelReport
from callboard.evals.retail_survival import Survival
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
    columns = ("control", "scored 0", "seen in customers and orders alone")
    rows: list[Sequence[str]] = [
        (
            one.name,
            counted(one.noticed),
            counted(one.noticed_in_rows),
        )
        for one in report.controls
    ]
    return columns, rows


def calm_table(survival: Survival) -> Table:
    """All tasks with nothing in their way."""
    columns = ("store", "as made directly", "as in memory", "rewarded")
    calm = survival.calm
    return columns, [(calm.store, counted(calm.same), counted(calm.same_as_memory), counted(calm.rewarded))]


def kill_table(survival: Survival) -> Table:
    """One row for each kind of kill, and the controls."""
    columns = (
        "kills",
        "store",
        "how",
        "times",
        "tasks unharmed",
        "other tables",
        "repeated effects",
        "repeated model calls",
        "unfinished",
        "calls under way made again",
    )
    rows: list[Sequence[str]] = [
        (
            row.name,
            row.store,
            row.how,
            f"{row.harm.kills:,}",
            counted(row.unharmed),
            str(row.harm.other_tables),
            str(row.harm.repeated_effects),
            str(row.harm.repeated_model_calls),
            str(row.harm.unfinished),
            str(row.calls_made_again) if row.store == "memory" else "–",
        )
        for row in (*survival.kills, *survival.controls)
    ]
    return columns, rows


def model_table(report: ModelReport) -> Table:
    """The model's figures."""
    columns = ("model", "tasks", "trials each", "rewarded", *(f"pass^{k}" for k in range(1, report.trials + 1)))
    chances = [f"{chance:.3f}" for chance in report.pass_hat]
    return columns, [(report.model, str(len(report.tasks)), str(report.trials), short(report.rewarded), *chances)]
