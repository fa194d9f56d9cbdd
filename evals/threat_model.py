"""docs/THREAT_MODEL.md and its pictures, kept as the reports in `results/` have them.

The page is written by people; its measured parts stand between `<!-- measured: NAME -->` and `<!-- /measured -->`, and
are made here. So a figure on the page is a figure of a report, or the page is *stale*, which a test notices.
"""

import re
from pathlib import Path
from typing import Final

import msgspec

from callboard.evals.pictures import picture_of, texts_side_by_side
from callboard.evals.recorded import RESULTS, NoResult, recorded
from callboard.evals.reports import write_file
from callboard.evals.targets import Target, targets
from callboard.evals.threat_tables import MISSING, PARTS, Documents, Part
from callboard.evals.threat_texts import TEXT_PARTS
from callboard.mailbox.errors import UsageError

__all__ = ["DOCS", "RESULTS", "BadPage", "Judged", "judged", "made", "written"]

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = "THREAT_MODEL.md"
PICTURES: Final = "evals"
"""The folder beside the page."""
REPORTS: Final = (
    "agentdojo",
    "injections",
    "retail",
    "guardrails",
    "peers",
    "detector",
    "durability",
    "budget",
)
ALL_PARTS: Final[dict[str, Part]] = {**PARTS, **TEXT_PARTS}
_PART: Final = re.compile(r"(<!-- measured: ([a-z-]+) -->\n).*?(<!-- /measured -->)", re.DOTALL)
_MARK: Final = re.compile(r"<!-- /?measured\b")


class BadPage(UsageError):
    """The page is missing, or its marks do not fit; the sentence names it."""


class Judged(msgspec.Struct, frozen=True):
    """What is not current, and what the figures reach."""

    stale: list[str]
    """Files, and measured parts of the page, that the reports would make otherwise."""
    targets: list[Target]

    @property
    def good(self) -> bool:
        """Whether everything is current and every target holds."""
        return not self.stale and all(one.holds for one in self.targets)


def judged(results: Path = RESULTS, docs: Path = DOCS) -> Judged:
    """Hold the page and its pictures against the kept reports.

    Raises:
        BadPage: it is missing or its marks do not fit. NoResult: a kept report is damaged, or too old.
    """
    found = kept(results)
    stale = [path.name for path, data in made(found, docs).items() if _read(path) != data]
    return Judged(stale, targets(found))


def written(results: Path = RESULTS, docs: Path = DOCS) -> list[Path]:
    """Make the page's measured parts and the pictures anew; the files that changed.

    Raises:
        BadPage, NoResult: as `judged`. CannotWrite: a file cannot be written.
    """
    changed = {path: data for path, data in made(kept(results), docs).items() if _read(path) != data}
    if changed:
        (docs / PICTURES).mkdir(exist_ok=True)
    return [write_file(path, data) for path, data in changed.items()]


def kept(results: Path) -> Documents:
    """The kept reports that there are."""
    return {name: recorded(name, results) for name in REPORTS if (results / f"{name}.json").exists()}


def made(found: Documents, docs: Path) -> dict[Path, bytes]:
    """Every file as the reports make it: the page, and its pictures."""
    page = _read(docs / PAGE)
    if page is None:
        raise BadPage(f"{docs / PAGE} cannot be read; name its folder with --docs")
    files = {docs / PAGE: page_of(page.decode(), found).encode()}
    pictures = {name: picture_of(found[name]) for name in REPORTS if name in found}
    if "guardrails" in found:
        pictures["detection"] = texts_side_by_side(found["guardrails"], found.get("peers"))
    return files | {docs / PICTURES / f"{name}.svg": picture.encode() for name, picture in pictures.items()}


def page_of(text: str, found: Documents) -> str:
    """The page with its measured parts made anew.

    Raises:
        BadPage: a part has no end, or nobody knows how to make it.
    """
    if len(_MARK.findall(text)) != 2 * len(_PART.findall(text)):
        raise BadPage("a measured part of the page has no end, or an end has no beginning")
    return _PART.sub(lambda part: f"{part[1]}{_made(part[2], found)}\n{part[3]}", text)


def _made(name: str, found: Documents) -> str:
    if name not in ALL_PARTS:
        raise BadPage(f"nobody knows how to make the measured part {name!r}")
    needs, make = ALL_PARTS[name]
    if any(one not in found for one in needs):
        return MISSING
    try:
        return make(found)
    except (KeyError, msgspec.ValidationError) as error:
        raise NoResult(f"{' or '.join(needs)}: a kept report does not have what {name!r} shows: {error}") from None


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
