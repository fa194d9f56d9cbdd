"""Commands that look at actors and mailboxes and say why nothing moves: `actors`, `mailbox`.

Looking never consumes anything. `actors resume|pause|cancel|kill` send one system message; the actor acts on it when a
node serves it. `mailbox discard|quarantine` ask the node that serves a message to give it up.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from .grammar import group_with
from .options import Color, Dsn, Json, Jsonl, Time, Watch
from .session import operate
from .terminal import note, print_json, print_line, print_lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..operations.actors import ActorLine, Inspection
    from ..operations.runs import Operations
    from ..operations.subtree import Subtree, ToldBelow
    from .times import When

_Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="An actor's address, such as /crm/desk/agent:42.")]
_Reason = Annotated[str, typer.Option("--reason", help="Kept with the actor, and shown.")]
_Prefix = Annotated[str, typer.Argument(metavar="[PREFIX]", help="Only addresses that begin like this.")]
_Kind = Annotated[str, typer.Option("--kind", help="Only actors of this kind, such as run or supervisor.")]
_Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")]
_Stuck = Annotated[bool, typer.Option("--stuck", help="Only those that stand still, with the reason and what to do.")]
_Below = Annotated[
    bool, typer.Option("--below", help="All actors at this address and below it, but for supervisors; / is everything.")
]
_Order = Annotated[
    str,
    typer.Option("--order", metavar="attention|address", help="Each at a glance: first what needs somebody; or not."),
]
_Tree = Annotated[bool, typer.Option("--tree", help="Supervisors and pools, with how many are below and what at.")]
_OverAge = Annotated[
    float,
    typer.Option("--over-age", min=0.0, metavar="SECONDS", help="--stuck: what is ready for so long counts as stuck."),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(
        cls=group_with(without="list", otherwise="list"),
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    group.callback()(actors)
    group.command("list")(list_)
    group.command("show")(show)
    group.command("resume")(resume)
    group.command("pause")(pause)
    group.command("cancel")(cancel)
    group.command("kill")(kill)
    app.add_typer(group, name="actors")


def actors() -> None:
    """List actors and why each does not move; resume, pause, cancel or kill one.

    `callboard actors --stuck` lists those that stand still, or whose mailbox does not move, with what to do next.
    """


def list_(
    prefix: _Prefix = "",
    *,
    stuck: _Stuck = False,
    over_age: _OverAge = 60.0,
    order: _Order = "",
    tree: _Tree = False,
    kind: _Kind = "",
    limit: _Limit = 50,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Jsonl = False,
) -> None:
    """List actors in order of address, each with why it does not move; or those that are stuck, the oldest first.

    --order lists them at a glance (a word, what waits, what it does); --tree counts them by supervisor and pool.
    """
    from ..operations.actors import Inspection, actors_document
    from ..settings import read_settings
    from .glances import list_at_a_glance, show_tree
    from .inspector_render import actors_table, stuck_lines
    from .watch import Shown, watched

    settings = read_settings(dsn=dsn, color=color)
    shown = Shown(json=json, jsonl=jsonl, watch=watch, time=time)
    if tree:
        show_tree(settings, shown, alone=not (stuck or order or kind or prefix))
        return
    if order:
        list_at_a_glance(settings, shown, prefix=prefix, kind=kind, order=order, limit=limit, alone=not stuck)
        return

    async def read(operations: "Operations") -> "tuple[list[ActorLine], bool]":
        inspection = Inspection(operations)
        if stuck:
            return await inspection.stuck(prefix=prefix, over_age_seconds=over_age, limit=limit)
        found = await inspection.actors(prefix=prefix, kind=kind, limit=limit + 1)
        return found[:limit], len(found) <= limit

    def print_(found: "tuple[list[ActorLine], bool]", when: "When") -> None:
        lines, complete = found
        if stuck:
            print_lines(stuck_lines(lines, when), settings.color)
        elif lines:
            actors_table(lines)
        if not lines:
            nothing = "no actors yet; start something: callboard run APP GOAL"
            note("nothing is stuck; what waits for people: callboard approvals" if stuck else nothing)
        if not complete:
            note("there are more; --limit shows them")

    watched(read, print_, settings, shown, document=lambda found: actors_document(found[0], complete=found[1]))


def show(
    address: _Address,
    *,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Show one actor, and why it does not move."""
    from ..operations.actors import Inspection, actors_document
    from ..settings import read_settings
    from .inspector_render import actor_lines
    from .watch import Shown, watched

    settings = read_settings(dsn=dsn, color=color)

    async def read(operations: "Operations") -> "ActorLine":
        return await Inspection(operations).actor(address)

    def print_(line: "ActorLine", when: "When") -> None:
        print_lines(actor_lines(line, when), settings.color)

    shown = Shown(json=json, watch=watch, time=time)
    watched(read, print_, settings, shown, document=lambda line: actors_document([line], complete=True))


def resume(address: _Address, below: _Below = False, dsn: Dsn = None, json: Json = False) -> None:
    """Let a parked, paused or failed actor take messages again; with --below all that are paused there."""
    if below:
        _ask_below(lambda subtree: subtree.resume(address), dsn, "resume", "told to go on", json=json)
        return

    async def work(inspection: "Inspection") -> None:
        await inspection.resume(address)

    _ask(work, dsn, address, "resume", "told to go on", json=json)


def pause(address: _Address, below: _Below = False, reason: _Reason = "", dsn: Dsn = None, json: Json = False) -> None:
    """Let an actor take no more messages until it is resumed; with --below all that are active there.

    Supervisors are not paused by --below, and instances of a pool that begin later are not either.
    """
    if below:
        _ask_below(lambda subtree: subtree.pause(address, reason), dsn, "pause", "told to pause", json=json)
        return

    async def work(inspection: "Inspection") -> None:
        await inspection.pause(address, reason)

    _ask(work, dsn, address, "pause", "told to pause", json=json)


def cancel(address: _Address, reason: _Reason = "", dsn: Dsn = None, json: Json = False) -> None:
    """End an actor for good; a turn that it is in is undone."""

    async def work(inspection: "Inspection") -> None:
        await inspection.cancel(address, reason)

    _ask(work, dsn, address, "cancel", "told to end", json=json)


def kill(address: _Address, dsn: Dsn = None, json: Json = False) -> None:
    """End this incarnation of an actor at once, as a crash would; its supervisor decides what follows."""

    async def work(inspection: "Inspection") -> None:
        await inspection.kill(address)

    _ask(work, dsn, address, "kill", "killed", json=json)


def _ask(
    work: "Callable[[Inspection], Awaitable[None]]", dsn: str | None, address: str, asked: str, said: str, *, json: bool
) -> None:
    from ..operations.actors import Inspection

    operate(lambda operations: work(Inspection(operations)), dsn)
    if json:
        print_json({"schema": "callboard.asked/1", "address": address, "asked": asked})
    else:
        print_line(f"{address}: {said}")


def _ask_below(
    work: "Callable[[Subtree], Awaitable[ToldBelow]]", dsn: str | None, asked: str, said: str, *, json: bool
) -> None:
    from ..operations.subtree import Subtree

    told, _ = operate(lambda operations: work(Subtree(operations)), dsn)
    if json:
        document = {"address": told.place, "asked": asked, "actors": told.actors, "complete": told.complete}
        print_json({"schema": "callboard.asked-below/1", **document})
        return
    print_line(f"{told.place}: {told.actors} actor(s) {said}")
    if not told.complete:
        note("there are more; the same command once more goes on")
