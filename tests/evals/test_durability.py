"""`callboard eval durability`: real processes, real kills; that a double effect would show, and what it counts."""

import pytest

from callboard.evals.durability import COMMITS, Damage, DurabilityReport, measure
from callboard.evals.durability_table import durability_table

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def report(server_dsn: str) -> DurabilityReport:
    """A part of the whole: the commits around the first effects."""
    kills: list[int] = []
    done = measure(server_dsn, processes=1, sides=("before",), commits=range(4, 9), advance=lambda: kills.append(1))
    assert len(kills) == 11
    return done


def test_g1_g4_killed_before_a_commit_nothing_is_done_twice_and_nothing_is_lost(report: DurabilityReport) -> None:
    (row,) = report.rows
    assert row.kills == 5 and row.damage.none, row
    assert (report.steps, report.effects) == (15, 7)


def test_a_tool_that_ignores_its_key_is_noticed_so_the_zeros_can_be_something_else(report: DurabilityReport) -> None:
    assert report.control_noticed and report.control.damage.repeated_effects > 0
    assert report.control.kills == 6, "five by number, and one aimed at a payment"
    assert not report.control.damage.none


def test_only_the_promises_count_as_damage() -> None:
    assert Damage(calls_made_again=3).none
    assert not any(Damage(**{name: 1}).none for name in Damage.__struct_fields__[:5])
    assert Damage(1, 2) + Damage(0, 1, calls_made_again=1) == Damage(1, 3, calls_made_again=1)


def test_the_table_has_a_row_for_each_side_and_for_the_control(report: DurabilityReport) -> None:
    columns, rows = durability_table(report)
    assert [len(row) for row in rows] == [len(columns)] * 2
    assert rows[0][:7] == ("killed before the commit", "5", "0", "0", "0", "0", "0")


def test_more_commits_are_looked_at_than_a_run_has() -> None:
    assert COMMITS[0] == 1 and len(COMMITS) == 500
