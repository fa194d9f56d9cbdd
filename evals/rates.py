"""A share of a count, with the interval in which the true one lies: Wilson's, at 95 %.

Wilson's interval is right for small counts and for 0 and 100 %, where the usual one claims certainty.
"""

import math
from collections.abc import Iterable
from typing import Final

import msgspec

Z_95: Final = 1.959963984540054


class Rate(msgspec.Struct, frozen=True):
    """`count` of `of`; `low` and `high` bound the share. All shares are between 0 and 1."""

    count: int
    of: int
    share: float
    low: float
    high: float


def rate(count: int, of: int) -> Rate:
    """A share with its interval. Of nothing, it may be anything: 0 to 1.

    Raises:
        ValueError: `count` is negative or more than `of`.
    """
    if not 0 <= count <= of:
        raise ValueError(f"{count} of {of} is no share")
    if of == 0:
        return Rate(0, 0, 0.0, 0.0, 1.0)
    share = count / of
    spread = Z_95 * math.sqrt(share * (1 - share) / of + Z_95**2 / (4 * of**2))
    centre, scale = share + Z_95**2 / (2 * of), 1 + Z_95**2 / of
    low = 0.0 if count == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if count == of else min(1.0, (centre + spread) / scale)
    return Rate(count, of, round(share, 4), round(low, 4), round(high, 4))


def rate_of(flags: Iterable[bool]) -> Rate:
    """The share of those that are true."""
    found = list(flags)
    return rate(sum(found), len(found))


def counted(one: Rate) -> str:
    """`23 of 616`."""
    return f"{one.count} of {one.of}"


def percent(one: Rate) -> str:
    """For people: `12.5 % [10.1–15.3] of 400`."""
    if one.of == 0:
        return "–"
    return f"{100 * one.share:.1f} % [{100 * one.low:.1f}–{100 * one.high:.1f}] of {one.of:,}"
