"""The `/` of a list: a line at the lower edge of a pane in which a filter is typed, and the chips that tell of it.

`FilteredPane` is a pane with one list that can be filtered: it has the keys, and is told by `filter_changed`. What is
typed is read by `service.operations.filters` as it is typed; it counts from enter on. Esc in the line leaves the filter
as it was, esc on the list takes it away. The pane keeps it while another screen is shown.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Static

from callboard.service.operations.filters import MAX_CHARS, Field, Filter, FilterError, completed, parse
from callboard.service.safe import safe

from .pane import Pane
from .text import Line, Piece, content, line, piece


class PlainInput(Input):
    """A line to type in. Of what is pasted, that which would be hidden or move the cursor is left out."""

    def validate_value(self, value: str) -> str:
        """The characters that are seen."""
        return "".join(one for one in value if safe(one) == one)


class _Continuing(Suggester):
    """Continues a filter's last word."""

    def __init__(self, bar: "FilterBar") -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._bar = bar

    async def get_suggestion(self, value: str) -> str | None:
        return completed(value, self._bar.fields) if value else None


class FilterBar(Widget):
    """The line. Out of sight until it is opened; `filter` is what is in force."""

    DEFAULT_CSS = """
    FilterBar { dock: bottom; height: auto; display: none; background: $panel; padding: 0 1; }
    FilterBar.-open { display: block; }
    FilterBar Horizontal { height: 1; }
    FilterBar #filter-mark { width: 2; }
    FilterBar Input, FilterBar Input:focus { background: $panel; background-tint: transparent; width: 1fr; }
    FilterBar #filter-note { height: auto; max-height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave it as it was"),
        Binding("tab", "continue", "continue the word"),
    ]

    class Changed(Message):
        """Another filter is in force."""

        def __init__(self, filter: Filter) -> None:
            super().__init__()
            self.filter = filter

    def __init__(self, fields: Sequence[Field], *, id: str | None = "filter-bar") -> None:
        super().__init__(id=id)
        self.fields = tuple(fields)
        self.filter = Filter(fields=self.fields)
        self._before: Widget | None = None

    @property
    def opened(self) -> bool:
        """Whether it is in sight."""
        return self.has_class("-open")

    def open(self) -> None:
        """Show it, with the filter that is in force, and take the keys."""
        self._before = self.screen.focused
        if not self.children:
            self._fill()
        text = self.query_one(PlainInput)
        text.value = self.filter.text
        self.add_class("-open")
        text.focus()
        text.cursor_position = len(text.value)
        self._note(text.value)

    def _fill(self) -> None:
        """Only now: most lists are never filtered, and all of it together would be a sixth of the first screen."""
        row = Horizontal()
        text = PlainInput(compact=True, max_length=MAX_CHARS, suggester=_Continuing(self), id="filter-text")
        self.mount(row, Static(id="filter-note"))
        row.mount(Static(content(piece("/", "key")), id="filter-mark"), text)

    def put(self, text: str) -> None:
        """Let this filter be in force, as if it was typed.

        Raises:
            FilterError: it means nothing; the one before stays.
        """
        found = parse(text, self.fields)
        if found != self.filter:
            self.filter = found
            self.post_message(self.Changed(found))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._note(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self.put(event.value)
        except FilterError:
            return  # it is said under the line, and what was typed stays
        self.action_leave()

    def action_leave(self) -> None:
        """Go out of sight, with the filter that is in force."""
        self.remove_class("-open")
        if self._before is not None and self._before.is_attached:
            self._before.focus()

    def action_continue(self) -> None:
        """Take the word that is offered."""
        text = self.query_one(PlainInput)
        text.value = completed(text.value, self.fields)
        text.cursor_position = len(text.value)

    def on_descendant_blur(self, _: events.DescendantBlur) -> None:
        if self.opened and not self.has_focus_within:
            self.remove_class("-open")

    def _note(self, text: str) -> None:
        try:
            found = parse(text, self.fields)
        except FilterError as error:
            self.query_one("#filter-note", Static).update(content(piece(str(error), "bad")))
            return
        names = " ".join(one.name for one in self.fields)
        told = (
            f"{names} · * stands for anything · - not" if not found else "enter filters · tab continues · esc leaves it"
        )
        self.query_one("#filter-note", Static).update(content(piece(told, "dim")))


class FilteredPane(Pane):
    """A pane with a list and its `/`. It composes a `FilterBar` of its `fields`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("escape", "clear_filter", "clear the filter", show=False),
    ]

    @property
    def bar(self) -> FilterBar:
        """Its line."""
        return self.query_one(FilterBar)

    @property
    def filter(self) -> Filter:
        """What its list shall show."""
        return self.bar.filter

    def filter_changed(self) -> None:
        """Called when another filter is in force: show the list again. The frame's look does it, where it is soon
        enough."""
        self.frame.action_look_now()

    def on_filter_bar_changed(self, event: FilterBar.Changed) -> None:
        event.stop()
        self.filter_changed()

    def action_filter(self) -> None:
        """Type a filter."""
        self.bar.open()

    def action_clear_filter(self) -> None:
        """Show everything again."""
        self.bar.put("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing is cleared where nothing is filtered: esc goes on to whom it means something."""
        if action == "clear_filter":
            return bool(self.is_mounted and self.filter)
        if action == "filter":
            return not (self.is_mounted and self.bar.opened)
        return super().check_action(action, parameters)


def filter_title(heading: str, filter: Filter, *more: str | Piece | Line) -> Content:
    """A list's border title: `Actors · state:dead · 3 of 10,412`."""
    parts: list[Line] = [line(piece(heading, "title"))]
    parts += [line(piece(" · ", "dim"), piece(chip, "needs")) for chip in filter.chips]
    for one in more:
        parts += [line(piece(" · ", "dim")), line(one) if isinstance(one, str | Piece) else one]
    return content(*parts)


__all__ = ["FilterBar", "FilteredPane", "PlainInput", "filter_title"]
