"""What a text is made of, where it matters what it carries: words, numbers by value, addresses and identifiers."""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from .folding import fold

MAX_DIGITS: Final = 40
"""A longer row of digits is a word and no number."""
MAX_TRIES: Final = 64
"""Places of a text at which something is looked for; a piece of longer words at all of them, it is not there."""
PROSE_WORDS: Final = 4
"""So many words make a sentence that somebody wrote; fewer are a value."""

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)])-)?(?P<money>[$\u20ac\u00a3\u20b9\u00a5] ?)?(?<![\w.,])"
    r"(?P<digits>\d{1,3}(?:,\d{3}){1,10}|\d{1,40})(?P<cents>\.\d{1,20})?(?![\w,]*\d)"
)
_GROUPED = re.compile(
    r"(?<!\w)\+?[a-z]{0,4}\(?\d[\da-z]{0,5}\)?(?:[ ./-]{1,2}\(?[\da-z]{0,4}\d[\da-z]{0,5}\)?){1,9}(?!\w)"
)
_URL = re.compile(r"(?:https?|ftp|mailto|data):[^\s<>\"')\]]{1,2000}|\bwww\.[^\s<>\"')\]]{1,2000}")
_CARRIED = re.compile(
    r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}"  # an address
    r"|(?<![\w.])[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.[a-z]{2,24}(?:/[^\s<>\"')\]]{0,2000}|(?![\w-]))"  # a host
    r"|(?<!\w)[@#]?[a-z]{0,64}+(?:[_-][a-z]{0,24}+){0,4}+\d[\w-]*+(?:[.,/:]\d[\w-]*+){0,6}"  # whatever has digits
)
_ADDRESS = re.compile(r"@|://|[A-Za-z]\.[A-Za-z]|[A-Za-z0-9]\.[A-Za-z]")
_HOST = re.compile(r"(?:[a-z]+:/{0,2})?(?:[^/\s]*@)?([\w.-]+)")


def words(text: str) -> list[str]:
    """The words of a text as it reads (`fold`); signs are left out."""
    return _WORD.findall(fold(text))


def numbers(text: str) -> Iterator[tuple[str, bool]]:
    """The numbers in a text, each as `canonical_number` writes it; amounts of money also in hundredths (True)."""
    for found in _NUMBER.finditer(text):
        value = Decimal(found["digits"].replace(",", "") + (found["cents"] or ""))
        value = -value if found["sign"] else value
        yield _canonical(value), False
        if found["money"] or len(found["cents"] or "") == 3:
            yield _canonical(value * 100), True


def canonical_number(value: Any) -> str | None:
    """A number, or a text that is nothing but one, in one form: 42, "42", "42.00", "$42" are all `42`."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        # A float as it prints: Decimal(0.1) has 55 digits.
        return _canonical(Decimal(str(value))) if abs(value) < 10**MAX_DIGITS else None
    if not isinstance(value, str) or len(value) > MAX_DIGITS + 10:
        return None
    bare = value.strip().strip("$\u20ac\u00a3\u20b9\u00a5").strip().replace(",", "")
    try:
        number = Decimal(bare) if bare[:1].isdigit() or bare[:1] in "+-" else None
    except InvalidOperation:
        return None
    # Looked at before it is reckoned with or written out: "1e-999999999" takes a gigabyte, and "1e9999999" overflows.
    if number is None or not number.is_finite():
        return None
    if not number:
        return "0"
    return _canonical(number) if abs(number.adjusted()) < MAX_DIGITS else None


def hundredths(text: str) -> list[str]:
    """An amount with two decimals (`45.09`) as the whole number that tables keep it as (`4509`); else nothing."""
    whole, point, cents = text.strip().strip("$\u20ac\u00a3\u20b9\u00a5").strip().partition(".")
    plain = whole.replace(",", "").removeprefix("-")
    return [_canonical(Decimal(plain + cents))] if point and len(cents) == 2 and (plain + cents).isdecimal() else []


def _canonical(value: Decimal) -> str:
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("", "-0") else text


def grouped(text: str) -> Iterator[str]:
    """Long identifiers that are written in groups (cards, accounts, telephones), without what separates these."""
    for found in _GROUPED.finditer(fold(text)):
        joined = squeezed(found[0])
        if sum(character.isdigit() for character in joined) >= 6:
            yield joined


def squeezed(text: str) -> str:
    """Letters and digits only."""
    return "".join(_WORD.findall(fold(text))).replace("_", "")


def carried(text: str, *, as_it_reads: bool = True) -> list[str]:
    """What of a text could act: addresses, links, and whatever has a digit in it. Each once, in order.

    Folded, or in lower case only: an address in look-alike letters reads like another one, and is none.
    """
    folded = fold(text) if as_it_reads else text.lower()
    found = [link[0].rstrip(".,;:!?") for link in _URL.finditer(folded)]
    rest = _URL.sub(" ", folded) if found else folded
    found += [atom[0].rstrip(".,;:!?-") for atom in _CARRIED.finditer(rest)]
    return [atom for atom in dict.fromkeys(found) if atom]


def exact(text: str) -> str:
    """A text for comparisons that go by each character: in lower case, with single spaces."""
    return " ".join(text.lower().split())


def holds_exactly(text: str, part: str) -> bool:
    """Whether `part` (both `exact`) stands in a text by itself, and not as a piece of a longer address or word."""
    at = text.find(part)
    for _ in range(MAX_TRIES):
        if at < 0:
            break
        before, after = text[at - 1 : at], text[at + len(part) : at + len(part) + 2]
        longer = after[:1] in ("@", "-", "_") or after[:1].isalnum() or (after[:1] == "." and after[1:].isalnum())
        if not (before.isalnum() or (before and before in "@.+-_%")) and not (after and longer):
            return True
        at = text.find(part, at + 1)
    return False


def must_be_exact(text: str) -> bool:
    """Whether a text is something of which each character counts: an address, a host, or letters that may mislead."""
    return not text.isascii() or _ADDRESS.search(text) is not None


def is_address(atom: str) -> bool:
    """Whether something carried names somebody's place: an address of mail, or a host."""
    return _ADDRESS.search(atom) is not None


def is_link(atom: str) -> bool:
    """Whether something carried points to a place on the web."""
    return _URL.match(atom) is not None or "/" in atom


def host_of(link: str) -> str:
    """Whose place it is."""
    found = _HOST.match(link)
    return found[1].removeprefix("www.") if found else ""
