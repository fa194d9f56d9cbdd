"""Which of a call's arguments are sums of money, and whether somebody has repeated them.

Whoever approves a payment types its amount again: a habit of pressing enter cannot do that, nor can a script that was
written for another amount. What is a sum is said by the tool (`@tool(sums=…)`), by the name of the field
(`amount_cents`), or by the value (`US$480`). It is read in one way only: as it is shown. `amount_cents: 12900` is
shown, and typed, as 129.00; `amount: 480` as 480 (480.00 is the same number). What looks like a sum and cannot be read
beyond doubt (`"480,00"`, `"1e99"`, `"1.234 EUR"`, `"480 EUR"` where the call names another currency) is repeated as the
text that it is: the tool may read it, whatever we can.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any, NamedTuple

import msgspec

from ...mailbox.errors import UsageError
from ..safe import safe
from .argument_paths import path_of
from .currency import MINOR, code_beside, code_of, is_beside, is_code, minor_digits, read_written, without_marks

_SUMS = {
    "amount", "charge", "cost", "credit", "debit", "fee", "payment", "payout", "price", "refund", "sum", "tip", "total"
}  # fmt: skip
_CURRENCIES = {"chf", "dollars", "eur", "euros", "gbp", "jpy", "usd"}
_INNER = {"amount", "number", "value"}
"""What a sum's number is called within an object that is a sum by its name: `amount: {value: 480}`."""
_MAX_DIGITS = 40
_MAX_WRITTEN = 80
"""Of a text that is a sum by itself."""
EXACT = Context(prec=200, Emin=-999, Emax=999)
"""Sums are reckoned with to the last digit: the ordinary context rounds after 28, and what is shown is not rounded."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NOTHING: Mapping[str, str] = {}


class Money(msgspec.Struct, frozen=True):
    """One sum in a call's arguments."""

    field: str
    """Where: `amount_cents`, `lines[0].price`."""
    value: Decimal
    """In whole units: 129.00 for 12900 cents."""
    currency: str = ""
    """Its code; or the sign that was written, where several currencies share it; "" where nothing says it."""

    @property
    def shown(self) -> str:
        """As people type it."""
        return f"{self.value:f}"

    @property
    def text(self) -> str:
        """As lists of text show it: `USD 129.00`."""
        return f"{self.currency} {self.value:f}".strip()


class Unread(msgspec.Struct, frozen=True):
    """What stands in the place of a sum, or looks like one, and cannot be read beyond doubt."""

    field: str
    text: str


class _Place(NamedTuple):
    """A plain value among the arguments."""

    path: str
    value: Any
    digits: int | None
    """How many of its last digits are behind the point, where a sum stands; None elsewhere."""
    code: str = ""
    declared: bool = False
    clash: bool = False
    """The call names another currency than the tool has declared."""


_NUMERIC = re.compile(
    r"[-+−–~≈±(]*(?:[\d.,_]*\d[\d.,_]*(?:e[-+]?\d+)?|s?nan\d*|inf(?:inity)?)"
    r"(?:k|m|bn|mio|mln|mn|mrd|tsd|thousand|million|hundred)?\.?[-–—)%+*]*",
    re.IGNORECASE,
)
_SEVERAL = re.compile(r"[\d.,_]*\d[\d.,_]*(?:(?:[-–—/+x*]|to|or|bis|and)[\d.,_]*\d[\d.,_]*)+", re.IGNORECASE)
"""Of what is called a currency somewhere: `480-500 EUR`."""


def unread_in(arguments: Any, declared: Mapping[str, str] = _NOTHING) -> list[Unread]:
    """Everything that stands where a sum of money does, or looks like one, and cannot be read as a number beyond doubt.
    `declared`: as `sums_in`."""
    return read_sums(arguments, declared)[1]


def sums_in(arguments: Any, declared: Mapping[str, str] = _NOTHING) -> list[Money]:
    """Every sum of money in plain JSON arguments, in the order they stand in.

    `declared`: what their tool says of them, path to unit: `{"lines[].price": "USD minor"}`.
    """
    return read_sums(arguments, declared)[0]


def read_sums(arguments: Any, declared: Mapping[str, str] = _NOTHING) -> tuple[list[Money], list[Unread]]:
    """Both, in one walk: `sums_in` and `unread_in`."""
    found = [_read(place) for place in _walk(arguments, declared)]
    return [one for one in found if isinstance(one, Money)], [one for one in found if isinstance(one, Unread)]


def _read(place: _Place) -> Money | Unread | None:
    """What a value is: a sum, something that may be one, or neither."""
    path, value = place.path, place.value
    if place.digits is None:
        return _by_itself(path, value, place.code)
    if not place.clash:
        if (number := _number(value)) is not None:
            return Money(path, EXACT.scaleb(number, -place.digits), place.code)
        # Of what is in cents by its name, "480 EUR" may be either.
        written = read_written(value, place.code) if _is_clear(value) and not place.digits else None
        if written is not None:
            return Money(path, Decimal(written.number), written.currency)
    if _looks_like_a_sum(value) or (place.declared and value is not None):
        return Unread(path, _as_text(value))
    return None


def _by_itself(path: str, value: Any, code: str) -> Money | Unread | None:
    """A text in a place that is no sum's by its name, and says by itself that it is one: `US$480`."""
    if not isinstance(value, str) or len(value) > _MAX_WRITTEN or not any(map(str.isdigit, value)):
        return None
    rest, marked = without_marks(_seen(value), certain=True)
    if not marked or not _is_numeric(rest):
        return None
    written = read_written(value, code) if _is_clear(value) else None
    return Unread(path, value) if written is None else Money(path, Decimal(written.number), written.currency)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _is_clear(value: Any) -> bool:
    """Whether it is a text, and nothing in it is hidden."""
    return isinstance(value, str) and safe(value) == value


def _looks_like_a_sum(value: Any) -> bool:
    """Also with characters in it that nobody sees, as a tool may strip them; and a number that is too large to read."""
    if not isinstance(value, str):
        return isinstance(value, int | float) and not isinstance(value, bool)
    rest, marked = without_marks(_seen(value))
    return _is_numeric(rest) or (marked and _SEVERAL.fullmatch("".join(rest.split())) is not None)


def _seen(text: str) -> str:
    """Without what is hidden in it, and without blanks."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one for one in text if safe(one) == one or one.isspace())


def _is_numeric(text: str) -> bool:
    return _NUMERIC.fullmatch(re.sub(r"[\s'’]", "", text)) is not None


class _Around(NamedTuple):
    """What is known where the walk is."""

    path: str = ""
    """As people read it."""
    place: str = ""
    """Without positions, as tools declare it."""
    digits: int | None = None
    """Of what is around it, where that is called a sum (`amounts: [480, 20]`)."""
    code: str = ""
    clash: bool | None = None
    """Where a sum is declared, whether it is so in another currency than the call names."""


def _walk(value: Any, declared: Mapping[str, str], around: _Around = _Around()) -> Iterator[_Place]:  # noqa: B008
    """Every plain value, with what is known of its being a sum."""
    if isinstance(value, dict):
        own, priced = code_beside(value), any(map(is_beside, value))
        for key, inner in value.items():
            yield from _walk(inner, declared, _declared(_named(str(key), own, around, priced=priced), declared))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            at = around._replace(path=f"{around.path}[{position}]", place=f"{around.place}[]")
            yield from _walk(inner, declared, _declared(at, declared))
    else:
        yield _Place(around.path, value, around.digits, around.code, around.clash is not None, bool(around.clash))


def _named(name: str, own: str, around: _Around, *, priced: bool) -> _Around:
    """Within an object at `around`, which says itself that its currency is `own`."""
    code, clash = code_of(name, own or around.code), None
    digits = _digits(name, code, priced=priced)
    if name.lower() in _INNER and around.digits is not None and (digits is None or around.clash is not None):
        if around.clash is not None:
            clash, code = around.clash or bool(own and around.code and own != around.code), around.code or own
        digits = minor_digits(code) if around.digits else 0  # of the currency that may be said only here
    return _Around(path_of(around.path, name), path_of(around.place, name), digits, code, clash)


def _declared(at: _Around, declared: Mapping[str, str]) -> _Around:
    """With what the tool declares of this place."""
    unit = declared.get(at.place)
    if unit is None:
        return at
    said, minor = unit.removesuffix("minor").strip(), unit.endswith("minor")
    code = said or at.code
    return at._replace(digits=minor_digits(code) if minor else 0, code=code, clash=bool(at.code and code != at.code))


def _digits(name: str, code: str, *, priced: bool) -> int | None:
    """How many digits of this field's whole numbers are behind the point; None where it is no sum of money."""
    words = [word.lower() for word in _WORD.findall(_seen(name))]  # a name with something hidden in it, too
    minor = bool(words) and words[-1] in MINOR
    marked = minor or (bool(words) and words[-1] in _CURRENCIES)
    if marked or (len(words) > 1 and is_code(words[-1])):
        words.pop()
    known = bool(words) and (words[-1] in _SUMS or words[-1].removesuffix("s") in _SUMS)
    if not (marked or known or (priced and words == ["value"])):
        return None
    return minor_digits(code) if minor else 0


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int) and abs(value) >= 10**_MAX_DIGITS:
        return None
    if isinstance(value, str) and not value.isascii():
        return None  # digits of another script, which look like others
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


_TYPED = re.compile(r"-?(?:\d+|\d{1,3}(?P<group>[.,])\d{3}(?:(?P=group)\d{3})*)(?P<point>[.,])\d{2}")


def read_typed(text: str) -> Decimal | None:
    """A sum as somebody types it again: as `read_amount`, and with a comma for its two last digits (`480,00`), or with
    its thousands apart (`1,900.00`, `1.900,00`). Whatever could be read in two ways (`480,0`, `1,900`) is none."""
    text = text.strip()
    found = _TYPED.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    if found is None or found["group"] == found["point"]:
        return read_amount(text)
    whole, _, rest = text.rpartition(found["point"])
    return Decimal(f"{whole.replace(found['group'], '') if found['group'] else whole}.{rest}")


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
        number = read_typed(text)
        if number is None:
            raise UsageError(
                f"--amount: expected a number such as 480.00, got {text[:40]!r}; nothing was decided; {look}"
            )
        given.append(number)
    if sorted(given) != sorted(one.value for one in sums):
        typed_text = ", ".join(f"{number:f}" for number in given)
        real = ", ".join(f"{one.shown} ({one.field})" for one in sums) or "no amount"
        raise UsageError(f"{whose} is about {real}, not {typed_text}; nothing was decided; {look}")
