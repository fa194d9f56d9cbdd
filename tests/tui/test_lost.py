"""The database goes away, or takes questions and never answers: look, but do not touch; and nothing is missed after."""

import asyncio

import anyio
import pytest
from textual.app import ComposeResult
from textual.widgets import Input, TextArea

from callboard.actors.testing import ManualPort
from callboard.persistence.memory import MemoryStore
from callboard.service.operations.decisions import Answer
from callboard.tui import live
from callboard.tui.app import CallboardApp
from callboard.tui.dialog import Dialog, TypedWord
from callboard.tui.table import LineTable
from tests.tui.conftest import WAIT_SECONDS, BareApp, Line, gateway_on, said, screen_text, until, until_shown
from tests.tui.desk import desk

pytestmark = pytest.mark.anyio


@pytest.mark.usefixtures("real_times")
@pytest.mark.parametrize("how", ["cut", "hang"])
async def test_r10_a_lost_database_is_told_within_two_seconds(how: str) -> None:
    port = ManualPort()
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store, port=port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks and app.attention)
            await port.advance(10.0)
            getattr(line, how)()
            await port.advance(2.0)
            said = ("✗ database lost", "You see", "Nothing is lost; decisions are off.", "Retry", "ctrl+r now")
            await until_shown(pilot, "Database lost", *said, "/one")  # what was read stays
            line.mend()


@pytest.mark.usefixtures("real_times")
def test_r10_the_times_that_bound_how_late_a_loss_is_told() -> None:
    assert live.PULSE_SECONDS + live.ANSWER_SECONDS < 2.0


@pytest.mark.usefixtures("hangs_are_told")
@pytest.mark.parametrize("how", ["cut", "hang"])
async def test_a10_it_goes_on_by_itself_when_the_database_is_back(how: str) -> None:
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            getattr(line, how)()
            await until(pilot, lambda: app.live.lost)
            looks = app.bare.looks
            line.mend()
            await pilot.press("ctrl+r")
            await until(pilot, lambda: app.bare.looks > looks and not app.live.lost)
            await until_shown(pilot, "● live", gone=["Database lost"])
            assert app.live.state.tries == 0


@pytest.mark.usefixtures("real_times")
async def test_a10_while_it_is_lost_it_is_asked_ever_more_seldom_and_for_the_time_only() -> None:
    port = ManualPort()
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store, port=port))
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            line.cut()
            await port.advance(2.0)
            assert app.live.lost
            line.asked.clear()
            asked = []
            for _ in range(4):
                await port.advance(15.0)
                asked.append(len(line.asked))
                assert set(line.asked) == {"now"}
                line.asked.clear()
            assert asked[0] > asked[-1] and asked[-1] <= 2
            line.mend()


@pytest.mark.usefixtures("hangs_are_told")
async def test_nothing_is_read_twice_at_once_however_often_it_is_asked_for() -> None:
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store))
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            line.hang()
            for _ in range(30):
                await pilot.press("ctrl+r")
            await until(pilot, lambda: app.live.lost)
            for _ in range(30):
                await pilot.press("ctrl+r")
            line.mend()
            await until(pilot, lambda: not app.live.lost)
            assert line.most_inside["census"] == 1  # of the screen
            assert line.most_inside["now"] <= live.MAX_QUESTIONS + 1  # another one may belong to the attention line


@pytest.mark.usefixtures("real_times")
async def test_ctrl_r_tries_the_database_at_once() -> None:
    port = ManualPort()
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store, port=port))
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            line.cut()
            await port.advance(60.0)
            assert app.live.lost and app.live.state.next_try_at > port.monotonic()
            line.mend()
            await pilot.press("ctrl+r")
            await until(pilot, lambda: not app.live.lost)  # and no time has passed


@pytest.mark.usefixtures("at_once")
async def test_r10_keys_that_would_change_something_say_why_they_are_off() -> None:
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await pilot.press("B")
            assert app.bare.broken == 1
            line.cut()
            await until(pilot, lambda: app.live.lost)
            await pilot.press("B")
            assert app.bare.broken == 1
            await until(pilot, lambda: "nothing can be decided or changed" in said(app))
            line.mend()
            await pilot.press("ctrl+r")
            await until(pilot, lambda: not app.live.lost)
            await pilot.press("B")
            assert app.bare.broken == 2


class Form(Dialog[str]):
    """Something to type in."""

    def compose(self) -> ComposeResult:
        yield Input(id="one")
        yield TextArea(id="two")


@pytest.mark.usefixtures("at_once")
async def test_r10_what_was_typed_stays_while_the_database_is_away_and_is_sent_by_nobody() -> None:
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store))
        answers: list[str | None] = []
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            dialog = TypedWord("Discard", [("what", "a letter")], word="discard", reason="reason", reason_needed=True)
            app.push_screen(dialog, answers.append)
            await until(pilot, lambda: dialog.settled and dialog.query("#reason"))
            await pilot.press(*"discard", "down", *"sent twice")
            line.cut()
            await until(pilot, lambda: app.live.lost)
            await pilot.press("enter", "enter")
            await until(pilot, lambda: "nothing can be decided or changed" in said(app))
            assert not answers and app.screen is dialog
            assert dialog.query_one("#reason", Input).value == "sent twice"
            line.mend()
            await until(pilot, lambda: not app.live.lost)
            assert dialog.query_one("#reason", Input).value == "sent twice"
            await pilot.press("enter")
            await until(pilot, lambda: answers == ["sent twice"])


@pytest.mark.usefixtures("hangs_are_told")
@pytest.mark.parametrize("how", ["cut", "hang"])
async def test_a10_quit_works_while_the_database_is_away(how: str) -> None:
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store))
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            getattr(line, how)()
            await until(pilot, lambda: app.live.lost)
            await pilot.press("q")
            await until(pilot, lambda: app._exit)
            line.mend()
        assert app.return_code == 0


@pytest.mark.usefixtures("hangs_are_told")
async def test_a_database_that_is_not_there_from_the_beginning_is_told_too() -> None:
    async with MemoryStore() as store:
        line = Line(store)
        line.hang()
        app = BareApp(gateway_on(line.store))
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.live.lost)
            await until_shown(pilot, "Database lost", "Decisions are off")
            line.mend()
            await until(pilot, lambda: app.bare.looks and not app.live.lost)


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 15)])
async def test_ages_grow_and_the_lists_can_be_moved_in_while_it_is_lost(size: tuple[int, int]) -> None:
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store))
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.bare.looks)
            line.cut()
            banners: list[str] = []

            def grown() -> bool:
                banners.extend(row for row in screen_text(app).splitlines() if "lost" in row and "ago" in row)
                return len(set(banners)) > 1

            await until(pilot, grown)
            assert app.bare.selected == "/one"
            await pilot.press("j")
            assert app.bare.selected == "/two"
            await pilot.press("3")
            await until(pilot, lambda: app.pane.heading == "Mailboxes")
            line.mend()


@pytest.mark.usefixtures("hangs_are_told")
async def test_a10_what_happened_meanwhile_is_there_afterwards_once_each() -> None:
    async with desk() as d:
        first = await d.refund("480.00")
        line = Line(d.store)
        app = CallboardApp(gateway_on(line.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await pilot.press("2")
            await until(pilot, lambda: "1 to decide" in screen_text(app) and "480.00" in screen_text(app))
            line.hang()
            await until(pilot, lambda: app.live.lost)
            for amount in ("71.00", "72.00", "73.00"):
                await d.refund(amount)
            await d.decisions("ana").decide(first, Answer("denied", note="no"))
            line.mend()
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "3 to decide" in screen_text(app) and "73.00" in screen_text(app))
            table = app.pane.query(LineTable).first()
            await until(pilot, lambda: len(table.rows) == 3)
            assert len({row.key for row in table.rows}) == 3


@pytest.mark.usefixtures("hangs_are_told")
async def test_it_leaves_no_question_behind_when_it_ends() -> None:
    async with MemoryStore() as store:
        line = Line(store)
        app = BareApp(gateway_on(line.store))
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            line.hang()
            await until(pilot, lambda: app.live.lost)
        with anyio.fail_after(WAIT_SECONDS):
            while [one for one in asyncio.all_tasks() if "Live." in repr(one.get_coro())]:
                await anyio.lowlevel.checkpoint()
