"""`--ascii`: signs beyond ASCII are drawn with stand-ins of the same width, in whatever is on the screen, at one place.

Signs only: boxes, glyphs, bars, dots, arrows and quotation marks. Letters of names and texts stay as they are, as an
argument that is approved must be read as it is, and a terminal without them shows that they are others.
"""

import unicodedata
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from .look import ASCII

_MORE = {
    "·": ".", "•": "*", "…": "~", "⏎": "<", "→": ">", "←": "<", "↑": "^", "↓": "v", "↶": "<", "◌": "o",
    "▐": ">", "▌": "<",
    "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "×": "x", "≈": "~", "≤": "<", "≥": ">",
    "▶": ">", "▼": "v", "▾": "v", "▸": ">", "◀": "<", "◑": "o", "┊": ":", "╌": ".", "╱": "/", "⟦": "[", "⟧": "]",
    "▁": "_", "▂": "_", "▃": "-", "▄": "-", "▅": "=", "▆": "=", "▇": "#", "█": "#", "▒": "%", "▓": "#", "░": ".",
    "─": "-", "━": "=", "╸": "=", "╺": "=", "│": "|", "┃": "|", "▔": "-", "€": "E", "£": "L", "¥": "Y",
}  # fmt: skip
_CORNERS = "╭╮╰╯┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬"


@lru_cache(8192)
def as_ascii(text: str) -> str:
    """The text with every sign replaced; as wide as before."""
    return text if text.isascii() else "".join(map(_stand_in, text))


def _stand_in(character: str) -> str:
    if character.isascii():
        return character
    known = ASCII.get(character) or _MORE.get(character) or ("+" if character in _CORNERS else "")
    if known:
        return known
    if unicodedata.category(character)[0] in "SPZ":
        return "?" * max(cell_len(character), 0)
    return character


class AsciiFilter(LineFilter):
    """Replaces signs in every line that is drawn."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments, without signs beyond ASCII."""
        return [
            segment if segment.text.isascii() else Segment(as_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]
