"""Dialogs: what comes too soon goes nowhere, Esc and Enter alone decide nothing, and a word has to be typed."""

import random

import pytest
from textual import events
from textual.widgets import Input

from callboard.persistence.memory import MemoryStore
from callboard.tui.dialog import Dialog, TypedWord
from tests.tui.conftest import BareApp, gateway_on, screen_text, until, until_shown

pytestmark = pytest.mark.anyio
FACTS = [
    ("message", "msg_01 · 2.1 kB"),
    ("then", "goes to the end of /mail/sender, and this is long enough to wrap " * 3),
]


def requeue(**more: object) -> TypedWord:
    return TypedWord("Requeue · mail", FACTS, word="requeue", verb="requeues it", **more)  # type: ignore[arg-type]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 15)])
async def test_the_word_and_enter_go_on_and_all_facts_are_there(size: tuple[int, int]) -> None:
    answers: list[str | None] = []
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=size) as pilot:
            app.push_screen(requeue(reason="note"), answers.append)
            await until(pilot, lambda: app.screen.query("#word") and isinstance(app.focused, Input))
            await until_shown(pilot, "type requeue")
            await pilot.press(*"requeue")
            await until(pilot, lambda: "armed" in str(app.screen.query_one("#armed").render()))
            await pilot.press("down", *"typo", "enter")
            await until(pilot, lambda: answers == ["typo"])


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("typed", ["", "Requeue", "requeu", "requeue it", "yes", "y"])
async def test_r2_enter_alone_or_with_another_word_decides_nothing(typed: str) -> None:
    answers: list[str | None] = []
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            app.push_screen(requeue(reason="note"), answers.append)
            await until(pilot, lambda: app.screen.query("#word") and isinstance(app.focused, Input))
            await pilot.press(*typed, *["enter"] * 20, "down", *["enter"] * 20)
            assert not answers and isinstance(app.screen, TypedWord)


@pytest.mark.usefixtures("at_once")
async def test_r2_esc_leaves_and_decides_nothing_whatever_was_typed() -> None:
    answers: list[str | None] = []
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            app.push_screen(requeue(), answers.append)
            await until(pilot, lambda: app.screen.query("#word") and isinstance(app.focused, Input))
            await pilot.press(*"requeue", "escape")
            await until(pilot, lambda: answers == [None])


@pytest.mark.usefixtures("at_once")
async def test_a_reason_that_is_needed_is_waited_for() -> None:
    answers: list[str | None] = []
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            app.push_screen(requeue(reason="reason", reason_needed=True), answers.append)
            await until(pilot, lambda: app.screen.query("#word") and isinstance(app.focused, Input))
            await pilot.press(*"requeue", "enter")
            await until(pilot, lambda: app.focused is not None and app.focused.id == "reason")
            await pilot.press("space", "enter")
            assert not answers
            await pilot.press(*"because", "enter")
            await until(pilot, lambda: answers == ["because"])


def test_r2_there_is_no_dialog_in_which_enter_alone_decides() -> None:
    with pytest.raises(ValueError, match="Enter alone never decides"):
        TypedWord("Requeue", FACTS)
    with pytest.raises(ValueError, match="Enter alone never decides"):
        TypedWord("Requeue", FACTS, reason="note")


async def test_d7_a3_keys_clicks_and_pastes_that_come_too_soon_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dialog, "settle_seconds", 3_600.0)
    answers: list[str | None] = []
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            dialog = requeue()
            app.push_screen(dialog, answers.append)
            await until(pilot, lambda: dialog.query("#word") and isinstance(app.focused, Input))
            await pilot.press(*"requeue", "enter", "escape")
            app.post_message(events.Paste("requeue"))
            await pilot.click("#word")
            await pilot.pause()
            assert not answers and app.screen is dialog and not dialog.query_one("#word", Input).value
            monkeypatch.setattr(Dialog, "settle_seconds", 0.0)
            await pilot.press(*"requeue", "enter")
            await until(pilot, lambda: answers == [""])


def test_d7_the_guard_is_at_least_as_long_as_two_strokes_of_a_quick_typist() -> None:
    assert Dialog.settle_seconds >= 0.4


async def test_a3_the_guard_begins_anew_when_another_dialog_over_it_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            lower, upper = requeue(), requeue()
            app.push_screen(lower)
            await until(pilot, lambda: lower.query("#word") and lower.settled)
            app.push_screen(upper)
            await until(pilot, lambda: upper.settled)
            monkeypatch.setattr(Dialog, "settle_seconds", 3_600.0)
            upper.dismiss(None)
            await until(pilot, lambda: app.screen is lower)
            await pilot.press("escape", "x")
            assert app.screen is lower and not lower.query_one("#word", Input).value


@pytest.mark.usefixtures("at_once")
async def test_a1_no_thousand_random_keys_without_the_word_decide() -> None:
    chance = random.Random(6)
    keys = [*"abcdefghijklmnopstvwxyzYNAR0123456789", "enter", "tab", "up", "down", "left", "space", "backspace"]
    answers: list[str | None] = []
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            app.push_screen(requeue(reason="note"), answers.append)
            await until(pilot, lambda: app.screen.query("#word") and isinstance(app.focused, Input))
            for _ in range(20):
                for key in (chance.choice(keys) for _ in range(50)):
                    app.post_message(events.Key(key, " " if key == "space" else key if len(key) == 1 else None))
                await pilot.pause()
            assert not answers and isinstance(app.screen, TypedWord)
            assert any(one.value for one in app.screen.query(Input)), "they have come"


@pytest.mark.usefixtures("at_once")
async def test_r7_facts_and_titles_are_shown_and_never_obeyed() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            bad = "[red]x[/red] \x1b[31m \u202e [@click=app.quit]y[/]"
            app.push_screen(TypedWord(f"Kill {bad}", [(bad, bad)], word="kill"))
            await until(pilot, lambda: app.screen.query("#word") and isinstance(app.focused, Input))
            shown = screen_text(app)
            assert shown.count("[red]x[/red]") >= 2 and "\\x1b" in shown and "\\u202e" in shown
            assert "\x1b" not in shown and "\u202e" not in shown
