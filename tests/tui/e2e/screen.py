"""A small terminal emulator: what a person would see of the bytes that a program writes, and which modes it has set.

It knows what a screen-oriented program sends: moving, erasing, printing, modes. Colours are read over. Everything that
is no printable text is kept as `sequences`, so that a test can tell what the program said to the terminal.
"""

import codecs
import re
from collections.abc import Iterator

from rich.cells import cell_len

_SEQUENCE = re.compile(
    r"\x1b\[(?P<private>[?<>=!]*)(?P<numbers>[0-9;:]*)(?P<middle>[ $'\"]*)(?P<final>[@-~])"  # CSI
    r"|\x1b(?P<string>[\]PX^_])(?P<body>[^\x07\x1b]*)(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b(?P<short>[ -/]*[0-Z\\^-~])"
)
_BEGINS = re.compile(r"\x1b(?:\[[?<>=!]*[0-9;:]*[ $'\"]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?")
_MODES = {
    "1049": "alternate",
    "25": "cursor",
    "1000": "mouse",
    "1003": "mouse-all",
    "1006": "mouse-sgr",
    "2004": "paste",
}


class Screen:
    """A terminal of so many columns and rows."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.modes: dict[str, bool] = {"cursor": True}
        self.sequences: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._x = self._y = 0
        self._cells = self._blank()

    def _blank(self) -> list[list[str]]:
        return [[" "] * self.columns for _ in range(self.rows)]

    def text(self) -> str:
        """What is shown, line by line."""
        return "\n".join("".join(row).rstrip() for row in self._cells)

    @property
    def cursor(self) -> tuple[int, int]:
        """Where the next character goes: column and row, from 0."""
        return self._x, self._y

    def feed(self, data: bytes) -> None:
        """The program has written this."""
        text = self._rest + self._decoder.decode(data)
        self._rest = ""
        for kind, piece in self._pieces(text):
            if kind == "text":
                self._print(piece)
            else:
                self.sequences.append(piece)
                self._obey(piece)

    def _pieces(self, text: str) -> Iterator[tuple[str, str]]:
        place = 0
        while place < len(text):
            escape = text.find("\x1b", place)
            end = len(text) if escape < 0 else escape
            if end > place:
                yield "text", text[place:end]
            if escape < 0:
                return
            found = _SEQUENCE.match(text, escape)
            if found is None:
                whole = _BEGINS.match(text, escape)
                if whole is not None and whole.end() == len(text):
                    self._rest = text[escape:]  # the rest of it comes with the next bytes
                    return
                place = escape + 1
                continue
            yield "sequence", found[0]
            place = found.end()

    def _obey(self, sequence: str) -> None:
        found = _SEQUENCE.fullmatch(sequence)
        assert found is not None
        if found["final"] is None:
            return
        numbers = [int(one) if one.isdecimal() else 0 for one in re.split("[;:]", found["numbers"])]
        first = numbers[0]
        match found["private"], found["final"]:
            case "?", "h" | "l":
                for number in numbers:
                    self.modes[_MODES.get(str(number), str(number))] = found["final"] == "h"
                if 1049 in numbers:
                    self._cells, self._x, self._y = self._blank(), 0, 0
            case "", "H" | "f":
                row, column = numbers[:2] if len(numbers) > 1 else (first, 1)
                self._y, self._x = max(row, 1) - 1, max(column, 1) - 1
            case "", "A":
                self._y -= max(first, 1)
            case "", "B":
                self._y += max(first, 1)
            case "", "C":
                self._x += max(first, 1)
            case "", "D":
                self._x -= max(first, 1)
            case "", "G":
                self._x = max(first, 1) - 1
            case "", "d":
                self._y = max(first, 1) - 1
            case "", "J":
                self._erase_below(first)
            case "", "K":
                self._erase_line(first)
        self._x = min(max(self._x, 0), self.columns)
        self._y = min(max(self._y, 0), self.rows - 1)

    def _erase_below(self, how: int) -> None:
        if how >= 2:
            self._cells = self._blank()
            return
        self._erase_line(0)
        for row in range(self._y + 1, self.rows):
            self._cells[row] = [" "] * self.columns

    def _erase_line(self, how: int) -> None:
        row = self._cells[self._y]
        begin, end = {0: (self._x, self.columns), 1: (0, self._x + 1)}.get(how, (0, self.columns))
        row[begin:end] = [" "] * (min(end, self.columns) - begin)

    def _print(self, text: str) -> None:
        for character in text:
            match character:
                case "\r":
                    self._x = 0
                case "\n":
                    self._y = min(self._y + 1, self.rows - 1)
                case "\b":
                    self._x = max(self._x - 1, 0)
                case _ if character >= " ":
                    self._put(character)

    def _put(self, character: str) -> None:
        width = cell_len(character)
        if width and self._x + width <= self.columns:
            row = self._cells[self._y]
            row[self._x] = character
            if width == 2:
                row[self._x + 1] = ""
            self._x += width
