"""The filter of a list, as people type it: `state:dead,retry amount>100 tool:refund.* -agent:probe "late parcel"`.

All words have to fit. `field:value` holds the value, or matches it where it has a `*`; `field=value` is exactly it;
`field>value` and `field<value` compare numbers, sums of money and lengths of time (`30m`, `1h30m`). Several values with
commas mean any of them, `-` in front means not. What has no field is looked for in all the texts of a row. Quotes keep
blanks, commas and stars together as they are.

A list declares its `Field`s. `Filter.fits` judges rows that are at hand; `pick`, `prefix` and `bounds` name what a
window query of the store may narrow by. Those never leave out a row that fits, so a list may narrow and then judge.
Matching takes time in proportion to the text, whatever the pattern: there are no regular expressions in it.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Literal

import msgspec

from ...mailbox.errors import UsageError
from .money import read_amount

MAX_CHARS = 500
"""Of a filter; more is refused."""
LOOKED_AT_CHARS = 4_096
"""Of each text of a row."""

Kind = Literal["text", "path", "word", "number", "money", "duration"]
"""text: any text, great and small letters alike. path: an address; what begins with `/` is its beginning. word: one of
`choices`, of which the beginning is enough. number; money: in whole units; duration: seconds."""
_COMPARED = ("number", "money", "duration")
_FIELD = re.compile(r"([A-Za-z][A-Za-z_]*)(>=|<=|:|=|>|<)")
_SPAN = re.compile(r"(?:(\d{1,6})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9}(?:\.\d{1,3})?)s)?")
_SPAN_SECONDS = (604_800, 86_400, 3_600, 60, 1)
_Char = tuple[str, bool]
"""A character, and whether it stood in quotes and so only means itself."""
Pattern = tuple[str, ...]
"""The pieces between the stars."""


class Field(msgspec.Struct, frozen=True):
    """What a list can be filtered by."""

    name: str
    kind: Kind = "text"
    about: str = ""
    """What it is, in a few words, for help."""
    choices: tuple[str, ...] = ()
    """Of a word: all it can be."""


class FilterError(UsageError):
    """A filter that means nothing; the message names the word, the fields there are, and a suggestion."""


class Term(msgspec.Struct, frozen=True):
    """One word of a filter."""

    field: str
    """"": any text of the row."""
    kind: Kind
    operator: str
    values: tuple[Pattern | str | float | Decimal, ...]
    """Patterns for texts and paths, choices for words, else numbers (seconds, of durations)."""
    negative: bool
    source: str
    """As it was typed."""

    def holds(self, value: object) -> bool:
        """Whether one value of a row is one of these; `-` is left out of it."""
        if self.kind in _COMPARED:
            return any(_compares(self.operator, value, wanted) for wanted in self.values)
        text = str(value)[:LOOKED_AT_CHARS]
        if self.kind == "word":
            return text in self.values
        text = text if self.kind == "path" else text.casefold()
        return any(isinstance(one, tuple) and _matches(one, text) for one in self.values)


class Filter(msgspec.Struct, frozen=True):
    """What a list shall show. An empty one shows everything."""

    text: str = ""
    terms: tuple[Term, ...] = ()
    fields: tuple[Field, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    @property
    def chips(self) -> tuple[str, ...]:
        """Its words, one by one, as they were typed."""
        return tuple(term.source for term in self.terms)

    def fits(self, get: Callable[[str], Any]) -> bool:
        """Whether a row fits. `get`: the row's value of a field by name; None: it has none, a list: several, of which
        one is enough."""
        return all(self._one_fits(term, get) for term in self.terms)

    def _one_fits(self, term: Term, get: Callable[[str], Any]) -> bool:
        names = [term.field] if term.field else [one.name for one in self.fields if one.kind not in _COMPARED]
        return any(term.holds(value) for name in names for value in _values(get(name))) != term.negative

    def pick(self, name: str) -> tuple[str, ...]:
        """Values of which a row that fits has one, in full; (): it can be any. For the store to narrow by."""
        field = next((one for one in self.fields if one.name == name), None)
        if field is not None and field.kind == "word":
            left = set(field.choices)
            for term in self._of(name):
                left = left - set(term.values) if term.negative else left & set(term.values)
            return tuple(one for one in field.choices if one in left) if self._of(name) else ()
        for term in self._of(name):
            whole = [one[0] for one in term.values if isinstance(one, tuple) and len(one) == 1]
            if term.kind == "path" and not term.negative and len(whole) == len(term.values):
                return tuple(whole)
        return ()

    def prefix(self, name: str) -> str:
        """What this field of every row that fits begins with; "": anything. Of paths."""
        found = ""
        for term in self._of(name):
            if term.kind == "path" and not term.negative and len(term.values) == 1:
                (pattern,) = term.values
                found = max(found, str(pattern[0]) if isinstance(pattern, tuple) else "", key=len)
        return found

    def bounds(self, name: str) -> tuple[float | Decimal | None, float | Decimal | None]:
        """The least and the greatest value that this field of a row that fits can have, both included; None: any."""
        low: float | Decimal | None = None
        high: float | Decimal | None = None
        for term in self._of(name):
            numbers = [one for one in term.values if isinstance(one, float | Decimal)]
            if term.negative or not numbers:
                continue
            if term.operator not in ("<", "<="):
                low = min(numbers) if low is None else max(low, min(numbers))
            if term.operator not in (">", ">="):
                high = max(numbers) if high is None else min(high, max(numbers))
        return low, high

    def without(self, *names: str) -> "Filter":
        """The rest of it, without the words for these fields."""
        left = tuple(term for term in self.terms if term.field not in names)
        return Filter(" ".join(term.source for term in left), left, self.fields)

    def _of(self, name: str) -> list[Term]:
        return [term for term in self.terms if term.field == name]


def parse(text: str, fields: Sequence[Field]) -> Filter:
    """The filter that this text means on a list with these fields.

    Raises:
        FilterError: it is too long, a quote is left open, a field is unknown, or a value is none of its kind.
    """
    if len(text) > MAX_CHARS:
        raise FilterError(f"a filter has {MAX_CHARS} characters at most, this one {len(text)}; use fewer words")
    known = {one.name: one for one in fields}
    terms = tuple(_term(source, characters, known) for source, characters in _words(text))
    return Filter(" ".join(term.source for term in terms), terms, tuple(fields))


def completed(text: str, fields: Sequence[Field]) -> str:
    """The text with its last word continued, where that can go on in one way first: a field's name, a choice."""
    head, blank, last = text.rpartition(" ")
    sign, word = ("-", last[1:]) if last.startswith("-") else ("", last)
    found = _FIELD.match(word)
    if found is None:
        names = [one.name for one in fields if word and one.name.startswith(word)]
        return f"{head}{blank}{sign}{names[0]}:" if names else text
    field = next((one for one in fields if one.name == found[1]), None)
    before, _, begun = word[found.end() :].rpartition(",")
    choices = () if field is None or not begun else field.choices
    for choice in choices:
        if _plain(choice).startswith(_plain(begun)):
            whole = f"{before}," if before else ""
            return f"{head}{blank}{sign}{found[0]}{whole}{_plain(choice)}"
    return text


# -- reading


def _words(text: str) -> Iterator[tuple[str, list[_Char]]]:
    """Each word as it was typed, and its characters without the quotes."""
    characters: list[_Char] = []
    quoted = False
    start = place = 0
    while place < len(text):
        one = text[place]
        if quoted and one == "\\" and text[place + 1 : place + 2] in ('"', "\\"):
            place += 1
            characters.append((text[place], True))
        elif one == '"':
            quoted = not quoted
        elif one.isspace() and not quoted:
            if place > start:
                yield text[start:place], characters
            characters, start = [], place + 1
        else:
            characters.append((one, quoted))
        place += 1
    if quoted:
        raise FilterError(f'{_told(text[start:])}: a quote is not closed; add the other "')
    if place > start:
        yield text[start:place], characters


def _term(source: str, characters: list[_Char], known: dict[str, Field]) -> Term:
    negative = characters[:1] == [("-", False)]
    characters = characters[1:] if negative else characters
    found = _FIELD.match("".join("\0" if literal else one for one, literal in characters))
    if found is None:
        return _free(source, characters, known, negative)
    field = known.get(found[1].lower())
    if field is None:
        raise FilterError(_no_field(source, found[1], known))
    operator = found[2]
    if field.kind not in _COMPARED and operator not in (":", "="):
        raise FilterError(f"{_told(source)}: {field.name} is no number; write {field.name}:value")
    if field.kind == "duration" and operator in (":", "="):
        raise FilterError(f"{_told(source)}: write {field.name}>30m or {field.name}<30m")
    values = [_value(source, one, field, operator) for one in _parts(characters[found.end() :], ",")]
    flat = tuple(one for several in values for one in several)
    return Term(field.name, field.kind, operator, flat, negative, source)


def _free(source: str, characters: list[_Char], known: dict[str, Field], negative: bool) -> Term:
    if not characters:
        raise FilterError(f"{_told(source)}: there is nothing to look for; write a word, or field:value")
    pattern = _pattern(characters)
    path = next((one for one in known.values() if one.kind == "path"), None)
    if path is not None and characters[0] == ("/", False):
        return Term(path.name, "path", ":", (_opened(pattern),), negative, source)
    folded = tuple(one.casefold() for one in pattern)
    return Term("", "text", ":", (("", *folded, ""),), negative, source)


def _value(
    source: str, characters: list[_Char], field: Field, operator: str
) -> Sequence[Pattern | str | float | Decimal]:
    if not characters:
        raise FilterError(f"{_told(source)}: {field.name} wants a value{_example(field)}")
    text = "".join(one for one, _ in characters)
    if field.kind == "word":
        return _chosen(source, characters, field)
    if field.kind == "duration":
        return [_seconds(source, text, field)]
    if field.kind in _COMPARED:
        number = read_amount(text)
        if number is None:
            raise FilterError(f"{_told(source)}: {field.name} wants a number{_example(field)}")
        return [number]
    pattern = _pattern(characters)
    if field.kind == "path":
        return [pattern if operator == "=" else _opened(pattern)]
    pattern = tuple(one.casefold() for one in pattern)
    return [pattern if operator == "=" or len(pattern) > 1 else ("", *pattern, "")]


def _chosen(source: str, characters: list[_Char], field: Field) -> list[str]:
    pieces = tuple(_plain(one) for one in _pattern(characters))
    wanted = pieces if len(pieces) > 1 else (*pieces, "")
    exact = [one for one in field.choices if len(pieces) == 1 and _plain(one) == pieces[0]]
    found = exact or [one for one in field.choices if _matches(wanted, _plain(one))]
    if not found:
        text = "".join(one for one, _ in characters)
        raise FilterError(
            f"{_told(source)}: {field.name} is never {_told(text)}{_meant(_plain(text), map(_plain, field.choices))}; "
            f"it is one of {', '.join(_plain(one) for one in field.choices)}"
        )
    return found


def _seconds(source: str, text: str, field: Field) -> float:
    found = _SPAN.fullmatch(text)
    if found is None or not text:
        raise FilterError(f"{_told(source)}: {field.name} wants a time such as 90s, 30m, 1h30m or 2d")
    return sum(float(count) * unit for count, unit in zip(found.groups(), _SPAN_SECONDS, strict=True) if count)


def _parts(characters: list[_Char], separator: str) -> list[list[_Char]]:
    parts: list[list[_Char]] = [[]]
    for one in characters:
        if one == (separator, False):
            parts.append([])
        else:
            parts[-1].append(one)
    return parts


def _pattern(characters: list[_Char]) -> Pattern:
    return tuple("".join(one for one, _ in part) for part in _parts(characters, "*"))


def _opened(pattern: Pattern) -> Pattern:
    """A path's pattern: the beginning of an address, or what is in one."""
    if len(pattern) > 1:
        return pattern
    return (pattern[0], "") if pattern[0].startswith("/") else ("", pattern[0], "")


# -- judging


def _values(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return list(value) if isinstance(value, list | tuple | set | frozenset) else (value,)


def _compares(operator: str, value: object, wanted: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return False
    if not isinstance(wanted, float | Decimal):
        return False
    match operator:
        case ">":
            return value > wanted
        case "<":
            return value < wanted
        case ">=":
            return value >= wanted
        case "<=":
            return value <= wanted
    return value == wanted


def _matches(pattern: Pattern, text: str) -> bool:
    """Whether the pieces stand in the text, in this order, the first at its beginning and the last at its end."""
    if len(pattern) == 1:
        return text == pattern[0]
    first, *middle, last = pattern
    if not text.startswith(first):
        return False
    place = len(first)
    for one in middle:
        found = text.find(one, place)
        if found < 0:
            return False
        place = found + len(one)
    return len(text) - len(last) >= place and text.endswith(last)


# -- saying


def _plain(word: str) -> str:
    return word.casefold().replace(" ", "_").replace("-", "_")


def _told(word: str) -> str:
    return repr(word if len(word) <= 40 else f"{word[:39]}…")


def _example(field: Field) -> str:
    if field.kind == "word":
        return f": one of {', '.join(_plain(one) for one in field.choices)}"
    shown = {"text": "late", "path": "/desk/*", "number": "3", "money": "480.00", "duration": "30m"}[field.kind]
    return f" such as {shown}"


def _meant(word: str, among: "Iterator[str] | Sequence[str] | map[str]") -> str:
    close = difflib.get_close_matches(word.lower(), list(among), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _no_field(source: str, name: str, known: dict[str, Field]) -> str:
    return (
        f"{_told(source)}: there is no field {_told(name)}{_meant(name, list(known))}; there are "
        f"{', '.join(known)}; in quotes it is looked for as text"
    )


__all__ = ["MAX_CHARS", "Field", "Filter", "FilterError", "Kind", "Term", "completed", "parse"]
