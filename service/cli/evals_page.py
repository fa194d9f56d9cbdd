"""`eval threat-model`: the tables and pictures of docs/THREAT_MODEL.md, made from the kept reports."""

from pathlib import Path
from typing import Annotated

import typer

from .errors import Exit
from .options import Json
from .terminal import note, print_json


def threat_model(
    write: Annotated[bool, typer.Option("--write", help="Make the tables and pictures anew.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if they are not current, or a target is missed.")
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="FOLDER", help="Holds the kept reports; evals/results by default."),
    ] = None,
    docs: Annotated[
        Path | None, typer.Option("--docs", metavar="FOLDER", help="Holds THREAT_MODEL.md; docs by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Whether docs/THREAT_MODEL.md says what was measured, and whether that reaches its targets."""
    from callboard.evals.threat_model import DOCS, RESULTS, judged, written

    from .render import print_table

    folder, page = results or RESULTS, docs or DOCS
    if write:
        for path in written(folder, page):
            note(f"wrote {path}")
    found = judged(folder, page)
    if json:
        print_json(
            {
                "schema": "callboard.eval.threat-model/1",
                "stale": found.stale,
                "targets": [{"name": one.name, "holds": one.holds, "measured": one.measured} for one in found.targets],
            }
        )
    else:
        print_table(
            ("target", "holds", "measured"),
            [(one.name, "yes" if one.holds else "NO", one.measured) for one in found.targets],
        )
        for name in found.stale:
            note(f"not current: {name}; make it anew with: callboard eval threat-model --write")
    if check and not found.good:
        raise typer.Exit(Exit.FAILED)
