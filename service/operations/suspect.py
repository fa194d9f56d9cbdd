"""What makes a text suspect to whoever has to approve it: what nobody sees, and letters that look like others.

It says only what is in the text, so that a person can ask why; nothing is refused for it. But whoever decides on many
calls at once does not look at each, so a call with such a text is decided on its own (`together`,
`Decisions.decide_many`). Read off `unicodedata`: which alphabet a letter is of is the first word of its name.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ..safe import safe
from .argument_paths import values_in

_ALIKE = frozenset(
    {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL"}
)
"""Alphabets with letters that pass for those of another. Chinese beside Japanese, or beside Latin, is none of these."""
_LATIN_TWINS = frozenset("АВЕЅІЈКМНОРСТУХаеорсухіјѕһԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαν")
"""Letters of Cyrillic and Greek that are drawn as Latin ones."""
_TURNS = {"R", "AL", "AN"}
_WORD = re.compile(r"[^\W_]+")
_MOST = 3
_PICTURE = "\ufe0f"
"""Asks for the coloured form of the sign before it, which hides nothing."""


def suspects_in(arguments: Any) -> list[str]:
    """A few words for each name and each text among a call's arguments that is not what it looks like."""
    return [said for path, value in values_in(arguments) for said in _of(path, value)]


def suspicions(text: str) -> list[str]:
    """A few words for each thing that is suspect about a text, to be read after its name; none, as a rule."""
    return list(_known(text))


def _of(path: str, value: Any) -> Iterator[str]:
    for said in _known(path):
        yield f"{path}: its name {said}"
    if isinstance(value, str):
        for said in _known(value):
            yield f"{path} {said}"


@lru_cache(256)
def _known(text: str) -> tuple[str, ...]:
    # A screen asks for it at each key and twice a second, and a long text takes half a second of looking.
    return () if text.isascii() and text.isprintable() else tuple(_said(text))


def _said(text: str) -> Iterator[str]:
    hidden = [character for before, character in zip(f"a{text}", text, strict=False) if _is_hidden(character, before)]
    if hidden:
        shown = ", ".join(list(dict.fromkeys(map(_escaped, hidden)))[:_MOST])
        yield f"holds {len(hidden)} hidden character{'s' * (len(hidden) > 1)}, shown as {shown}"
    for word in dict.fromkeys(_WORD.findall(text)):
        if (alphabets := _alphabets(word)) and len(alphabets) > 1:
            name, rare = min(alphabets.items(), key=lambda one: len(one[1]))
            letters = "".join(dict.fromkeys(rare))[:8]
            yield f"mixes alphabets in “{safe(word[:40])}” ({name.capitalize()} {safe(letters)})"
        elif alphabets and set(word) <= _LATIN_TWINS and re.search("[A-Za-z]", text):
            yield f"has “{safe(word[:40])}”, which looks Latin and is {next(iter(alphabets)).capitalize()}"
    digits = {unicodedata.name(c, "?") for c in text if unicodedata.category(c) == "Nd" and not c.isascii()}
    if digits:
        yield f"holds digits of another script ({', '.join(sorted(digits)[:_MOST]).lower()})"
    if any(unicodedata.bidirectional(character) in _TURNS for character in text):
        yield "is written from right to left in parts; some terminals turn what is beside it around"


def _is_hidden(character: str, before: str) -> bool:
    """What nobody sees, or nobody can say how it is drawn. A line break or a tab hides nothing."""
    if character in "\n\t" or (character == _PICTURE and unicodedata.category(before) == "So"):
        return False
    code = ord(character)
    picks = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF  # another form of the letter before it
    return picks or safe(character) != character or unicodedata.category(character) in {"Co", "Cn", "Me"}


def _escaped(character: str) -> str:
    code, shown = ord(character), safe(character)
    return shown if shown != character else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _alphabets(word: str) -> dict[str, list[str]]:
    """The letters of each alphabet that can pass for another."""
    found: dict[str, list[str]] = {}
    for character in word:
        if character.isalpha():
            name = "LATIN" if character.isascii() else unicodedata.name(character, "?").split()[0]
            if name in _ALIKE:
                found.setdefault(name, []).append(character)
    return found
