"""One line of the frame: it is given pieces, and is painted only when they have changed."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from .text import Line, cells, content


class Bar(Widget):
    """A line of pieces."""

    DEFAULT_CSS = "Bar { height: 1; padding: 0 1; }"
    shown: reactive[Line] = reactive(())

    def render(self) -> Content:
        return content(*self.shown)

    @property
    def room(self) -> int:
        """Cells for what is shown."""
        return max(self.app.size.width - 2, 0)


class Tabs(Bar):
    """The row of screens; a click opens one."""

    class Wanted(Message):
        """This screen is wanted."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    _parts: Sequence[tuple[int, Line]] = ()

    def show(self, parts: Sequence[tuple[int, Line]]) -> None:
        """Number of each screen, and what is shown of it."""
        self._parts = parts
        self.shown = tuple(one for _, line in parts for one in line)

    def on_click(self, event: events.Click) -> None:
        """Open the screen that is under the pointer."""
        at = event.x - 1
        for number, line in self._parts:
            if 0 <= at < cells(line):
                self.post_message(self.Wanted(number))
                return
            at -= cells(line)
