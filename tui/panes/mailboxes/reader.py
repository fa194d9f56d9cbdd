"""A page of text that is read line by line, with places in it that lead elsewhere.

It is drawn by lines, like the long table, and wraps all it is given: nothing of a message is ever cut off here. Enter
on a line that leads somewhere says so (`Followed`); what is looked for in it is marked, and the cursor goes to it.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from callboard.tui.text import Line, Piece, line, lit, piece, wrapped

LABEL_CELLS = 11


class Para(NamedTuple):
    """A paragraph: a label in front of it, and where it leads."""

    text: Line
    label: str = ""
    target: str = ""
    hang: int = 0
    """Blanks in front of its lines after the first, where it has no label."""


def fact(label: str, text: str | Piece | Line, target: str = "") -> Para:
    """`from      gateway`."""
    return Para(line(text) if isinstance(text, str | Piece) else text, label, target)


GAP = Para(())


class Reader(ScrollView, can_focus=True):
    """The page."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "cb--dim", "cb--strong", "cb--title", "cb--key", "cb--ok", "cb--needs", "cb--bad", "cb--retry", "cb--info",
        "cb--cursor", "cb--here", "cb--found",
    }  # fmt: skip
    DEFAULT_CSS = """
    Reader { background: $background; color: $foreground; scrollbar-size-vertical: 1; overflow-x: hidden; }
    Reader { scrollbar-color: $cb-line; scrollbar-color-hover: $cb-line; scrollbar-color-active: $cb-info;
             scrollbar-background: $background; scrollbar-background-hover: $background;
             scrollbar-background-active: $background; }
    Reader .cb--dim { color: $cb-dim; }
    Reader .cb--strong { text-style: bold; }
    Reader .cb--title { color: $cb-info; text-style: bold; }
    Reader .cb--key { color: $cb-info; text-style: bold; }
    Reader .cb--ok { color: $cb-ok; }
    Reader .cb--needs { color: $cb-needs; text-style: bold; }
    Reader .cb--bad { color: $cb-bad; text-style: bold; }
    Reader .cb--retry { color: $cb-retry; }
    Reader .cb--info { color: $cb-info; }
    Reader .cb--cursor { text-style: reverse; }
    Reader .cb--found { text-style: reverse bold; }
    Reader .cb--here { background: $cb-cursor; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "down", show=False),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("ctrl+d,pagedown", "page(1)", "half a page down", show=False),
        Binding("ctrl+u,pageup", "page(-1)", "half a page up", show=False),
        Binding("g,home", "ends(0)", "first", show=False),
        Binding("G,end", "ends(1)", "last", show=False),
        Binding("enter", "follow", "go there"),
    ]

    class Followed(Message):
        """Enter on a line that leads to `target`."""

        def __init__(self, target: str) -> None:
            super().__init__()
            self.target = target

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._paras: tuple[Para, ...] = ()
        self._lines: list[tuple[Line, str]] = []
        self._sought = ""
        self._page = ""
        self._kept: dict[Para, list[Line]] = {}
        self._kept_for = (0, "")
        self.at = 0

    # -- what is on it

    def show(self, paras: Sequence[Para], *, page: str = "") -> None:
        """Show these. `page`: its name; on another page than before, the cursor begins anew."""
        if page != self._page:
            self._page, self.at, self._sought = page, 0, ""
            self.scroll_to(y=0, animate=False, force=True)
        elif tuple(paras) == self._paras:
            return
        self._paras = tuple(paras)
        self._lay_out()

    @property
    def text(self) -> str:
        """All of it as text, unwrapped."""
        return "\n".join(f"{one.label:<{LABEL_CELLS}}{_plain(one.text)}".rstrip() if one.label else _plain(one.text)
                         for one in self._paras)  # fmt: skip

    @property
    def target(self) -> str:
        """Where the line under the cursor leads; "" for nowhere."""
        return self._lines[self.at][1] if self._lines else ""

    def find(self, text: str) -> int:
        """Mark this wherever it stands, great and small letters alike, and go to the next place; how many there are."""
        again = text == self._sought
        self._sought = text
        self._lay_out()
        hits = [number for number, (one, _) in enumerate(self._lines) if any(_is_found(part) for part in one)]
        if hits:
            self._go(
                next((number for number in hits if number > self.at or (not again and number == self.at)), hits[0])
            )
        return sum(_plain(one.text).casefold().count(text.casefold()) for one in self._paras) if text else 0

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width = max(self.scrollable_content_region.width - 1, 8)
        kept, self._kept = self._kept if self._kept_for == (width, self._sought) else {}, {}
        self._kept_for = (width, self._sought)
        self._lines = []
        for para in self._paras:  # mostly they are as they were, but for an age
            lines = self._kept[para] = kept.get(para) or _set(para, width, self._sought)
            self._lines += [(one, para.target) for one in lines]
        self.virtual_size = Size(self.size.width, len(self._lines))
        self.at = max(0, min(self.at, len(self._lines) - 1))
        self.refresh()

    # -- moving

    def action_move(self, by: int) -> None:
        self._go(self.at + by)

    def action_page(self, by: int) -> None:
        self._go(self.at + by * max(self.size.height // 2, 1))

    def action_ends(self, last: int) -> None:
        self._go(len(self._lines) - 1 if last else 0)

    def action_follow(self) -> None:
        if self.target:
            self.post_message(self.Followed(self.target))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter works where it leads somewhere."""
        return bool(self.target) if action == "follow" else super().check_action(action, parameters)

    def _go(self, number: int) -> None:
        self.at = max(0, min(number, len(self._lines) - 1))
        room, top = max(self.size.height, 1), int(self.scroll_y)
        top = max(self.at - room + 1, min(top, self.at), 0)
        if top != int(self.scroll_y):
            self.scroll_to(y=top, animate=False, force=True)
        self.refresh_bindings()
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    # -- drawing

    def render_line(self, y: int) -> Strip:
        width, number = self.size.width, y + int(self.scroll_y)
        if number >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        one, target = self._lines[number]
        under = self.rich_style
        here = self.has_focus and number == self.at
        if here:
            under += self.get_component_rich_style("cb--here")
            under += Style.parse(self.app.theme_variables.get("cb-cursor-style", ""))
        segments = [Segment("▐" if here else " ", under + self.get_component_rich_style("cb--key"))]
        for text, role in one:
            name = "found" if role == "cursor" else role
            segments.append(Segment(text, under + self.get_component_rich_style(f"cb--{name}") if name else under))
        if target and here:
            segments.append(Segment(" ⏎", under + self.get_component_rich_style("cb--key")))
        return Strip(segments).adjust_cell_length(width, under)


def _plain(one: Line) -> str:
    return "".join(text for text, _ in one)


def _is_found(part: Piece) -> bool:
    return part.role == "cursor"


def _set(para: Para, width: int, sought: str) -> list[Line]:
    """A paragraph's lines."""
    text = lit(para.text, sought)
    if not para.label:
        return wrapped(text, width, hang=para.hang)
    room = max(width - LABEL_CELLS, 8)
    head = piece(f"{para.label:<{LABEL_CELLS}}", "dim")
    blank = piece(" " * LABEL_CELLS)
    return [(blank if number else head, *one) for number, one in enumerate(wrapped(text, room))]
