"""What calls cost, and what a lost one may have cost."""

import tomllib
from decimal import Decimal

import pytest

from callboard.actors.llm.openai import OpenAICompatibleClient
from callboard.actors.llm.prices import (
    ASSUMED_OUTPUT_TOKENS,
    BadPrices,
    Price,
    Prices,
    estimated_tokens,
    prices_from,
)

TABLE = """
version = "2026-11"

[models."gpt-4o-mini"]
input = 0.15
output = 0.60
cached = 0.075

[models.plain]
input = "0.1"
"""


def test_prices_are_read_as_they_are_written() -> None:
    prices = prices_from(tomllib.loads(TABLE))
    assert prices.version == "2026-11"
    assert prices.of("gpt-4o-mini") == Price(Decimal("0.15"), Decimal("0.60"), Decimal("0.075"))
    assert prices.of("plain") == Price(Decimal("0.1"))
    assert prices.of("unknown") is None
    assert prices_from({}) == Prices()


def test_cached_tokens_are_part_of_the_input_and_cost_their_own_price() -> None:
    price = Price(Decimal("0.15"), Decimal("0.60"), Decimal("0.075"))
    assert price.cost(1_000_000, 1_000_000) == Decimal("0.75")
    assert price.cost(1_000_000, 0, 400_000) == Decimal("0.12")
    assert price.cost(100, 0, 400) == price.cost(100, 0, 100)
    assert Price(Decimal(1)).cost(1_000, 0, 500) == Decimal("0.001")


def test_w20_the_worst_case_writes_to_the_end_and_has_nothing_in_the_cache() -> None:
    price = Price(Decimal(1), Decimal(10), Decimal("0.1"))
    assert price.worst_cost(1_000, 500) == Decimal("0.006")
    assert price.worst_cost(0) == ASSUMED_OUTPUT_TOKENS * Decimal(10) / 1_000_000
    assert [estimated_tokens(size) for size in (0, 1, 3, 4)] == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"models": []}, "holds `version` and `models`"),
        ({"gpt": {"input": 1}}, "not gpt"),
        ({"models": {"gpt": 3}}, "the price of gpt"),
        ({"models": {"gpt": {"inputs": 3}}}, "the price of gpt"),
        ({"models": {"gpt": {"input": -1}}}, "input of gpt"),
        ({"models": {"gpt": {"output": "much"}}}, "output of gpt"),
        ({"models": {"gpt": {"output": float("nan")}}}, "output of gpt"),
        ({"models": {"gpt": {"cached": True}}}, "cached of gpt"),
    ],
)
def test_a_table_that_cannot_be_read_is_told_by_model_and_field(table: dict[str, object], complaint: str) -> None:
    with pytest.raises(BadPrices, match=complaint):
        prices_from(table)


def test_da172_costs_per_thousand_win_over_the_table() -> None:
    prices = prices_from(tomllib.loads(TABLE))
    url = "http://models.example/v1"
    given = OpenAICompatibleClient(url, "gpt-4o-mini", cost_per_1k_input_tokens=0.001, prices=prices)
    assert given.price == Price(Decimal(1), Decimal(0))
    assert OpenAICompatibleClient(url, "gpt-4o-mini", prices=prices).price == prices.of("gpt-4o-mini")
    assert OpenAICompatibleClient(url, "else", prices=prices).price == Price()
    with pytest.raises(BadPrices):
        OpenAICompatibleClient(url, "m", cost_per_1k_output_tokens=-1)
