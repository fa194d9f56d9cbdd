"""Jump mode: each list of the screen has a letter, and the letter puts the keys there. It opens, decides and changes
nothing; any other key leaves it.

It stands on the lists as they are drawn, so that nothing moves: labels at their upper right corners, in the order in
which they are read. Digits go to the screens, as they do everywhere.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Offset
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from .text import content, piece

LETTERS = "asdfghjklqwertyuiopzxcvbnm"
"""Those under the fingers first."""
FROM_RIGHT = 5


def targets_of(pane: Widget) -> list[Widget]:
    """What of a pane can have the keys and is in sight, as it is read: from above, and from the left."""
    found = [one for one in pane.screen.focus_chain if pane in one.ancestors and one.region.area]
    return sorted(found, key=lambda one: (one.region.y, one.region.x))[: len(LETTERS)]


class Jump(ModalScreen[str]):
    """The labels. The answer is the letter or the digit that was pressed; "": none of them."""

    DEFAULT_CSS = """
    Jump { background: transparent; }
    Jump .label { position: absolute; width: auto; height: 1; background: $cb-needs; color: $background; }
    Jump #jump-keys { dock: bottom; height: 1; width: 1fr; background: $panel; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave")]

    def __init__(self, targets: Sequence[Widget]) -> None:
        super().__init__()
        self.places = dict(zip(LETTERS, [_place_of(one) for one in targets], strict=False))

    def compose(self) -> ComposeResult:
        for letter, place in self.places.items():
            label = Static(content(piece(f" {letter} ", "strong")), classes="label")
            label.styles.offset = (place.x, place.y)
            yield label
        keys = ((name, f" {does} ") for name, does in (("a letter", "goes there"), ("1–7", "screen"), ("esc", "leave")))
        yield Static(
            content(*((piece(name, "key"), piece(does, "dim")) for name, does in keys)),
            id="jump-keys",
        )

    def on_key(self, event: events.Key) -> None:
        """Any key ends it."""
        event.stop()
        event.prevent_default()
        key = event.key.lower()
        self.dismiss(key if key in self.places or (key.isdecimal() and key in "1234567") else "")

    def on_click(self) -> None:
        """So does the mouse."""
        self.dismiss("")

    def on_resize(self, event: events.Resize) -> None:
        """Where the screen is laid out anew, labels would stand elsewhere."""
        if self.is_mounted and event.size != self._first_size:
            self.dismiss("")

    def on_mount(self) -> None:
        self._first_size = self.app.size

    def action_leave(self) -> None:
        """Nothing has happened."""
        self.dismiss("")


def _place_of(target: Widget) -> Offset:
    """On the border above its right end; of what is small or has none, on it."""
    region = target.region
    if region.width <= FROM_RIGHT or region.height == 1:
        return Offset(region.x, region.y)
    return Offset(region.right - FROM_RIGHT, max(region.y - 1, 0))


__all__ = ["Jump", "targets_of"]
