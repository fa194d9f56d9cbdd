"""Commands that move runs: `run`, `submit`, `tell`, `cancel`, `fork`, `pause`, `resume`.

All but `run` only record a message; --dry-run goes through the same checks and shows that message instead.
"""

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from .options import Application, AppOption, Color, Dsn, Goal, Json, LogJson, LogLevel, Run
from .terminal import note, print_json, print_line, print_lines, text_argument

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..operations.rehearsal import Rehearsal
    from ..operations.resuming import Standing
    from ..operations.runs import Operations

T = TypeVar("T")

_DryRun = Annotated[bool, typer.Option("--dry-run", help="Check it all, and show what would be sent; nothing is.")]
_RunOrActor = Annotated[
    str, typer.Argument(metavar="RUN|ACTOR", help="Run id, the beginning of one, or the address of any actor.")
]
_Id = Annotated[str, typer.Option("--id", help="The run's id; made here unless given. Given twice, it is one run.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("run")(run)
    app.command("submit")(submit)
    app.command("tell")(tell)
    app.command("cancel")(cancel)
    app.command("fork")(fork)
    app.command("pause")(pause)
    app.command("resume")(resume)


def run(
    application: Application,
    goal: Goal,
    *,
    id: _Id = "",
    option: AppOption = [],  # noqa: B006 - Typer copies it
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for it to rest.")] = 3600.0,
    stream: Annotated[bool, typer.Option("--stream", help="Answers word by word, as they are written.")] = False,
    color: Color = None,
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
    from ..operations.views import run_document
    from ..run_here import run_here
    from ..settings import read_settings
    from .render import outcome_lines
    from .telling import Telling

    settings = read_settings(
        dsn=dsn, log_json=log_json, log_level=log_level, color=color, defaults={"log_level": "warning"}
    )
    configure_logging(settings)
    app, options, goal, telling = load_app(application), parse_options(option), text_argument(goal), None
    if not json:
        telling = Telling(settings.color)

    async def work() -> int:
        view = await run_here(
            app,
            settings,
            goal,
            options=options,
            run_id=id,
            seconds=timeout,
            recorded=lambda submitted: note(f"run {submitted.run_id}") if telling else None,
            told=telling.event if telling else lambda _: None,
            heard=telling.heard if telling and stream else None,
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
    dry_run: _DryRun = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Record a run; a daemon begins it.

    Prints its id. No node is needed for that.
    """
    from ..applications import load_app
    from ..configuration import read_configuration

    app, goal, budget = load_app(application), text_argument(goal), read_configuration().budget
    found, rehearsed = _sent(
        lambda operations: operations.submit(app, goal, run_id=id, client_id=client_id, budget=budget),
        dsn,
        dry_run=dry_run,
    )
    if rehearsed is not None:
        _show(rehearsed, json=json)
    elif json:
        print_json(
            {
                "schema": "callboard.submitted/1",
                "run_id": found.run_id,
                "address": found.address,
                "new": found.new,
            }
        )
    else:
        if not found.new:
            note("accepted before; nothing was done now")
        print_line(found.run_id)


def tell(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads it from stdin.")],
    *,
    dry_run: _DryRun = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Say something to a live run.

    The model reads it at its next iteration.
    """
    text = text_argument(text)
    run_id, rehearsed = _sent(lambda operations: operations.tell(run, text), dsn, dry_run=dry_run)
    _done(run_id, "told", rehearsed, json=json)


def cancel(
    run: Run,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is in the journal.")] = "",
    *,
    dry_run: _DryRun = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Ask a run to begin nothing more and end.

    Calls that are under way are waited for.
    """
    run_id, rehearsed = _sent(lambda operations: operations.cancel(run, reason=reason), dsn, dry_run=dry_run)
    _done(run_id, "cancel-asked", rehearsed, json=json)


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
    dry_run: _DryRun = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Go on from any event of a run, in a new run.

    The run itself does not notice. What it did beyond that event with an effect is not done again unless somebody
    approves it. Prints the new run's id.
    """
    say = text_argument(say) if say else ""
    (origin, new), rehearsed = _sent(
        lambda operations: operations.fork(run, at, run_id=id, say=say, note=note), dsn, dry_run=dry_run
    )
    if rehearsed is not None:
        _show(rehearsed, json=json)
    elif json:
        print_json({"schema": "callboard.forked/1", "run_id": new, "origin": origin, "at": at})
    else:
        print_line(new)


def pause(
    which: _RunOrActor,
    reason: Annotated[str, typer.Option("--reason", help="Why; shown until it is resumed, and audited.")] = "",
    *,
    dry_run: _DryRun = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Let a run or an actor take no more messages until it is resumed.

    Calls that are under way end, and their answers wait.

    Exit codes: 3 there is none, 5 it stands already, or has ended.
    """
    from ..operations.resuming import pause as pause_

    found, rehearsed = _sent(lambda operations: pause_(operations, which, reason=reason), dsn, dry_run=dry_run)
    _stood(found, "pause", rehearsed, json=json)


def resume(
    which: _RunOrActor,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is in the audit trail.")] = "",
    *,
    dry_run: _DryRun = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Let a parked, paused or failed run or actor go on.

    Says why it stood, and what it will do. What waits for a decision, or has ended, is refused with the way out.

    Exit codes: 3 there is none, 5 it does not stand still, or something else makes it go on.
    """
    from ..operations.resuming import resume as resume_

    found, rehearsed = _sent(lambda operations: resume_(operations, which, reason=reason), dsn, dry_run=dry_run)
    _stood(found, "resume", rehearsed, json=json)


def _stood(found: "Standing", what: str, rehearsed: "Rehearsal | None", *, json: bool) -> None:
    if json:
        document: dict[str, Any] = {
            "schema": "callboard.standing/1",
            "asked": what,
            "address": found.address,
            "run_id": found.run_id or None,
            "status": found.status,
            "reason": found.reason,
            "will": found.will,
            "served": found.served,
        }
        if rehearsed is not None:
            document["rehearsal"] = rehearsed.document()
        print_json(document)
        return
    name = f"run {found.run_id}" if found.run_id else found.address
    why = f": {found.reason}" if found.reason and not found.reason.startswith(found.status) else ""
    was = f"was {found.reason if found.reason.startswith(found.status) else found.status}{why}"
    print_line(f"{name} {was}" if what == "resume" else f"{name} was at work")
    print_line(f"{'would be ' if rehearsed else ''}told to {what if what == 'pause' else 'go on'}: {found.will}")
    if rehearsed is not None:
        _show(rehearsed, json=False)
    elif not found.served:
        note("no node serves it at the moment; it is done when one does: callboard daemon APP")


def _sent(
    work: "Callable[[Operations], Awaitable[T]]", dsn: str | None, *, dry_run: bool
) -> "tuple[T, Rehearsal | None]":
    """The result of an operation; with `dry_run` also what it would have sent, and nothing has been."""
    from ..settings import read_settings
    from .session import with_operations

    async def session(operations: "Operations") -> "tuple[T, Rehearsal | None]":
        if not dry_run:
            return await work(operations), None
        from ..operations.rehearsal import Rehearsal
        from ..operations.runs import Operations as Rehearsed

        rehearsal = Rehearsal(operations.store)
        return await work(Rehearsed(rehearsal.store, operations.who)), rehearsal

    return with_operations(session, read_settings(dsn=dsn))


def _show(rehearsed: "Rehearsal", *, json: bool) -> None:
    """What would be sent, and what the audit trail would say."""
    from ..trace_text import Line, json_block

    document = rehearsed.document()
    if json:
        print_json(document)
        return
    note("dry run: nothing was sent")
    for message in document["messages"]:
        print_line(f"would send {message['type']} to {message['to']}")
        print_lines([Line(line.text) for line in json_block(message["body"])], "never")
    for row in document["audit"]:
        print_line(f"would audit: {row['who']} {row['action']} {row['object']}")


def _done(run_id: str, what: str, rehearsed: "Rehearsal | None", *, json: bool) -> None:
    if rehearsed is not None:
        _show(rehearsed, json=json)
    elif json:
        print_json({"schema": "callboard.sent/1", "run_id": run_id, "accepted": what})
    else:
        print_line(f"{run_id}: {what.replace('-', ' ')}; it is in the run's mailbox")
