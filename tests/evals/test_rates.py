"""Shares and their intervals."""

import pytest

from callboard.evals.rates import percent, rate, rate_of


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (10, 100, 0.0552, 0.1744),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (1, 1, 0.2065, 1.0),
        (500, 1000, 0.4691, 0.5309),
    ],
)
def test_the_interval_is_wilsons(count: int, of: int, low: float, high: float) -> None:
    found = rate(count, of)
    assert (found.low, found.high) == (low, high)


def test_of_nothing_everything_is_possible() -> None:
    assert (rate(0, 0).low, rate(0, 0).high, percent(rate(0, 0))) == (0.0, 1.0, "–")


@pytest.mark.parametrize(("count", "of"), [(-1, 3), (4, 3)])
def test_what_is_no_share_is_refused(count: int, of: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        rate(count, of)


def test_flags_are_counted() -> None:
    assert rate_of(iter([True, False, True])).count == 2
