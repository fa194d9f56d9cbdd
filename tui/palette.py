"""`:`: every command by name: what the keys of this screen do now, the screens, and opening something by its id.

Commands are run as their keys would be, so whatever a key asks once more is asked here too.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from .dialog import Dialog
from .frame_keys import KeysLine, changes, name_of
from .text import Line, block, cells, content, cut, piece

ROWS = 14
LEFT_OUT = frozenset({"palette", "leave", "come_back", "help_quit", "screen", "copy_text", "second_key"})
"""Also what finishes a decision: here it would be Enter that does it."""


class Command(NamedTuple):
    """A command."""

    name: str
    keys: str
    action: str
    node: DOMNode | None
    off: bool = False


def commands(screen: Screen[object], *, off: bool, screens: tuple[str, ...]) -> list[Command]:
    """What can be done on this screen now. `off`: nothing may be changed; `screens`: their names."""
    found: dict[tuple[int, str], Command] = {}
    for key, (node, binding, enabled, _) in screen.active_bindings.items():
        action = binding.action.partition("(")[0].rpartition(".")[2]
        moves = action.startswith(("move", "page", "scroll", "first", "last", "focus_", "cursor_"))
        if not binding.description or not enabled or moves or action in LEFT_OUT:
            continue
        place = (id(node), binding.action)
        keys = f"{found[place].keys} {name_of(key)}" if place in found else name_of(key)
        is_off = off and changes(node, binding.action)
        found[place] = Command(binding.description, keys, binding.action, node, is_off)
    go = [Command(f"go to {name}", str(number), f"screen({number})", None) for number, name in enumerate(screens, 1)]
    return [*found.values(), *go]


def matching(all_: list[Command], typed: str) -> list[Command]:
    """Those in whose names all the typed words are; those that begin with them first. An id can be opened."""
    words = typed.lower().split()
    kept = [one for one in all_ if all(word in one.name.lower() for word in words)]
    kept.sort(key=lambda one: not one.name.lower().startswith(typed.lower().strip()))
    one_word = typed.strip()
    if len(words) == 1 and (one_word.startswith("/") or any(character.isdigit() for character in one_word)):
        kept.append(Command(f"open actor {one_word}", "", "actors", None))
        kept.append(Command(f"open run {one_word}", "", "runs", None))
        kept.append(Command(f"open mailbox {one_word}", "", "mailboxes", None))
    return kept


class Choices(Widget):
    """The commands that match, one of them chosen."""

    found: reactive[tuple[Command, ...]] = reactive(())
    chosen: reactive[int] = reactive(0)

    def render(self) -> Content:
        width = self.size.width
        top = max(0, min(self.chosen - ROWS // 2, len(self.found) - ROWS))
        lines: list[Line] = []
        for number, one in enumerate(self.found[top : top + ROWS], top):
            here = number == self.chosen
            name = cut((piece(f" {one.name} ", "cursor" if here else "dim" if one.off else ""),), max(width - 12, 4))
            gap = piece(" " * max(width - cells(name) - 11, 1))
            lines.append((*name, gap, piece(one.keys[:10], "key")))
        return block(lines) if lines else content(piece("no command has that in its name", "dim"))


class Palette(Dialog[Callable[[], None]]):
    """Type a part of its name, and Enter runs it."""

    DEFAULT_CSS = f"""
    Palette {{ align: center top; }}
    Palette > Vertical {{
        width: 72; max-width: 98%; height: auto; margin-top: 2;
        background: $panel; border: round $cb-info; padding: 0 1;
        border-title-color: $cb-info; border-title-style: bold;
    }}
    Palette Choices {{ height: {ROWS}; margin-top: 1; }}
    Palette.-short Choices {{ height: 7; margin-top: 0; }}
    Palette.-short > Vertical {{ margin-top: 0; }}
    Palette KeysLine {{ padding: 0; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave"),
        Binding("down,ctrl+n", "choose(1)", "next", show=False),
        Binding("up,ctrl+p", "choose(-1)", "previous", show=False),
    ]

    def __init__(self, screen: Screen[object]) -> None:
        super().__init__()
        self._of = screen

    def compose(self) -> ComposeResult:
        box = Vertical()
        box.border_title = content("Every command by name")
        with box:
            yield Input(compact=True, max_length=200)
            yield Choices()
            yield KeysLine()

    def on_mount(self) -> None:
        self._all = commands(
            self._of, off=bool(self.frame.off), screens=tuple(pane.heading for pane in self.frame.SHOWN)
        )
        self.query_one(Input).focus()
        self._show_matching()

    @property
    def half_typed(self) -> bool:
        """A part of a name is no text."""
        return False

    @on(Input.Changed)
    def _show_matching(self) -> None:
        choices = self.query_one(Choices)
        choices.found = tuple(matching(self._all, self.query_one(Input).value))
        choices.chosen = 0

    def action_choose(self, by: int) -> None:
        """Another one."""
        choices = self.query_one(Choices)
        if choices.found:
            choices.chosen = (choices.chosen + by) % len(choices.found)

    @on(Input.Submitted)
    def _run(self) -> None:
        choices = self.query_one(Choices)
        if not choices.found:
            return
        one, typed, frame = choices.found[choices.chosen], self.query_one(Input).value.strip(), self.frame
        self.dismiss(None)
        if one.node is None and not one.action.startswith("screen("):
            frame.call_later(frame.open_screen, one.action, typed)
        else:
            frame.call_later(frame.run_action, one.action, one.node)
