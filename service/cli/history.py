"""Commands that look at runs: `runs`, `show`, `replay`, `record`, `verify`."""

from typing import Annotated

import typer

from .options import Dsn, Json, Run
from .session import operate
from .terminal import note, print_json, print_line, print_lines


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("runs")(runs)
    app.command("show")(show)
    app.command("replay")(replay)
    app.command("record")(record)
    app.command("verify")(verify)


def runs(
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")] = 50,
    status: Annotated[
        str,
        typer.Option(
            "--status", help="running, awaiting_approval, provider_down, completed, failed, cancelled, parked, …"
        ),
    ] = "",
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """List runs, newest first."""
    from ..views import runs_document
    from .render import print_runs

    found, _ = operate(lambda operations: operations.runs(limit=limit, status=status), dsn)
    if json:
        print_json(runs_document(found))
        return
    if not found.items:
        note("no such runs" if status else "no runs yet; start one: callboard run APP GOAL")
        return
    print_runs(found)


def show(run: Run, dsn: Dsn = None, json: Json = False) -> None:
    """Show one run: where it is, and why it does not move."""
    from ..views import run_document
    from .render import run_lines

    view, settings = operate(lambda operations: operations.run(run), dsn)
    if json:
        print_json(run_document(view))
    else:
        print_lines(run_lines(view), settings.color)


def replay(
    run: Run,
    from_seq: Annotated[int, typer.Option("--from-seq", min=1, help="First event to tell.")] = 1,
    until: Annotated[int | None, typer.Option("--until", min=1, help="Last event to tell.")] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Tell a run's whole history.

    Every event is told, and nothing is shortened.
    """
    from ..trace import trace_lines
    from ..views import trace_document

    trace, settings = operate(lambda operations: operations.trace(run), dsn)
    if json:
        document = trace_document(trace)
        document["events"] = [e for e in document["events"] if from_seq <= e["seq"] <= (until or e["seq"])]
        print_json(document)
    else:
        print_lines(trace_lines(trace, from_seq=from_seq, until=until), settings.color)


def record(run: Run, dsn: Dsn = None, json: Json = False) -> None:
    """Print a run as a recording, which answers as its model did.

    It holds what was said to the model, tool results included, and what it answered: callboard record RUN > run.jsonl.
    It is JSON in any case, and of a fork it has the past too.
    """
    lines, _ = operate(lambda operations: operations.recording(run), dsn)
    for line in lines:
        typer.echo(line)


def verify(run: Run, dsn: Dsn = None, json: Json = False) -> int:
    """Prove that a run's state is the fold of its journal.

    Exit codes: 0 they agree, 1 they do not.
    """
    (run_id, found), _ = operate(lambda operations: operations.verify(run), dsn)
    if json:
        print_json(
            {
                "schema": "callboard.verification/1",
                "run_id": run_id,
                "ok": found.ok,
                "events": found.events,
                "differences": found.differences,
            }
        )
    elif found.ok:
        print_line(f"{run_id}: the state is the fold of its {found.events} events")
    else:
        for difference in found.differences:
            print_line(f"{run_id}: {difference}")
    return 0 if found.ok else 1
