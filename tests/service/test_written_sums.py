"""Sums that are written out with their currency, and those that a tool declares: read beyond doubt, or not at all."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.persistence.rows import Decision
from callboard.service.operations import currency
from callboard.service.operations.demands import demand_of, tier_of
from callboard.service.operations.money import sums_in, unread_in
from callboard.service.operations.principal import Principal
from callboard.service.operations.views import ApprovalView, approval_view

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
CODES = sorted(currency._CODES)
SIGNS = sorted(currency._SIGNS)
NUMBERS = st.one_of(
    st.integers(0, 10**9).map(str),
    st.decimals(0, 10**9, places=2).map(lambda number: f"{number:f}"),
    st.decimals(1000, 10**9, places=2).map(lambda number: f"{number:,f}"),
)
DOUBTFUL = st.sampled_from(
    ["480,00", "1.234", "1,234", "1.234,50", "4 80,5", "480k", "480.-", "1e3", "12,34,567", "1'000"]
)


def view(arguments: dict[str, Any], provenance: str = "", **more: Any) -> ApprovalView:
    written = msgspec.json.encode(arguments).decode()
    row = Decision("d.1", "/a/run:1", "1", 1, "/a/approvals", "approval", "pay", written, "0" * 64, "why")
    row.provenance = provenance
    for name, value in more.items():
        setattr(row, name, value)
    return approval_view(row, "1")


def read(text: str, **beside: Any) -> list[str]:
    return [one.text for one in sums_in({"amount": text, **beside})]


@pytest.mark.parametrize(
    ("text", "sum_"),
    [
        ("US$480", "USD 480"), ("480 PLN", "PLN 480"), ("PLN 480", "PLN 480"), ("C$480.00", "CAD 480.00"),
        ("A$ 480", "AUD 480"), ("Fr. 480", "CHF 480"), ("480 Fr.", "CHF 480"), ("kr 480", "kr 480"),
        ("480 kr", "kr 480"), ("$480", "$ 480"), ("€480", "EUR 480"), ("480 €", "EUR 480"), ("480€", "EUR 480"),
        ("-€5", "EUR -5"), ("€-5.00", "EUR -5.00"), ("480 zł", "PLN 480"), ("£1,900.00", "GBP 1900.00"),
        ("$480.00 USD", "USD 480.00"), ("NZ$5", "NZD 5"), ("R$ 5", "BRL 5"), ("480 usd", "USD 480"),
        ("480 euros", "EUR 480"), ("480\u00a0EUR", "EUR 480"), ("¥480", "¥ 480"), ("CHF480", "CHF 480"),
    ],
)  # fmt: skip
def test_a_sum_with_its_currency_is_read(text: str, sum_: str) -> None:
    assert read(text) == [sum_] and unread_in({"amount": text}) == []


@unhurried
@given(st.sampled_from(CODES), NUMBERS, st.booleans(), st.sampled_from(["", " ", "\u00a0"]))
def test_every_code_is_read_before_and_behind_a_number(code: str, number: str, before: bool, gap: str) -> None:
    text = f"{code}{gap}{number}" if before else f"{number}{gap}{code}"
    [one] = sums_in({"amount": text})
    assert (one.currency, one.value) == (code, Decimal(number.replace(",", "")))
    assert unread_in({"amount": text}) == []


@unhurried
@given(st.sampled_from(SIGNS), NUMBERS, st.booleans())
def test_every_sign_is_read_before_and_behind_a_number(sign: str, number: str, before: bool) -> None:
    [one] = sums_in({"amount": f"{sign} {number}" if before else f"{number} {sign}"})
    meant = currency._SIGNS[sign]
    assert one.currency == (meant[0] if len(meant) == 1 else sign)
    assert one.value == Decimal(number.replace(",", ""))


@unhurried
@given(st.sampled_from([*CODES, *SIGNS, ""]), st.one_of(NUMBERS, DOUBTFUL), st.sampled_from([*CODES, *SIGNS, ""]))
def test_a_number_where_a_sum_stands_is_asked_for_whatever_is_beside_it(mark: str, number: str, after: str) -> None:
    arguments = {"amount": f"{mark} {number} {after}".strip()}
    assert len(sums_in(arguments)) + len(unread_in(arguments)) == 1


@unhurried
@given(st.sampled_from([*CODES, *SIGNS]), DOUBTFUL)
def test_what_could_be_read_in_two_ways_is_repeated_as_it_stands_and_takes_the_strongest_confirmation(
    mark: str, number: str
) -> None:
    for text in (f"{mark} {number}", f"{number} {mark}"):
        one = view({"amount": text}, risk="low")
        assert (one.money, [each.text for each in one.unread]) == ([], [text])
        demand = demand_of(one, Principal("mara", "tui"))
        assert (demand.tier, demand.note, demand.hold_seconds) == ("high", True, 60.0)
        assert [(each.text, each.exact) for each in demand.repeat] == [(text, True)]


@pytest.mark.parametrize(
    "text",
    [
        "480-500 EUR", "EUR 480/500", "48¢", "480 dollars", "R480", "≈480", "5%", "٤٨٠", "US＄480", "480 E\u200bUR",
        "4.8m $",
    ],
)  # fmt: skip
def test_what_nobody_can_read_beyond_doubt_is_not_dropped(text: str) -> None:
    assert read(text) == [] and [one.text for one in unread_in({"amount": text})] == [text]


@pytest.mark.parametrize(
    ("text", "beside", "sums", "unread"),
    [
        ("$480", {"currency": "CAD"}, ["CAD 480"], []),
        ("480 kr", {"currency": "NOK"}, ["NOK 480"], []),
        ("480 EUR", {"currency": "EUR"}, ["EUR 480"], []),
        ("480", {"currency": "€"}, ["EUR 480"], []),
        ("480", {"currency_code": "pln"}, ["PLN 480"], []),
        ("480 EUR", {"currency": "USD"}, [], ["480 EUR"]),
        ("$480", {"currency": "EUR"}, [], ["$480"]),
        ("$480 EUR", {}, [], ["$480 EUR"]),
    ],
)
def test_two_currencies_for_one_sum_are_a_doubt(
    text: str, beside: dict[str, str], sums: list[str], unread: list[str]
) -> None:
    assert read(text, **beside) == sums
    assert [one.text for one in unread_in({"amount": text, **beside})] == unread


def test_of_what_is_in_cents_by_its_name_a_written_sum_may_be_either() -> None:
    assert unread_in({"amount_cents": "480 EUR"})[0].text == "480 EUR" and sums_in({"amount_cents": "480 EUR"}) == []


@pytest.mark.parametrize("text", ["US$480", "480 PLN", "EUR 480.00", "kr 480", "Fr. 480"])
def test_a_value_that_is_a_sum_by_itself_is_one_whatever_it_is_called(text: str) -> None:
    assert len(sums_in({"limit": text, "to": "ann"})) == 1 and tier_of(view({"limit": text})) == "money"
    assert tier_of(view({"limit": text.replace("480.00", "480").replace("480", "1.480")})) == "high"


@pytest.mark.parametrize(
    "text",
    [
        "I paid €480 and want it back", "ALL 5", "TOP 100", "AMD 5600", "EUR123", "order 5", "+48 123 456", "", "EUR",
        "R12",
    ],
)  # fmt: skip
def test_names_sentences_and_numbers_of_other_things_are_no_sums(text: str) -> None:
    assert sums_in({"memo": text}) == [] and unread_in({"memo": text}) == []


# --- what a tool declares ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "declared", "sums"),
    [
        ({"amount_cents": 48000}, {"amount_cents": "USD minor"}, ["USD 480.00"]),
        ({"units": 48000}, {"units": "JPY minor"}, ["JPY 48000"]),
        ({"units": 48000}, {"units": "KWD minor"}, ["KWD 48.000"]),
        ({"units": 48000, "currency": "EUR"}, {"units": "minor"}, ["EUR 480.00"]),
        ({"lines": [{"p": 5}, {"p": 7}]}, {"lines[].p": "EUR"}, ["EUR 5", "EUR 7"]),
        ({"pay": {"value": 500, "currency": "JPY"}}, {"pay": "minor"}, ["JPY 500"]),
        ({"pays": [100, 250]}, {"pays": "USD minor"}, ["USD 1.00", "USD 2.50"]),
        ({"amount": 5, "fee": 1}, {"fee": "EUR"}, ["5", "EUR 1"]),
        ({"price": None}, {"price": "EUR"}, []),
    ],
)
def test_a_declared_sum_is_read_as_its_tool_says(arguments: Any, declared: dict[str, str], sums: list[str]) -> None:
    assert [one.text for one in sums_in(arguments, declared)] == sums and unread_in(arguments, declared) == []


@pytest.mark.parametrize(
    ("arguments", "declared"),
    [
        ({"units": "all of it"}, {"units": "USD"}),
        ({"units": True}, {"units": "USD"}),
        ({"units": 5, "currency": "EUR"}, {"units": "USD"}),
        ({"pay": {"value": 5, "currency": "EUR"}}, {"pay": "USD"}),
        ({"units": "480 EUR"}, {"units": "USD"}),
        ({"units": "480,00"}, {"units": "USD"}),
    ],
)
def test_what_is_in_a_declared_place_and_no_such_sum_is_repeated_as_it_stands(
    arguments: Any, declared: dict[str, str]
) -> None:
    assert sums_in(arguments, declared) == [] and len(unread_in(arguments, declared)) == 1


def test_a_row_from_before_there_were_declarations_is_read_as_ever() -> None:
    old = view({"amount_cents": 48000}, '[{"path":"amount_cents","source":"goal","trust":"trusted","origin":""}]')
    assert [one.text for one in old.money] == ["480.00"] and old.sums == {} and len(old.provenance) == 1
    assert view({"amount_cents": 48000}).money == old.money


def test_what_is_declared_is_no_source_of_a_value() -> None:
    known = (
        '[{"path":"amount_cents","source":"goal","trust":"trusted","origin":""},'
        '{"path":"amount_cents","sum":"USD minor","source":"declared","trust":"trusted"}]'
    )
    one = view({"amount_cents": 48000}, known)
    assert [each.text for each in one.money] == ["USD 480.00"] and one.sums == {"amount_cents": "USD minor"}
    assert [each["source"] for each in one.provenance] == ["goal"]
