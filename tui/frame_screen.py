"""The screen below all dialogs, which is styled and laid out once as it starts: nothing is drawn before that.

Textual puts the classes for a size on a screen only when it is told of one, which is after its first frame; and styles
all widgets again when a screen comes to sight. Here the classes are there before the first widget, and each widget was
styled as it was mounted, a moment before.
"""

from collections.abc import Sequence

from textual import events
from textual.geometry import Size
from textual.screen import Screen

Breakpoints = Sequence[tuple[int, str]]
"""From so many cells on, this class."""


class FrameScreen(Screen[object]):
    """The screen of this size."""

    def __init__(self, size: Size, across: Breakpoints, down: Breakpoints) -> None:
        super().__init__(id="_default", classes=f"{_class_for(size.width, across)} {_class_for(size.height, down)}")
        self._is_new = True

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """It comes to sight."""
        event.refresh_styles = event.refresh_styles and not self._is_new
        self._is_new = False


def _class_for(cells: int, breakpoints: Breakpoints) -> str:
    return next((name for least, name in sorted(breakpoints, reverse=True) if cells >= least), "")
