"""How a line of a timeline looks: its name, its bar on the scale, and how long it took. Pure.

What fills a bar says how it ended, in form as well as in colour: `█` done, `▄` at work, `▒` without success or outcome,
`╌` waits to be tried again, `▓` another node takes over, `╱` waits for a person. `┊` goes through all lines where a
node was lost.
Beside a bar stands, where there is room, who decided or what it failed with.
"""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from .text import Line, Piece, Role, line, piece
from .trace_calls import Fill, Stretch
from .trace_scale import Scale, span_text

FILLS: dict[Fill, tuple[str, Role]] = {
    "run": ("─", "dim"),
    "done": ("█", "ok"),
    "work": ("▄", "info"),
    "failed": ("▒", "bad"),
    "cut": ("▒", "bad"),
    "retry": ("╌", "retry"),
    "person": ("╱", "needs"),
    "taken": ("▓", "retry"),
    "point": ("·", "dim"),
}
LOST, MORE_LEFT, MORE_RIGHT = "┊", "<", ">"
WORDS: dict[Fill, str] = {
    "done": "done",
    "work": "at work",
    "failed": "failed",
    "retry": "waits to retry",
    "taken": "taken over",
    "person": "waits for a person",
}


def legend(lines: Iterable[Stretch], *, lost: bool, folded: bool, width: int) -> list[Line]:
    """What the fills of these lines mean, as lines of this width."""
    fills = {"failed" if one.fill == "cut" else one.fill for one in lines}
    signs: list[tuple[str, Role, str]] = [
        (FILLS[fill][0] * 2, FILLS[fill][1], word) for fill, word in WORDS.items() if fill in fills
    ]
    if lost:
        signs.append((LOST, "bad", "node lost"))
    if folded:
        signs.append(("≈", "dim", "time folded"))
    found: list[Line] = []
    row: list[Piece] = []
    used = 0
    for sign, role, word in signs:
        wide = len(sign) + 1 + len(word) + 3
        if row and used + wide > width + 3:
            found.append(tuple(row))
            row, used = [], 0
        row += [piece(sign, role), piece(f" {word}   ", "dim")]
        used += wide
    return [*found, tuple(row)]


def name(stretch: Stretch) -> Line:
    """Glyph and name; the run's own line stands out, all others are under it."""
    if stretch.kind == "run":
        return line(piece(f"{stretch.glyph} ", "dim"), piece(stretch.label, "strong"))
    return line(piece(f"  {stretch.glyph or ' '} ", stretch.role), piece(stretch.label, stretch.role))


def length(stretch: Stretch, now: float) -> Line:
    """How long it took; with `…` where it goes on."""
    if stretch.ended is None:
        return line(piece(f"{span_text(stretch.seconds(now))}…", stretch.role or "info"))
    if stretch.kind in ("event", "lost"):
        return ()
    return line(piece(span_text(stretch.seconds(now)), "dim"))


def bar(stretch: Stretch, scale: Scale, now: float, lost: Sequence[int] = ()) -> Line:
    """The bar in its cells, with what is said beside it. `lost`: cells at which a node was lost."""
    cells: list[tuple[str, Role]] = [(" ", "")] * scale.cells
    for cell in lost:
        cells[cell] = (LOST, "bad")
    ended = now if stretch.ended is None else stretch.ended
    span = scale.span(stretch.began, ended)
    if span is None:
        before = scale.position(ended) < 0
        cells[0 if before else -1] = (MORE_LEFT if before else MORE_RIGHT, "dim")
        return _joined(cells)
    sign, role = FILLS[stretch.fill]
    if stretch.fill == "point":
        sign, role = stretch.glyph or sign, stretch.role or role
    first, after = span
    cells[first:after] = [(sign, role)] * (after - first)
    _say(cells, stretch, first, after)
    return _joined(cells)


def _say(cells: list[tuple[str, Role]], stretch: Stretch, first: int, after: int) -> None:
    """Put what is said after the bar, or before it, or into it; cut where it fits nowhere."""
    said = piece(stretch.said).text
    if not said or cell_len(said) != len(said):
        return  # signs of two cells are told in the details
    right, left = len(cells) - after - 1, first - 1
    if len(said) > max(right, left) and len(said) + 6 <= after - first:
        said = f" {said} "
        start = first + (after - first - len(said)) // 2
    elif max(right, left) < 6:
        return
    else:
        said = _cut(said, max(right, left))
        start = after + 1 if right >= len(said) else left - len(said)
    for number, character in enumerate(said):
        cells[start + number] = (character, "dim")


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _joined(cells: Sequence[tuple[str, Role]]) -> Line:
    pieces: list[Piece] = []
    start = 0
    for number in range(1, len(cells) + 1):
        if number == len(cells) or cells[number][1] != cells[start][1]:
            pieces.append(piece("".join(sign for sign, _ in cells[start:number]), cells[start][1]))
            start = number
    return tuple(pieces)
