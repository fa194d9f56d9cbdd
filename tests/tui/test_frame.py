"""The frame: what its lines say, at each size; going between the screens; and what it tells the terminal around it."""

from collections.abc import Callable

import pytest

from callboard.actors.testing import ManualPort
from callboard.mailbox.errors import NotAllowed
from callboard.persistence.memory import MemoryStore
from callboard.service.operations.decisions import Answer
from callboard.tui import live
from callboard.tui.app import SCREENS, CallboardApp
from callboard.tui.panes import PANES
from callboard.tui.times import clock, clock_with_zone
from tests.tui.conftest import BareApp, gateway_on, said, screen_text, until, until_shown
from tests.tui.desk import desk

pytestmark = pytest.mark.anyio
SIZES = [(120, 36), (80, 24), (60, 15)]


@pytest.mark.parametrize("size", SIZES)
async def test_a14_each_screen_opens_by_its_number(size: tuple[int, int]) -> None:
    async with MemoryStore() as store:
        app = CallboardApp(gateway_on(store))
        async with app.run_test(size=size) as pilot:
            for number, pane in enumerate(PANES, 1):
                await pilot.press(str(number))
                await until(pilot, lambda: app.pane.heading == pane.heading)  # noqa: B023 - done with before the next one
            await until_shown(pilot, "callboard")
            await pilot.press("q")
        assert app.return_code == 0


@pytest.mark.parametrize("size", SIZES)
async def test_the_first_three_lines_say_where_one_is_and_what_waits(size: tuple[int, int]) -> None:
    async with desk() as d:
        for amount in ("480.00", "89.90"):
            await d.refund(amount)
        app = BareApp(gateway_on(d.store, port=d.port), environment="prod-eu")
        async with app.run_test(size=size) as pilot:
            await until_shown(pilot, "2 to decide", "● live")
            first, second, third = screen_text(app).splitlines()[:3]
            assert first.startswith(" callboard  prod-eu") and "● live" in first and "mara" in first
            assert "2" in second and "1 Actors" in second
            assert "◆ 2 to decide" in third and "€569.90" in third
            if size[0] >= 80:
                assert "1 node" in first and "admin" in first and "oldest" in third
            if size[0] >= 100:
                assert "db " in first and "next expiry" in third and "4 Dead letters" in second
            else:
                assert "Approvals" not in second


async def test_production_is_bold_and_other_places_are_not() -> None:
    async with MemoryStore() as store:
        for environment, bold in (("prod-eu", True), ("Production", True), ("staging", False)):
            app = BareApp(gateway_on(store), environment=environment)
            async with app.run_test(size=(120, 36)) as pilot:
                await until(pilot, lambda: environment in screen_text(app))  # noqa: B023 - done with before the next one
                found = [s for strip in app.screen._compositor.render_strips() for s in strip if environment in s.text]
                assert bool(found[0].style and found[0].style.bold) == bold


async def test_a_terminal_that_is_too_narrow_says_so_and_comes_back() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(50, 12)) as pilot:
            await until(pilot, lambda: "make me wider" in screen_text(app))
            await until_shown(pilot, gone=["callboard"])
            await pilot.resize_terminal(60, 15)
            await until(pilot, lambda: "callboard" in screen_text(app))
            for size in ((20, 3), (1, 1), (200, 60)):
                await pilot.resize_terminal(*size)
            await until(pilot, lambda: "callboard" in screen_text(app))


async def test_another_screen_is_opened_with_something_selected_and_esc_comes_back() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            app.open_screen("mailboxes", "/crm/desk")
            await until(pilot, lambda: app.bare.heading == "Mailboxes" and app.bare.went_to == "/crm/desk")
            app.open_screen("runs", "T-1")
            await until(pilot, lambda: app.bare.heading == "Runs" and app.bare.went_to == "T-1")
            await pilot.press("escape")
            await until(pilot, lambda: app.bare.heading == "Mailboxes")
            await pilot.press("escape")
            await until(pilot, lambda: app.bare.heading == "Actors")
            await pilot.press("escape")
            assert app.bare.heading == "Actors"


async def test_a_pane_that_cannot_find_what_it_was_sent_to_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(self: object, key: str) -> None:
        raise NotAllowed(f"nobody may see {key}")

    monkeypatch.setattr(BareApp.SHOWN[SCREENS.index("runs")].load(), "go_to", lost)
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            app.open_screen("runs", "T-1")
            await until(pilot, lambda: "nobody may see T-1" in said(app))


async def test_a_screen_is_looked_at_again_when_something_changed_and_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert live.PANE_SECONDS == 5.0
    monkeypatch.setattr(live, "PANE_SECONDS", 0.5)
    async with desk() as d:
        app = BareApp(gateway_on(d.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            looks = app.bare.looks
            await d.refund("480.00")
            await until(pilot, lambda: app.bare.looks > looks and "1 to decide" in screen_text(app))
            looks = app.bare.looks
            await until(pilot, lambda: app.bare.looks > looks)


async def test_a11_news_that_are_never_heard_are_seen_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk() as d:
        monkeypatch.setattr(type(d.store), "tell", lambda self, *news: None)
        app = BareApp(gateway_on(d.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            looks = app.bare.looks
            await d.refund("480.00")
            await until(pilot, lambda: app.bare.looks > looks and "1 to decide" in screen_text(app))


async def test_a_refusal_of_the_database_is_said_once_and_not_every_second() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))

        async def refused() -> None:
            raise NotAllowed("permission denied for table callboard.actor; run: grant select")

        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            app.bare.look = refused
            for _ in range(3):
                looked = app.live.state.looked_at
                await pilot.press("ctrl+r")
                await until(pilot, lambda: app.live.state.looked_at > looked)  # noqa: B023 - done with before the next one
            await until(pilot, lambda: "grant select" in said(app))
            assert said(app).count("grant select") == 1


async def test_it_rings_and_counts_in_the_title_when_something_new_waits() -> None:
    async with desk() as d:
        await d.refund("480.00")
        app = BareApp(gateway_on(d.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app._title.text == "(1) callboard")
            assert app._title.rung == 0, "what waited before is no news"
            approval = await d.refund("89.90")
            await until(pilot, lambda: app._title.text == "(2) callboard" and app._title.rung == 1)
            await d.decisions("ana").decide(approval, Answer("denied", note="no"))
            await until(pilot, lambda: app._title.text == "(1) callboard")
            assert app._title.rung == 1


async def test_the_bell_can_be_switched_off() -> None:
    async with desk() as d:
        app = BareApp(gateway_on(d.store, port=d.port), bell=False)
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.attention)
            await d.refund("480.00")
            await until(pilot, lambda: "1 to decide" in screen_text(app))
            assert app._title.rung == 0 and not app._title.text


async def test_the_clock_of_the_screen_is_the_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk() as d:
        app = BareApp(gateway_on(d.store))  # whose own clock is an hour behind
        async with app.run_test(size=(120, 36)) as pilot:
            await d.pass_time(3_600.0)
            await until(pilot, lambda: app.bare.looks and abs(app.now() - d.port.wall()) < 60.0)
            now = app.now()
            monkeypatch.setattr(app, "now", lambda: now)
            assert app.when(now - 65) == "1m 05s ago"
            await pilot.press("ctrl+t")
            assert app.when(now) == clock(now, "local")
            await pilot.press("ctrl+t")
            assert app.when(now).endswith("Z")
            await until_shown(pilot, clock_with_zone(now, "utc"))


async def test_readonly_changes_nothing_and_says_so() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store, scopes=frozenset({"read"})))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await until_shown(pilot, "viewer")
            await pilot.press("B")
            assert app.bare.broken == 0
            await until(pilot, lambda: "may only look here" in said(app))


async def test_a_frozen_view_stays_while_the_world_goes_on() -> None:
    async with desk() as d:
        app = BareApp(gateway_on(d.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await pilot.press("F")
            await until(pilot, lambda: "‖ frozen" in screen_text(app))
            looks = app.bare.looks
            await d.refund("480.00")
            await until(pilot, lambda: "1 to decide" in screen_text(app))
            assert app.bare.looks == looks
            await pilot.press("F")
            await until(pilot, lambda: app.bare.looks > looks and "frozen" not in screen_text(app))


async def looks_in(seconds: float, each: Callable[[BareApp, MemoryStore], None]) -> int:
    """How often the screen is read while `each` is done a hundred times a second, by hand-driven time."""
    port = ManualPort()
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store, port=port))
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.bare.looks)
            await port.advance(5.0)
            looks = app.bare.looks
            for _ in range(round(seconds * 100)):
                each(app, store)
                await port.advance(0.01)
            return int(app.bare.looks - looks)


@pytest.mark.usefixtures("real_times")
async def test_a_person_who_keeps_asking_is_answered_no_more_than_ten_times_a_second() -> None:
    looks = await looks_in(2.0, lambda app, _: app.action_look_now())
    assert 2.0 / live.GATHER_SECONDS + 2 < looks <= 2.0 / live.ASKED_SECONDS + 2


@pytest.mark.usefixtures("real_times")
async def test_news_are_looked_at_no_more_than_three_times_a_second_however_many_there_are() -> None:
    looks = await looks_in(2.0, lambda _, store: store.tell("x"))
    assert 0 < looks <= 2.0 / 0.3 + 2, "more than three times a second"
