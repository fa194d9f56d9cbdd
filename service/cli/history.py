"""Commands that look at runs: `runs`, `show`, `replay`, `record`, `verify`."""

from typing import TYPE_CHECKING, Annotated

import typer

from ...mailbox.errors import UsageError
from .options import Color, Dsn, Json, Jsonl, Run, Time, Watch
from .session import operate
from .terminal import note, print_json, print_json_line, print_line, print_lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...actors.agent.runs import Verification
    from ..operations.runs import Operations
    from ..operations.spending import Spend
    from ..operations.views import RunList, RunView, Trace
    from ..settings import Settings
    from .times import When
    from .watch import Document, Shown

    _Detail = tuple[RunView, list[Spend]]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("runs")(runs)
    app.command("show")(show)
    app.command("replay")(replay)
    app.command("record")(record)
    app.command("verify")(verify)


_USUAL = (
    "running",
    "awaiting_approval",
    "provider_down",
    "completed",
    "failed",
    "cancelled",
    "recorded",
    "parked",
    "paused",
)
_STATUSES = (*_USUAL, "escalated", "stopped", "not_started")
"""Of a run, or of its actor where that stands still."""
_Since = Annotated[str, typer.Option("--since", metavar="WHEN", help="Begun since: 30m, 2h, 3d ago, or a date.")]
_By = Annotated[str, typer.Option("--requested-by", metavar="NAME", help="Only those that NAME asked for.")]
_Agent = Annotated[str, typer.Option("--agent", metavar="NAME", help="Only those of this agent of the desk.")]


def _require_status(status: str) -> None:
    if status and status not in _STATUSES:
        from difflib import get_close_matches

        from ...mailbox.errors import UsageError

        near = "".join(f"; did you mean {one!r}?" for one in get_close_matches(status, _STATUSES, 1))
        raise UsageError(f"--status: expected one of {', '.join(_STATUSES)}, got {status[:40]!r}{near}")


def runs(
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")] = 50,
    status: Annotated[str, typer.Option("--status", help=f"{', '.join(_USUAL)}, …")] = "",
    *,
    since: _Since = "",
    requested_by: _By = "",
    agent: _Agent = "",
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Jsonl = False,
) -> None:
    """List runs, newest first."""
    from ..operations.since import since as since_
    from ..operations.views import RunWish, runs_document
    from ..settings import read_settings
    from .render import print_runs
    from .watch import Shown, watched

    _require_status(status)

    async def read(operations: "Operations") -> "RunList":
        begun = since_(since, await operations.store.now())
        return await operations.runs(limit=limit, wish=RunWish(status, begun, requested_by, agent))

    def show_(found: "RunList", when: "When") -> None:
        if found.items:
            print_runs(found, when)
        else:
            some = status or since or requested_by or agent
            note("no such runs" if some else "no runs yet; start one: callboard run APP GOAL")

    shown = Shown(json=json, jsonl=jsonl, watch=watch, time=time)
    watched(read, show_, read_settings(dsn=dsn, color=color), shown, document=runs_document)


def show(
    run: Run,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Tell its events as they come, until it rests (as `run` does).")
    ] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="--follow: seconds to wait for that.")] = 3600.0,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="--follow: each event as a line of JSON on stdout.")] = False,
) -> int:
    """Show one run: where it is, why it does not move, what it cost.

    Exit codes of --follow: 0 it has completed, or waits for people; 1 it has failed, was cancelled or stands still;
    7 it did not rest in time.
    """
    from ..settings import read_settings
    from .watch import Shown, watched

    settings, shown = read_settings(dsn=dsn, color=color), Shown(json=json, jsonl=jsonl, watch=watch, time=time)
    if follow:
        return _follow(run, timeout, settings, shown)
    if jsonl:
        raise UsageError("--jsonl is for the events of --follow; one run is one document: --json")

    def print_(detail: "_Detail", when: "When") -> None:
        from .render import run_lines

        print_lines(run_lines(detail[0], when, spent=detail[1]), settings.color)

    watched(_detail_of(run), print_, settings, shown, document=_run_document)
    return 0


def _detail_of(run: str) -> "Callable[[Operations], Awaitable[_Detail]]":
    async def read(operations: "Operations") -> "_Detail":
        from ..operations.spending import spending

        view = await operations.run(run)
        return view, await spending(operations.store, view.address)

    return read


def _run_document(detail: "_Detail") -> "Document":
    from ..operations.views import run_document

    return run_document(*detail)


def _follow(run: str, timeout: float, settings: "Settings", shown: "Shown") -> int:
    """Tell what happens from now on, then how the run is."""
    from .render import run_lines
    from .session import with_operations
    from .telling import Telling
    from .times import when

    shown.check()
    if shown.watch:
        raise UsageError("--follow ends when the run rests and --watch never does; give one of them")

    async def work(operations: "Operations") -> "tuple[_Detail, float]":
        from ..following import follow_run

        past = await operations.trace(run)
        telling = Telling(settings.color, as_json=shown.jsonl, silent_until=past.events[-1].seq if past.events else 0)
        if not shown.json:
            now = f"; now: {past.run.why_still}" if past.run.why_still else ""
            note(f"following run {past.run.run_id}, which has {len(past.events)} event(s){now}")
        told = (lambda _: None) if shown.json else telling.event
        await follow_run(operations, past.run.address, told, seconds=timeout, away=_away)
        return await _detail_of(past.run.address)(operations), await operations.store.now()

    detail, now = with_operations(work, settings)
    if shown.jsonl:
        print_json_line(_run_document(detail))
    elif shown.json:
        print_json(_run_document(detail))
    else:
        print_lines(run_lines(detail[0], when(shown.time, now), spent=detail[1]), settings.color)
    standing = detail[0].actor_status not in (None, "active", "completed", "cancelled")
    return 1 if standing or detail[0].state.status in ("failed", "cancelled") else 0


def _away(wrong: str) -> None:
    note(f"database lost: {wrong}" if wrong else "database found again")


_From = Annotated[int, typer.Option("--from", "--from-seq", min=1, help="Number of the first event to tell.")]
_Until = Annotated[int | None, typer.Option("--until", min=1, help="Number of the last event to tell.")]
_Diff = Annotated[
    str,
    typer.Option("--diff", metavar="RUN", help="Compare with another run; `origin` is the one it was forked from."),
]


def replay(
    run: Run,
    from_seq: _From = 1,
    until: _Until = None,
    *,
    diff: _Diff = "",
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Tell what comes, too, until it ends; as JSON lines in a pipe."),
    ] = False,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Each event as a line of JSON.")] = False,
) -> int:
    """Tell a run's whole history.

    Every event, wait and change of node is told, where its time went, and what it cost; nothing is shortened. With
    --diff: what is the same in two runs, where they part, and what each did after that.

    Exit codes of --watch: 0 it has completed, 1 it has failed or was cancelled.
    """
    from ..settings import read_settings
    from .watch import Shown

    settings, shown = read_settings(dsn=dsn, color=color), Shown(json=json, jsonl=jsonl, watch=watch)
    shown.check()
    if until is not None and until < from_seq:
        raise UsageError(f"--until {until} comes before --from {from_seq}; events are numbered from 1 upwards")
    if diff:
        if watch or jsonl or from_seq > 1 or until is not None:
            raise UsageError("--diff compares whole runs, once; leave out --watch, --jsonl, --from and --until")
        return _print_diff(run, diff, settings, json=json)
    if watch:
        if until is not None:
            raise UsageError("--watch goes on with the run; leave out --until")
        return _watch(run, from_seq, settings, as_json=not shown.as_text)
    _print_trace(run, from_seq, until, settings, shown)
    return 0


def _print_trace(run: str, from_seq: int, until: int | None, settings: "Settings", shown: "Shown") -> None:
    from ..operations.views import event_document, trace_document
    from ..trace import trace_lines
    from .session import with_operations

    trace = with_operations(lambda operations: operations.trace(run), settings)
    last = until or max((one.seq for one in trace.events), default=0)
    if shown.jsonl:
        for one in trace.events:
            if from_seq <= one.seq <= last:
                print_json_line(event_document(one))
    elif shown.json:
        document = trace_document(trace)
        document["events"] = [e for e in document["events"] if from_seq <= e["seq"] <= last]
        print_json(document)
    else:
        print_lines(trace_lines(trace, from_seq=from_seq, until=until), settings.color)
    if trace.events and from_seq > trace.events[-1].seq:
        note(f"it has {len(trace.events)} events; none is told")


def _print_diff(run: str, other: str, settings: "Settings", *, json: bool) -> int:
    from ..operations.comparing import compare_runs
    from ..trace_diff import diff_document, diff_lines
    from .session import with_operations

    found = with_operations(lambda operations: compare_runs(operations, run, other), settings)
    if json:
        print_json(diff_document(found))
    else:
        print_lines(diff_lines(found), settings.color)
    return 0


def _watch(run: str, from_seq: int, settings: "Settings", *, as_json: bool) -> int:
    """The trace so far, and then each event as it comes, until the run has ended."""
    from .session import with_operations
    from .telling import Telling

    async def work(operations: "Operations") -> "Trace":
        from ..following import follow_run
        from ..trace import header

        if not as_json:
            print_lines(header(await operations.trace(run)), settings.color)
        telling = Telling(settings.color, to_stderr=False, as_json=as_json, silent_until=from_seq - 1)
        view = await follow_run(operations, run, telling.event, until="end", away=_away)
        trace = await operations.trace(view.address)
        if not as_json:
            from ..trace import footer

            print_lines(footer(trace, telling.teller.marks), settings.color)
        return trace

    trace = with_operations(work, settings)
    return 1 if trace.run.state.status in ("failed", "cancelled") else 0


def record(run: Run, dsn: Dsn = None, json: Json = False) -> None:
    """Print a run as a recording, which answers as its model did.

    It holds what was said to the model, tool results included, and what it answered: callboard record RUN > run.jsonl.
    It is JSON in any case, and of a fork it has the past too.
    """
    from json import loads

    lines, _ = operate(lambda operations: operations.recording(run), dsn)
    for line in lines:
        # Written anew: a recording may hold characters that a terminal obeys, and in JSON each has its escape.
        print_json_line(loads(line))


def verify(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id, the beginning of one, or its address.")] = "",
    *,
    all_: Annotated[bool, typer.Option("--all", help="All runs; names those that are broken.")] = False,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Jsonl = False,
) -> int:
    """Prove that a run's state is the fold of its journal.

    Exit codes: 0 they agree, 1 they do not.
    """
    from ..settings import read_settings
    from .watch import Shown

    if bool(run) == all_:
        raise UsageError("give the run to verify, or --all" if not run else "give a run or --all, not both")
    if all_:
        shown = Shown(json=json, jsonl=jsonl)
        shown.check()
        return _verify_all(read_settings(dsn=dsn), shown)
    if jsonl:
        raise UsageError("--jsonl is for --all; one verification is one document: --json")
    (run_id, found), _ = operate(lambda operations: operations.verify(run), dsn)
    if json:
        print_json({"schema": "callboard.verification/1", **_proof(run_id, found)})
    elif found.ok:
        print_line(f"{run_id}: the state is the fold of its {found.events} events")
    else:
        for difference in found.differences:
            print_line(f"{run_id}: {difference}")
    return 0 if found.ok else 1


def _proof(run_id: str, found: "Verification") -> "Document":
    return {"run_id": run_id, "ok": found.ok, "events": found.events, "differences": found.differences}


def _verify_all(settings: "Settings", shown: "Shown") -> int:
    from ..operations.verifying import Verified, count_runs, verify_all
    from .progress import progress
    from .session import with_operations

    broken: list[Verified] = []
    events = 0

    async def work(operations: "Operations") -> int:
        nonlocal events
        done, total = 0, await count_runs(operations)
        with progress("verifying runs", total) as advance:
            async for one in verify_all(operations):
                done, events = done + 1, events + one.found.events
                if not one.found.ok:
                    broken.append(one)
                if shown.jsonl:
                    print_json_line({"schema": "callboard.verification/1", **_proof(one.run_id, one.found)})
                advance()
        return done

    done = with_operations(work, settings)
    if shown.json:
        items = [_proof(one.run_id, one.found) for one in broken]
        document = {"schema": "callboard.verifications/1", "ok": not broken, "runs": done, "events": events}
        print_json({**document, "broken": items})
    elif not shown.jsonl:
        for one in broken:
            for difference in one.found.differences:
                print_line(f"{one.run_id}: {difference}")
        if broken:
            note(f"{len(broken)} of {done} runs are broken; {events:,} events were folded")
        else:
            print_line(f"{done:,} run(s): each state is the fold of its journal, {events:,} events in all")
    return 1 if broken else 0
