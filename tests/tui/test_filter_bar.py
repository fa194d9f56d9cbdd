"""The `/` line: opened, read while it is typed, in force from enter, and taken away by esc; all by its keys."""

from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.content import Content
from textual.widgets import Static

from callboard.service.operations.filters import Field, parse
from callboard.tui.filter_bar import FilterBar, FilteredPane, PlainInput, filter_title
from callboard.tui.table import Column, LineTable, Row
from callboard.tui.text import line
from callboard.tui.themes import THEMES

from .conftest import until

pytestmark = pytest.mark.anyio
FIELDS = (Field("state", "word", choices=("DEAD", "IDLE")), Field("tool"))


class ListPane(FilteredPane):
    """A list with a filter."""

    heading: ClassVar[str] = "List"

    def __init__(self) -> None:
        super().__init__()
        self.told = 0

    def compose(self) -> ComposeResult:
        yield LineTable([Column("a", "a", 10)])
        yield FilterBar(FIELDS)

    def filter_changed(self) -> None:
        self.told += 1


class ListApp(App[None]):
    """A pane alone."""

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(THEMES[0])
        self.theme = THEMES[0].name
        self.left = False

    def compose(self) -> ComposeResult:
        yield ListPane()

    def on_mount(self) -> None:
        table = self.query_one(LineTable)
        table.show([Row("one", [line("one")])])
        table.focus()

    def key_q(self) -> None:
        self.left = True


def is_open(app: ListApp) -> bool:
    """Whether the line is in sight."""
    return app.query_one(FilterBar).opened


def note(app: ListApp) -> str:
    """What stands under the line."""
    shown = app.query_one("#filter-note", Static).visual
    assert isinstance(shown, Content)
    return shown.plain


async def test_a_filter_is_typed_put_in_force_and_taken_away() -> None:
    app = ListApp()
    async with app.run_test(size=(80, 24)) as pilot:
        pane = app.query_one(ListPane)
        await pilot.press("slash", *"state:dead")
        assert is_open(app) and pane.filter.text == ""
        await pilot.press("enter")
        await until(pilot, lambda: pane.told == 1)
        assert pane.filter.pick("state") == ("DEAD",)
        assert not is_open(app) and isinstance(app.focused, LineTable)
        await pilot.press("escape")
        await until(pilot, lambda: pane.told == 2)
        assert pane.filter.text == ""
        await pilot.press("escape")
        assert pane.told == 2


async def test_letters_that_are_keys_elsewhere_are_text_in_it() -> None:
    app = ListApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", *"q1K?")
        assert app.query_one(PlainInput).value == "q1K?"
        assert not app.left


async def test_what_is_wrong_is_said_while_it_is_typed_and_is_never_in_force() -> None:
    app = ListApp()
    async with app.run_test(size=(80, 24)) as pilot:
        pane = app.query_one(ListPane)
        await pilot.press("slash", *"stat:dead")
        await until(pilot, lambda: "did you mean state?" in note(app))
        await pilot.press("enter")
        assert is_open(app) and pane.filter.text == "" and pane.told == 0
        await pilot.press("escape")
        assert not is_open(app) and pane.filter.text == ""


async def test_esc_in_the_line_leaves_the_filter_that_was_in_force() -> None:
    app = ListApp()
    async with app.run_test(size=(80, 24)) as pilot:
        pane, bar = app.query_one(ListPane), app.query_one(FilterBar)
        bar.put("tool:a")
        await pilot.press("slash", *"bc", "escape")
        assert pane.filter.text == "tool:a"
        await pilot.press("slash")
        assert app.query_one(PlainInput).value == "tool:a"


async def test_tab_continues_a_word_and_keeps_the_keys_in_the_line() -> None:
    app = ListApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", *"st", "tab", *"de", "tab")
        assert app.query_one(PlainInput).value == "state:dead"
        assert app.focused is app.query_one(PlainInput)


async def test_hidden_characters_do_not_get_into_the_line() -> None:
    app = ListApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash")
        app.query_one(PlainInput).value = "a\x1b]52;c\u202eb"
        assert app.query_one(PlainInput).value == "a]52;cb"


def test_chips_in_a_title_are_safe_text() -> None:
    shown = filter_title("Actors", parse('tool:"a\x1b[2J" state:dead', FIELDS), "3 of 10,412")
    assert shown.plain == 'Actors · tool:"a\\x1b[2J" · state:dead · 3 of 10,412'
