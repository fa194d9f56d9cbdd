"""How a state looks: a glyph, a word and a role, in that order of meaning; colour is only ever the third signal.

Each glyph is one cell wide in every terminal that was looked at, and has a stand-in for terminals without Unicode.
"""

from typing import NamedTuple

from callboard.service.operations.watching import Word

from .text import Piece, Role, piece

ASCII = {"◆": "!", "✗": "x", "▲": "^", "↻": "~", "⇡": "*", "‖": "=", "●": "o", "○": ".", "✓": "+", "◷": "@", "■": "#"}


class Look(NamedTuple):
    """A state's glyph, and the role of its glyph and word."""

    glyph: str
    role: Role


LOOKS: dict[Word, Look] = {
    "NEEDS YOU": Look("◆", "needs"),
    "DEAD": Look("✗", "bad"),
    "FAILED": Look("✗", "bad"),
    "ESCALATED": Look("▲", "bad"),
    "RETRY": Look("↻", "retry"),
    "RECOVERING": Look("⇡", "retry"),
    "PARKED": Look("‖", "needs"),
    "PAUSED": Look("‖", "dim"),
    "HELD": Look("◷", "needs"),
    "RUNNING": Look("●", "ok"),
    "WAITING": Look("◷", "dim"),
    "IDLE": Look("○", "dim"),
    "STOPPED": Look("■", "dim"),
    "COMPLETED": Look("✓", "dim"),
    "CANCELLED": Look("■", "dim"),
}


def state(word: Word) -> Piece:
    """`◆ NEEDS YOU` in its role."""
    look = LOOKS[word]
    return piece(f"{look.glyph} {word}", look.role)
