"""Caps on amounts: of one call and of a run, whatever shape the model gives them (docs/GUARDRAILS.md)."""

from decimal import Decimal
from typing import Any

import pytest

from callboard.actors.agent.capping import capped_amounts, over_cap
from callboard.actors.guard.profiles import Cap

CAPS = {"pay": {"amount": Cap(each=Decimal(5_000), total=Decimal(8_000))}}


@pytest.mark.parametrize(
    "amount", [0, 5_000, -5_000, "5000", "5e3", 5_000.0, [2_000, 3_000], [[1_000], -4_000], [], None]
)
def test_an_amount_within_the_limit_passes_in_any_shape(amount: Any) -> None:
    assert over_cap("pay", {"amount": amount}, CAPS, {}) is None


@pytest.mark.parametrize(
    "amount", [5_001, -5_001, "5000.01", [5_000, 1], [3_000, -3_000], [[2_501], [2_500]], [1] * 5_001]
)
def test_a_limit_of_one_call_is_that_of_all_its_amounts_together(amount: Any) -> None:
    said = over_cap("pay", {"amount": amount}, CAPS, {})
    assert said is not None and said.endswith("above the limit of 5000 for one call")


@pytest.mark.parametrize(
    "amount", ["much", True, {"eur": 1}, "NaN", "Infinity", "9e9999", [10**5_000], [1, "x"], ["9e999999"] * 2]
)
def test_what_is_no_number_is_over_every_limit(amount: Any) -> None:
    assert over_cap("pay", {"amount": amount}, CAPS, {}) == "pay: amount has a limit, and is not a number here"


def test_what_one_call_may_it_may_not_in_pieces() -> None:
    sums = {"pay.amount": Decimal(0)}
    for _ in range(4):
        assert over_cap("pay", {"amount": [1_000, 1_000]}, CAPS, sums) is None
        sums["pay.amount"] += capped_amounts("pay", {"amount": [1_000, 1_000]}, CAPS)["amount"]
    said = over_cap("pay", {"amount": "0.01"}, CAPS, sums)
    assert said is not None and "would come to 8000.01 in this run" in said
