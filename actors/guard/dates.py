"""Calendar dates as people write them, so that `2025-01-11` and "January 11th, 2025" are one.

A text says a day of the year; which year it means may stand elsewhere in it, or nowhere. So a mention is a month and a
day, and the years are those of the whole text.
"""

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

MAX_DATES: Final = 200
"""Mentions that are taken from one text."""

_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TO: Final = r" ?(?:-|\u2013|to|until|till|through|and|,) ?(?:the )?"
_DAYS: Final = rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:{_TO}(?P<last>\d{{1,2}})(?:st|nd|rd|th)?(?!\d))?"
_NAMED: Final = (
    re.compile(rf"\b{_MONTH}\.? {{1,2}}(?:the )?{_DAYS}(?!\d)"),
    re.compile(rf"(?<![\d.,]){_DAYS}\.? {{1,2}}(?:of {{1,2}})?{_MONTH}\b"),
)
_YEAR_FIRST: Final = re.compile(r"(?<!\d)\d{4}[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_YEAR_LAST: Final = re.compile(r"(?<!\d)(\d{1,2})[-/.](\d{1,2})[-/.](?:\d{4}|\d{2})(?!\d)")
_YEAR: Final = re.compile(r"(?<!\d)(?:19|20|21)\d\d(?!\d)")
_WHOLE: Final = re.compile(r"(?:19|20|21)\d\d-\d\d-\d\d")

DayOfYear = tuple[int, int]
"""Month and day."""


def as_date(value: str) -> date | None:
    """What a value says that is nothing but a calendar date in the form `2025-01-11`; else None."""
    if _WHOLE.fullmatch(value.strip()) is None:
        return None
    try:
        return date.fromisoformat(value.strip())
    except ValueError:
        return None


def days(folded: str) -> set[DayOfYear]:
    """The days that a text in its folded form mentions. `01/11/2025` may be either of two, and counts as both."""
    found: set[DayOfYear] = set()
    for day in _mentioned(folded):
        if len(found) == MAX_DATES:
            break
        if _exists(day):
            found.add(day)
    return found


def years(text: str) -> frozenset[int]:
    """The years that a text names."""
    return frozenset(int(found[0]) for found in _YEAR.finditer(text))


def _mentioned(text: str) -> Iterator[DayOfYear]:
    for pattern in _NAMED:
        for found in pattern.finditer(text):
            month = _NAMES.index(found["month"][:3]) + 1
            yield month, int(found["day"])
            if found["last"]:
                yield month, int(found["last"])
    for found in _YEAR_FIRST.finditer(text):
        yield int(found[1]), int(found[2])
    for found in _YEAR_LAST.finditer(text):
        yield int(found[1]), int(found[2])
        yield int(found[2]), int(found[1])


def _exists(day: DayOfYear) -> bool:
    try:
        date(2024, *day)  # a leap year
    except ValueError:
        return False
    return True
