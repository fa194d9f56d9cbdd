"""The part of a dialog that scrolls: lines that were laid out for its width, and how far down they were in view."""

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from ..text import Line, block


class Body(VerticalScroll):
    """Lines that scroll. `Moved`: other lines are in view, or there is another width to lay them out for."""

    DEFAULT_CSS = """
    Body { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    Body Static { width: 1fr; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "down", show=False),
        Binding("k", "scroll_up", "up", show=False),
        Binding("ctrl+d", "page_down", "a page down", show=False),
        Binding("ctrl+u", "page_up", "a page up", show=False),
        Binding("g", "scroll_home", "to the beginning", show=False),
        Binding("G", "scroll_end", "to the end", show=False),
    ]

    class Moved(Message):
        """Look again what is in view."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._width = 0
        self._make: Callable[[int], list[Line]] | None = None

    def compose(self) -> ComposeResult:
        yield Static()

    @property
    def room(self) -> int:
        """Cells for a line; 0 while it is not laid out."""
        # The scrollbar's cell is always left free, so that no line is broken again when it comes.
        return max(self.outer_size.width - 3, 0) if self.size.width else 0

    @property
    def shown_to(self) -> int:
        """Number of the line after the last one that is in view."""
        return int(self.scroll_offset.y) + self.size.height if self.size.height else 0

    def show(self, make: Callable[[int], list[Line]], *, top: bool = False) -> None:
        """Show lines, which `make` lays out for a width, now and when that changes. `top`: from the first one on."""
        self._make = make
        self._write()
        if top:
            self.scroll_home(animate=False)

    def _write(self) -> None:
        self._width = self.room
        if self._make is not None and self._width:
            self.query_one(Static).update(block(self._make(self._width)))
        self.call_after_refresh(self.post_message, self.Moved())

    def on_resize(self, event: events.Resize) -> None:
        if self.room != self._width:
            self._write()
        self.post_message(self.Moved())

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        self.post_message(self.Moved())
