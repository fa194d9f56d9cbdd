"""Commands that look at actors and mailboxes and say why nothing moves: `actors`, `mailbox`.

Looking never consumes anything. `actors resume|pause|cancel|kill` send one system message; the actor acts on it when a
node serves it.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from .options import Dsn, Json
from .session import operate
from .terminal import note, print_json, print_line, print_lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..inspection import ActorLine, Inspection, MailboxView
    from ..operations import Operations

_Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="An actor's address, such as /crm/desk/agent:42.")]
_Reason = Annotated[str, typer.Option("--reason", help="Kept with the actor, and shown.")]
_Prefix = Annotated[str, typer.Argument(metavar="[PREFIX]", help="Only addresses that begin like this.")]
_Kind = Annotated[str, typer.Option("--kind", help="Only actors of this kind, such as run or supervisor.")]
_Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["--help", "-h"]})
    group.callback(invoke_without_command=True)(actors)
    group.command("list")(list_)
    group.command("show")(show)
    group.command("resume")(resume)
    group.command("pause")(pause)
    group.command("cancel")(cancel)
    group.command("kill")(kill)
    app.add_typer(group, name="actors")
    app.command("mailbox")(mailbox)


def actors(context: typer.Context, dsn: Dsn = None, json: Json = False) -> None:
    """List actors and why each does not move; resume, pause, cancel or kill one."""
    if context.invoked_subcommand is None:
        list_(dsn=dsn, json=json)


def list_(prefix: _Prefix = "", kind: _Kind = "", limit: _Limit = 50, dsn: Dsn = None, json: Json = False) -> None:
    """List actors in order of address, each with why it does not move."""
    from ..inspection import Inspection, actors_document
    from .render import print_actors

    async def work(operations: "Operations") -> "list[ActorLine]":
        return await Inspection(operations).actors(prefix=prefix, kind=kind, limit=limit + 1)

    found, _ = operate(work, dsn)
    if json:
        print_json(actors_document(found[:limit], complete=len(found) <= limit))
    elif not found:
        note("no actors yet; start something: callboard run APP GOAL")
    else:
        print_actors(found[:limit])
        if len(found) > limit:
            note("there are more; --limit shows them")


def show(address: _Address, dsn: Dsn = None, json: Json = False) -> None:
    """Show one actor, and why it does not move."""
    from ..inspection import Inspection, actors_document
    from .render import actor_lines

    async def work(operations: "Operations") -> "ActorLine":
        return await Inspection(operations).actor(address)

    line, settings = operate(work, dsn)
    if json:
        print_json(actors_document([line], complete=True))
    else:
        print_lines(actor_lines(line), settings.color)


def mailbox(address: _Address, limit: _Limit = 100, dsn: Dsn = None, json: Json = False) -> None:
    """Show a mailbox without touching it, and why nothing in it moves."""
    from ..inspection import Inspection, mailbox_document
    from .render import mailbox_lines

    async def work(operations: "Operations") -> "MailboxView":
        return await Inspection(operations).mailbox(address, limit=limit)

    view, settings = operate(work, dsn)
    if json:
        print_json(mailbox_document(view))
    else:
        print_lines(mailbox_lines(view), settings.color)


def resume(address: _Address, dsn: Dsn = None) -> None:
    """Let a parked, paused or failed actor take messages again."""

    async def work(inspection: "Inspection") -> None:
        await inspection.resume(address)

    _ask(work, dsn, f"{address}: told to go on")


def pause(address: _Address, reason: _Reason = "", dsn: Dsn = None) -> None:
    """Let an actor take no more messages until it is resumed."""

    async def work(inspection: "Inspection") -> None:
        await inspection.pause(address, reason)

    _ask(work, dsn, f"{address}: told to pause")


def cancel(address: _Address, reason: _Reason = "", dsn: Dsn = None) -> None:
    """End an actor for good; a turn that it is in is undone."""

    async def work(inspection: "Inspection") -> None:
        await inspection.cancel(address, reason)

    _ask(work, dsn, f"{address}: told to end")


def kill(address: _Address, dsn: Dsn = None) -> None:
    """End this incarnation of an actor at once, as a crash would; its supervisor decides what follows."""

    async def work(inspection: "Inspection") -> None:
        await inspection.kill(address)

    _ask(work, dsn, f"{address}: killed")


def _ask(work: "Callable[[Inspection], Awaitable[None]]", dsn: str | None, said: str) -> None:
    from ..inspection import Inspection

    operate(lambda operations: work(Inspection(operations)), dsn)
    print_line(said)
