"""What the terminal around the screen is told: its title with a count, and its bell when something new waits.

Only digits of ours go out this way, never a text from anywhere. The title that was there before comes back at the end,
in terminals that keep a stack of titles; in others it is emptied.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .app import CallboardApp

PUSH, POP = "\x1b[22;0t", "\x1b[23;0t"


class Title:
    """Title and bell of one app."""

    def __init__(self, app: "CallboardApp", *, rings: bool) -> None:
        self._app, self._rings = app, rings
        self._seen: tuple[int, int] | None = None
        self.text = ""
        self.rung = 0
        """How often it rang."""

    def begin(self) -> None:
        """Keep the title that is there."""
        self._write(PUSH)

    def count(self, to_decide: int, broken: int) -> None:
        """So many wait for a decision, and so many are broken: dead or escalated."""
        self._show(f"({to_decide}) callboard" if to_decide else "callboard")
        seen, self._seen = self._seen, (to_decide, broken)
        if self._rings and seen is not None and (to_decide > seen[0] or broken > seen[1]):
            self.rung += 1
            self._app.bell()

    def end(self) -> None:
        """Give the title back."""
        if self._rings:
            self._write("\x1b]0;\x07")
        self._write(POP)

    def _show(self, text: str) -> None:
        if self._rings and text != self.text:
            self.text = text
            self._write(f"\x1b]0;{text}\x07")

    def _write(self, sequence: str) -> None:
        driver = self._app._driver  # Textual has no public way to say something to the terminal
        if driver is not None and not self._app.is_headless and self._rings:
            driver.write(sequence)
