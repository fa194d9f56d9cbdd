"""Commands that move runs: `run`, `submit`, `tell`, `cancel`, `fork`."""

from typing import Annotated

import typer

from .options import Application, AppOption, Dsn, Goal, Json, LogJson, LogLevel, Run
from .session import operate
from .terminal import note, print_json, print_line, print_lines, text_argument

_Id = Annotated[str, typer.Option("--id", help="The run's id; made here unless given. Given twice, it is one run.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("run")(run)
    app.command("submit")(submit)
    app.command("tell")(tell)
    app.command("cancel")(cancel)
    app.command("fork")(fork)


def run(
    application: Application,
    goal: Goal,
    *,
    id: _Id = "",
    option: AppOption = [],  # noqa: B006 - Typer copies it
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for it to rest.")] = 3600.0,
    log_json: LogJson = None,
    log_level: LogLevel = None,
    dsn: Dsn = None,
    json: Json = False,
) -> int:
    """Start a run, work on it here, and follow it until it rests.

    This process is a node meanwhile. Events are told on stderr (not with --json), the answer on stdout.

    Exit codes: 0 completed, or waiting for an approval (which one is said); 1 failed or cancelled; 7 it did not rest
    in time and goes on when a node serves it. The same --id and goal again go on with that run.
    """
    import anyio

    from ..applications import load_app, parse_options
    from ..logs import configure_logging
    from ..run_here import run_here
    from ..settings import read_settings
    from ..trace import Teller
    from ..views import run_document
    from .render import outcome_lines

    settings = read_settings(dsn=dsn, log_json=log_json, log_level=log_level, defaults={"log_level": "warning"})
    configure_logging(settings)
    app, options, goal, teller = load_app(application), parse_options(option), text_argument(goal), Teller()

    async def work() -> int:
        view = await run_here(
            app,
            settings,
            goal,
            options=options,
            run_id=id,
            seconds=timeout,
            recorded=lambda submitted: None if json else note(f"run {submitted.run_id}"),
            told=lambda event: None if json else print_lines(teller.tell(event), settings.color, to_stderr=True),
        )
        if json:
            print_json(run_document(view))
        else:
            print_lines(outcome_lines(view, application), settings.color)
        return 1 if view.state.status in ("failed", "cancelled") else 0

    return anyio.run(work)


def submit(
    application: Application,
    goal: Goal,
    *,
    id: _Id = "",
    client_id: Annotated[
        str, typer.Option("--client-id", help="Your name for this submission: sent twice, it is one run.")
    ] = "",
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Record a run; a daemon begins it.

    Prints its id. No node is needed for that.
    """
    from ..applications import load_app
    from ..configuration import read_configuration

    app, goal, budget = load_app(application), text_argument(goal), read_configuration().budget
    found, _ = operate(
        lambda operations: operations.submit(app, goal, run_id=id, client_id=client_id, budget=budget), dsn
    )
    if json:
        print_json(
            {
                "schema": "callboard.submitted/1",
                "run_id": found.run_id,
                "address": found.address,
                "new": found.new,
            }
        )
        return
    if not found.new:
        note("accepted before; nothing was done now")
    print_line(found.run_id)


def tell(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads it from stdin.")],
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Say something to a live run.

    The model reads it at its next iteration.
    """
    text = text_argument(text)
    run_id, _ = operate(lambda operations: operations.tell(run, text), dsn)
    _done(run_id, "told", json=json)


def cancel(
    run: Run,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is in the journal.")] = "",
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Ask a run to begin nothing more and end.

    Calls that are under way are waited for.
    """
    run_id, _ = operate(lambda operations: operations.cancel(run, reason=reason), dsn)
    _done(run_id, "cancel-asked", json=json)


def fork(
    run: Run,
    at: Annotated[
        int | None,
        typer.Option("--at", help="Number of the event to go on from, as `replay` shows it; by default the last."),
    ] = None,
    say: Annotated[str, typer.Option("--say", help="What the model reads next; - reads it from stdin.")] = "",
    *,
    note: Annotated[str, typer.Option("--note", help="Why, for people; it is in the journal.")] = "",
    id: _Id = "",
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Go on from any event of a run, in a new run.

    The run itself does not notice. What it did beyond that event with an effect is not done again unless somebody
    approves it. Prints the new run's id.
    """
    say = text_argument(say) if say else ""
    (origin, new), _ = operate(lambda operations: operations.fork(run, at, run_id=id, say=say, note=note), dsn)
    if json:
        print_json({"schema": "callboard.forked/1", "run_id": new, "origin": origin, "at": at})
    else:
        print_line(new)


def _done(run_id: str, what: str, *, json: bool) -> None:
    if json:
        print_json({"schema": "callboard.message/1", "run_id": run_id, "accepted": what})
    else:
        print_line(f"{run_id}: {what.replace('-', ' ')}; it is in the run's mailbox")
