"""Laying text out by hand, in cells: columns with hanging indents, rules, cards. Pure functions of pieces.

Done here and not by widgets, because a decision rests on it: whoever approves must have seen every argument, so it has
to be known on which line each of them ends, at this width, before anything is drawn.
"""

from collections.abc import Iterable, Sequence

from ..text import Line, Piece, Role, cells, cut, fit, line, piece, wrapped


def columns(row: Sequence[Line], widths: Sequence[int], *, gap: int = 1) -> list[Line]:
    """Texts side by side, each wrapped within its width; nothing of them is left out."""
    tall = [wrapped(one, width) for one, width in zip(row, widths, strict=True)]
    found: list[Line] = []
    for number in range(max(map(len, tall))):
        parts: list[Piece] = []
        for place, (one, width) in enumerate(zip(tall, widths, strict=True)):
            here = one[number] if number < len(one) else ()
            parts += here
            if place + 1 < len(widths):
                parts.append(piece(" " * (width - cells(here) + gap)))
        found.append(tuple(parts))
    return found


def ends(left: Line, right: Line, width: int) -> Line:
    """Two texts at both ends of a line; where there is no room for both, the left one alone."""
    room = width - cells(left) - cells(right)
    return (*left, piece(" " * room), *right) if room > 0 else left


def rule(title: str, width: int, role: Role = "dim") -> Line:
    """A heading in a line across."""
    head = cut(line(piece(f"─{title}" if title else "", role)), width)
    return (*head, piece("─" * max(width - cells(head), 0), "dim"))


def card(title: str, body: Iterable[Line], width: int, *, foot: str = "") -> list[Line]:
    """Lines in a box of this width; the longest of them may take 4 cells less."""
    inner = width - 4
    head, tail = line(piece(f" {title} ")), line(piece(f" {foot} ", "dim") if foot else "")
    top = piece("─" * max(width - 3 - cells(head), 0) + "╮", "dim")
    found: list[Line] = [(piece("╭─", "dim"), *head, top)]
    found += [(piece("│ ", "dim"), *fit(one, inner), piece(" │", "dim")) for one in body]
    found.append((piece("╰" + "─" * max(width - 3 - cells(tail), 0), "dim"), *tail, piece("─╯", "dim")))
    return found


def beside(left: Sequence[Line], right: Sequence[Line], left_width: int, *, gap: int = 1) -> list[Line]:
    """Two blocks next to each other."""
    found: list[Line] = []
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else ()
        other = right[number] if number < len(right) else ()
        found.append((*fit(one, left_width), piece(" " * gap), *other))
    return found
