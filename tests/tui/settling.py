"""Letting an app work until it has nothing left to do: what a test may take for "now", at whatever speed.

Textual's own pilot takes an app for settled when its process has used little processor time for 20 ms. On a busy
machine that is so while work is waiting for its turn, and on an idle one it makes each key cost 40 ms. Here it is the
event loop that is asked: an app has settled when nothing in the loop can go on except by time, or by an answer from
outside (a database, a thread), and its screen is drawn. Who waits for time or for an answer waits with `until`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from textual import app as textual_app
from textual import pilot as textual_pilot
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen

QUIET_TURNS = 3
"""Turns of the loop, one after the other, in which nobody else had anything to do."""
DRAWINGS = 10
"""What is drawn may be the reason to draw again, by places that change; not so often, though."""
BUSY_SECONDS = 10.0
"""A loop that is kept busy by others, say by a node at work, is not waited for any longer: seconds of processor time,
of which a process that has to wait for its turn does not use any. Many more than drawing and a collection of garbage
take on a slow machine: who stops waiting sees what is not drawn yet."""


async def quiet(seconds: float = BUSY_SECONDS) -> bool:
    """Let the loop turn until nobody else can go on; False where that does not come."""
    loop: Any = asyncio.get_running_loop()
    end, turns = time.process_time() + seconds, 0
    while turns < QUIET_TURNS:
        if time.process_time() > end:
            return False
        await asyncio.sleep(0)
        turns = 0 if loop._ready else turns + 1  # asyncio says nowhere else whether anybody is waiting for a turn
    return True


async def settle(app: App[Any]) -> bool:
    """Let an app do all that it can do now, and draw it."""
    for _ in range(DRAWINGS):
        if not await quiet():
            return False
        screen = _top(app)
        if screen is None or app._batch_count or not _is_undrawn(screen):
            return True
        screen._on_timer_update()  # what its own timer does up to 1/60 s later
    return await quiet()  # what is still to be done waits for somebody whom the app itself waits for


def _top(app: App[Any]) -> Screen[Any] | None:
    stack = app._screen_stacks.get(app._current_mode)
    return stack[-1] if stack and app.is_running else None


def _is_undrawn(screen: Screen[Any]) -> bool:
    return bool(
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._recompose_required
        or screen._dirty_widgets
        or screen._callbacks
    )


def settled_pilots(patch: pytest.MonkeyPatch) -> None:
    """Have all pilots wait for that."""
    wait_for_screen = Pilot._wait_for_screen

    async def until_settled(pilot: Pilot[Any], timeout: float = 30.0) -> bool:
        return await settle(pilot.app) or await wait_for_screen(pilot, timeout)

    async def until_quiet(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
        await quiet(max(max_sleep, BUSY_SECONDS))

    patch.setattr(Pilot, "_wait_for_screen", until_settled)
    patch.setattr(textual_pilot, "wait_for_idle", until_quiet)
    patch.setattr(textual_app, "wait_for_idle", until_quiet)


def styles_parsed_once(patch: pytest.MonkeyPatch) -> None:
    """Share what is parsed of style sheets between apps: the same text with the same variables gives the same rules,
    which nobody changes (Textual keeps them like this within one app)."""
    parse: Callable[..., list[RuleSet]] = Stylesheet._parse_rules
    known: dict[tuple[object, ...], list[RuleSet]] = {}

    def parse_once(sheet: Stylesheet, css: str, read_from: tuple[str, str], *more: Any, **named: Any) -> list[RuleSet]:
        key = (css, read_from, more, *sorted(named.items()), _variables(sheet))
        if key not in known:
            known[key] = parse(sheet, css, read_from, *more, **named)
        return known[key]

    patch.setattr(Stylesheet, "_parse_rules", parse_once)


def _variables(sheet: Any) -> object:
    kept, key = getattr(sheet, "_kept_variables", (None, None))
    if kept is not sheet._variables:
        key = tuple(sorted(sheet._variables.items()))
        sheet._kept_variables = (sheet._variables, key)
    return key
