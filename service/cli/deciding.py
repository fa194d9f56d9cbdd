"""Commands that decide: `approve`, `deny`, `edit`, `take-back`.

Money is never approved by a flag that says yes: its amount is typed again, by a person or with --amount by a script
that knows what it approves.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ...mailbox.errors import UsageError
from .approvals import Call, Which
from .options import Dsn, Json
from .session import with_operations
from .terminal import ask, complain, is_interactive, print_json, print_line, print_lines
from .terminal import note as note_

if TYPE_CHECKING:
    from ..operations.decisions import Answer
    from ..operations.runs import Operations
    from ..operations.views import ApprovalView
    from ..settings import Settings

_Several = Annotated[
    list[str], typer.Argument(metavar="ID|RUN...", help="Approval ids, or runs that wait for one each.")
]
_Amount = Annotated[
    list[str],
    typer.Option(
        "--amount",
        metavar="AMOUNT",
        help="The call's sum of money, as shown; repeat for several. Of several approvals: ID=AMOUNT.",
    ),
]
_Note = Annotated[str, typer.Option("--note", help="A word for the audit and the journal.")]
_Digest = Annotated[str, typer.Option("--expect-digest", help="Refuse unless the arguments' digest begins like this.")]
_By = Annotated[str, typer.Option("--by", help="A label beside your authenticated name; shown, never trusted.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("approve")(approve)
    app.command("deny")(deny)
    app.command("edit")(edit)
    app.command("take-back")(take_back)


def approve(
    which: _Several,
    *,
    call: Call = None,
    amount: _Amount = [],  # noqa: B006 - Typer copies it
    expect_digest: _Digest = "",
    note: _Note = "",
    by: _By = "",
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Let a held call go, exactly as shown.

    Several at once where several are named, with one result each. It goes once, when as many people have approved as
    its policy wants. A call in doubt: say that it did happen.

    Exit codes: 3 no such approval, 4 a policy wants somebody else, 5 decided before or other arguments, 6 expired, 2
    the amount was not repeated. Of several: the code of the first that failed.
    """
    from ..operations.decisions import Answer

    answer = Answer("approved", tuple(amount), expect_digest, note, by)
    _decide(which, call, answer, dsn, json=json)


def deny(
    which: _Several,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; the model is told.")],
    call: Call = None,
    amount: _Amount = [],  # noqa: B006 - Typer copies it
    expect_digest: _Digest = "",
    by: _By = "",
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Refuse a held call; the model gets the reason.

    Several at once where several are named, with one result each. A call in doubt: say that it did not happen; it is
    made again, so --amount is asked for.

    Exit codes: as approve.
    """
    if not reason.strip():
        raise UsageError("--reason: expected a sentence for the model, got nothing")
    from ..operations.decisions import Answer

    answer = Answer("denied", tuple(amount), expect_digest, reason, by)
    _decide(which, call, answer, dsn, json=json)


def take_back(
    which: Which,
    *,
    call: Call = None,
    note: _Note = "",
    by: _By = "",
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Undo an approval while it is held.

    The call waits for people again, and nobody has approved it.

    Exit codes: 3 no such approval, 5 it was let go, and the message says when.
    """
    from ..operations.decisions import Decisions
    from ..operations.views import approval_document
    from ..settings import read_settings

    async def work(operations: "Operations") -> "ApprovalView":
        return await Decisions(operations).take_back(which, note=note, label=by, call=call)

    view = with_operations(work, read_settings(dsn=dsn))
    if json:
        print_json(approval_document(view))
    else:
        print_line(f"{view.id}: taken back; it waits for people again")


def edit(
    which: Which,
    *,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="PATH=VALUE", help="amount=40, address.country=FR, items[0].price=3")
    ] = [],  # noqa: B006 - Typer copies it
    unset: Annotated[list[str], typer.Option("--unset", metavar="PATH", help="Take this argument out.")] = [],  # noqa: B006
    call: Call = None,
    expect_digest: _Digest = "",
    note: _Note = "",
    by: _By = "",
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for the new question.")] = 10.0,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Change a held call's arguments.

    Nobody can approve the old ones any more; the changed call is asked for anew, as another approval with another
    digest.

    Exit codes: as approve; 2 the change does not fit the tool (the old call is asked for again), 7 recorded, but no
    node has asked anew yet.
    """
    from ..operations.argument_paths import parsed_changes
    from ..operations.decisions import Answer, Decisions
    from ..operations.views import approval_document
    from ..settings import read_settings
    from .errors import Exit
    from .render import approval_lines

    changed, settings = parsed_changes(set_, unset), read_settings(dsn=dsn)
    wish = Answer("approved", (), expect_digest, note, by)

    async def work(operations: "Operations") -> "tuple[ApprovalView, ApprovalView | None]":
        return await Decisions(operations).edit(which, changed, wish, call=call, seconds=wait)

    old, new = with_operations(work, settings)
    if new is None:
        note_(f"{old.id}: the change is recorded; it is asked for anew when a node serves run {old.run_id}")
        raise typer.Exit(int(Exit.TIMED_OUT))
    if json:
        print_json(approval_document(new))
    else:
        print_lines(approval_lines(new), settings.color)
    if not new.diff:
        complain(f"the change does not fit, and the call is asked for as it was: {new.reason}")
        raise typer.Exit(int(Exit.USAGE))


def _decide(which: "list[str]", call: int | None, answer: "Answer", dsn: str | None, *, json: bool) -> None:
    from ..settings import read_settings

    settings = read_settings(dsn=dsn)
    if len(which) > 1:
        _decide_many(which, call, answer, settings, json=json)
    else:
        _decide_one(which[0], call, answer, settings, json=json)


def _decide_one(which: str, call: int | None, answer: "Answer", settings: "Settings", *, json: bool) -> None:
    from ..operations.decisions import Decisions
    from ..operations.views import approval_document

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
        print_line(_said(decided, answer))


def _said(view: "ApprovalView", answer: "Answer") -> str:
    """What became of one decision, in a line."""
    from ..operations.views import moment

    if view.status == "pending":
        names = ", ".join(one.by for one in view.approved_by)
        so_far = f"{len(view.approved_by)} of {view.needed}"
        return f"{view.id}: approved by {so_far} ({names}); it waits for {view.missing} more"
    if view.can_take_back:
        until = moment(view.release_at)
        return f"{view.id}: {answer.status} by {view.decided_by}; callboard take-back {view.id} undoes it until {until}"
    return f"{view.id}: {answer.status} by {view.decided_by}; the run goes on when a node serves it"


def _decide_many(which: "list[str]", call: int | None, answer: "Answer", settings: "Settings", *, json: bool) -> None:
    """One result each; one that fails stops no other."""
    from dataclasses import replace

    from ..operations.decisions import Decisions, Outcomes
    from ..operations.views import approval_document
    from .errors import problem_of

    if call is not None or answer.expect_digest:
        raise UsageError("--call and --expect-digest are about one approval; give several by their ids")
    amounts = _amounts_by_id(which, answer.amounts)
    wanted = [(one, replace(answer, amounts=amounts.get(one, ()))) for one in dict.fromkeys(which)]
    if is_interactive():
        wanted = [_shown(one, each, settings) for one, each in wanted]

    async def work(operations: "Operations") -> Outcomes:
        return await Decisions(operations).decide_many(wanted)

    outcomes = with_operations(work, settings)
    problems = [None if one.error is None else problem_of(one.error) for one in outcomes]
    if json:
        items = [
            {"given": one.given, "ok": True, "approval": approval_document(one.view)}
            if one.view is not None
            else {"given": one.given, "ok": False, "problem": problem}
            for one, problem in zip(outcomes, problems, strict=True)
        ]
        print_json({"schema": "callboard.decided/1", "items": items})
    for one, problem in zip(outcomes, problems, strict=True):
        if problem is not None and not json:
            complain(f"{one.given}: {problem['detail']}")
        elif one.view is not None and not json:
            print_line(_said(one.view, answer))
    failed = next((problem for problem in problems if problem is not None), None)
    if failed is not None:
        raise typer.Exit(failed["exit_code"])


def _amounts_by_id(which: "list[str]", amounts: "tuple[str, ...]") -> "dict[str, tuple[str, ...]]":
    """Amounts of several approvals: each says which one it is of."""
    found: dict[str, tuple[str, ...]] = {}
    for one in amounts:
        name, sign, amount = one.rpartition("=")
        if not sign or name not in which:
            raise UsageError(
                f"--amount: of several approvals, say whose it is: --amount {which[0]}=129.00, got {one[:80]!r}"
            )
        found[name] = (*found.get(name, ()), amount)
    return found


def _shown(which: str, answer: "Answer", settings: "Settings") -> "tuple[str, Answer]":
    """One of several, shown to the person in front before it is decided; one that cannot be found fails later."""
    from ...mailbox.errors import CallboardError

    if answer.amounts:
        return which, answer
    try:
        view = _find(which, None, settings)
    except CallboardError:
        return which, answer
    return view.id, _asked(view, answer, settings)


def _find(which: str, call: int | None, settings: "Settings") -> "ApprovalView":
    from ..operations.decisions import Decisions

    async def work(operations: "Operations") -> "ApprovalView":
        return await Decisions(operations).find(which, call=call)

    return with_operations(work, settings)


def _asked(view: "ApprovalView", answer: "Answer", settings: "Settings") -> "Answer":
    """Show the call to the person in front, have the sums of money in it typed again, and why it may go, where its risk
    is high."""
    from dataclasses import replace

    from ..operations.demands import tier_of
    from .render import approval_lines

    says_why = answer.status == "approved" and tier_of(view) == "high" and not answer.note.strip()
    if view.status != "pending" or not answer.lets_go(view) or not (view.money or view.unread or says_why):
        return answer
    print_lines(approval_lines(view), settings.color, to_stderr=True)
    typed = tuple(ask(f"type the amount of {one.field} to let it go:") for one in view.money)
    typed += tuple(ask(f"type {one.field} letter by letter to let it go:") for one in view.unread)
    if not all(typed):
        raise UsageError(f"approval {view.id}: no amount was typed; nothing was decided")
    note = ask("its risk is high; say why it may go:") if says_why else answer.note
    return replace(answer, amounts=typed, note=note, expect_digest=answer.expect_digest or view.digest)
