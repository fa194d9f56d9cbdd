"""`prune`: retention by hand, or by a timer of the operating system."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ...mailbox.errors import UsageError
from .confirming import confirmed
from .options import Dsn, Json
from .progress import progress
from .session import with_operations
from .terminal import note, print_json, print_row
from .times import utc

if TYPE_CHECKING:
    from ...persistence.retention import OldKind
    from ..archive import ArchiveFile
    from ..operations.pruning import Pruned
    from ..operations.runs import Operations

_UNITS = {"h": 3_600, "d": 86_400, "w": 604_800}
"""Not minutes: a node remembers an actor for two of them, and would still say of one that is gone that it has ended."""


def add_to(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("prune")(prune)


def prune(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="What ended so long ago goes: 12h, 30d, 8w.")
    ],
    what: Annotated[
        str,
        typer.Option(
            "--what",
            metavar="LIST",
            help="Of runs,turns,dead-letters,decisions,client-ids,answers,client-mailboxes,audit; all but audit unless "
            "said.",
        ),
    ] = "",
    archive: Annotated[
        Path | None,
        typer.Option(
            "--archive",
            metavar="FILE",
            help="Write what goes to this new file first, as JSON lines; .gz is compressed.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go; change nothing.")] = False,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=10_000, help="Things that one transaction removes, at most.")
    ] = 500,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Remove what ended long ago and nothing needs any more.

    Runs go whole, with journal, turns and decisions. Nothing goes that an open run, child, timer, decision, dead letter
    or fork still needs; client ids are known for seven days at any rate. It works in small transactions beside nodes at
    work, and can be ended and run again at any time. With --archive nothing goes before its line is on the disk.

    Exit codes: 2 a time, a list or a file that cannot be, 4 the right to it is missing.
    """
    from ..archive import ArchiveFile
    from ..operations.pruning import USUAL, Pruning
    from ..settings import read_settings

    seconds = _seconds(older_than)
    kinds = _kinds(what) if what else USUAL
    file = None if archive is None or dry_run else ArchiveFile(archive)
    settings = read_settings(dsn=dsn)
    question = f"what ended before {older_than} is removed ({', '.join(kinds)}), and is gone for good"
    if not dry_run and not confirmed("prune", yes=yes, what=question):
        return

    async def work(operations: "Operations") -> "Pruned":
        with progress("looking" if dry_run else "pruning") as advance:
            pruning = Pruning(operations)
            with file or nullcontext():
                return await pruning.prune(
                    seconds, kinds, dry_run=dry_run, archive=file, batch=batch, told=lambda _: advance()
                )

    _show(with_operations(work, settings), file, json=json)


def _show(found: "Pruned", file: "ArchiveFile | None", *, json: bool) -> None:
    written = {"archive": str(file.path), "archived": file.lines, "archive_bytes": file.size_bytes} if file else {}
    if json:
        kinds = [
            {"kind": one.kind, "items": one.items, "rows": one.rows, "bytes": one.bytes, "batches": one.batches}
            for one in found.kinds
        ]
        done = {"ended_before": utc(found.before), "dry_run": found.dry_run, "complete": found.complete}
        print_json({"schema": "callboard.pruned/1", **done, "kinds": kinds, **written})
        return
    would = "would go" if found.dry_run else "gone"
    for one in found.kinds:
        if one.items:
            print_row((one.kind, f"{one.items} {would}", f"{one.rows} rows", _size(one.bytes)))
    if not any(one.items for one in found.kinds):
        note(f"nothing that may go ended before {utc(found.before)}")
    elif file is not None:
        note(f"{file.lines} lines, {_size(file.size_bytes)}, are in {file.path}")


def _size(count: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([hdw])", text.strip())
    if found is None or not int(found[1]):
        raise UsageError(f"--older-than: expected a time such as 12h, 30d or 8w, got {text[:40]!r}")
    return int(found[1]) * _UNITS[found[2]]


def _kinds(text: str) -> "tuple[OldKind, ...]":
    from ...persistence.retention import OLD_KINDS

    named = [part.strip() for part in text.split(",")]
    wrong = [name for name in named if name not in OLD_KINDS]
    if wrong:
        raise UsageError(f"--what: expected some of {', '.join(OLD_KINDS)}; got {wrong[0][:40]!r}")
    return cast("tuple[OldKind, ...]", tuple(named))
