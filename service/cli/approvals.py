"""Commands that show what waits for people, and what they decided: `approvals`. Looking only; see `deciding`."""

from typing import TYPE_CHECKING, Annotated

import typer

from ...mailbox.errors import UsageError
from .grammar import group_with
from .options import Color, Dsn, Json, Jsonl, Time, Watch
from .terminal import note, print_lines

if TYPE_CHECKING:
    from ..operations.runs import Operations
    from ..operations.views import ApprovalView
    from ..settings import Settings
    from .times import When
    from .watch import Document, Shown

Which = Annotated[str, typer.Argument(metavar="ID|RUN", help="Approval id, or the run that waits for it.")]
Call = Annotated[int | None, typer.Option("--call", min=1, help="Which call, where a run waits for several.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(
        cls=group_with(without="", otherwise="show"),
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    group.callback(invoke_without_command=True)(approvals)
    group.command("list")(list_)
    group.command("show")(show)
    app.add_typer(group, name="approvals")


_All = Annotated[bool, typer.Option("--all", help="Decided ones too.")]
_Mine = Annotated[bool, typer.Option("--mine", help="Only those that you may approve, and have not yet.")]
_Done = Annotated[bool, typer.Option("--decided", help="What was decided, newest first, and what came of it.")]
_Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")]


def approvals(
    context: typer.Context,
    all: _All = False,
    mine: _Mine = False,
    decided: _Done = False,
    limit: _Limit = 100,
    *,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Jsonl = False,
) -> None:
    """List the calls that wait for a person, or show one."""
    if context.invoked_subcommand is None:
        list_(all, mine, decided, limit, watch=watch, time=time, color=color, dsn=dsn, json=json, jsonl=jsonl)


def list_(
    all: _All = False,
    mine: _Mine = False,
    decided: _Done = False,
    limit: _Limit = 100,
    *,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Jsonl = False,
) -> None:
    """List the calls that wait for a person."""
    from ..operations.decisions import Decisions
    from ..operations.views import approval_document
    from ..settings import read_settings
    from .render import print_approvals
    from .watch import Shown, watched

    if all + mine + decided > 1:
        raise UsageError("--all, --mine and --decided are three lists; give one of them")
    settings = read_settings(dsn=dsn, color=color)
    shown = Shown(json=json, jsonl=jsonl, watch=watch, time=time)
    if decided:
        _list_decided(limit, settings, shown)
        return

    async def read(operations: "Operations") -> "list[ApprovalView]":
        found = await Decisions(operations).list(status=None if all else "pending", limit=_MOST if mine else limit)
        return [one for one in found if not mine or one.open_to(operations.principal)][:limit]

    def print_(found: "list[ApprovalView]", when: "When") -> None:
        if found:
            print_approvals(found, when)
        else:
            note("nothing waits for you")

    def document(found: "list[ApprovalView]") -> "Document":
        return {"schema": "callboard.approvals/1", "items": [approval_document(one) for one in found]}

    watched(read, print_, settings, shown, document=document)


_MOST = 10_000
"""Of those that wait, so many are looked at for those that are somebody's."""


def _list_decided(limit: int, settings: "Settings", shown: "Shown") -> None:
    from ..operations.decided import Decided, decided, decided_document
    from .render import print_decided
    from .watch import watched

    async def read(operations: "Operations") -> "list[Decided]":
        return await decided(operations, limit=limit)

    def print_(found: "list[Decided]", when: "When") -> None:
        if found:
            print_decided(found, when)
        else:
            note("nothing was decided yet")

    watched(read, print_, settings, shown, document=decided_document)


def show(
    which: Which,
    call: Call = None,
    *,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Show one, with everything that a decision covers."""
    from ..operations.decisions import Decisions
    from ..operations.views import approval_document
    from ..settings import read_settings
    from .render import approval_lines
    from .watch import Shown, watched

    settings = read_settings(dsn=dsn, color=color)

    async def read(operations: "Operations") -> "ApprovalView":
        return await Decisions(operations).find(which, call=call)

    def print_(view: "ApprovalView", when: "When") -> None:
        print_lines(approval_lines(view, when), settings.color)

    watched(read, print_, settings, Shown(json=json, watch=watch, time=time), document=approval_document)
