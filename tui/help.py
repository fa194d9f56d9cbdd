"""`?`: the keys of the screen that is shown, made from its bindings, so that it lists exactly those that there are."""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Static

from callboard.service.operations.watching import Word

from .dialog import Dialog
from .frame_keys import KeysLine, name_of
from .look import LOOKS
from .pane import Pane
from .text import Line, block, content, grid, line, piece

TWO_COLUMNS = 90
"""Cells of the screen from which on there are two columns."""
STATES: dict[Word, str] = {
    "NEEDS YOU": "waits for a person",
    "DEAD": "a message was given up; the letter is kept",
    "FAILED": "ended with an error",
    "ESCALATED": "its supervisor gave up",
    "RETRY": "failed, and is tried again",
    "RECOVERING": "replays after a crash",
    "PARKED": "waits for a fix or a person",
    "PAUSED": "by a person",
    "HELD": "approved; can be taken back",
}
"""What needs somebody, in the order of attention; the other states say it themselves."""
_TEXTUALS = {
    "Focus Next": "next pane", "Focus Previous": "pane before", "Copy selected text": "copy what the mouse has marked",
}  # fmt: skip
"""What Textual's own bindings do, in our words."""
_IDLE_SCROLLS = frozenset({"scroll_left", "scroll_right", "page_left", "page_right"})


class Entry(NamedTuple):
    """Keys that do one thing."""

    group: str
    keys: tuple[str, ...]
    """By their names in bindings."""
    does: str

    @property
    def shown(self) -> str:
        """The keys as people read them."""
        if len(self.keys) > 4:
            return f"{name_of(self.keys[0])} … {name_of(self.keys[-1])}"
        return " ".join(name_of(key) for key in self.keys)


def entries(screen: Screen[object]) -> list[Entry]:
    """Everything that a key does on this screen now, in groups: the list, the screen, everywhere."""
    found: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for key, (node, binding, _, _) in screen.active_bindings.items():
        action = binding.action.partition("(")[0]
        if not binding.description or (action in _IDLE_SCROLLS and not getattr(node, "allow_horizontal_scroll", False)):
            continue
        group = group_of(node)
        does = "screens" if group == "Everywhere" and action == "screen" else _plain(binding.description)
        found.setdefault((group, does), (does, []))[1].append(key)
    return [Entry(group, tuple(keys), does) for (group, _), (does, keys) in found.items()]


def group_of(node: DOMNode) -> str:
    """Under which heading a widget's keys stand."""
    if isinstance(node, Pane):
        return node.heading
    if isinstance(node, Dialog):
        return "This dialog"
    return "Everywhere" if node.parent is None or isinstance(node, Screen) else "In the list"


def _plain(description: str) -> str:
    return _TEXTUALS.get(description) or description[:1].lower() + description[1:]


class Help(Dialog[None]):
    """The keys, and what the states mean."""

    DEFAULT_CSS = """
    Help { align: center middle; }
    Help > VerticalScroll {
        width: 104; max-width: 98%; height: auto; max-height: 98%;
        background: $panel; border: round $cb-info; padding: 0 2;
        border-title-color: $cb-info; border-title-style: bold;
    }
    Help Horizontal { height: auto; }
    Help Static { width: 1fr; height: auto; padding-right: 2; }
    Help KeysLine { padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q", "leave", "close"),
        Binding("j,down", "scroll(1)", "down", show=False),
        Binding("k,up", "scroll(-1)", "up", show=False),
        Binding("ctrl+d,pagedown,space", "scroll(10)", "down", show=False),
        Binding("ctrl+u,pageup", "scroll(-10)", "up", show=False),
    ]

    def __init__(self, screen: Screen[object], heading: str) -> None:
        super().__init__()
        self.entries = entries(screen)
        self._heading = heading

    def compose(self) -> ComposeResult:
        box = VerticalScroll(can_focus=False)
        box.border_title = content(f"Keys · {self._heading}")
        groups = list(self._groups())
        with box:
            if self.app.size.width >= TWO_COLUMNS:
                left, right = _halves(groups)
                with Horizontal():
                    yield Static(block(left))
                    yield Static(block(right))
            else:
                yield Static(block([one for group in groups for one in group]))
            yield KeysLine()

    def _groups(self) -> Iterator[list[Line]]:
        wide = self.app.size.width >= TWO_COLUMNS
        width = 46 if wide else max(min(self.app.size.width - 8, 90), 30)
        for group in dict.fromkeys(entry.group for entry in self.entries):
            pairs = [(entry.shown, line(piece(entry.does, "dim"))) for entry in self.entries if entry.group == group]
            yield _titled(group, [_keyed(one) for one in grid(pairs, width, key_width=16)])
        states = [(f"{LOOKS[word].glyph} {word}", line(piece(says, "dim"))) for word, says in STATES.items()]
        yield _titled("States", [_keyed(one) for one in grid(states, width, key_width=16)])

    def action_scroll(self, by: int) -> None:
        """Move."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


def _titled(title: str, lines: list[Line]) -> list[Line]:
    return [line(""), line(piece(title, "strong")), *lines]


def _keyed(one: Line) -> Line:
    """With its first piece, which names a key, in the colour of keys."""
    return (piece(one[0].text, "key"), *one[1:])


def _halves(groups: list[list[Line]]) -> tuple[list[Line], list[Line]]:
    """In two columns of about the same length, no group divided."""
    total, left = sum(map(len, groups)), list[Line]()
    for number, group in enumerate(groups):
        if left and len(left) + len(group) / 2 > total / 2:
            return left, [one for rest in groups[number:] for one in rest]
        left += group
    return left, []
