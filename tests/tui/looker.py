"""A person in front of one screen, whichever it is: presses keys, waits, reads, and keeps what the frame has said."""

from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from callboard.tui.app import CallboardApp

from .conftest import screen_text, until

HOSTILE = "\x1b]52;c;aGk=\x07 \u202egnp.exe\u202c \u200b[red]X[/red] [@click=app.quit]Y[/] \x9b2J"
"""What a body, an error or a name may hold: a clipboard order, another direction, markup, a control character."""
RAW = ("\x1b", "\x9b", "\x07", "\u202e", "\u202c", "\u200b")
"""What of it may never be on the screen."""


class Looker:
    """A person in front of a screen."""

    def __init__(self, app: CallboardApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot
        self.said: list[str] = []
        """What the frame has said; it goes out of sight after a while."""
        say = app.notify

        def notify(message: str, **more: Any) -> None:
            self.said.append(message)
            say(message, **more)

        app.notify = notify  # type: ignore[method-assign]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, condition: Callable[[], object]) -> None:
        await until(self.pilot, condition)

    async def type(self, text: str) -> None:
        """Into the field that has the focus."""
        await self.until(lambda: isinstance(self.app.focused, Input))
        field = self.app.focused
        assert isinstance(field, Input)
        field.value = text

    def has_said(self, words: str) -> bool:
        return any(words in one for one in self.said)

    @property
    def text(self) -> str:
        return screen_text(self.app)
