"""Numeric caps on arguments: of one call, and of all calls of a run together. Pure.

An amount that cannot be read as a number, or is beyond all reckoning, is over every cap. Signs do not count: a negative
amount uses up as much of a sum as a positive one; of a list the sum counts, or a call could be many.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from ..guard.profiles import Caps

MAX_DIGITS = 1_000
"""Of an amount before its point."""


def over_cap(tool: str, plain: Mapping[str, Any], caps: Caps, sums: Mapping[str, Decimal]) -> str | None:
    """Which cap a call would pass, as a sentence; None: none."""
    for name, cap in caps.get(tool, {}).items():
        amounts = list(_amounts(plain.get(name)))
        adds = sum((amount for amount in amounts if amount is not None), Decimal(0))
        if None in amounts:
            return f"{tool}: {name} has a limit, and is not a number here"
        if cap.each is not None and adds > cap.each:
            return f"{tool}: {name} is {adds}, above the limit of {cap.each} for one call"
        before = sums.get(f"{tool}.{name}", Decimal(0))
        if cap.total is not None and before + adds > cap.total:
            return (
                f"{tool}: {name} would come to {before + adds} in this run, above the limit of {cap.total} in all "
                f"({before} before)"
            )
    return None


def unknown_cap(tool: str, schema: Mapping[str, Any], caps: Caps) -> str | None:
    """Which limit is on an argument that the tool does not have: a name that was typed wrongly would limit nothing."""
    properties = schema.get("properties", {})
    wrong = next((name for name in caps.get(tool, {}) if name not in properties), None)
    return (
        None if wrong is None else f"{tool}: there is a limit on {wrong}, which it has no argument for; no call is made"
    )


def capped_amounts(tool: str, plain: Mapping[str, Any], caps: Caps) -> dict[str, Decimal]:
    """What a call adds to the sums that have a limit."""
    totals = [name for name, cap in caps.get(tool, {}).items() if cap.total is not None]
    adds = {name: sum((one for one in _amounts(plain.get(name)) if one is not None), Decimal(0)) for name in totals}
    return {name: amount for name, amount in adds.items() if amount}


def _amounts(value: Any) -> Iterator[Decimal | None]:
    """The amounts in an argument, without their signs; None for what is no number."""
    if isinstance(value, list):
        for item in value:
            yield from _amounts(item)
    elif value is not None:
        try:
            amount = (
                Decimal(str(value)) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
            )
        except (InvalidOperation, ValueError):  # an int of thousands of digits cannot be written
            amount = None
        # By its size first: the sum of "9e999999" and itself is an error, and would end the run instead of the call.
        fits = amount is not None and amount.is_finite() and (not amount or amount.adjusted() <= MAX_DIGITS)
        yield abs(amount) if amount is not None and fits else None
