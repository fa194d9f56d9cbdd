"""How a story is told: who says or does what, line by line, while it happens; and kept for a document."""

import textwrap

import msgspec

from callboard.service.cli.terminal import print_lines
from callboard.service.settings import Color
from callboard.service.trace import Line, Style

from .proof import Check

WIDTH = 104
LABEL = 10
MOST_LINES = 6
"""Of one telling; a longer text is cut with a mark."""


class Told(msgspec.Struct, frozen=True):
    """Something that was told."""

    who: str
    """`customer`, `agent`, `question`, `done`, `time`, …, or the name of a person who decides."""
    text: str


class Tale:
    """Tells on standard output, or on standard error where standard output is for a document."""

    def __init__(self, *, document: bool = False, color: Color = "auto") -> None:
        self.told: list[Told] = []
        self._document = document
        self._color: Color = color

    def heading(self, text: str) -> None:
        """The beginning of a story; what was told before belongs to another."""
        self.told = []
        self._print("")
        self._print(text, "title")

    def tell(self, who: str, text: str, style: Style = "event", *, more: bool = False, indent: int = 0) -> None:
        """One telling; the texts of customers and models are quoted by whoever tells them. `more`: it goes on with what
        was told last. `indent`: of the second line on, where it has several."""
        self.told.append(Told(who, text))
        wide, hanging = WIDTH - LABEL - 2, " " * indent
        lines = [
            piece for line in text.splitlines() for piece in textwrap.wrap(line, wide, subsequent_indent=hanging)
        ] or [""]
        if len(lines) > MOST_LINES:
            lines = [*lines[: MOST_LINES - 1], f"{lines[MOST_LINES - 1]} …"]
        for number, line in enumerate(lines):
            self._print(f"  {'' if number or more else who:<{LABEL}}{line}", style)

    def check(self, check: Check) -> None:
        """Something that must be true, and whether it is."""
        detail = f": {check.detail}" if check.detail else ""
        self._print(f"  {'✓' if check.ok else '✗'} {check.name}{detail}", "good" if check.ok else "bad")

    def end(self, text: str, style: Style = "event") -> None:
        """A last word on a story, or on all of them."""
        self._print(f"  {text}", style)

    def _print(self, text: str, style: Style = "event") -> None:
        print_lines([Line(text, style)], self._color, to_stderr=self._document)
