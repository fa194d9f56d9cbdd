"""Somebody in front of a terminal at the desk of `desk.py`, with a request open or the inbox in sight."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from callboard.tui.app import CallboardApp
from callboard.tui.decide import DecideDialog, decide
from callboard.tui.dialog import Dialog
from callboard.tui.panes.approvals import ApprovalsPane

from .conftest import gateway_on, screen_text, until, until_shown
from .desk import Desk, desk

SMALL, WIDE = (80, 24), (120, 36)
KEYS = {" ": "space", ".": "full_stop", ",": "comma", "_": "underscore", "-": "minus"}


class Seat:
    """Somebody at a terminal."""

    def __init__(self, d: Desk, app: CallboardApp, pilot: Pilot[None]) -> None:
        self.desk, self.app, self.pilot = d, app, pilot

    @property
    def dialog(self) -> DecideDialog:
        """The decision dialog, which is open."""
        found = self.app.screen
        assert isinstance(found, DecideDialog)
        return found

    @property
    def is_open(self) -> bool:
        """Whether it is open."""
        return isinstance(self.app.screen, DecideDialog)

    async def open(self, approval: str, items: Sequence[str] = ()) -> None:
        """Open it on a request, and wait until it can be read."""
        self.app.run_worker(decide(self.app, approval, items or [approval]), group="test")
        await self.until(lambda: self.is_open and self.dialog.settled and self.dialog.body.shown_to)
        await self.pilot.pause()

    async def ask(self, key: str) -> None:
        """Press `y` or `n`, and wait for the question."""
        await self.press(key)
        await self.until(lambda: self.dialog.stage == {"y": "approve", "n": "deny"}[key])

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)

    def key(self, key: str) -> None:
        """Press a key, and do not wait for what comes of it."""
        named = {name: character for character, name in KEYS.items()}
        self.app.post_message(events.Key(key, named.get(key)))

    async def type(self, text: str) -> None:
        """Press the keys of a text."""
        for one in text:
            self.key(KEYS.get(one, one))
        await self.pilot.pause()

    async def until(self, condition: Any) -> None:
        """Let the app work until this is true."""
        await until(self.pilot, condition)

    async def shows(self, *texts: str) -> None:
        """Let the app work until all of these are on the screen at once."""
        await until_shown(self.pilot, *texts)

    def text(self) -> str:
        """What is on the screen."""
        return screen_text(self.app)

    async def inbox(self) -> ApprovalsPane:
        """Show the inbox, and wait until it has looked."""
        await self.press("2")
        await self.until(lambda: isinstance(self.app.pane, ApprovalsPane))
        pane = self.app.pane
        assert isinstance(pane, ApprovalsPane)
        await self.until(lambda: pane.views or not pane.waiting)
        return pane

    async def status(self, approval: str) -> str:
        """Of a request, in the store."""
        return (await self.desk.row(approval)).status


@asynccontextmanager
async def seat(
    monkeypatch: pytest.MonkeyPatch,
    *,
    size: tuple[int, int] = WIDE,
    name: str = "mara",
    settle: float = 0.0,
    hold: float = 10.0,
    store: Any = None,
) -> AsyncIterator[Seat]:
    """A desk, and somebody at it. Dialogs take keys at once, unless the test is about that. `store`: makes of the
    desk's store the one that the terminal is on."""
    monkeypatch.setattr(Dialog, "settle_seconds", settle)
    async with desk(hold_seconds=hold, at_noon=True) as d:
        app = CallboardApp(gateway_on(d.store if store is None else store(d.store), name))
        async with app.run_test(size=size) as pilot:
            yield Seat(d, app, pilot)
