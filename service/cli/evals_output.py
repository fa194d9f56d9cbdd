"""How a measurement is shown: as tables or JSON on stdout, as a picture, and as a folder with all three."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .terminal import note, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

    from callboard.evals.tables import Table

Picture = Annotated[
    Path | None, typer.Option("--picture", metavar="FILE.svg", help="Also draw the figures into this file.")
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FOLDER", help="Also write NAME.json, NAME.md and NAME.svg into this folder."),
]


def show(
    name: str,
    report: "msgspec.Struct",
    tables: "Sequence[Table]",
    *,
    json: bool,
    picture: Path | None = None,
    folder: Path | None = None,
) -> None:
    """Print a report, and write what was asked for; what was written is said on stderr.

    Raises:
        CannotWrite: a file cannot be written. NoPicture: nobody knows how to draw this report.
    """
    import msgspec

    from callboard.evals.pictures import picture_of
    from callboard.evals.reports import write_file, write_report

    from .render import print_table

    document = msgspec.to_builtins(report)
    written = [] if folder is None else write_report(folder, name, report, tables)
    if picture is not None:
        written.append(write_file(picture, picture_of(document).encode()))
    if json:
        print_json(document)
    else:
        for columns, rows in tables:
            print_table(columns, rows)
    for path in written:
        note(f"wrote {path}")
