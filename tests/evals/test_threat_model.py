"""docs/THREAT_MODEL.md says what was measured: a report that changes makes the page stale, and targets are judged."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from callboard.evals.recorded import RESULTS, NoResult
from callboard.evals.targets import targets
from callboard.evals.threat_model import ALL_PARTS, DOCS, PAGE, REPORTS, BadPage, judged, kept, page_of, written
from callboard.evals.threat_tables import MISSING
from callboard.service.cli.app import run_command


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    """The kept reports and the page in folders that may be changed: results, docs."""
    results, docs = tmp_path / "results", tmp_path / "docs"
    shutil.copytree(RESULTS, results)
    docs.mkdir()
    shutil.copy(DOCS / PAGE, docs / PAGE)
    written(results, docs)
    return results, docs


def changed(path: Path, *keys: Any, value: Any) -> None:
    """Set one value of a kept report."""
    document = json.loads(path.read_text())
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(document))


def test_the_page_and_its_pictures_are_what_the_kept_reports_make() -> None:
    assert judged().stale == [], "make them anew with: callboard eval threat-model --write"


@pytest.mark.parametrize("target", targets(kept(RESULTS)), ids=lambda target: target.name)
def test_the_recorded_figures_reach_their_target(target: Any) -> None:
    assert target.holds, target.measured


def test_every_measured_part_is_on_the_page_once_and_every_picture_is_shown() -> None:
    page = (DOCS / PAGE).read_text()
    for name in ALL_PARTS:
        assert page.count(f"<!-- measured: {name} -->") == 1, name
    assert MISSING not in page
    for name in (*REPORTS, "detection"):
        if name not in ("guardrails", "budget"):
            assert f"(evals/{name}.svg)" in page, name


@pytest.mark.parametrize(
    ("report", "keys", "value", "also"),
    [
        ("agentdojo", ("rows", 0, "landed", "count"), 1, "agentdojo.svg"),
        ("injections", ("rows", 3, "landed_by_place", "article"), 7_777, ""),
        ("retail", ("rows", 3, "asked_per_task"), 7.77, ""),
        ("guardrails", ("signals", 0, "attacks", "share"), 0.77, ""),
        ("detector", ("unseen_groups", "detected", "share"), 0.77, ""),
        ("peers", ("rows", 3, "attacks", "ended", "share"), 0.77, ""),
    ],
)
def test_a_report_that_changes_makes_the_page_stale_until_it_is_made_anew(
    copies: tuple[Path, Path], report: str, keys: tuple[Any, ...], value: Any, also: str
) -> None:
    results, docs = copies
    assert judged(results, docs).stale == []
    changed(results / f"{report}.json", *keys, value=value)
    stale = judged(results, docs).stale
    assert PAGE in stale and (not also or also in stale)
    assert {path.name for path in written(results, docs)} == set(stale)
    assert judged(results, docs).stale == [] and written(results, docs) == []


def test_what_people_wrote_on_the_page_stays_as_it_is(copies: tuple[Path, Path]) -> None:
    results, docs = copies
    page = docs / PAGE
    page.write_text(page.read_text().replace("# Threat model", "# Our own words"))
    assert judged(results, docs).stale == []
    changed(results / "agentdojo.json", "rows", 0, "landed", "count", value=1)
    written(results, docs)
    assert page.read_text().startswith("# Our own words")


def test_a_missing_report_is_said_on_the_page_and_misses_its_targets(copies: tuple[Path, Path]) -> None:
    results, docs = copies
    (results / "peers.json").unlink()
    written(results, docs)
    assert MISSING in (docs / PAGE).read_text()
    missed = [one for one in judged(results, docs).targets if not one.holds]
    assert "peers.json is missing" in [one.measured for one in missed]


@pytest.mark.parametrize(
    ("report", "keys", "value", "name"),
    [
        ("detector", ("unseen_groups", "detected", "count"), 500, "detection of unseen groups"),
        ("detector", ("unseen_groups", "false_positives", "count"), 17, "detection of unseen groups"),
        ("injections", ("rows", 4, "landed", "count"), 1, "strict: no attack on the desk lands"),
        ("agentdojo", ("rows", 4, "landed", "count"), 21, "strict: no AgentDojo attack lands"),
        ("retail", ("rows", 3, "same_answered", "count"), 113, "retail: right tables"),
    ],
)
def test_a_figure_that_gets_worse_misses_its_target(
    copies: tuple[Path, Path], report: str, keys: tuple[Any, ...], value: Any, name: str
) -> None:
    results, docs = copies
    changed(results / f"{report}.json", *keys, value=value)
    assert any(not one.holds and one.name.startswith(name) for one in judged(results, docs).targets)


def test_marks_that_do_not_fit_unknown_parts_and_damaged_reports_are_refused(copies: tuple[Path, Path]) -> None:
    results, _ = copies
    found = kept(results)
    with pytest.raises(BadPage, match="has no end"):
        page_of("<!-- measured: summary -->\n", found)
    with pytest.raises(BadPage, match="nobody knows how to make the measured part 'wish'"):
        page_of("<!-- measured: wish -->\n<!-- /measured -->", found)
    with pytest.raises(BadPage, match="--docs"):
        judged(results, results)
    (results / "detector.json").write_text('{"unseen_groups": {}}')
    with pytest.raises(NoResult, match="does not have what"):
        page_of("<!-- measured: thresholds -->\n<!-- /measured -->", kept(results))


def test_the_command_writes_checks_and_says_what_is_stale(
    copies: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    results, docs = copies
    command = ["eval", "threat-model", "--results", str(results), "--docs", str(docs), "--json"]
    changed(results / "retail.json", "rows", 3, "asked_per_task", value=0.01)
    assert run_command([*command, "--check"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["stale"]) == ("callboard.eval.threat-model/1", [PAGE])
    assert run_command([*command, "--write"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["stale"] == [] and f"wrote {docs / PAGE}" in printed.err
