"""The line of keys that work now, at the foot of a screen or a dialog; made from the bindings, so it cannot lie.

A key whose action would change something is dimmed while nothing may be changed. Where there is no room for all, those
in the middle go first: help and quit are always there.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget

from .text import Line, Role, content, piece

NAMES = {
    "enter": "⏎", "escape": "esc", "question_mark": "?", "colon": ":", "slash": "/", "asterisk": "*", "plus": "+",
    "minus": "-", "left_square_bracket": "[", "right_square_bracket": "]", "up": "↑", "down": "↓", "left": "←",
    "right": "→", "full_stop": ".", "comma": ",", "equals_sign": "=", "less_than_sign": "<", "greater_than_sign": ">",
    "pageup": "pgup", "pagedown": "pgdn", "number_sign": "#", "exclamation_mark": "!",
}  # fmt: skip
"""How keys are shown; the others by their own names."""

LAST = ("help", "quit", "leave")


class Shown(NamedTuple):
    """A key in the line."""

    key: str
    name: str
    does: str
    enabled: bool


def name_of(key: str) -> str:
    """A key as people read it."""
    return NAMES.get(key, key)


def changes(node: object, action: str) -> bool:
    """Whether this action of a widget changes something (see `Pane.CHANGES`)."""
    return action.partition("(")[0].rpartition(".")[2] in getattr(node, "CHANGES", ())


def keys_now(screen: Screen[object], *, off: bool) -> Iterator[Shown]:
    """Keys that are to be shown on this screen now; `off`: nothing may be changed."""
    seen: set[str] = set()
    found = list(screen.active_bindings.values())
    for node, binding, enabled, _ in [one for one in found if one.binding.action not in LAST] + [
        one for one in found if one.binding.action in LAST
    ]:
        if not binding.show or not binding.description or binding.system or binding.action in seen:
            continue
        seen.add(binding.action)
        works = enabled and not (off and changes(node, binding.action))
        yield Shown(binding.key, binding.key_display or name_of(binding.key), binding.description, works)


class KeysLine(Widget):
    """One line; click one to press it."""

    DEFAULT_CSS = "KeysLine { height: 1; background: $panel; padding: 0 1; }"
    keys: reactive[tuple[Shown, ...]] = reactive(())

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.show_now())
        self.show_now()

    def show_now(self) -> None:
        """Look again which keys work."""
        if self.is_attached and self.screen.is_attached:
            found = keys_now(self.screen, off=bool(getattr(self.app, "off", "")))
            plain = getattr(self.app, "ascii_only", False)  # `enter` is clearer than a stand-in for its sign
            self.keys = tuple(one._replace(name=one.key) if plain and not one.name.isascii() else one for one in found)

    def render(self) -> Content:
        parts: list[Line] = []
        for one in self._that_fit():
            role: Role = "key" if one.enabled else "dim"
            parts.append((piece(one.name, role), piece(f" {one.does} ", "dim")))
        return content(*parts)

    def on_click(self, event: events.Click) -> None:
        """Press the key that is under the pointer."""
        at = event.x - 1
        for one in self._that_fit():
            width = _width(one)
            if 0 <= at < width:
                self.app.simulate_key(one.key)
                return
            at -= width

    def _that_fit(self) -> list[Shown]:
        kept = list(self.keys)
        while kept and sum(map(_width, kept)) > max(self.size.width, 1) + 1:
            dropped = next(
                (one for one in reversed(kept) if one.key != "escape" and one.does not in ("help", "quit")), kept[-1]
            )
            kept.remove(dropped)
        return kept


def _width(one: Shown) -> int:
    return cell_len(one.name) + cell_len(one.does) + 2
