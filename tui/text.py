"""The one door through which text reaches a widget: pieces of safe text, each with a role that the theme colours.

Textual sends what it is given to the terminal as it is, control characters and markup included, and most of what is
shown here was written by models, customers and tools. So widgets of this package are given pieces, or what `content`
and `block` make of pieces, or `plain` text, and never a string of their own making; `tests/test_architecture.py` looks
for those that would go around. Everything here is a pure function, measured in cells of the screen: a letter of Chinese
is two, a mark above a letter none. What makes a text suspect is told by `text_suspect`.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

from rich.cells import cell_len, get_character_cell_size
from textual.content import Content

from callboard.service.safe import safe

Role = Literal["", "dim", "strong", "title", "key", "ok", "needs", "bad", "retry", "info", "cursor"]
"""What a piece of text means; colours, weights and reversals are the theme's."""

STYLES: dict[Role, str] = {
    "": "",
    "dim": "$cb-dim",
    "strong": "bold",
    "title": "bold $cb-info",
    "key": "bold $cb-info",
    "ok": "$cb-ok",
    "needs": "bold $cb-needs",
    "bad": "bold $cb-bad",
    "retry": "$cb-retry",
    "info": "$cb-info",
    "cursor": "reverse",
}
MAX_MARKS = 3
"""Marks on one letter; more would be drawn over the lines above and below."""
_PICTURE = "\ufe0f"
"""Asks for the coloured form of the sign before it; terminals do not agree on how wide that is."""
_SIGNS = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥"}
_CODES = {"€": "EUR", "£": "GBP"}
_spelled = ContextVar("currency signs are spelled out", default=False)
_STEPS = " ▁▂▃▄▅▆▇█"
_BARS = "".join(_STEPS[value.bit_length()] for value in range(129))


class Piece(NamedTuple):
    """Safe text and its role. Made by `piece` only."""

    text: str
    role: Role = ""


Line = tuple[Piece, ...]


# -- making pieces


def piece(text: str, role: Role = "") -> Piece:
    """A piece of any text, on one line: what could move a cursor, hide or turn its neighbours around is escaped."""
    if text.isascii():
        return Piece(safe(text), role)
    shown = _shown(text)
    if _spelled.get():
        for sign, code in _CODES.items():
            shown = shown.replace(sign, code)
    return Piece(shown, role)


def spell_currencies(spelled: bool) -> None:
    """Whether currencies are codes here instead of signs beyond ASCII: `EUR 480.00`. For the task that calls it and
    those that it starts: one letter in the place of a sign, as `frame_ascii` has it for other signs, names none."""
    _spelled.set(spelled)


def plain(text: str) -> str:
    """Any text as a widget may hold it that takes nothing but a string, such as the value of an `Input`."""
    return safe(text) if text.isascii() else _shown(text)


def line(*parts: str | Piece) -> Line:
    """A line of pieces; what is a plain string becomes one without a role."""
    return tuple([part if isinstance(part, Piece) else piece(part) for part in parts])


def lines(text: str, role: Role = "") -> list[Line]:
    """Text of several lines, as lines; tabs are four blanks."""
    return [line(piece(part.expandtabs(4), role)) for part in text.split("\n")]


@lru_cache(4096)
def _shown(text: str) -> str:
    """What `safe` leaves, without the marks and signs that a terminal would draw elsewhere, or not at all."""
    shown, marks = "", MAX_MARKS  # at the beginning: there is no letter that a mark could stand on
    for character in safe(text):
        if get_character_cell_size(character):
            shown, marks = shown + (character if _is_known(character) else _escaped(character)), 0
        elif character == _PICTURE and shown and unicodedata.category(shown[-1]) == "So":
            continue
        elif marks < MAX_MARKS and not _is_selector(character):
            shown, marks = shown + character, marks + 1
        else:
            shown += _escaped(character)
    return shown


def _is_known(character: str) -> bool:
    """Not for private use, and assigned: what a terminal draws for others is anybody's guess, and mostly nothing."""
    return unicodedata.category(character) not in {"Co", "Cn"}


def _is_selector(character: str) -> bool:
    """Whether it picks a form of the character before it, which nobody sees, or encloses it."""
    code = ord(character)
    return 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or unicodedata.category(character) in {"Me", "Cn"}


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# -- what widgets show


def content(*parts: str | Piece | Line) -> Content:
    """What a widget shows: the parts on one line."""
    flat: list[Piece] = []
    for part in parts:
        flat.extend(line(part) if isinstance(part, str | Piece) else part)
    return Content.assemble(*((part.text, STYLES[part.role]) for part in flat))


def block(several: Iterable[Line]) -> Content:
    """What a widget shows: one line below the other."""
    return Content("\n").join(content(one) for one in several)


# -- measuring and fitting


def cells(one: Line) -> int:
    """How many cells it takes."""
    return sum([cell_len(text) for text, _ in one])


def cut(one: Line, width: int) -> Line:
    """What of it fits into `width` cells; where something does not, the last one says so: `…`."""
    if cells(one) <= width:
        return one
    kept: list[Piece] = []
    room = width - 1
    for text, role in one:
        size = cell_len(text)
        if size > room:
            kept.append(Piece((_head(text, room) if room > 0 else "") + "…" * (width > 0), role))
            break
        kept.append(Piece(text, role))
        room -= size
    return tuple(kept)


def cut_start(one: Line, width: int) -> Line:
    """The end of it, in `width` cells, for what differs at its end: an address. `…` says that more stands before; it
    begins at a slash where there is one soon, as half a name misleads."""
    if cells(one) <= width:
        return one
    kept: list[Piece] = []
    room = width - 1
    for text, role in reversed(one):
        at = next(at for at in range(len(text) + 1) if cell_len(text[at:]) <= room)
        kept.append(Piece(text[at:], role))
        room -= cell_len(text[at:])
    kept.reverse()
    head = next((number for number, part in enumerate(kept) if part.text), 0)
    if kept:
        text, role = kept[head]
        slash = text.find("/")
        kept[head] = Piece("…" * (width > 0) + (text[slash:] if 0 < slash <= len(text) // 2 else text), role)
    return tuple(part for part in kept if part.text)


def fit(one: Line, width: int, *, right: bool = False) -> Line:
    """Exactly `width` cells of it: cut, or filled up with blanks, before it where it stands on the `right`."""
    one = cut(one, width)
    blank = Piece(" " * (width - cells(one)))
    return one if not blank.text else ((blank, *one) if right else (*one, blank))


def _head(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    used = 0
    for number, character in enumerate(text):
        used += get_character_cell_size(character)
        if used > width:
            return text[:number]
    return text


class _Glyph(NamedTuple):
    """A character and the marks on it."""

    text: str
    role: Role
    size: int


def _glyphs(one: Line) -> Iterator[_Glyph]:
    last: _Glyph | None = None
    for text, role in one:
        for character in text:
            size = get_character_cell_size(character)
            if last and not size:
                last = _Glyph(last.text + character, last.role, last.size)
                continue
            if last:
                yield last
            last = _Glyph(character, role, size)
    if last:
        yield last


def wrapped(one: Line, width: int, *, hang: int = 0) -> list[Line]:
    """All of it, on as many lines of `width` cells as it takes, those after the first behind `hang` blanks.

    Broken after blanks, and within a word only where that is longer than a line. Nothing is left out but one blank
    where a line ends, for which its end stands.
    """
    if cells(one) <= width:
        return [one]
    width = max(width, 2)  # the widest character
    hang = min(hang, width - 2)
    ended: list[list[_Glyph]] = []
    current: list[_Glyph] = []
    coming = list(_glyphs(one))[::-1]
    used = 0
    while coming:
        glyph = coming.pop()
        if used + glyph.size <= width - (hang if ended else 0):
            current.append(glyph)
            used += glyph.size
            continue
        if glyph.text != " ":
            coming.append(glyph)
            at = _break(current)
            coming += reversed(current[at:])
            current = current[:at]
        ended.append(current)
        current, used = [], 0
    ended.append(current)
    blank = (Piece(" " * hang),) if hang else ()
    return [(*(blank if number else ()), *_joined(glyphs)) for number, glyphs in enumerate(ended)]


def _break(glyphs: list[_Glyph]) -> int:
    """Where a full line ends: after its last blank, if there is anything before that."""
    for at in range(len(glyphs), 0, -1):
        if glyphs[at - 1].text == " " and any(it.text != " " for it in glyphs[:at]):
            return at
    return len(glyphs)


def _joined(glyphs: Iterable[_Glyph]) -> Line:
    pieces: list[Piece] = []
    for text, role, _ in glyphs:
        if pieces and pieces[-1].role == role:
            pieces[-1] = Piece(pieces[-1].text + text, role)
        else:
            pieces.append(Piece(text, role))
    return tuple(pieces)


def lit(one: Line, sought: str, role: Role = "cursor") -> Line:
    """The same line, and each place of it that holds what is sought (in capitals or not) in this role."""
    text, wanted = "".join(part.text for part in one), sought.casefold()
    if not wanted or len(text.casefold()) != len(text) or wanted not in text.casefold():
        return one
    places, start = set[int](), text.casefold().find(wanted)
    while start >= 0:
        places |= set(range(start, start + len(wanted)))
        start = text.casefold().find(wanted, start + len(wanted))
    letters = [_Glyph(letter, own, 1) for part, own in one for letter in part]
    return _joined(it._replace(role=role) if at in places else it for at, it in enumerate(letters))


def grid(pairs: Iterable[tuple[str, Line]], width: int, *, key_width: int = 0) -> list[Line]:
    """Keys in a column, dim, and behind each all of its value, wrapped under itself.

    `key_width`: of the column of keys with the gap after it; 0: as wide as the widest key.
    """
    pairs = list(pairs)
    key_width = key_width or 2 + max((cells(line(key)) for key, _ in pairs), default=0)
    key_width = max(2, min(key_width, width // 2))
    found: list[Line] = []
    for key, value in pairs:
        head = (*fit(line(piece(key, "dim")), key_width - 1), Piece(" "))
        for number, part in enumerate(wrapped(value, max(width - key_width, 2))):
            found.append((*(head if not number else (Piece(" " * key_width),)), *part))
    return found


# -- figures


def duration(seconds: float) -> str:
    """A time span in at most seven cells: `84ms`, `9s`, `12m 04s`, `1h 30m`, `3d 4h`; `·` where there is none."""
    if not seconds > 0:
        return "·"
    if seconds < 1:
        return f"{max(1, int(seconds * 1000))}ms"
    whole = int(min(seconds, 9_999 * 86_400))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3600}h" if whole < 864_000 else f"{whole // 86_400}d"


def count(number: int) -> str:
    """A number of things: `10,412`; `·` for none."""
    return f"{number:,}" if number else "·"


def money(value: Decimal, currency: str = "") -> str:
    """A sum, never rounded and never shortened: `€1,276.40`, `CHF 12.00`, `-$3.50`; without a currency `480.00`. Signs
    beyond ASCII are codes where these are spelled out: `EUR 1,276.40`."""
    sign = _SIGNS.get(currency.upper(), f"{currency} " if currency and currency != "$" else currency)
    if _spelled.get() and not sign.isascii():
        sign = f"{currency} "
    return f"{'-' if value < 0 else ''}{sign}{value.copy_abs():,f}"


def spark(values: Iterable[int]) -> str:
    """Counts as bars, one cell each, on one scale for all of them: each step is twice as much; `▁` is 1, `█` 128."""
    return "".join([_BARS[0 if value < 0 else min(value, 128)] for value in values])


def budget(share: float | None, width: int = 5) -> Line:
    """How much of a budget is spent, as a bar of `width` cells and a number: `━╌╌╌╌  20%`; blanks where none is."""
    if share is None or not share >= 0:
        return (Piece(" " * (width + 5)),)
    share = min(share, 9.99)
    percent = int(share * 100 + 1e-9)
    full = min(width, int(share * width))
    role: Role = "bad" if percent >= 85 else "needs" if percent >= 70 else "dim"
    bar = Piece("━" * full, role), Piece("╌" * (width - full), role if percent >= 85 else "dim")
    return tuple(part for part in (*bar, Piece(f" {percent:3d}%", role)) if part.text)
