"""Commands that decide: `approvals`, `approve`, `deny`.

Money is never approved by a flag that says yes: its amount is typed again, by a person or with --amount by a script
that knows what it approves.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ...mailbox.errors import UsageError
from .options import Dsn, Json
from .session import with_operations
from .terminal import ask, is_interactive, note, print_json, print_line, print_lines

if TYPE_CHECKING:
    from ..decisions import Answer
    from ..operations import Operations
    from ..settings import Settings
    from ..views import ApprovalView

_Which = Annotated[str, typer.Argument(metavar="ID|RUN", help="Approval id, or the run that waits for it.")]
_Call = Annotated[int | None, typer.Option("--call", min=1, help="Which call, where a run waits for several.")]
_Amount = Annotated[
    list[str], typer.Option("--amount", metavar="AMOUNT", help="The call's sum of money, as shown; repeat for several.")
]
_Digest = Annotated[str, typer.Option("--expect-digest", help="Refuse unless the arguments' digest begins like this.")]
_By = Annotated[str, typer.Option("--by", help="A label beside your authenticated name; shown, never trusted.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["--help", "-h"]})
    group.callback(invoke_without_command=True)(approvals)
    group.command("list")(list_)
    group.command("show")(show)
    app.add_typer(group, name="approvals")
    app.command("approve")(approve)
    app.command("deny")(deny)


_All = Annotated[bool, typer.Option("--all", help="Decided ones too.")]
_Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")]


def approvals(
    context: typer.Context, all: _All = False, limit: _Limit = 100, dsn: Dsn = None, json: Json = False
) -> None:
    """List the calls that wait for a person, or show one."""
    if context.invoked_subcommand is None:
        list_(all=all, limit=limit, dsn=dsn, json=json)


def list_(all: _All = False, limit: _Limit = 100, dsn: Dsn = None, json: Json = False) -> None:
    """List the calls that wait for a person."""
    from ..decisions import Decisions
    from ..settings import read_settings
    from ..views import approval_document
    from .render import print_approvals

    async def work(operations: "Operations") -> "list[ApprovalView]":
        return await Decisions(operations).list(status=None if all else "pending", limit=limit)

    found = with_operations(work, read_settings(dsn=dsn))
    if json:
        print_json({"schema": "callboard.approvals/1", "items": [approval_document(one) for one in found]})
    elif found:
        print_approvals(found)
    else:
        note("nothing waits for you")


def show(which: _Which, call: _Call = None, dsn: Dsn = None, json: Json = False) -> None:
    """Show one, with everything that a decision covers."""
    from ..settings import read_settings
    from ..views import approval_document
    from .render import approval_lines

    settings = read_settings(dsn=dsn)
    view = _find(which, call, settings)
    if json:
        print_json(approval_document(view))
    else:
        print_lines(approval_lines(view), settings.color)


def approve(
    which: _Which,
    *,
    call: _Call = None,
    amount: _Amount = [],  # noqa: B006 - Typer copies it
    expect_digest: _Digest = "",
    note: Annotated[str, typer.Option("--note", help="A word for the audit and the journal.")] = "",
    by: _By = "",
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Let a held call go, exactly as shown.

    It goes once. A call in doubt: say that it did happen.

    Exit codes: 3 no such approval, 5 decided before or other arguments, 6 expired, 2 the amount was not repeated.
    """
    from ..decisions import Answer

    answer = Answer("approved", tuple(amount), expect_digest, note, by)
    _decide(which, call, answer, dsn, json=json)


def deny(
    which: _Which,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; the model is told.")],
    call: _Call = None,
    amount: _Amount = [],  # noqa: B006 - Typer copies it
    expect_digest: _Digest = "",
    by: _By = "",
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Refuse a held call; the model gets the reason.

    A call in doubt: say that it did not happen; it is made again, so --amount is asked for.

    Exit codes: as approve.
    """
    if not reason.strip():
        raise UsageError("--reason: expected a sentence for the model, got nothing")
    from ..decisions import Answer

    answer = Answer("denied", tuple(amount), expect_digest, reason, by)
    _decide(which, call, answer, dsn, json=json)


def _decide(which: str, call: int | None, answer: "Answer", dsn: str | None, *, json: bool) -> None:
    from ..decisions import Decisions
    from ..settings import read_settings
    from ..views import approval_document

    settings = read_settings(dsn=dsn)
    if not answer.amounts and is_interactive():
        # What is decided below is exactly what was shown: one approval, by its id and digest.
        view = _find(which, call, settings)
        which, call, answer = view.id, None, _asked(view, answer, settings)

    async def work(operations: "Operations") -> "ApprovalView":
        return await Decisions(operations).decide(which, answer, call=call)

    decided = with_operations(work, settings)
    if json:
        print_json(approval_document(decided))
    else:
        print_line(f"{decided.id}: {answer.status} by {decided.decided_by}; the run goes on when a node serves it")


def _find(which: str, call: int | None, settings: "Settings") -> "ApprovalView":
    from ..decisions import Decisions

    async def work(operations: "Operations") -> "ApprovalView":
        return await Decisions(operations).find(which, call=call)

    return with_operations(work, settings)


def _asked(view: "ApprovalView", answer: "Answer", settings: "Settings") -> "Answer":
    """Show the call to the person in front, and have the sums of money in it typed again."""
    from dataclasses import replace

    from .render import approval_lines

    if view.status != "pending" or not view.money or not answer.lets_go(view):
        return answer
    print_lines(approval_lines(view), settings.color, to_stderr=True)
    typed = tuple(ask(f"type the amount of {one.field} to let it go:") for one in view.money)
    if not all(typed):
        raise UsageError(f"approval {view.id}: no amount was typed; nothing was decided")
    return replace(answer, amounts=typed, expect_digest=answer.expect_digest or view.digest)
