"""A pane: one of the seven screens between the masthead and the footer.

What a pane gets from the frame (`self.frame`):

    look                    called when it comes to sight, when changes are heard, and every few seconds
    say, complaining        words to the person in front; an operation's refusal as words
    open_screen(name, key)  another screen, with something selected there ("mailboxes", "/crm/desk/agent:5e0c")
    when(at), now()         the one formatter of times; the store's clock
    held(view)              an approval that can be taken back, for the line above the footer
    off                     why nothing may be changed now ("" where it may): the database is away, or --readonly

What it gives: `CHANGES`, `go_to`, `selected`; and `BINDINGS` with `check_action`, from which the footer, the
help and the palette are made.
"""

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.geometry import Size
from textual.widget import Widget

if TYPE_CHECKING:
    from .app import CallboardApp
    from .gateway import Gateway


class Pane(Container):
    """One screen. It reads and shows when it is told to `look`, and keeps what was read until then."""

    heading: ClassVar[str] = ""
    """Its name in the row of screens, and in help."""
    short: ClassVar[str] = ""
    """Its name where there is little room."""
    CHANGES: ClassVar[frozenset[str]] = frozenset()
    """Names of its actions that change something, or open what does and has nothing else to show (`requeue`, `kill`).

    While the database is away, or with --readonly, the frame says why instead of running them. Any widget or dialog may
    have such a set; opening a request to read it is no change.
    """
    DEFAULT_CSS = "Pane { height: 1fr; layout: horizontal; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+o", "jump", "jump to a list by its letter", show=False)]

    @property
    def frame(self) -> "CallboardApp":
        """The app around it."""
        return frame_of(self)

    @property
    def gateway(self) -> "Gateway":
        """What it asks."""
        return self.frame.gateway

    async def look(self) -> None:
        """Read what is shown and show it.

        Called by the frame when the pane comes to sight, when changes are heard, and at least every few seconds; never
        twice at once. What it raises is the frame's to say: a database that is away is a banner, and what was shown
        stays.
        """

    def take_focus(self) -> None:
        """Put the focus where the keys of this pane belong: its first table, as a rule."""
        for widget in self.query("LineTable"):
            widget.focus()
            return

    def action_jump(self) -> None:
        """Put the keys into one of the lists in sight, by its letter."""
        from .jump import LETTERS, Jump, targets_of

        targets = targets_of(self)

        def go(pressed: str | None) -> None:
            if pressed and pressed.isdecimal():
                self.call_later(self.frame.action_screen, int(pressed))
            elif pressed and (place := LETTERS.index(pressed)) < len(targets) and targets[place].is_attached:
                targets[place].focus()

        self.frame.push_screen(Jump(targets), go)

    async def go_to(self, key: str) -> None:
        """Select what this key names; the pane is in sight already, and `look` comes after it. Another screen, or the
        palette, asks for it."""

    def lay_out_for(self, size: Size) -> None:
        """Choose the arrangement (classes) for so much room; asked before the first layout, and at each change."""

    def on_mount(self) -> None:
        # Not only when it is told of its size: on a busy machine it would be seen in the arrangement of another one.
        if isinstance(self.parent, Widget) and self.parent.size:
            self.lay_out_for(self.parent.size)

    @property
    def selected(self) -> str:
        """The id or address under the cursor, for `c`: "" where there is none."""
        from .table import LineTable

        focused = self.app.focused
        tables = [focused] if isinstance(focused, LineTable) else self.query(LineTable)
        return next((table.cursor_key for table in tables), "")


def frame_of(widget: Widget) -> "CallboardApp":
    """The app around a widget of ours."""
    from .app import CallboardApp

    app = widget.app
    assert isinstance(app, CallboardApp)
    return app
