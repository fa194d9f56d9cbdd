"""The UI on a store in memory, and waiting for what it shows."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, cast

import anyio
import pytest
from textual import screen
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.pilot import Pilot

from callboard.mailbox.errors import StoreUnavailable
from callboard.persistence.port import Port
from callboard.persistence.store import Store
from callboard.service.operations.principal import ALL_SCOPES, Principal, Scope
from callboard.tui import live
from callboard.tui.app import CallboardApp
from callboard.tui.dialog import Dialog
from callboard.tui.gateway import Gateway
from callboard.tui.pane import Pane
from callboard.tui.panes import PANES, Shown
from callboard.tui.table import Column, LineTable, Row
from callboard.tui.text import piece

from .settling import settle, settled_pilots, styles_parsed_once

WAIT_SECONDS = 120.0
"""More than anything shown here takes on a busy machine."""
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.002, 0.06
"""Between two looks at what is waited for."""


def gateway_on(
    store: Store, name: str = "mara", scopes: frozenset[Scope] = ALL_SCOPES, *, port: Port | None = None
) -> Gateway:
    """A person at a terminal."""
    return Gateway(store, Principal(name, "tui", "desk", scopes), port)


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    """Let the app work until this is true. It is asked only when the app has nothing else to do, so that all that
    follows from what it finds has happened, and is drawn."""
    if not await _comes(pilot, condition):
        raise AssertionError(f"never became true:\n{screen_text(pilot.app)}")


async def until_shown(pilot: Pilot[None], *texts: str, gone: Sequence[str] = ()) -> None:
    """Let the app work until its screen shows all of these at once, and none of those.

    A state that the app has is not yet on the screen: whoever asks what is shown waits for that, not for the state.
    """

    def is_shown() -> bool:
        shown = screen_text(pilot.app)
        return all(text in shown for text in texts) and not any(text in shown for text in gone)

    if not await _comes(pilot, is_shown):
        raise AssertionError(f"never {texts!r} without {gone!r}:\n{screen_text(pilot.app)}")


async def _comes(pilot: Pilot[None], condition: Callable[[], object]) -> bool:
    pause = FIRST_PAUSE_SECONDS
    with anyio.move_on_after(WAIT_SECONDS):
        while True:
            await settle(pilot.app)
            if condition():
                return True
            if pilot.app._exception is not None:
                raise pilot.app._exception
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LAST_PAUSE_SECONDS)
    return False


def screen_text(app: App[Any]) -> str:
    """What is on the screen, as lines of text."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


@pytest.fixture(autouse=True, scope="session")
def _pilots() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        settled_pilots(patch)
        styles_parsed_once(patch)
        yield


@pytest.fixture
def real_times() -> None:
    """For a test that is about how long something takes, or about how often it is done."""


@pytest.fixture
def hangs_are_told(_no_waiting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that does not answer is known to be away, and before long."""
    monkeypatch.setattr(live, "ANSWER_SECONDS", 0.5)


@pytest.fixture(autouse=True)
def _no_waiting(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is merely to spare the database and the eye is not waited for, and what a busy machine could run over does
    not run out: the answer of a store that is well, a word to the person in front, a second `ctrl+q`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(App, "NOTIFICATION_TIMEOUT", 3_600.0)
        if "real_times" not in request.fixturenames:
            patch.setattr(live, "ANSWER_SECONDS", 60.0)
            patch.setattr(live, "PULSE_SECONDS", 0.2)
            patch.setattr(live, "ASKED_SECONDS", 0.02)
            patch.setattr(live, "GATHER_SECONDS", 0.02)
            patch.setattr(live, "LINE_GATHER_SECONDS", 0.02)
            patch.setattr(live, "FIRST_RETRY_SECONDS", 0.1)
            patch.setattr(screen, "UPDATE_PERIOD", 0.25)  # it is drawn when it has settled, and not before
        yield


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dialogs take keys as soon as they are there."""
    monkeypatch.setattr(Dialog, "settle_seconds", 0.0)


class Line:
    """A store's connection to one terminal, which can be cut, or can take questions and never answer."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._state = "there"
        self._answers = anyio.Event()
        self.asked: list[str] = []
        """Every call that came, by its name."""
        self.inside: dict[str, int] = {}
        """How many of each are under way."""
        self.most_inside: dict[str, int] = {}

    def cut(self) -> None:
        """The server is gone."""
        self._state = "gone"

    def hang(self) -> None:
        """Questions are taken, and not answered."""
        self._state, self._answers = "hanging", anyio.Event()

    def mend(self) -> None:
        """All is well again; what hung has its answer now."""
        self._state = "there"
        self._answers.set()

    @property
    def store(self) -> Store:
        """As a gateway takes it."""
        return cast(Store, self)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def over_the_line(*args: Any, **kwargs: Any) -> Any:
            self.asked.append(name)
            self.inside[name] = self.inside.get(name, 0) + 1
            self.most_inside[name] = max(self.most_inside.get(name, 0), self.inside[name])
            try:
                if self._state == "hanging":
                    await self._answers.wait()
                if self._state == "gone":
                    raise StoreUnavailable("the server closed the connection")
                return await found(*args, **kwargs)
            finally:
                self.inside[name] -= 1

        return over_the_line


def _bare(pane: Shown) -> Shown:
    """A screen of the same name with a list of two, and a key that changes something."""

    class Bare(Pane):
        heading, short = pane.heading, pane.short
        CHANGES = frozenset({"break"})
        BINDINGS: ClassVar[list[BindingType]] = [
            Binding("B", "break", "break…"), Binding("z", "fold", "fold", show=False)
        ]  # fmt: skip

        rows: ClassVar[list[Row]] = [Row(key, [(piece(key),)]) for key in ("/one", "/two")]
        looks = 0
        broken = 0
        went_to = ""

        def compose(self) -> ComposeResult:
            yield LineTable([Column("name", "name", 14)])

        async def look(self) -> None:
            await self.gateway.store.census()
            self.looks += 1
            self.query_one(LineTable).show(self.rows)

        async def go_to(self, key: str) -> None:
            self.went_to = key

        def action_break(self) -> None:
            self.broken += 1

        def action_fold(self) -> None:
            self.broken += 0

    return Shown(pane.heading, pane.short, lambda: Bare)


class BareApp(CallboardApp):
    """The frame around seven screens that do next to nothing: what is tested with it is the frame's."""

    SHOWN = tuple(_bare(pane) for pane in PANES)

    @property
    def bare(self) -> Any:
        """The screen that is shown."""
        return self.pane


def said(app: CallboardApp) -> str:
    """What was said at the lower edge and is still to be read."""
    return "\n".join(str(one.message) for one in app._notifications)
