"""Titles of boxes: they are set at every look, and must not have the box drawn again."""

from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widgets import Static

from callboard.tui.frame_box import Box
from callboard.tui.text import content, piece

from .conftest import screen_text

pytestmark = pytest.mark.anyio


class _Counting(Box):
    DEFAULT_CSS = "_Counting { border: round white; height: 6; width: 30; padding: 0 1; }"
    drawn: list[tuple[Region, ...]]

    def refresh(self, *regions: Region, **how: Any) -> "_Counting":
        self.__dict__.setdefault("drawn", []).append(regions)
        return super().refresh(*regions, **how)


class _App(App[None]):
    def compose(self) -> ComposeResult:
        with _Counting():
            yield Static(content("inside"))


async def test_a_title_that_says_the_same_draws_nothing_and_another_draws_its_line() -> None:
    app = _App()
    async with app.run_test(size=(40, 10)) as pilot:
        box = app.query_one(_Counting)
        box.border_title, box.border_subtitle = content("Actors"), content("1 of 9")
        await pilot.pause()
        box.drawn.clear()
        box.border_title, box.border_subtitle = content("Actors"), content("1 of 9")
        assert not box.drawn
        box.border_subtitle = content("2 of 9")
        box.border_title = content(piece("Actors", "strong"))  # the same words, otherwise
        assert box.drawn == [(Region(-2, 4, 30, 1),), (Region(-2, -1, 30, 1),)]
        await pilot.pause()
        shown = screen_text(app).splitlines()
        assert "Actors" in shown[0] and "2 of 9" in shown[5] and "inside" in shown[1]
        box.border_title = None
        await pilot.pause()
        assert "Actors" not in screen_text(app)
