"""What a model costs: prices as data with a version, given by whoever pays. None are built in: they change monthly.

    version = "2026-11"

    [models."gpt-4o-mini"]      # USD per million tokens
    input = 0.15
    output = 0.60
    cached = 0.075

A model without a price costs nothing here, so a cost budget does not hold it; `Prices.of` tells the two apart. Models
on one's own machines are free without being named.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from callboard.mailbox.errors import CallboardError

ASSUMED_OUTPUT_TOKENS = 4_096
"""For the worst case of a call without `max_tokens`."""
BYTES_PER_TOKEN = 3
"""For the worst case: English has about four, most other scripts about three."""

_MILLION = Decimal(1_000_000)


class BadPrices(CallboardError):
    """A table of prices cannot be read."""


class Price(msgspec.Struct, frozen=True):
    """USD per million tokens."""

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    cached: Decimal | None = None
    """For input that the provider had in its cache; None: as any input."""

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> Decimal:
        """USD; `cached_tokens` are part of `input_tokens`."""
        cached = min(cached_tokens, input_tokens)
        dear = self.input if self.cached is None else self.cached
        return ((input_tokens - cached) * self.input + cached * dear + output_tokens * self.output) / _MILLION

    def worst_cost(self, prompt_tokens: int, max_tokens: int | None = None) -> Decimal:
        """USD at most for a call whose answer never came: nothing cached, and written to the end."""
        return self.cost(prompt_tokens, ASSUMED_OUTPUT_TOKENS if max_tokens is None else max_tokens)


FREE = Price()


class Prices(msgspec.Struct, frozen=True):
    """Prices by model, under one version."""

    models: Mapping[str, Price] = {}
    version: str = ""

    def of(self, model: str) -> Price | None:
        """The price of `model`; None: it has none."""
        return self.models.get(model)


def prices_from(table: Mapping[str, Any]) -> Prices:
    """Prices out of a decoded TOML or JSON table, shaped as at the top of this module.

    Raises:
        BadPrices: naming the model and the field that is wrong.
    """
    unknown = sorted(set(table) - {"version", "models"})
    models = table.get("models", {})
    if unknown or not isinstance(models, Mapping):
        raise BadPrices(f"a table of prices holds `version` and `models`, not {', '.join(unknown) or repr(models)}")
    read = {str(model): _price(str(model), row) for model, row in models.items()}
    return Prices(read, str(table.get("version", "")))


def _price(model: str, row: object) -> Price:
    if not isinstance(row, Mapping) or not row.keys() <= {"input", "output", "cached"}:
        raise BadPrices(f"the price of {model} is a table of input, output and cached, not {row!r:.200}")
    return Price(**{field: _usd(model, field, value) for field, value in row.items()})


def _usd(model: str, field: str, value: object) -> Decimal:
    try:
        amount = Decimal(str(value))  # by way of text: Decimal(0.15) has 54 digits
    except InvalidOperation:
        amount = Decimal("NaN")
    if isinstance(value, bool) or not amount.is_finite() or amount < 0:
        raise BadPrices(f"{field} of {model} is USD per million tokens, at least 0, not {value!r:.100}")
    return amount


def per_thousand(input_usd: float, output_usd: float) -> Price:
    """A price given per thousand tokens.

    Raises:
        BadPrices: for a negative amount, or none.
    """
    given = {"input": input_usd, "output": output_usd}
    return Price(**{field: _usd("the model", field, usd) * 1000 for field, usd in given.items()})


def estimated_tokens(request_bytes: int) -> int:
    """Tokens of a request of that many bytes, rather too many than too few."""
    return -(-request_bytes // BYTES_PER_TOKEN)
