"""An event of a run, whole: in a box below the waterfall as far as there is room, and in a dialog all of it."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from .dialog import Dialog
from .frame_keys import KeysLine
from .text import Line, block, content, line, piece

Tell = Callable[[int, bool], tuple[Line, Sequence[Line]]]
"""Title and lines at this width; as JSON or not."""


class EventBox(Static):
    """As much of an event as there is room for; whether that is all is said at its lower edge."""

    DEFAULT_CSS = """
    EventBox { height: 10; border: round $cb-line; border-title-color: $foreground; padding: 0 1; }
    """

    tell: Tell | None = None

    def __init__(self, *, hint: str = "", id: str | None = None) -> None:
        """`hint`: what else can be done with it, beside having it whole."""
        super().__init__(id=id)
        self._hint = f" · {hint}" if hint else ""

    def show(self, tell: Tell | None) -> None:
        """Show this; None: nothing."""
        self.tell = tell
        self._show()

    def _show(self) -> None:
        if self.tell is None or not self.size.width:
            self.border_title = self.border_subtitle = None
            self.update(content(""))
            return
        title, lines = self.tell(self.size.width, False)
        room = max(self.size.height, 1)
        left = len(lines) - room
        self.border_title = content(title)
        more = f"⏎ {left} more lines" if left > 0 else "⏎ whole"
        self.border_subtitle = content(piece(f"{more}{self._hint}", "dim"))
        self.update(block(lines[:room]))

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.call_after_refresh(self._show)


class EventDialog(Dialog[None]):
    """All of an event. `[` and `]` go to its neighbours, `w` shows it as it is stored."""

    DEFAULT_CSS = """
    EventDialog { align: center middle; }
    EventDialog > VerticalScroll {
        width: 110; max-width: 98%; height: auto; max-height: 94%; background: $panel;
        border: round $cb-info; border-title-color: $cb-info; padding: 0 1; scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
    EventDialog Static { height: auto; }
    EventDialog KeysLine { dock: bottom; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "leave", "leave", key_display="esc"),
        Binding("right_square_bracket", "step(1)", "next"),
        Binding("left_square_bracket", "step(-1)", "previous"),
        Binding("w", "raw", "as stored"),
        Binding("down,j", "scroll(1)", "down", show=False),
        Binding("up,k", "scroll(-1)", "up", show=False),
        Binding("ctrl+d,pagedown", "scroll(10)", "down", show=False),
        Binding("ctrl+u,pageup", "scroll(-10)", "up", show=False),
        Binding("g,home", "edge(0)", "to the beginning", show=False),
        Binding("G,end", "edge(1)", "to the end", show=False),
    ]

    def __init__(self, step: Callable[[int], Tell | None]) -> None:
        """`step`: what is to be told after so many steps from the line under the cursor; it moves the cursor."""
        super().__init__()
        self._step = step
        self._tell = step(0)
        self.raw = False

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(id="event")
        yield KeysLine()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        box = self.query_one(VerticalScroll)
        if self._tell is None:
            return
        # Wrapped here and never by the widget: that would put what is foreign before its bar.
        title, lines = self._tell(max(box.scrollable_content_region.width, 20), self.raw)
        box.border_title = content(title, piece(" · as stored", "dim") if self.raw else "")
        self.query_one("#event", Static).update(block(lines))

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.call_after_refresh(self._show)

    def action_step(self, by: int) -> None:
        """The next event, or the one before."""
        self._tell = self._step(by)
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._show()

    def action_raw(self) -> None:
        """As it is stored, or told."""
        self.raw = not self.raw
        self._show()

    def action_scroll(self, by: int) -> None:
        box = self.query_one(VerticalScroll)
        box.scroll_to(y=box.scroll_y + by, animate=False)

    def action_edge(self, end: int) -> None:
        box = self.query_one(VerticalScroll)
        (box.scroll_end if end else box.scroll_home)(animate=False)


def title_of(number: int, total: int, label: str) -> Line:
    """`Event 6 of 11 · look_up`."""
    place = f"{number:,} of {total:,}" if number else f"of {total:,}"
    return line(piece(f"Event {place}", "strong"), piece(f" · {label}", "dim"))
