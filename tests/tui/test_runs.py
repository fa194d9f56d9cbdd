"""The screen of runs: the list, a run's waterfall, and what is asked of both by keys. On real runs, by real nodes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from callboard import LLMResponse, tool
from callboard.actors.agent.budget import Budget
from callboard.persistence.port import Port
from callboard.service.operations.filters import Filter
from callboard.service.operations.principal import ALL_SCOPES, Scope
from callboard.tui import live
from callboard.tui.app import CallboardApp
from callboard.tui.panes.runs import RunsPane
from callboard.tui.panes.runs.listing import PAGE, Listing
from callboard.tui.trace_event import EventDialog
from tests.agent.stage import Stage, asks, says, script

from .conftest import Line, gateway_on, said, screen_text, until, until_shown
from .desk import desk
from .fallen import fallen

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("at_once")]
SIZES = [(120, 36), (80, 24), (60, 15), (160, 44)]


@asynccontextmanager
async def runs_of(
    store: Any, size: tuple[int, int] = (120, 36), *, scopes: frozenset[Scope] = ALL_SCOPES, port: Port | None = None
) -> AsyncIterator[tuple[CallboardApp, Pilot[None], RunsPane]]:
    """The screen, once its list is there."""
    app = CallboardApp(gateway_on(store, scopes=scopes, port=port))
    async with app.run_test(size=size) as pilot:
        await pilot.press("5")
        pane = app.pane
        assert isinstance(pane, RunsPane)
        await until(pilot, lambda: pane.table.rows)
        yield app, pilot, pane


async def opened(pilot: Pilot[None], pane: RunsPane, *, lines: int = 1) -> None:
    """Open the run under the cursor, and wait for its trace."""
    await pilot.press("enter")
    await until(pilot, lambda: len(pane.trace.table.rows) >= lines and pane.view is not None)


async def typed(pilot: Pilot[None], text: str) -> None:
    await pilot.press(*("space" if one == " " else one for one in text))


@pytest.mark.parametrize("size", SIZES)
async def test_a14_list_and_waterfall_are_there_at_every_size(size: tuple[int, int]) -> None:
    async with fallen() as stage, runs_of(stage.store, size) as (app, pilot, pane):
        await until_shown(pilot, "✓ COMPLETED", "Runs · newest first")
        await opened(pilot, pane, lines=12)
        await until_shown(pilot, "✗ node 1 lost", "model 1", "▒▒", "400ms", "3 steps")
        assert all(len(line) <= size[0] for line in screen_text(app).split("\n"))
        await pilot.press("escape")
        await until(pilot, lambda: "newest first" in screen_text(app))


async def test_the_waterfall_tells_crash_take_over_and_who_decided_after_how_long() -> None:
    async with fallen() as stage, runs_of(stage.store) as (_, pilot, pane):
        await opened(pilot, pane, lines=12)
        told = ("✗ node 1 lost", "⇡ node 2 goes on", "recovered by node 2", "┊", "≈ 12m 32s ≈", "12m 32s", "▓▓")
        waited = "waiting 13m 25s (people 12m 32s, changes of node 52.2s)"
        await until_shown(pilot, "mara approved", *told, waited)


async def test_z_unfolds_waits_and_f_leaves_what_failed_and_both_keep_the_cursor() -> None:
    async with fallen() as stage, runs_of(stage.store) as (app, pilot, pane):
        await opened(pilot, pane, lines=12)
        await pilot.press("j", "j")
        key = pane.trace.table.cursor_key
        await pilot.press("z")
        await until(pilot, lambda: "≈" not in screen_text(app))
        await pilot.press("z")
        await until(pilot, lambda: "≈ 12m 32s ≈" in screen_text(app))
        await pilot.press("f")
        await until(pilot, lambda: len(pane.trace.table.rows) == 4)
        assert pane.trace.table.cursor_key == key
        await until_shown(pilot, "failed only", gone=["new ↓"])
        await pilot.press("f")
        await until(pilot, lambda: len(pane.trace.table.rows) == 12)
        assert pane.trace.table.cursor_key == key


async def test_a_search_in_the_trace_looks_into_what_events_say_and_esc_clears_it_first() -> None:
    async with fallen() as stage, runs_of(stage.store) as (_, pilot, pane):
        await opened(pilot, pane, lines=12)
        await pilot.press("slash")
        await typed(pilot, "photo")
        await pilot.press("enter")
        await until(pilot, lambda: len(pane.trace.table.rows) == 1)
        await until_shown(pilot, "approval pay")
        await pilot.press("escape")
        await until(pilot, lambda: len(pane.trace.table.rows) == 12)
        assert pane.reading
        await pilot.press("escape")
        assert not pane.reading


async def test_zoom_widens_the_scale_around_the_cursor() -> None:
    async with fallen() as stage, runs_of(stage.store) as (app, pilot, pane):
        await opened(pilot, pane, lines=12)
        await pilot.press("G")
        for _ in range(3):
            await pilot.press("plus")
        await until(pilot, lambda: "zoom ×8" in screen_text(app))
        await until_shown(pilot, "│<")
        for _ in range(3):
            await pilot.press("minus")
        await until(pilot, lambda: "zoom ×" not in screen_text(app))


async def test_enter_tells_an_event_whole_and_brackets_step_through_them() -> None:
    async with fallen() as stage, runs_of(stage.store, (80, 24)) as (app, pilot, pane):
        await opened(pilot, pane, lines=12)
        await pilot.press("j", "j", "enter")
        await until(pilot, lambda: isinstance(app.screen, EventDialog))
        await until(pilot, lambda: "Event 3 of 12" in screen_text(app) and "tool.requested #4" in screen_text(app))
        assert "\x1b" not in screen_text(app)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "Event 4 of 12" in screen_text(app))
        await pilot.press("left_square_bracket", "w")
        await until(pilot, lambda: '"schema": "callboard.event/1"' in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, EventDialog))
        assert pane.trace.table.cursor_key == "r2"
        await pilot.press("right_square_bracket")
        assert pane.trace.table.cursor_key == "r3"


async def test_a_run_at_work_grows_below_while_the_cursor_stays() -> None:
    async with desk() as d:
        await d.refund("480.00", run_id="T-1")
        async with runs_of(d.store) as (app, pilot, pane):
            await opened(pilot, pane, lines=4)
            await until_shown(pilot, "◆ NEEDS YOU", "◆ approval issue_refund")
            await pilot.press("j")
            key, before = pane.trace.table.cursor_key, len(pane.trace.table.rows)
            await d.runtime.approve("T-1", "ana")
            await d.pass_time(60)
            await d.runtime.runs.rest("T-1")
            await until(pilot, lambda: "completed" in screen_text(app) and "ana approved" in screen_text(app))
            assert len(pane.trace.table.rows) > before and pane.trace.table.cursor_key == key
            await until_shown(pilot, "✓ COMPLETED")


async def test_a_run_that_has_ended_is_not_read_again_and_again() -> None:
    async with fallen() as stage:
        line = Line(stage.store)
        async with runs_of(line.store) as (_, pilot, pane):
            await opened(pilot, pane, lines=12)
            await until(pilot, lambda: pane.trace.timeline.marks.state.finished)
            read = line.asked.count("journal")
            looks = line.asked.count("newest")
            pane.frame.action_look_now()
            await pilot.press("escape")
            await until(pilot, lambda: line.asked.count("newest") > looks)
            assert line.asked.count("journal") == read


async def test_a10_a_lost_database_leaves_what_was_read_and_reading_goes_on_when_it_is_back() -> None:
    async with desk() as d:
        await d.refund("480.00", run_id="T-1")
        line = Line(d.store)
        async with runs_of(line.store) as (app, pilot, pane):
            await opened(pilot, pane, lines=4)
            line.cut()
            await until(pilot, lambda: "atabase lost" in screen_text(app))
            assert "◆ approval issue_refund" in screen_text(app)
            await pilot.press("j", "z", "f", "f", "x")
            await until(pilot, lambda: "the database is away" in said(app))
            line.mend()
            await d.runtime.deny("T-1", "ana", "no photo")
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "ana denied" in screen_text(app))
            keys = [row.key for row in pane.trace.table.rows]
            assert len(keys) == len(set(keys))


async def test_r1_readonly_may_look_and_not_replay_tell_cancel_or_pause() -> None:
    async with desk() as d:
        await d.refund("480.00", run_id="T-1")
        async with runs_of(d.store, scopes=frozenset({"read"})) as (app, pilot, pane):
            await opened(pilot, pane, lines=4)
            for key in ("x", "e", "X", "p"):
                await pilot.press(key)
                await until(pilot, lambda: "may only look here" in said(app))
                assert len(app.screen_stack) == 1
                app.clear_notifications()
            assert not await d.store.audit()


async def test_x_replays_from_the_event_under_the_cursor_and_the_run_does_not_notice() -> None:
    async with fallen() as stage, runs_of(stage.store) as (app, pilot, pane):
        await opened(pilot, pane, lines=12)
        for _ in range(7):
            await pilot.press("j")
        assert pane.trace.at is not None and pane.trace.at.label == "model 2"
        await pilot.press("x")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await until_shown(pilot, "Replay from here", "event 8 of 15", "1 call(s) after it")
        await pilot.press("enter")
        assert len(app.screen_stack) == 2, "Enter alone records nothing"
        app.screen.query_one("#word", Input).value = "replay"
        app.screen.query_one("#reason", Input).value = "what if"
        await pilot.press("enter")
        await until(pilot, lambda: len(app.screen_stack) == 1 and "recorded: run" in said(app))
        (row,) = await stage.store.audit(action="fork")
        assert (row.who, row.channel, row.object, row.note) == ("mara", "tui", "/agents/run:r", "what if")
        assert (await stage.state("r")).status == "completed"


async def test_x_at_the_end_of_a_run_asks_what_the_new_one_shall_do() -> None:
    async with fallen() as stage, runs_of(stage.store) as (app, pilot, pane):
        await opened(pilot, pane, lines=12)
        await pilot.press("G", "x")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await until_shown(pilot, "what it shall do now")
        app.screen.query_one("#word", Input).value = "replay"
        await pilot.press("enter")
        assert len(app.screen_stack) == 2 and not await stage.store.audit(action="fork")
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert not await stage.store.audit(action="fork"), "esc records nothing"


async def test_v_proves_that_what_is_shown_is_what_happened() -> None:
    async with fallen() as stage, runs_of(stage.store) as (app, pilot, pane):
        await opened(pilot, pane, lines=12)
        await pilot.press("v")
        await until(pilot, lambda: "the state is the fold of its 15 events" in said(app))


async def test_d10_what_is_told_cancelled_and_paused_here_is_audited_as_from_the_command_line() -> None:
    async with desk() as d:
        await d.refund("480.00", run_id="T-1")
        async with runs_of(d.store) as (app, pilot, pane):
            await opened(pilot, pane, lines=4)
            await pilot.press("e")
            await until(pilot, lambda: len(app.screen_stack) == 2)
            app.screen.query_one("#reason", Input).value = "the customer called"
            await pilot.press("enter")
            await until(pilot, lambda: "mara says" in screen_text(app))
            await pilot.press("p")
            await until(pilot, lambda: "‖ PAUSED" in screen_text(app))
            await pilot.press("p")
            await until(pilot, lambda: "◆ NEEDS YOU" in screen_text(app))
            await pilot.press("X")
            await until(pilot, lambda: len(app.screen_stack) == 2)
            app.screen.query_one("#word", Input).value = "cancel"
            app.screen.query_one("#reason", Input).value = "enough"
            await pilot.press("enter")
            await until(pilot, lambda: "■ CANCELLED" in screen_text(app))
            rows = [(row.action, row.who, row.channel, row.note) for row in reversed(await d.store.audit())]
        assert [row for row in rows if row[0] != "submit"] == [
            ("tell", "mara", "tui", "the customer called"),
            ("pause", "mara", "tui", ""),
            ("resume", "mara", "tui", ""),
            ("cancel", "mara", "tui", "enough"),
        ]


async def test_a_opens_the_decision_and_m_and_o_go_to_mailbox_and_actor() -> None:
    async with desk() as d:
        await d.refund("480.00", run_id="T-1")
        async with runs_of(d.store) as (app, pilot, pane):
            await opened(pilot, pane, lines=4)
            await pilot.press("a")
            await until(pilot, lambda: len(app.screen_stack) == 2)
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 1)
            for key, heading in (("m", "Mailboxes"), ("o", "Actors")):
                await pilot.press("5", key)
                await until(pilot, lambda heading=heading: app.pane.heading == heading)  # type: ignore[misc]


async def test_another_screen_can_show_a_run_by_its_id_or_its_address() -> None:
    async with fallen() as stage:
        app = CallboardApp(gateway_on(stage.store))
        async with app.run_test(size=(120, 36)) as pilot:
            for key in ("r", "/agents/run:r"):
                app.open_screen("runs", key)
                await until(pilot, lambda: "Run r · ✓ COMPLETED" in screen_text(app))
            app.open_screen("runs", "nothing-of-that-name")
            await until(pilot, lambda: "no run" in said(app))


async def test_the_list_is_filtered_by_its_fields_and_says_so() -> None:
    async with desk() as d:
        for number in range(3):
            await d.refund("480.00", run_id=f"T-{number}")
        await d.runtime.deny("T-1", "ana", "no")
        await d.runtime.runs.rest("T-1")
        async with runs_of(d.store) as (_, pilot, pane):
            await until(pilot, lambda: len(pane.table.rows) == 3)
            await pilot.press("slash")
            await typed(pilot, "state:needs")
            await pilot.press("enter")
            await until(pilot, lambda: [row.key for row in pane.table.rows] == ["/crm/run:T-2", "/crm/run:T-0"])
            await until_shown(pilot, "state:needs")
            await pilot.press("escape")
            await until(pilot, lambda: len(pane.table.rows) == 3)


async def test_a_listing_of_runs_walks_down_and_up_without_gaps_or_doubles() -> None:
    async with Stage(script(says("done"))) as stage:
        for number in range(PAGE * 2 + 30):
            await stage.runtime.create(f"goal {number}", run_id=f"n-{number}")
        await stage.settle()
        listing = Listing(gateway_on(stage.store).watching, Filter())
        now = await stage.store.now()
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(listing.look, now)
                group.start_soon(partial(listing.more, now, below=True))
        while not listing.end:
            await listing.more(now, below=True)
        ids = [one.run_id for one in listing.items]
        assert len(ids) == len(set(ids)) == PAGE * 2 + 30
        again = Listing(gateway_on(stage.store).watching, Filter())
        await again.look(now)
        await again.far(now, below=True)
        while not again.start:
            await again.more(now, below=False)
        assert [one.run_id for one in again.items] == ids


async def test_a_run_that_no_node_has_taken_says_so() -> None:
    async with Stage(script(says("done")), nodes=0) as stage:
        stage.checked = False
        await stage.runtime.create("later", run_id="late")
        async with runs_of(stage.store) as (app, pilot, _):
            await until(pilot, lambda: "◷ WAITING" in screen_text(app))
            await pilot.press("enter")
            await until(pilot, lambda: "it begins when a node serves it" in screen_text(app))


def _long_run() -> Stage:
    @tool
    async def look(n: int) -> str:
        """Look."""
        return "seen"

    turns: list[LLMResponse] = [asks(*(("look", {"n": n}) for n in range(64))) for _ in range(80)]
    return Stage(script(*turns, says("done")), [look])


@pytest.mark.usefixtures("real_times")
async def test_d9_a_run_of_ten_thousand_events_opens_and_scrolls_by_drawing_a_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "PANE_SECONDS", 3_600.0)  # what is counted is what keys cost, however long they take
    async with _long_run() as stage:
        stage.checked = False
        budget = Budget(max_iterations=None, max_tokens=None, max_cost_usd=None)
        await stage.begin("much", run_id="long", budget=budget)
        await stage.advance(60)
        assert len(await stage.events("long")) >= 10_000
        async with runs_of(stage.store) as (app, pilot, pane):
            await opened(pilot, pane, lines=5_000)
            await until(pilot, lambda: pane.trace.timeline.marks.state.finished)
            await pilot.pause()
            for key in ("j", "G", "k", "ctrl+u", "g", "right_square_bracket"):
                before = pane.trace.drawn
                await pilot.press(key)
                await pilot.pause()
                assert pane.trace.drawn - before <= 3 * 36, key
            await pilot.press("G")
            await until(pilot, lambda: "✓ completed" in screen_text(app))
