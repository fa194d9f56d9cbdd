"""Several reports of one bench as one: each figure the median of theirs."""

from collections.abc import Sequence
from statistics import median
from typing import Any, TypeVar

import msgspec

Report = TypeVar("Report", bound=msgspec.Struct)


def median_of(reports: Sequence[Report]) -> Report:
    """One report; what is no number is taken from the first of them, and what one of them does not know from none.

    Raises:
        ValueError: they are not of one shape.
    """
    return msgspec.convert(merged([msgspec.to_builtins(one) for one in reports]), type(reports[0]))


def merged(values: list[Any]) -> Any:
    """The same of documents, or parts of them.

    Raises:
        ValueError: as `median_of`.
    """
    first = values[0]
    if len(values) == 1:
        return first
    if isinstance(first, dict):
        if any(not isinstance(one, dict) or one.keys() != first.keys() for one in values):
            raise ValueError(f"reports differ in what they hold: {sorted(first)}")
        return {key: merged([one[key] for one in values]) for key in first}
    if isinstance(first, list):
        if any(not isinstance(one, list) or len(one) != len(first) for one in values):
            raise ValueError("reports differ in how much they hold")
        return [merged(list(some)) for some in zip(*values, strict=True)]
    if any(one is None for one in values):
        return None
    if isinstance(first, int | float) and not isinstance(first, bool):
        middle = median(values)
        return round(middle) if all(isinstance(one, int) for one in values) else round(middle, 4)
    return first
