"""Text as it reads, whatever characters it is written with: one folded character after the other.

Compatibility forms, letters of other alphabets that look Latin, and case are folded; characters without width are
dropped. Folding works character by character, so that a place in the folded text can be found in the original.
"""

import unicodedata
from typing import Final

_LOOKALIKES: Final = dict(
    zip(
        "аеорсхуіјѕԁԛԝһӏкмтвнзαοενρτυικχγ",
        "aeopcxyijsdqwhlkmtbh3aoevptuikxy",
        strict=True,
    )
)
"""Cyrillic and Greek letters that read as Latin ones, lower case."""
_WITHOUT_WIDTH: Final = frozenset({"Cf", "Mn", "Me"})
"""Categories of characters that are not seen: joiners, direction marks, tags, and marks on a letter."""


class _Table(dict[int, str]):
    """What becomes of each character, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if unicodedata.category(character) in _WITHOUT_WIDTH:
            folded = ""
        else:
            # NFKD, so that the accents fall away with the other marks: "í" and "i" read the same.
            parts = unicodedata.normalize("NFKD", character).casefold()
            kept = (part for part in parts if unicodedata.category(part) not in _WITHOUT_WIDTH)
            folded = "".join(_LOOKALIKES.get(part, part) for part in kept)
        if len(self) < 1 << 16:
            self[code] = folded
        return folded


_TABLE: Final = _Table()


def fold(text: str) -> str:
    """`text` as it reads; same-looking texts become equal ones."""
    return text.lower() if text.isascii() else text.translate(_TABLE)


def original_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The place in `text` that became `fold(text)[start:end]`."""
    if text.isascii():
        return start, end
    position, first, last = 0, len(text), len(text)
    for index, character in enumerate(text):
        width = len(_TABLE[ord(character)])
        if position <= start < position + width:
            first = index
        if position < end <= position + width:
            last = index + 1
            break
        position += width
    return first, last
