"""Which of a call's arguments are sums of money, and whether somebody has repeated them.

Whoever approves a payment types its amount again: a habit of pressing enter cannot do that, nor can a script that was
written for another amount. A sum is read in one way only: as it is shown. `amount_cents: 12900` is shown, and typed, as
129.00; `amount: 480` as 480 (480.00 is the same number). What looks like a sum and is no number (`"480,00"`, `"1e99"`,
`"480 EUR"`) is repeated as the text that it is: the tool may read it, whatever we can.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from ...mailbox.errors import UsageError

_SUMS = {
    "amount", "charge", "cost", "credit", "debit", "fee", "payment", "payout", "price", "refund", "sum", "tip", "total"
}  # fmt: skip
_MINOR = {"cents", "minor", "pence"}
_CURRENCIES = {"chf", "dollars", "eur", "euros", "gbp", "jpy", "usd"}
_MAX_DIGITS = 40
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class Money(msgspec.Struct, frozen=True):
    """One sum in a call's arguments."""

    field: str
    """Where: `amount_cents`, `lines[0].price`."""
    value: Decimal
    """In whole units: 129.00 for 12900 cents."""

    @property
    def shown(self) -> str:
        """As people read and type it."""
        return f"{self.value:f}"


class Unread(msgspec.Struct, frozen=True):
    """A text in the place of a sum that is none we can read."""

    field: str
    text: str


_WORDS_OF_MONEY = re.compile(r"[\s€$£¥₹']|(?:chf|dollars?|euros?|eur|gbp|jpy|pounds?|usd)", re.IGNORECASE)
_NUMERIC = re.compile(r"[-+]?(?:[\d.,_]*\d[\d.,_]*(?:e[-+]?\d+)?|s?nan\d*|inf(?:inity)?)", re.IGNORECASE)


def unread_in(arguments: Any) -> list[Unread]:
    """Every text that stands where a sum of money does, looks like one, and cannot be read as a number."""
    return list(_walk_unread(arguments, ""))


def _walk_unread(value: Any, path: str) -> Iterator[Unread]:
    if isinstance(value, dict):
        priced = any(str(key).lower() == "currency" for key in value)
        for key, inner in value.items():
            place = f"{path}.{key}" if path else str(key)
            if isinstance(inner, str) and _unit(str(key), priced=priced) is not None:
                if _number(inner) is None and _NUMERIC.fullmatch(_WORDS_OF_MONEY.sub("", inner)):
                    yield Unread(place, inner)
            else:
                yield from _walk_unread(inner, place)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _walk_unread(inner, f"{path}[{position}]")


def sums_in(arguments: Any) -> list[Money]:
    """Every sum of money in plain JSON arguments, in the order they stand in."""
    return list(_walk(arguments, ""))


def _walk(value: Any, path: str) -> Iterator[Money]:
    if isinstance(value, dict):
        priced = any(str(key).lower() == "currency" for key in value)
        for key, inner in value.items():
            place = f"{path}.{key}" if path else str(key)
            unit = _unit(str(key), priced=priced)
            sum_ = None if unit is None else _number(inner)
            if sum_ is not None and unit is not None:
                yield Money(place, sum_ * unit)
            else:
                yield from _walk(inner, place)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _walk(inner, f"{path}[{position}]")


def _unit(name: str, *, priced: bool) -> Decimal | None:
    """What one of this field's units is worth in whole ones; None where it is no sum of money."""
    words = [word.lower() for word in _WORD.findall(name)]
    minor = bool(words) and words[-1] in _MINOR
    marked = minor or (bool(words) and words[-1] in _CURRENCIES)
    if marked:
        words.pop()
    known = bool(words) and (words[-1] in _SUMS or words[-1].removesuffix("s") in _SUMS)
    if not (marked or known or (priced and words == ["value"])):
        return None
    return Decimal("0.01") if minor else Decimal(1)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return read_amount(str(value) if isinstance(value, int) else value if isinstance(value, str) else repr(value))


def read_amount(text: str) -> Decimal | None:
    """A number as people write sums; None if it is none."""
    if len(text) > _MAX_DIGITS:
        return None
    try:
        number = Decimal(text.strip().replace("_", ""))
    except InvalidOperation:
        return None
    # By its size, before it is reckoned with or written out: "1e-999999999" would take a gigabyte of a screen.
    exponent = number.as_tuple().exponent
    return number if isinstance(exponent, int) and abs(exponent) <= _MAX_DIGITS else None


def require_repeated(sums: Sequence[Money], typed: Sequence[str], *, whose: str, unread: Sequence[Unread] = ()) -> None:
    """Return if `typed` are exactly these sums, in any order, and the texts of `unread`. `whose`: the id of their
    approval.

    Raises:
        UsageError: some are missing, are other sums, or are no numbers; nothing may be done then.
    """
    look = f"look at it: `callboard approvals show {whose}`"
    whose = f"approval {whose}"
    typed = list(typed)
    for one in unread:
        if one.text not in typed:
            raise UsageError(
                f"{whose}: {one.field} is {one.text[:40]!r}, which cannot be read as a sum; {look} and repeat it "
                "letter by letter with --amount, or have it changed with `callboard edit`"
            )
        typed.remove(one.text)
    if sums and not typed:
        fields = ", ".join(one.field for one in sums)
        raise UsageError(
            f"{whose} moves money ({fields}), and its amount was not repeated; {look} and give --amount with what is "
            "shown there"
        )
    given = []
    for text in typed:
        number = read_amount(text)
        if number is None:
            raise UsageError(
                f"--amount: expected a number such as 480.00, got {text[:40]!r}; nothing was decided; {look}"
            )
        given.append(number)
    if sorted(given) != sorted(one.value for one in sums):
        typed_text = ", ".join(f"{number:f}" for number in given)
        real = ", ".join(f"{one.shown} ({one.field})" for one in sums) or "no amount"
        raise UsageError(f"{whose} is about {real}, not {typed_text}; nothing was decided; {look}")
