"""The command that tells who did what: `audit`."""

from typing import TYPE_CHECKING, Annotated

import typer

from .options import Color, Dsn, Json, Jsonl, Time, Watch
from .terminal import note

if TYPE_CHECKING:
    from ...persistence.operating import AuditRow
    from ..operations.runs import Operations
    from .times import When
    from .watch import Document


def add_to(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("audit")(audit)


def audit(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|OBJECT",
            help="A run (with the decisions on its calls), or the beginning of what something was done to: an "
            "approval's id, an actor's address.",
        ),
    ] = "",
    *,
    who: Annotated[str, typer.Option("--who", metavar="NAME", help="Only what this principal did.")] = "",
    action: Annotated[
        str, typer.Option("--action", help="submit, tell, cancel, fork, pause, resume, decide, sign, take back, …")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many rows.")] = 100,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Jsonl = False,
) -> None:
    """Tell who did what, newest first.

    Each row was written in the transaction of what it tells of: when, who (and what they call themselves), by which
    channel and from where, what to what, from which state to which, and their note.
    """
    from ..operations.audit import AuditTrail, audit_document
    from ..settings import read_settings
    from .watch import Shown, watched

    async def read(operations: "Operations") -> "list[AuditRow]":
        return await AuditTrail(operations).list(object=what, who=who, action=action, limit=limit + 1)

    def print_(found: "list[AuditRow]", when: "When") -> None:
        if not found:
            note("nothing of that kind was done" if what or who or action else "nothing was done yet")
            return
        _print(found[:limit], when)
        if len(found) > limit:
            note("there are more; --limit shows them")

    def document(found: "list[AuditRow]") -> "Document":
        return audit_document(found[:limit], complete=len(found) <= limit)

    shown = Shown(json=json, jsonl=jsonl, watch=watch, time=time)
    watched(read, print_, read_settings(dsn=dsn, color=color), shown, document=document)


def _print(found: "list[AuditRow]", when: "When") -> None:
    from .render import print_table

    rows = [
        (
            when(row.at),
            f"{row.who} ({row.label})" if row.label else row.who,
            " ".join(part for part in (row.channel, row.host) if part) or "-",
            row.action,
            row.object,
            f"{row.before} -> {row.after}" if row.after not in ("", row.before) else row.before,
            row.note,
        )
        for row in found
    ]
    print_table(("when", "who", "from", "did", "what", "state", "note"), rows)
