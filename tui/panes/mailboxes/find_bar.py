"""The `/` of a page: a line at its foot in which a text is looked for in the message that is shown."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input, Static

from callboard.tui.filter_bar import PlainInput
from callboard.tui.text import content, piece

from .reader import Reader

MAX_CHARS = 200


class FindBar(Widget):
    """Enter goes to the next place; esc leaves it, and the page where it is."""

    DEFAULT_CSS = """
    FindBar { height: 1; display: none; layout: horizontal; background: $panel; }
    FindBar.-open { display: block; }
    FindBar #find-mark, FindBar #find-note { width: auto; }
    FindBar Input, FindBar Input:focus { background: $panel; background-tint: transparent; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave it")]

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self._reader = reader

    def compose(self) -> ComposeResult:
        yield Static(content(piece(" find ", "key")), id="find-mark")
        yield PlainInput(compact=True, max_length=MAX_CHARS)
        yield Static(id="find-note")

    def open(self) -> None:
        """Take the keys."""
        self.add_class("-open")
        self.query_one(PlainInput).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._find(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._find(event.value)

    def _find(self, text: str) -> None:
        found = self._reader.find(text)
        told = piece(f" {found} found " if found else " nowhere ", "dim" if found else "needs")
        self.query_one("#find-note", Static).update(content(told if text else ""))

    def action_leave(self) -> None:
        """Go out of sight, with nothing marked any more."""
        self.remove_class("-open")
        self.query_one(PlainInput).value = ""
        self._reader.find("")
        self._reader.focus()

    def on_descendant_blur(self, _: events.DescendantBlur) -> None:
        if not self.has_focus_within:
            self.remove_class("-open")
