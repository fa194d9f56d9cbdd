"""`?` and `:` are made from the bindings: they list what there is, and nothing else."""

import pytest
from textual.widgets import Input

from callboard.persistence.memory import MemoryStore
from callboard.tui.app import CallboardApp
from callboard.tui.frame_keys import keys_now, name_of
from callboard.tui.help import Help, entries
from callboard.tui.palette import Choices, Palette, commands, matching
from tests.tui.conftest import BareApp, Line, gateway_on, said, screen_text, until, until_shown

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("at_once")]
NOTHING_THERE = {"scroll_left", "scroll_right", "page_left", "page_right"}
"""What Textual binds on every list, and does nothing on one that is as wide as its place."""


@pytest.mark.parametrize("number", range(1, 8))
async def test_a17_help_lists_exactly_the_bindings_of_the_screen(number: int) -> None:
    async with MemoryStore() as store:
        app = CallboardApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.attention)
            await pilot.press(str(number))
            await until(pilot, lambda: app._number == number and app.focused)
            expected = {
                key
                for key, (node, binding, _, _) in app.screen.active_bindings.items()
                if binding.action not in NOTHING_THERE or node.allow_horizontal_scroll  # type: ignore[attr-defined]
            }
            assert {key for entry in entries(app.screen) for key in entry.keys} == expected
            await pilot.press("question_mark")
            await until(pilot, lambda: isinstance(app.screen, Help) and app.screen.query("Static"))
            await until_shown(pilot, f"Keys · {app.pane.heading}")


async def test_a17_what_help_shows_is_what_was_listed() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 50)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await pilot.press("question_mark")
            await until_shown(pilot, "NEEDS YOU")
            assert isinstance(app.screen, Help)
            for entry in app.screen.entries:
                await until_shown(pilot, entry.shown, entry.does.split()[0])
            await until_shown(pilot, "break…", "fold", "freeze the view", "next pane", "every command by name")
            await pilot.press("escape")
            await until(pilot, lambda: not isinstance(app.screen, Help))


async def test_a_binding_that_is_new_is_in_help_and_one_that_does_not_work_now_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            assert "break…" in {entry.does for entry in entries(app.screen)}
            monkeypatch.setattr(type(app.pane), "check_action", lambda self, action, parameters: action != "break")
            assert "break…" not in {entry.does for entry in entries(app.screen)}
            assert "break…" not in {one.does for one in keys_now(app.screen, off=False)}
            app.pane.refresh_bindings()
            await until(pilot, lambda: "break…" not in screen_text(app).splitlines()[-1])


async def test_the_footer_has_the_keys_that_work_now_with_help_and_quit_at_its_end() -> None:
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await until(pilot, lambda: screen_text(app).splitlines()[-1].strip().endswith("B break… ? help q quit"))
            assert all(one.enabled for one in keys_now(app.screen, off=False))
            off = {one.does for one in keys_now(app.screen, off=True) if not one.enabled}
            assert off == {"break…"}
            await pilot.resize_terminal(60, 15)
            await until(pilot, lambda: screen_text(app).splitlines()[-1].strip().endswith("? help q quit"))


async def test_a_key_in_the_footer_can_be_clicked() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await until(pilot, lambda: screen_text(app).splitlines()[-1].strip().endswith("B break… ? help q quit"))
            at = screen_text(app).splitlines()[-1].index("? help")
            await pilot.click("KeysLine", offset=(at + 2, 0))
            await until(pilot, lambda: isinstance(app.screen, Help))


async def test_the_palette_finds_a_command_by_a_part_of_its_name_and_runs_it() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await pilot.press("colon")
            await until(pilot, lambda: isinstance(app.screen, Palette) and isinstance(app.focused, Input))
            await pilot.press(*"brea")
            await until(pilot, lambda: [one.name for one in app.screen.query_one(Choices).found] == ["break…"])
            await pilot.press("enter")
            await until(pilot, lambda: app.bare.broken == 1)
            await pilot.press("ctrl+p")
            await until(pilot, lambda: isinstance(app.screen, Palette) and isinstance(app.focused, Input))
            await pilot.press(*"audit", "enter")
            await until(pilot, lambda: app.bare.heading == "Audit")


async def test_the_palette_opens_runs_and_actors_by_their_ids() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            for typed, down, heading in (("/crm/desk", 0, "Actors"), ("T-0001", 1, "Runs"), ("/crm/x", 2, "Mailboxes")):
                await pilot.press("colon")
                await until(pilot, lambda: isinstance(app.screen, Palette) and isinstance(app.focused, Input))
                app.screen.query_one(Input).value = typed
                await until(pilot, lambda: len(app.screen.query_one(Choices).found) == 3)
                await pilot.press(*["down"] * down, "enter")
                await until(pilot, lambda: (app.bare.heading, app.bare.went_to) == (heading, typed))  # noqa: B023 - done with before the next one


async def test_the_palette_has_every_command_of_the_screen_by_name() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            names = {one.name for one in commands(app.screen, off=False, screens=("Actors",))}
            assert {"break…", "fold", "open", "help", "quit", "freeze the view", "look now", "go to Actors"} <= names
            found = commands(app.screen, off=True, screens=())
            assert [one.name for one in found if one.off] == ["break…"]
            assert not matching(found, "xyz") and matching(found, "VIEW freeze")[0].name == "freeze the view"


async def test_r10_the_palette_goes_around_nothing_that_is_off() -> None:
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            line.cut()
            await until(pilot, lambda: app.live.lost)
            await pilot.press("colon")
            await until(pilot, lambda: isinstance(app.screen, Palette) and isinstance(app.focused, Input))
            await pilot.press(*"break", "enter")
            await until(pilot, lambda: "nothing can be decided or changed" in said(app))
            assert app.bare.broken == 0
            line.mend()


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 15)])
async def test_a14_help_and_palette_fit_and_help_can_be_moved_in(size: tuple[int, int]) -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await pilot.press("question_mark")
            await until(pilot, lambda: "Keys · Actors" in screen_text(app))
            for _ in range(12):
                await pilot.press("pagedown")
            await until(pilot, lambda: "HELD" in screen_text(app))
            await pilot.press("q", "colon")
            await until(pilot, lambda: "Every command by name" in screen_text(app) and "esc leave" in screen_text(app))


def test_keys_are_named_as_people_read_them() -> None:
    assert [name_of(key) for key in ("question_mark", "ctrl+t", "enter", "slash", "G")] == [
        "?",
        "ctrl+t",
        "⏎",
        "/",
        "G",
    ]
