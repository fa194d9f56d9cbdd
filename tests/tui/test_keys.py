"""The frame's keys: each does what TUI.md says, in every screen, and none of them while a text is typed."""

import pytest
from textual.app import ComposeResult
from textual.widgets import Input

from callboard.persistence.memory import MemoryStore
from callboard.tui.app import CallboardApp
from callboard.tui.dialog import Dialog
from callboard.tui.frame_keys import changes
from callboard.tui.pane import Pane
from callboard.tui.panes import PANES, Shown
from tests.tui.conftest import BareApp, gateway_on, said, screen_text, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("at_once")]


class Form(Dialog[str]):
    """A text."""

    def compose(self) -> ComposeResult:
        yield Input()


async def test_c_copies_what_is_selected_and_says_so() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await pilot.press("j", "c")
            await until(pilot, lambda: app.clipboard == "/two" and "copied /two" in said(app))


async def test_ctrl_t_goes_round_the_three_ways_to_say_a_time() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            seen = [app.style_of_times]
            for _ in range(3):
                await pilot.press("ctrl+t")
                seen.append(app.style_of_times)
            assert seen == ["relative", "local", "utc", "relative"]
            assert "times: UTC" in said(app)


async def test_q_quits_at_once_where_nothing_is_typed() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await pilot.press("q")
            await until(pilot, lambda: app._exit)


async def test_quitting_asks_only_while_a_text_is_half_typed_and_the_same_key_again_quits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.tui.app.QUIT_AGAIN_SECONDS", 3_600.0)
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            app.push_screen(form := Form())
            await until(pilot, lambda: isinstance(app.focused, Input))
            await pilot.press("q", "1", "F")
            assert form.query_one(Input).value == "q1F", "letters are typed, not obeyed"
            await pilot.press("ctrl+q")
            await until(pilot, lambda: "half typed" in said(app))
            assert form.query_one(Input).value == "q1F"
            await pilot.press("ctrl+q")
            await until(pilot, lambda: app._exit)


async def test_ctrl_q_quits_a_dialog_without_a_text_at_once() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            app.push_screen(Form())
            await until(pilot, lambda: isinstance(app.focused, Input))
            await pilot.press("ctrl+q")
            await until(pilot, lambda: app._exit)


async def test_ctrl_c_ends_nothing_and_hints() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await pilot.press("ctrl+c")
            await until(pilot, lambda: "q quits" in said(app))
            assert not app._exit


async def test_the_row_of_screens_can_be_clicked() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            at = screen_text(app).splitlines()[1].index("Runs")
            await pilot.click("#screens", offset=(at, 0))
            await until(pilot, lambda: app.bare.heading == "Runs")


async def test_r3_news_take_no_focus_and_open_nothing() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            focused, looks = app.focused, app.bare.looks
            store.tell("decision")
            await until(pilot, lambda: app.bare.looks > looks)
            assert app.focused is focused and len(app.screen_stack) == 1


FRAMES = {"q", "c", "F", "u", "question_mark", "colon", "ctrl+p", "ctrl+t", "ctrl+r", *map(str, range(1, 8))}
"""Keys of the frame: a screen that took one of them would give it a second meaning."""


@pytest.mark.parametrize("shown", PANES, ids=lambda shown: shown.heading)
async def test_no_screen_takes_a_key_of_the_frame(shown: Shown) -> None:
    async with MemoryStore() as store:
        app = CallboardApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.attention)
            await pilot.press(str(PANES.index(shown) + 1))
            await until(pilot, lambda: isinstance(app.pane, shown.load()) and app.focused)
            taken = {
                key: binding.description
                for key, (node, binding, _, _) in app.screen.active_bindings.items()
                if key in FRAMES and node is not app
            }
            assert not taken


async def test_d_and_y_and_n_do_nothing_outside_of_dialogs() -> None:
    async with MemoryStore() as store:
        app = CallboardApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.attention)
            for number in range(1, 8):
                await pilot.press(str(number))
                await until(pilot, lambda: app._number == number)  # noqa: B023 - done with before the next one
                assert not {"y", "n", "d", "Y"} & app.screen.active_bindings.keys()


CHANGING = {"p", "P", "K", "R", "D", "A", "N", "x"}
"""Keys that change something, on whatever screen has them."""


@pytest.mark.parametrize("pane", [shown.load() for shown in PANES], ids=lambda pane: pane.heading)
def test_r10_every_key_that_changes_something_is_known_to_the_frame(pane: type[Pane]) -> None:
    found = {
        (key, binding.action) for key, bindings in pane._merge_bindings() for binding in [bindings] if key in CHANGING
    }
    assert all(changes(pane, action) for _, action in found), found
