"""Sums of money in arguments: which are found, how they are shown, and that only the same ones let a call go."""

import json
from decimal import Decimal
from typing import Any

import pytest

from callboard.mailbox.errors import UsageError
from callboard.service.operations.argument_paths import path_of, with_changes
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
        ({"amounts": [480, 20.5]}, [("amounts[0]", "480"), ("amounts[1]", "20.5")]),
        ({"amount": {"value": 480}}, [("amount.value", "480")]),
        ({"amount_cents": [100, 5]}, [("amount_cents[0]", "1.00"), ("amount_cents[1]", "0.05")]),
        ({"amount": "480.0000000000000000000000000000001"}, [("amount", "480.0000000000000000000000000000001")]),
        (
            {"amount_cents": "1234567890123456789012345678901234567"},
            [("amount_cents", "12345678901234567890123456789012345.67")],
        ),
        ({"amount_minor": 48000, "currency": "JPY"}, [("amount_minor", "48000")]),
        ({"amount_minor": 48000, "currency": "KWD"}, [("amount_minor", "48.000")]),
        ({"a.amount": 1, "a": {"amount": 2}}, [('["a.amount"]', "1"), ("a.amount", "2")]),
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
    "text",
    [
        "480\u200b",
        "480,00",
        "480,00 EUR",
        "€1.480",
        "1e99",
        "NaN",
        "Infinity",
        "-Infinity",
        "1.234,50",
        "1" * 41,
        "USD 1'000",
    ],
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


@pytest.mark.parametrize("value", [1e45, 10**50, -1e60])
def test_a_number_that_is_too_large_to_be_meant_is_repeated_as_it_stands(value: Any) -> None:
    [unread] = unread_in({"amount": value})
    with pytest.raises(UsageError, match="cannot be read as a sum"):
        require_repeated([], [], whose="a1", unread=[unread])
    require_repeated([], [json.dumps(value)], whose="a1", unread=[unread])


def test_currencies_are_those_of_the_sums_in_lists_and_within_objects() -> None:
    arguments = {"currency": "EUR", "amounts": [1], "fee_usd": 2, "amount": {"value": 3}}
    assert {one.field: one.currency for one in sums_in(arguments)} == {
        "amounts[0]": "EUR", "fee_usd": "USD", "amount.value": "EUR"
    }  # fmt: skip


def test_a_name_in_quotes_is_a_path_and_leads_to_that_value() -> None:
    arguments = {"a": {"b.c": 1, "": 2}, "x[0]": 3}
    for path, changed in (('a["b.c"]', {"b.c": 9, "": 2}), ('a[""]', {"b.c": 1, "": 9})):
        assert with_changes(arguments, {path: 9})["a"] == changed
    assert path_of("a", "b.c") == 'a["b.c"]' and path_of("", "") == '[""]' and path_of("a", "b") == "a.b"
    assert with_changes(arguments, {'["x[0]"]': 9})["x[0]"] == 9
    for wrong in ('a["b', 'a."b.c"', 'a["\\x"]'):
        with pytest.raises(UsageError):
            with_changes(arguments, {wrong: 9})
