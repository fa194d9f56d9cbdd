"""Sums of money in arguments: which are found, how they are shown, and that only the same ones let a call go."""

from decimal import Decimal
from typing import Any

import pytest

from callboard.mailbox.errors import UsageError
from callboard.service.money import require_repeated, sums_in


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"amount": 480}, [("amount", "480")]),
        ({"amount": 480.5}, [("amount", "480.5")]),
        ({"amount": "480.00"}, [("amount", "480.00")]),
        ({"amount_cents": 12900}, [("amount_cents", "129.00")]),
        ({"refundAmountCents": 5}, [("refundAmountCents", "0.05")]),
        ({"total_usd": 3}, [("total_usd", "3")]),
        ({"pay": {"value": "9.90", "currency": "EUR"}}, [("pay.value", "9.90")]),
        ({"lines": [{"price": 1}, {"price": 2}]}, [("lines[0].price", "1"), ("lines[1].price", "2")]),
        ({"refunds": 2, "fee": 1}, [("refunds", "2"), ("fee", "1")]),
    ],
)
def test_sums_of_money_are_found_and_shown_in_whole_units(arguments: Any, expected: list[tuple[str, str]]) -> None:
    assert [(one.field, one.shown) for one in sums_in(arguments)] == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"order_id": "A-1", "quantity": 3},
        {"payment_method_id": "card_1", "value": 4},
        {"amount": True},
        {"amount": "all of it"},
        {"amount": "NaN"},
        {"amount": "9" * 100},
        [],
        None,
    ],
)
def test_what_is_no_sum_of_money_is_none(arguments: Any) -> None:
    assert sums_in(arguments) == []


def test_an_amount_is_the_same_number_however_it_is_written_and_no_other() -> None:
    money = sums_in({"amount_cents": 48000})
    require_repeated(money, ["480"], whose="it")
    require_repeated(money, ["480.00"], whose="it")
    for wrong in ("48000", "480.01", "48", "-480"):
        with pytest.raises(UsageError, match="nothing was decided"):
            require_repeated(money, [wrong], whose="it")


def test_every_sum_has_to_be_repeated() -> None:
    money = sums_in({"amount": 5, "fee": 1})
    require_repeated(money, ["1", "5"], whose="it")
    for wrong in ([], ["5"], ["5", "5"], ["6"], ["5", "1", "1"]):
        with pytest.raises(UsageError):
            require_repeated(money, wrong, whose="it")


def test_an_amount_for_a_call_without_money_is_a_mistake() -> None:
    require_repeated([], [], whose="it")
    with pytest.raises(UsageError, match="no amount"):
        require_repeated([], ["5"], whose="it")


def test_an_amount_that_is_no_number_is_named() -> None:
    with pytest.raises(UsageError, match="'five'"):
        require_repeated(sums_in({"amount": Decimal(5).__int__()}), ["five"], whose="it")
