"""Personal data: found in text, hidden from the model behind placeholders, and put back on the way to tools.

Every pattern is linear: each has a fixed left edge or starts at a character that cannot stand before itself, and every
repetition is bounded. Checksums (Luhn, IBAN) keep order numbers and the like from being taken for cards.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from .profiles import BadProfile


class Found(msgspec.Struct, frozen=True):
    """One piece of personal data in a text."""

    kind: str
    start: int
    end: int


Detect = Callable[[str], Iterator[tuple[int, int]]]
"""The places of one kind in a text, in order."""

_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_CARD = re.compile(r"(?<![\w.#/-])[2-6](?:[ -]?\d){12,18}(?![\w/-]|\.\d)")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}(?![A-Za-z0-9])", re.IGNORECASE)
_PHONE = re.compile(
    r"""(?<![\w.#/+-])(?:
        \+\d(?:[ .()-]{0,2}\d){7,14}                                    # +44 20 7946 0958, +14155552671
        | \(\d{2,5}\)[ .-]?\d{3,4}[ .-]?\d{3,5}                         # (415) 555-2671
        | (?:1[ .-])?[2-9]\d{2}([ .-])\d{3}\1\d{4}                      # 415-555-2671, 1 415 555 2671
        | 0\d{1,4}(?:[ ]\d{2,4}){2,4}                                   # 020 7946 0958, 01 23 45 67 89
        | 00[1-9](?:[ .-]?\d){8,13}                                     # 0044 20 7946 0958
    )(?![\w/-]|\.\d)""",
    re.VERBOSE,
)
PLACEHOLDER: Final = re.compile(r"<([A-Z][A-Z0-9_]{0,30})_(\d{1,9})>", re.IGNORECASE)
_IBAN_CHARS: Final = {
    country: int(characters)
    for country, characters in re.findall(
        r"([A-Z]{2})(\d{2})",
        "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BR29CH21CR22CY28CZ24DE22DK18DO28EE20ES24FI18FO18FR27GB22GE22GI23GL18GR27"
        "GT28HR21HU28IE22IL23IS26IT27JO30KW30KZ20LB28LI21LT20LU20LV21MC27MD24ME22MK19MR27MT31MU30NL18NO15PK24PL28PS29"
        "PT25QA29RO24RS22SA24SE24SI19SK24SM27TN24TR26UA29VG24XK20",
    )
}
"""Length of an account number by country: with the checksum it tells one from other rows of letters and digits."""


def _emails(text: str) -> Iterator[tuple[int, int]]:
    if "@" in text:
        for found in _EMAIL.finditer(text):
            yield found.span()


def _cards(text: str) -> Iterator[tuple[int, int]]:
    for found in _CARD.finditer(text):
        if _luhn([int(c) for c in found[0] if c.isdecimal()]):
            yield found.span()


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    for found in _IBAN.finditer(text):
        # Words may follow after a space, which the pattern cannot tell from another group.
        end = found.end()
        while True:
            candidate = text[found.start() : end]
            if _iban(candidate.replace(" ", "").upper()):
                yield found.start(), end
                break
            end = text.rfind(" ", found.start(), end)
            if end < 0:
                break


def _phones(text: str) -> Iterator[tuple[int, int]]:
    for found in _PHONE.finditer(text):
        if 10 <= sum(c.isdecimal() for c in found[0]) <= 15 or found[0].startswith("+"):
            yield found.span()


def _luhn(digits: list[int]) -> bool:
    if len(set(digits)) == 1:
        return False
    doubled = [d if (len(digits) - i) % 2 else (d * 2 - 9 if d > 4 else d * 2) for i, d in enumerate(digits)]
    return sum(doubled) % 10 == 0


def _iban(text: str) -> bool:
    if _IBAN_CHARS.get(text[:2]) != len(text) or not text.isascii() or not text.isalnum():
        return False
    turned = text[4:] + text[:4]
    return int("".join(str(int(c, 36)) for c in turned)) % 97 == 1


DETECTORS: Final[Mapping[str, Detect]] = {"email": _emails, "credit_card": _cards, "iban": _ibans, "phone": _phones}


def find(text: str, kinds: Mapping[str, Detect] = DETECTORS) -> list[Found]:
    """All personal data of these kinds in a text, in order; of two that overlap, the one of the kind named first."""
    taken: list[Found] = []
    for kind, detect in kinds.items():
        for start, end in detect(text):
            taken.append(Found(kind, start, end))
    order = {kind: number for number, kind in enumerate(kinds)}
    kept: list[Found] = []
    for one in sorted(taken, key=lambda found: (found.start, order[found.kind])):
        if kept and one.start < kept[-1].end:
            if order[one.kind] < order[kept[-1].kind]:
                kept[-1] = one
            continue
        kept.append(one)
    return kept


def detectors_of(kinds: tuple[str, ...], more: Mapping[str, Detect] | None = None) -> dict[str, Detect]:
    """What finds these kinds.

    Raises:
        BadProfile: nobody knows how to find one of them.
    """
    known = {**DETECTORS, **(more or {})}
    missing = [kind for kind in kinds if kind not in known]
    if missing:
        raise BadProfile(f"no detector for personal data of kind {missing[0]!r}; there are {', '.join(known)}")
    return {kind: DETECTORS[kind] if known[kind] is DETECTORS.get(kind) else _guarded(known[kind]) for kind in kinds}


def _guarded(detect: Detect) -> Detect:
    """A user's detector. One that fails, or names places that are none, hides all of the text."""

    def guarded(text: str) -> Iterator[tuple[int, int]]:
        try:
            places = [(int(start), int(end)) for start, end in detect(text)]
            wrong = any(not 0 <= start < end <= len(text) for start, end in places)
        except Exception:  # noqa: BLE001 - somebody else's function; what it meant to hide must not be shown for it
            wrong, places = True, []
        yield from ([(0, len(text))] if text else []) if wrong else sorted(places)

    return guarded


class Placeholders:
    """Which placeholder stands for which value, in one run.

    Numbers follow the order in which values are first met, so that whoever reads the same texts in the same order has
    the same map.
    """

    def __init__(self, detectors: Mapping[str, Detect]) -> None:
        self._detectors = detectors
        self._by_value: dict[tuple[str, str], str] = {}
        self._by_name: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def hide(self, text: str, *, keep: bool = False, new: bool = True) -> tuple[str, list[tuple[Found, str]]]:
        """The text with placeholders, and which data was found and how it is called.

        What already looks like a placeholder is changed, so that no text from outside can name a value that it does not
        know; `keep`: not in what the model wrote itself. Without `new`, a value that was not met before gets no number
        (`<EMAIL>`), and is lost to the model: for texts that not every reader sees.
        """
        found = find(text, self._detectors)
        pieces: list[str] = []
        named: list[tuple[Found, str]] = []
        end = 0
        for one in found:
            name = self._name(one.kind, text[one.start : one.end], new=new)
            pieces += [_plain(text[end : one.start], keep=keep), name]
            named.append((one, name))
            end = one.end
        pieces.append(_plain(text[end:], keep=keep))
        return "".join(pieces), named

    def restore(self, text: str) -> str:
        """The text with values where placeholders stood; those that stand for nothing are left."""
        if "<" not in text or not self._by_name:
            return text
        return PLACEHOLDER.sub(lambda found: self._by_name.get(found[0].upper(), found[0]), text)

    def restore_values(self, value: Any) -> Any:
        """JSON values with all their texts restored."""
        match value:
            case str():
                return self.restore(value)
            case dict():
                return {
                    self.restore(key) if isinstance(key, str) else key: self.restore_values(item)
                    for key, item in value.items()
                }
            case list():
                return [self.restore_values(item) for item in value]
        return value

    def _name(self, kind: str, value: str, *, new: bool) -> str:
        key = (kind, _same(kind, value))
        if key not in self._by_value:
            if not new:
                return f"<{kind.upper()}>"
            self._counts[kind] = self._counts.get(kind, 0) + 1
            name = f"<{kind.upper()}_{self._counts[kind]}>"
            self._by_value[key] = name
            self._by_name[name] = value
        return self._by_value[key]


def _same(kind: str, value: str) -> str:
    """What two ways to write one value have in common. Of plain letters the case: "ß" is another host than "ss"."""
    if kind == "email":
        return value.lower() if value.isascii() else value
    return re.sub(r"[\s().-]", "", value).casefold()


def _plain(text: str, *, keep: bool) -> str:
    return text if keep or "<" not in text else PLACEHOLDER.sub("\u2039\\1_\\2\u203a", text)


def unresolved(value: Any) -> str | None:
    """A placeholder in JSON values that stands for nothing any more; None where there is none."""
    match value:
        case str():
            found = PLACEHOLDER.search(value) if "<" in value else None
            return None if found is None else found[0]
        case dict():
            parts = (part for pair in value.items() for part in pair)
            return next((name for part in parts if (name := unresolved(part))), None)
        case list():
            return next((name for item in value if (name := unresolved(item))), None)
    return None
