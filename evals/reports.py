"""A report for people: its tables as Markdown, its figures as JSON and its picture, in one folder."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from callboard.evals.pictures import picture_of
from callboard.evals.tables import Table
from callboard.mailbox.errors import UsageError

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,59}")


class CannotWrite(UsageError):
    """A report or a picture has no place to go; the sentence names it."""


def markdown_table(table: Table) -> str:
    """A table as Markdown; what a cell holds cannot begin another cell or line."""
    columns, rows = table
    lines = [_line(columns), "|" + "---|" * len(columns), *(_line(row) for row in rows)]
    return "\n".join(lines)


def markdown_of(name: str, document: dict[str, Any], tables: Iterable[Table], *, picture: str = "") -> str:
    """A report's page: where it comes from, its tables, and the picture of that file name; "" for none."""
    parts = [f"# {name}", f"`callboard eval {name}`, shape `{document['schema']}`; the figures are in {name}.json."]
    if picture:
        parts.append(f"![{name}]({picture})")
    return "\n\n".join([*parts, *(markdown_table(table) for table in tables)]) + "\n"


def write_report(folder: Path, name: str, report: msgspec.Struct, tables: Sequence[Table]) -> list[Path]:
    """Write NAME.json, NAME.md and NAME.svg into `folder`, which is made where it is missing; their paths.

    Raises:
        CannotWrite: the folder or a file cannot be written. NoPicture: nobody knows how to draw this report.
    """
    if not _NAME.fullmatch(name):
        raise CannotWrite(f"a report cannot be called {name!r:.80}")
    document = msgspec.to_builtins(report)
    files = {
        f"{name}.json": encoded(report),
        f"{name}.md": markdown_of(name, document, tables, picture=f"{name}.svg").encode(),
        f"{name}.svg": picture_of(document).encode(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"{folder} cannot be made: {error.strerror or error}") from None
    return [write_file(folder / file, data) for file, data in files.items()]


def encoded(report: msgspec.Struct) -> bytes:
    """The report as it is kept in files: JSON for eyes, with a line's end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def write_file(path: Path, data: bytes) -> Path:
    """Write a file whole; its path.

    Raises:
        CannotWrite: with the path and the reason.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror or error}") from None
    return path


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"
