"""`bench days`: what it calls flat, and that it works at all."""

import msgspec
import pytest

from callboard.bench import days
from tests.service.conftest import ROOT

pytestmark = pytest.mark.anyio


def test_flat_is_what_the_line_through_all_points_says() -> None:
    level = [(float(x), 100.0 + 9.0 * (-1) ** x) for x in range(100)]
    assert days.trend(level).flat, "however much it swings"
    rising = days.trend([(float(x), 100.0 + x / 2) for x in range(100)])
    assert not rising.flat and rising.change == pytest.approx(0.4, abs=0.01)
    assert (rising.middle, rising.last) == (100.0, 149.5)
    assert days.trend([(float(x), 100.0 - x / 2) for x in range(100)]).flat, "what shrinks does not grow"
    assert days.trend([(0.0, 8192.0), (1.0, 16384.0)], slack=10_000.0).flat, "one page more is no growth"
    assert days.trend([]).flat


async def test_a_short_day_is_worked_through_and_reported(server_dsn: str) -> None:
    report = await days.measure(server_dsn, days.Sizes(runs=60, nodes=1, sample_seconds=0.2))
    assert report.runs == 60 and report.nodes == 1 and len(report.history) > 1
    assert {"actor", "journal", "turn", "message"} <= report.tables.keys() and "node 1" in report.memory


def test_the_day_that_is_kept_is_of_the_present_shape_and_flat() -> None:
    kept = (ROOT / "bench" / "results" / "days.json").read_bytes()
    report = msgspec.json.decode(kept, type=days.DaysReport)
    assert report.flat and not report.grows and report.runs == 200_000 and report.removed > 0.9 * report.runs
