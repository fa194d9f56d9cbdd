"""Commands that measure: `eval durability` and `eval budget`; `callboard.evals` does it."""

from pathlib import Path
from typing import Annotated

import typer

from .evals_output import Picture, Report, show
from .options import Dsn, Json
from .progress import progress


def durability(
    dsn: Dsn = None,
    processes: Annotated[int, typer.Option("--processes", min=1, max=16, help="Runs that are killed at a time.")] = 2,
    picture: Picture = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """Kill a run at every commit, with SIGKILL, and count what is done twice, asked twice, or lost."""
    from callboard.evals.durability import measure
    from callboard.evals.durability_table import durability_table

    from ..settings import read_settings

    server = read_settings(dsn=dsn).dsn
    with progress("killing a run at every commit") as advance:
        measured = measure(server, processes=processes, advance=advance)
    tables = [durability_table(measured)]
    show("durability", measured, tables, json=json, picture=picture, folder=report)


def budget(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="Holds db.json and tasks.json; the installed ones by default."),
    ] = None,
    processes: Annotated[int, typer.Option("--processes", min=0, max=64, help="0: one for each processor.")] = 0,
    picture: Picture = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """What the budget classifier saves, and how many runs it cuts short wrongly, on tau2-bench's retail tasks."""
    from callboard.evals.budget import budget_table, measure
    from callboard.evals.parallel import processors
    from callboard.evals.retail_tasks import read_retail_data

    with progress("measuring budgets"):
        measured = measure(read_retail_data(data), processes=processes or processors())
    show("budget", measured, [budget_table(measured)], json=json, picture=picture, folder=report)
