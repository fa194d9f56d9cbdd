"""Each bench runs in a tiny size and reports what it says it reports; how fast that was is nobody's business here."""

import json
from pathlib import Path

import msgspec
import pytest

from bench.__main__ import main, parser
from callboard.bench import messages, start, steps, tui, wake
from callboard.bench.meter import Latency, family_cpu, postmaster_of, quantile
from callboard.bench.table import lines

pytestmark = pytest.mark.timeout(900)
RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"


def test_steps_reports_both_phases_and_the_growth(server_dsn: str) -> None:
    sizes = steps.Sizes(steps=2, runs=4, runs_alone=1, at_once=2, growth_steps=12)
    report = steps.run(server_dsn, sizes)
    read = msgspec.json.decode(msgspec.json.encode(report), type=steps.StepsReport)
    assert read == report
    assert [(phase.at_once, phase.step.count) for phase in report.phases] == [(1, 2), (2, 8)]
    assert all(phase.step.transactions > 0 and phase.step.wal_bytes > 0 for phase in report.phases)
    assert [phase.between_model_calls.count for phase in report.phases] == [2, 8]
    assert report.growth is not None
    assert [place.step for place in report.growth.places] == [10]


def test_messages_reports_ring_drain_and_latency(server_dsn: str) -> None:
    sizes = messages.Sizes(
        ring_actors=5, ring_tokens=5, ring_messages=50, drain_actors=3, drain_messages=30, asks=3, ask_every_seconds=0.0
    )
    report = messages.run(server_dsn, sizes)
    assert msgspec.json.decode(msgspec.json.encode(report), type=messages.MessagesReport) == report
    assert (report.ring.message.count, report.drain.message.count) == (50, 30)
    assert report.ring.messages_per_commit >= 1
    assert report.sent_until_handled.count == report.sent_until_reply.count == 3
    assert 0 < report.sent_until_handled.p50_ms <= report.sent_until_reply.p99_ms


def test_wake_reports_what_waiting_costs_and_how_long_waking_takes(server_dsn: str) -> None:
    report = wake.run(server_dsn, wake.Sizes(parked=(3, 40), idle_seconds=0.2, wakes=4))
    assert msgspec.json.decode(msgspec.json.encode(report), type=wake.WakeReport) == report
    assert [(one.actors, one.wake.count) for one in report.parked] == [(3, 4), (40, 4)]
    assert all(one.in_memory <= 1 for one in report.parked), "who waits is not in memory: only the root supervisor is"
    assert all(0 < one.wake.p50_ms <= one.wake.p99_ms for one in report.parked)


def test_start_reports_what_commands_cost_and_that_help_loads_next_to_nothing(server_dsn: str) -> None:
    report = start.run(server_dsn, start.Sizes(commands=("runs --help", "runs"), times=1))
    assert msgspec.json.decode(msgspec.json.encode(report), type=start.StartReport) == report
    help_, runs = report.commands
    assert help_.modules < 120 < runs.modules, "how long it took is nobody's business here"
    assert report.python_cpu_ms > 0 and help_.cpu_ms > 0


def test_tui_reports_a_busy_screen_the_table_alone_and_how_the_list_opens(server_dsn: str) -> None:
    sizes = tui.Sizes(
        actors=30, changes_a_second=40, seconds=1.0, warm_seconds=0.2, lines_rows=(50,), datatable_rows=(50,),
        alone_times=4, opened_rows=(20,), opened_times=1,
    )  # fmt: skip
    report = tui.run(server_dsn, sizes)
    assert msgspec.json.decode(msgspec.json.encode(report), type=tui.TuiReport) == report
    assert report.busy.key_to_paint.count > 0 and report.busy.cpu_share > 0 and report.busy.frames_a_second > 0
    assert report.busy.key_to_paint.p50_ms <= report.busy.key_to_paint.p95_ms <= report.busy.key_to_paint.most_ms
    assert [(one.widget, one.rows) for one in report.alone] == [("lines", 50), ("datatable", 50)]
    assert [one.rows for one in report.ratios] == [50]
    assert [one.actors for one in report.opened] == [20]
    assert 0 < report.opened[0].first_frame_ms <= report.opened[0].rows_ms


def test_a_report_is_a_table_for_people_and_json_for_programs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Latency(3, 1.5, 2.0)
    monkeypatch.setattr(messages, "run", lambda *_: report)
    assert main(["messages", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"count": 3, "p50_ms": 1.5, "p99_ms": 2.0}
    assert main(["messages"]) == 0
    assert capsys.readouterr().out.splitlines() == list(lines(report))


def test_growth_can_be_left_out() -> None:
    assert parser().parse_args(["steps"]).growth
    assert not parser().parse_args(["steps", "--no-growth"]).growth


def test_quantiles_are_values_that_occurred() -> None:
    assert [quantile([3.0, 1.0, 2.0], part) for part in (0.0, 0.5, 0.99)] == [1.0, 2.0, 3.0]
    assert quantile([], 0.5) == 0.0


def test_cpu_that_cannot_be_seen_is_none_and_not_a_guess(tmp_path: Path) -> None:
    assert postmaster_of(str(tmp_path)) is None
    (tmp_path / "postmaster.pid").write_text("1\n")
    assert postmaster_of(str(tmp_path)) is None  # somebody else's process
    assert family_cpu(1) >= 0.0


@pytest.mark.parametrize(("name", "kind"), [("steps", steps.StepsReport), ("messages", messages.MessagesReport)])
def test_the_recorded_figures_are_of_the_present_shape(name: str, kind: type[msgspec.Struct]) -> None:
    text = (RESULTS / f"{name}.json").read_bytes()
    assert msgspec.json.decode(text, type=kind) is not None
    assert set(json.loads(text)) == set(kind.__struct_fields__)
