"""Ours beside others: the harness, without the net; and the page that shows what was kept."""

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from callboard.bench import everything, page, page_goals, page_tables
from callboard.bench.meter import Latency
from callboard.bench.peers import compare, contenders, environments
from callboard.bench.peers.process import Failed, Process, ours
from callboard.bench.rounds import median_of, merged

pytestmark = pytest.mark.timeout(900)
TINY = compare.Sizes(
    peers=(), rounds=1, runs_alone=1, runs=2, at_once=2, messages=20, floor_alone=2, floor_at_once=32,
    floor_group=200, warm_runs=1, warm_messages=10,
)  # fmt: skip
PEERS = {
    "bench": "peers", "rounds": 3, "minutes": 1.0, "not_measured": {"dbos": "no net"}, "schema": "x",
    "machine": {
        "cores": 2, "processor": "P", "memory_gib": 4.0, "system": "S", "python": "3.11.7", "postgres": "18.6",
        "fsync": "on", "synchronous_commit": "on", "sync_p50_ms": 0.3, "date": "2026-12-01",
    },
    "figures": [
        {
            "name": name, "label": label, "work": "step", "at_once": 50, "count": 2000, "rounds": 3,
            "client_cpu_us": client, "server_cpu_us": 200.0, "cpu_us": client + 200.0, "least_cpu_us": 1.0,
            "most_cpu_us": 2.0, "per_second": 1000.0, "wal_bytes": 900.0, "foreign_cores": 0.1,
            "versions": {name: "1.0"},
        }
        for name, label, client in (("callboard", "Callboard", 300.0), ("absurd", "Absurd & co", 2_800.0))
    ],
    "ratios": [{"name": "absurd", "work": "step", "at_once": 50, "cpu": 6.0, "rate": 3.0}],
}  # fmt: skip


def test_ours_and_the_floor_are_measured_and_who_was_not_asked_for_is_named(server_dsn: str) -> None:
    report = compare.run(server_dsn, TINY)
    assert msgspec.json.decode(msgspec.json.encode(report), type=compare.PeersReport) == report
    assert {(one.name, one.work, one.at_once) for one in report.figures} == {
        ("callboard", "step", 1), ("callboard", "step", 2), ("callboard", "message", 1),
        ("callboard-ring", "message", 1), ("single", "floor", 1), ("single", "floor", 32), ("group", "floor", 1),
    }  # fmt: skip
    assert report.not_measured == dict.fromkeys(contenders.PEERS, "not asked for")
    assert all(one.per_second > 0 and one.versions for one in report.figures)


def test_a_peer_that_cannot_be_installed_is_named_with_the_reason_and_nothing_is_guessed(
    server_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(*_: object) -> Path:
        raise environments.NotInstalled("no net here")

    monkeypatch.setattr(compare, "interpreter", nowhere)
    report = compare.run(server_dsn, msgspec.structs.replace(TINY, peers=("absurd",)))
    assert report.not_measured["absurd"] == "no net here"
    assert "absurd" not in {one.name for one in report.figures} | {one.name for one in report.ratios}


def test_a_contender_that_breaks_off_says_why(tmp_path: Path) -> None:
    adapter = tmp_path / "work_broken.py"
    adapter.write_text("PACKAGES = ()\nasync def opened(dsn, options):\n    raise RuntimeError('cannot be opened')\n")
    broken = contenders.Contender("broken", "Broken", "step", str(adapter))

    async def start() -> None:
        async with Process.of(broken, ours(), "postgresql://nowhere/x"):
            pytest.fail("it did come up")

    with pytest.raises(Failed, match="RuntimeError: cannot be opened"):
        anyio.run(start)


def test_medians_are_of_each_figure_and_nothing_is_made_up_where_one_does_not_know() -> None:
    assert median_of([Latency(3, 1.0, 5.0), Latency(3, 9.0, 6.0), Latency(3, 2.0, 7.0)]) == Latency(3, 2.0, 6.0)
    some = [msgspec.structs.replace(Latency(1, 1.0, 1.0), count=count) for count in (1, 2)]
    assert median_of(some).count in (1, 2)
    with pytest.raises(ValueError, match="differ in how much"):
        merged([[1], [1, 2]])
    assert merged([{"a": None, "b": "x"}, {"a": 2.0, "b": "y"}]) == {"a": None, "b": "x"}


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Path, Path]:
    """Folders of results and docs with the page, and a comparison that was kept."""
    results, docs = tmp_path / "results", tmp_path / "docs"
    docs.mkdir()
    (docs / page.PAGE).write_text((page.DOCS / page.PAGE).read_text())
    everything.keep(PEERS, results)
    page.written(results, docs)
    return results, docs


def test_the_page_and_its_picture_are_what_the_kept_reports_make() -> None:
    assert page.stale() == [], "make them anew with: python -m bench NAME --write"


def test_every_measured_part_is_on_the_page_once() -> None:
    text = (page.DOCS / page.PAGE).read_text()
    for name in (*page_tables.PARTS, page.GOALS):
        assert text.count(f"<!-- measured: {name} -->") == 1, name
    assert f"({page.PICTURE})" in text


def test_a_report_that_changes_makes_the_page_and_the_picture_stale_until_they_are_made_anew(
    kept: tuple[Path, Path],
) -> None:
    results, docs = kept
    assert page.stale(results, docs) == []
    document: dict[str, Any] = json.loads((results / "peers.json").read_text())
    document["figures"][1]["client_cpu_us"] = 7_777.0
    everything.keep(document, results)
    assert set(page.stale(results, docs)) == {"BENCHMARKS.md", "peers.svg"}
    page.written(results, docs)
    assert page.stale(results, docs) == [] and "7.78" in (docs / page.PAGE).read_text()


def test_the_picture_escapes_names_and_writes_both_parts_of_a_bar() -> None:
    drawn = page.picture(PEERS)
    assert "Absurd &amp; co" in drawn and "3.00 ms (2.80 + 0.20)" in drawn


def test_goals_are_judged_by_the_figures_and_a_missed_one_says_no() -> None:
    goals = list(page_goals.judged({"peers": PEERS}))
    assert [reached for _, _, reached in goals] == [True, True]
    slow = json.loads(json.dumps(PEERS))
    slow["figures"][0]["cpu_us"], slow["ratios"][0]["cpu"] = 900.0, 4.9
    assert [reached for _, _, reached in page_goals.judged({"peers": slow})] == [False, False]
    assert "**no**" in page_goals.goals({"peers": slow})


def test_a_page_whose_marks_do_not_fit_is_refused() -> None:
    with pytest.raises(page.BadPage, match="no end"):
        page.page_of("<!-- measured: peers-steps -->\nx", {})
    with pytest.raises(page.BadPage, match="nobody knows"):
        page.page_of("<!-- measured: who -->\nx\n<!-- /measured -->", {})
