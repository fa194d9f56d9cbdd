"""Rows of the list of dead letters: pure functions of what was read."""

from callboard.service.operations.dead import DeadLine
from callboard.tui.panes.mailboxes.states import short, state
from callboard.tui.table import Column, Row
from callboard.tui.text import Line, duration, line, piece

COLUMNS = (
    Column("actor", "actor", 12, grow=2, most=40),
    Column("message", "message", 11, grow=1, drop=3, most=32),
    Column("died of", "died of", 16, grow=5),
    Column("tries", "tries", 5, right=True, drop=2),
    Column("dead for", "dead for", 8, right=True),
    Column("settled", "settled", 12, drop=1, most=24),
)


def columns(*, settled: bool) -> tuple[Column, ...]:
    """The columns; that of what was done about each is there only where some are settled."""
    return COLUMNS if settled else COLUMNS[:-1]


def row(letter: DeadLine, now: float, *, settled: bool) -> Row:
    """A dead letter."""
    cells: list[Line] = [
        line(piece(short(letter.recipient))),
        line(piece(letter.type)),
        line(piece(died_of(letter), "dim" if letter.settled else "bad")),
        line(piece(str(tries(letter)) if tries(letter) else "·", "" if tries(letter) else "dim")),
        line(piece(duration(now - letter.at), "dim")),
    ]
    if settled:
        done = line(state(letter.settled), piece(f" {letter.settled_by}", "dim"))
        cells.append(done if letter.settled else line(state("open")))
    return Row(str(letter.number), cells, markable=not letter.settled)


def tries(letter: DeadLine) -> int:
    """How often it was tried. What fails for good at its first try is not counted as one that is tried again."""
    return letter.failures or int(letter.reason == "failed")


def died_of(letter: DeadLine) -> str:
    """What it died of, on one line: the error, or else the reason."""
    text = " ".join((letter.detail or letter.last_error).split())
    return text or letter.reason
