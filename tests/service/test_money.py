"""Sums of money in arguments: which are found, how they are shown, and that only the same ones let a call go."""

from decimal import Decimal
from typing import Any

import pytest

from callboard.mailbox.errors import UsageError
from callboard.service.operations.money import require_repeated, sums_in, unread_in


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


@pytest.mark.parametrize(
    "text", ["480,00", "480 EUR", "€480", "1e99", "NaN", "Infinity", "-Infinity", "1.234,50", "1" * 41, "USD 1'000"]
)
def test_what_looks_like_a_sum_and_cannot_be_read_is_repeated_letter_by_letter(text: str) -> None:
    arguments = {"order": "A-1", "refund": {"amount": text}}
    assert sums_in(arguments) == []
    unread = unread_in(arguments)
    assert [(one.field, one.text) for one in unread] == [("refund.amount", text)]
    for typed in ([], ["480"], [text + " "]):
        with pytest.raises(UsageError, match="cannot be read as a sum"):
            require_repeated([], typed, whose="a1", unread=unread)
    require_repeated([], [text], whose="a1", unread=unread)


@pytest.mark.parametrize(
    "arguments",
    [{"amount": "480.00"}, {"payment": "card_4242"}, {"refund": "RF-17"}, {"total": "all of it"}, {"note": "480,00"}],
)
def test_names_and_numbers_that_can_be_read_are_not_asked_for_as_text(arguments: dict[str, str]) -> None:
    assert unread_in(arguments) == []
