"""The hold line: what can be taken back is shown above the footer, wherever it was approved, and `u` takes it back."""

import pytest

from callboard.service.operations.decisions import Answer
from callboard.tui.dialog import TypedWord
from tests.tui.conftest import BareApp, Line, gateway_on, said, screen_text, until, until_shown
from tests.tui.desk import desk

pytestmark = pytest.mark.anyio


def yes(*amounts: str) -> Answer:
    return Answer("approved", amounts=amounts)


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 15)])
async def test_d3_a_hold_is_read_from_the_store_and_counts_down(size: tuple[int, int]) -> None:
    async with desk(hold_seconds=600.0) as d:
        approval = await d.refund("480.00")
        await d.decisions("mara").decide(approval, yes("480.00"))
        app = BareApp(gateway_on(d.store, port=d.port))  # started after it: a restarted UI shows it too
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: "✓ approved issue_refund €480.00 " in screen_text(app))
            rows = screen_text(app).splitlines()
            assert "u take it back" in rows[-2], "above the footer"
            assert "released in" in rows[-2] or size[0] < 80
            before = app.holds.line(app.now(), 118)
            await until(pilot, lambda: app.holds.line(app.now(), 118) != before)


async def test_d3_u_takes_back_ones_own_at_once_and_the_call_is_not_made() -> None:
    async with desk(hold_seconds=600.0) as d:
        approval = await d.refund("480.00")
        await d.decisions("mara").decide(approval, yes("480.00"))
        app = BareApp(gateway_on(d.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: "u take it back" in screen_text(app))
            await pilot.press("u")
            await until(pilot, lambda: "taken back" in said(app))
            await until(pilot, lambda: "take it back" not in screen_text(app) and "1 to decide" in screen_text(app))
        assert (await d.row(approval)).status == "pending" and not d.done


async def test_a9_after_the_release_u_says_that_it_was_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.tui.app.TOO_LATE_SECONDS", 3_600.0)
    async with desk(hold_seconds=600.0) as d:
        approval = await d.refund("480.00")
        await d.decisions("mara").decide(approval, yes("480.00"))
        app = BareApp(gateway_on(d.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: "u take it back" in screen_text(app))
            await d.pass_time(601.0)
            await d.until_done()
            await until(pilot, lambda: "take it back" not in screen_text(app) and app.holds.gone(app.now(), 3_600.0))
            await pilot.press("u")
            await until(pilot, lambda: "too late: issue_refund was let go" in said(app))


async def test_a9_u_that_loses_the_race_says_what_the_store_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(hold_seconds=600.0) as d:
        approval = await d.refund("480.00")
        await d.decisions("mara").decide(approval, yes("480.00"))
        app = BareApp(gateway_on(d.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: "u take it back" in screen_text(app))
            monkeypatch.setattr(app.holds, "look", lambda approved: None)  # this screen does not see it in time
            await d.decisions("ana").take_back(approval)
            await pilot.press("u")
            await until(pilot, lambda: said(app))
            assert "taken back:" not in said(app)


@pytest.mark.usefixtures("at_once")
async def test_what_somebody_else_approved_is_shown_by_name_and_asks_once_more() -> None:
    async with desk(hold_seconds=600.0) as d:
        approval = await d.refund("480.00")
        await d.decisions("ana").decide(approval, yes("480.00"))
        app = BareApp(gateway_on(d.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: "✓ ana approved issue_refund €480.00" in screen_text(app))
            await pilot.press("u")
            await until(pilot, lambda: isinstance(app.screen, TypedWord))
            assert (await d.row(approval)).status == "approved"
            await until(pilot, lambda: app.screen.query("#word") and app.focused is not None)
            await pilot.press(*"take", "space", *"back", "enter")
            await until(pilot, lambda: "taken back" in said(app))
        assert (await d.row(approval)).status == "pending"


async def test_the_newest_of_ones_own_is_first_and_the_others_are_counted() -> None:
    async with desk(hold_seconds=600.0) as d:
        for name, amount in (("ana", "30.00"), ("mara", "40.00"), ("mara", "50.00")):
            approval = await d.refund(amount)
            await d.decisions(name).decide(approval, yes(amount))
        app = BareApp(gateway_on(d.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: "✓ approved issue_refund €50.00" in screen_text(app))
            await until_shown(pilot, "2 more held")


async def test_r10_nothing_is_taken_back_while_the_database_is_away() -> None:
    async with desk(hold_seconds=600.0) as d:
        approval = await d.refund("480.00")
        await d.decisions("mara").decide(approval, yes("480.00"))
        line = Line(d.store)
        app = BareApp(gateway_on(line.store, port=d.port))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: "u take it back" in screen_text(app))
            line.cut()
            await until(pilot, lambda: app.live.lost)
            await until_shown(pilot, "decisions are off", gone=["u take it back"])
            line.asked.clear()
            await pilot.press("u")
            await until(pilot, lambda: "nothing can be decided or changed" in said(app))
            assert "take_back" not in line.asked
            line.mend()
