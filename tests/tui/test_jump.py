"""Jump mode: `ctrl+o`, then the letter of a list puts the keys there; nothing else comes of it."""

import random
import string

import pytest

from callboard.persistence.memory import MemoryStore
from callboard.tui.app import CallboardApp
from callboard.tui.jump import Jump, targets_of
from callboard.tui.panes import PANES

from .conftest import gateway_on, until, until_shown
from .seat import seat
from .test_actors import office

pytestmark = pytest.mark.anyio


async def test_ctrl_o_and_a_letter_put_the_keys_into_the_list_that_has_it() -> None:
    async with office() as (_, stage):
        app, pane = stage.app, stage.pane
        targets = targets_of(pane)
        assert {pane.supervision, pane.table} <= set(targets) and len(targets) >= 3
        for target in targets:
            await stage.press("ctrl+o")
            await stage.until(lambda: isinstance(app.screen, Jump) and app.screen.query(".label"))
            assert isinstance(app.screen, Jump)
            await until_shown(stage.pilot, "a letter goes there", *(f" {letter} " for letter in app.screen.places))
            letter = list(app.screen.places)[targets.index(target)]
            await stage.press(letter)
            await stage.until(lambda target=target: app.screen is app.base and app.focused is target)  # type: ignore[misc]


@pytest.mark.parametrize("shown", PANES, ids=lambda shown: shown.heading)
@pytest.mark.parametrize("size", [(120, 36), (60, 15)])
async def test_each_list_in_sight_has_a_letter_of_its_own_within_the_screen(
    shown: object, size: tuple[int, int]
) -> None:
    async with MemoryStore() as store:
        app = CallboardApp(gateway_on(store))
        async with app.run_test(size=size) as pilot:
            number = PANES.index(shown) + 1
            await until(pilot, lambda: app.attention)
            await pilot.press(str(number))
            await until(pilot, lambda: app._number == number and app.focused and targets_of(app.pane))
            await pilot.press("ctrl+o")
            await until(pilot, lambda: isinstance(app.screen, Jump))
            assert isinstance(app.screen, Jump)
            places = app.screen.places
            assert places and len(set(places.values())) == len(places)
            assert all(0 <= place.x <= size[0] - 3 and 0 <= place.y < size[1] - 1 for place in places.values())
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is app.base)


async def test_a_digit_goes_to_its_screen_and_any_other_key_only_leaves() -> None:
    async with office() as (_, stage):
        before = stage.app.focused
        for key in ("escape", "enter", "space", "question_mark", "Q"):
            await stage.press("ctrl+o")
            await stage.until(lambda: isinstance(stage.app.screen, Jump))
            await stage.press(key)
            await stage.until(lambda: stage.app.screen is stage.app.base)
            assert stage.app.focused is before or key == "Q"
        await stage.press("ctrl+o")
        await stage.until(lambda: isinstance(stage.app.screen, Jump))
        await stage.press("3")
        await until_shown(stage.pilot, "Mailboxes ·")
        await stage.until(lambda: stage.app._number == 3 and stage.app.focused in stage.app.pane.walk_children())


async def test_r2_no_keys_in_jump_mode_decide_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund("480.00")
        pane = await s.inbox()
        await s.until(lambda: pane.views)
        chance = random.Random(6)
        for _ in range(40):
            await s.press("ctrl+o")
            await s.until(lambda: isinstance(s.app.screen, Jump))
            await s.press(chance.choice([*string.ascii_letters, "enter", "space"]))
            await s.until(lambda: s.app.screen is s.app.base)
        assert await s.status(approval) == "pending"
