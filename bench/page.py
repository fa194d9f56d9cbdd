"""docs/BENCHMARKS.md and its picture, kept as the reports in `results/` have them.

The page is written by people; its measured parts stand between `<!-- measured: NAME -->` and `<!-- /measured -->` and
are made here. So a figure on the page is a figure of a kept report, or the page is *stale*, which a test notices.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

from callboard.bench.everything import RESULTS
from callboard.bench.page_goals import goals
from callboard.bench.page_tables import PARTS, Documents
from callboard.evals.svg import Bars, Value, drawn

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = "BENCHMARKS.md"
PICTURE: Final = "bench/peers.svg"
GOALS: Final = "goals"
MISSING: Final = "*Not measured yet.*"
_PART: Final = re.compile(r"(<!-- measured: ([a-z-]+) -->\n).*?(<!-- /measured -->)", re.DOTALL)
_MARK: Final = re.compile(r"<!-- /?measured\b")


class BadPage(Exception):
    """The marks of the page do not fit; the sentence says which."""


def kept(results: Path = RESULTS) -> Documents:
    """The kept reports that the page shows, those that there are."""
    names = {name for name, _ in PARTS.values()}
    files = {name: results / f"{name}.json" for name in sorted(names)}
    return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}


def stale(results: Path = RESULTS, docs: Path = DOCS) -> list[str]:
    """Files that the kept reports would make otherwise.

    Raises:
        BadPage: the marks do not fit.
    """
    return [path.name for path, text in made(kept(results), docs).items() if _read(path) != text]


def written(results: Path = RESULTS, docs: Path = DOCS) -> list[Path]:
    """Make the page's measured parts and the picture anew; the files that changed.

    Raises:
        BadPage: the marks do not fit.
    """
    changed = {path: text for path, text in made(kept(results), docs).items() if _read(path) != text}
    for path, text in changed.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(changed)


def made(found: Documents, docs: Path) -> dict[Path, str]:
    """Each file as the reports make it."""
    files = {docs / PAGE: page_of(_read(docs / PAGE) or "", found)}
    if "peers" in found:
        files[docs / PICTURE] = picture(found["peers"])
    return files


def page_of(text: str, found: Documents) -> str:
    """The page with its measured parts made anew.

    Raises:
        BadPage: a part has no end, or nobody knows how to make it.
    """
    if len(_MARK.findall(text)) != 2 * len(_PART.findall(text)):
        raise BadPage("a measured part of the page has no end, or an end has no beginning")
    return _PART.sub(lambda part: f"{part[1]}{_made(part[2], found)}\n{part[3]}", text)


def _made(name: str, found: Documents) -> str:
    if name == GOALS:
        return goals(found)
    if name not in PARTS:
        raise BadPage(f"nobody knows how to make the measured part {name!r}")
    report, make = PARTS[name]
    return make(found[report]) if report in found else MISSING


def picture(report: dict[str, Any]) -> str:
    """CPU of a step as bars, client and server on each other; least first."""
    figures = [one for one in report["figures"] if one["work"] == "step" and one["server_cpu_us"] is not None]
    charts = []
    for at_once in sorted({one["at_once"] for one in figures}, reverse=True):
        some = sorted((one for one in figures if one["at_once"] == at_once), key=lambda one: float(one["cpu_us"]))
        charts.append(
            Bars(
                title="CPU of an agent step, " + ("one run alone" if at_once == 1 else f"{at_once} runs at once"),
                series=("client", "server"),
                groups=tuple((one["label"], _stack(one)) for one in some),
                unit="number",
                axis="milliseconds of CPU for one iteration: a model call and a tool call, both recorded",
                stacked=True,
            )
        )
    return drawn("CPU of an agent step, Callboard and others", charts)


def _stack(figure: dict[str, Any]) -> tuple[Value, Value]:
    client, server = figure["client_cpu_us"] / 1e3, figure["server_cpu_us"] / 1e3
    return Value(client), Value(server, text=f"{client + server:.2f} ms ({client:.2f} + {server:.2f})")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
