"""Every screen as a picture, at both sizes: what is drawn is what was looked at and found good.

.venv/bin/python -m pytest tests/tui/test_pictures.py --snapshot-update      # then look at each that changed
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from callboard.persistence.memory import MemoryStore
from callboard.tui import live
from callboard.tui.app import CallboardApp
from callboard.tui.dialog import Dialog

from .conftest import WAIT_SECONDS, Line, gateway_on, screen_text, until
from .still import desk_life, fallen_life

WIDE, SMALL = (120, 36), (80, 24)
SIZES = pytest.mark.parametrize("size", [WIDE, SMALL], ids=["120x36", "80x24"])
QUIET_LOOKS = 10
"""The screen that stays the same for so many looks has nothing more to show."""
LOOK_SECONDS = 0.03

Snap = Callable[..., bool]


@pytest.fixture(autouse=True)
def nothing_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dialogs take keys at once, nothing is animated or blinks, and a database that is lost is asked once."""
    monkeypatch.setattr(Dialog, "settle_seconds", 0.0)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setattr(live, "FIRST_RETRY_SECONDS", 3_600.0)
    monkeypatch.setattr(live, "CAP_RETRY_SECONDS", 3_600.0)
    # All is read once, and again when it is asked for. A read that comes upon a lost database has it asked once more,
    # and the picture says how often it was asked.
    monkeypatch.setattr(live, "LINE_SECONDS", 3_600.0)
    monkeypatch.setattr(live, "PANE_SECONDS", 3_600.0)


def app_on(store: Any, of: MemoryStore, **options: Any) -> CallboardApp:
    return CallboardApp(gateway_on(store, port=of._port), **options)


async def quiet(pilot: Pilot[None]) -> None:
    """Until the screen shows all it has to show."""
    before, same = "", 0
    with anyio.fail_after(WAIT_SECONDS):
        while same < QUIET_LOOKS:
            await pilot.pause(LOOK_SECONDS)
            now = screen_text(pilot.app)
            same = same + 1 if now == before else 0
            before = now


def pressing(*keys: str) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Press keys, each when the screen has settled."""

    async def press(pilot: Pilot[None]) -> None:
        await quiet(pilot)
        for key in keys:
            await pilot.press(*(key[5:] if key.startswith("type:") else (key,)))
            await quiet(pilot)
        for field in pilot.app.screen.query(Input):
            field.cursor_blink = False
        await quiet(pilot)

    return press


SCREENS = {
    "actors": (),
    "approvals": ("2",),
    "mailboxes": ("3",),
    "dead": ("4",),
    "runs": ("5",),
    "audit": ("6",),
    "system": ("7",),
}


@SIZES
@pytest.mark.parametrize("screen", SCREENS)
def test_each_screen(snap_compare: Snap, screen: str, size: tuple[int, int]) -> None:
    app = app_on(desk_life(), desk_life())
    assert snap_compare(app, terminal_size=size, run_before=pressing(*SCREENS[screen]))


STAGES = {
    "read": ("2", "a"),
    "armed": ("2", "a", "y", "type:480.00"),
    "deny": ("2", "a", "n", "type:outside window"),
}


@SIZES
@pytest.mark.parametrize("stage", STAGES)
def test_the_stages_of_deciding(snap_compare: Snap, stage: str, size: tuple[int, int]) -> None:
    app = app_on(desk_life(), desk_life())
    assert snap_compare(app, terminal_size=size, run_before=pressing(*STAGES[stage]))


def test_deciding_together(snap_compare: Snap) -> None:
    keys = ("2", "j", "space", "down", "down", "space", "space", "A")
    app = app_on(desk_life(), desk_life())
    assert snap_compare(app, terminal_size=WIDE, run_before=pressing(*keys))


@SIZES
def test_a_trace_with_a_retry_a_lost_node_and_an_approval(snap_compare: Snap, size: tuple[int, int]) -> None:
    keys = ("5",) if size == WIDE else ("5", "enter")
    app = app_on(fallen_life(), fallen_life())
    assert snap_compare(app, terminal_size=size, run_before=pressing(*keys))


@SIZES
def test_one_mailbox(snap_compare: Snap, size: tuple[int, int]) -> None:
    app = app_on(desk_life(), desk_life())
    assert snap_compare(app, terminal_size=size, run_before=pressing("3", "j", "enter"))


@pytest.mark.parametrize("theme", ["light", "mono", "ansi"])
def test_the_other_themes(snap_compare: Snap, theme: str) -> None:
    app = app_on(desk_life(), desk_life(), theme=f"callboard-{theme}")
    assert snap_compare(app, terminal_size=WIDE, run_before=pressing())


def test_ascii_only(snap_compare: Snap) -> None:
    app = app_on(desk_life(), desk_life(), theme="callboard-mono", ascii=True)
    assert snap_compare(app, terminal_size=SMALL, run_before=pressing())


def test_help(snap_compare: Snap) -> None:
    app = app_on(desk_life(), desk_life())
    assert snap_compare(app, terminal_size=WIDE, run_before=pressing("question_mark"))


@SIZES
def test_the_database_is_lost(snap_compare: Snap, size: tuple[int, int]) -> None:
    line = Line(desk_life())
    app = app_on(line.store, desk_life())

    async def lose(pilot: Pilot[None]) -> None:
        await quiet(pilot)
        await until(pilot, lambda: not any(line.inside.values()))
        line.cut()
        await until(pilot, lambda: app.live.lost)
        await quiet(pilot)

    assert snap_compare(app, terminal_size=size, run_before=lose)
