"""The screen of the system: checks with what to do, nodes, what was spent, and what may be done here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from callboard.persistence.memory import MemoryStore
from callboard.persistence.rows import Member
from callboard.service.operations.runs import Operations
from callboard.service.operations.spent import spent_since
from callboard.tui.app import CallboardApp
from callboard.tui.panes.system import SystemPane
from callboard.tui.panes.system import pane as system
from callboard.tui.panes.system.rows import LEVELS, NODE_LOOKS, node_row, node_word
from callboard.tui.trace_event import EventDialog
from tests.agent.stage import Stage, says, script

from .conftest import Line, gateway_on, screen_text, until, until_shown
from .desk import desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("at_once")]


@asynccontextmanager
async def system_of(
    store: Any, size: tuple[int, int] = (120, 36), *, chaos: bool = True
) -> AsyncIterator[tuple[CallboardApp, Pilot[None], SystemPane]]:
    """The screen, once everything was looked at."""
    gateway = gateway_on(store)
    gateway.principal = msgspec.structs.replace(gateway.principal, chaos=chaos)
    app = CallboardApp(gateway)
    async with app.run_test(size=size) as pilot:
        await pilot.press("7")
        pane = app.pane
        assert isinstance(pane, SystemPane)
        await until(pilot, lambda: pane.report is not None and pane.checks.rows)
        yield app, pilot, pane


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 15)])
async def test_r9_each_check_has_a_glyph_and_a_word_at_every_size(size: tuple[int, int]) -> None:
    async with desk() as d, system_of(d.store, size) as (_, pilot, pane):
        await until_shown(pilot, "● RUNNING", "✓ ok", "database", "Health · ✓ healthy", "1 of 1 serve", "spent")
        assert [row.key for row in pane.checks.rows][:3] == ["database", "clock", "schema"]


async def test_what_is_bad_says_so_and_what_to_do() -> None:
    async with MemoryStore() as store, system_of(store) as (app, pilot, pane):
        await until_shown(pilot, "✗ BAD", "not healthy: nodes")
        assert pane.checks.select("nodes")
        await until(pilot, lambda: "callboard daemon APP" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, EventDialog) and "no node serves" in screen_text(app))
        await pilot.press("escape")


async def test_everything_is_looked_at_every_five_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert system.CHECK_SECONDS == 5.0
    monkeypatch.setattr(system, "CHECK_SECONDS", 3_600.0)
    async with desk() as d:
        line = Line(d.store)
        async with system_of(line.store) as (app, pilot, pane):
            asked, looked = line.asked.count("census"), pane.looked
            looks, look = 0, pane.look

            async def counted() -> None:
                nonlocal looks
                await look()
                looks += 1

            monkeypatch.setattr(pane, "look", counted)
            app.action_look_now()
            await until(pilot, lambda: looks)
            assert pane.looked == looked and line.asked.count("census") == asked


async def test_a_node_that_died_is_told_until_others_have_its_shards() -> None:
    async with Stage(script(says("done")), nodes=2) as stage, system_of(stage.store) as (app, pilot, _):
        await until(pilot, lambda: screen_text(app).count("● RUNNING") == 2)
        await stage.kill(stage.nodes[0])
        await stage.advance(3)
        app.action_look_now()
        await until(pilot, lambda: screen_text(app).count("● RUNNING") == 1 and "256" in screen_text(app))


def test_a15_states_of_nodes_are_words_and_a_lost_one_says_where_its_shards_go() -> None:
    def member(status: Any, age: float = 0.1, shards: int = 7) -> Member:
        return Member(1, 1, "b", status, age, shards, label="ams-1")

    words = [
        node_word(one) for one in (member("up"), member("draining"), member("up", 60), member("dead"), member("left"))
    ]
    assert words == ["RUNNING", "DRAINING", "SILENT", "LOST", "LEFT"]
    assert all(NODE_LOOKS[word][0] for word in words) and len({NODE_LOOKS[word][0] for word in words}) == 5
    assert len({LEVELS[level][1] for level in LEVELS}) == 3
    told = "".join(part.text for cell in node_row(member("dead", 12.0)).cells for part in cell)
    assert "others take over its 7 shards" in told and "ams-1" in told


async def test_chaos_is_said_to_be_off_where_it_is() -> None:
    async with desk() as d:
        async with system_of(d.store) as (_, pilot, _):
            await until_shown(pilot, "allowed here")
        async with system_of(d.store, chaos=False) as (_, pilot, _):
            await until_shown(pilot, "off: nothing can be killed")


async def test_a10_a_lost_database_leaves_what_was_seen() -> None:
    async with desk() as d:
        line = Line(d.store)
        async with system_of(line.store) as (app, pilot, pane):
            line.cut()
            await until(pilot, lambda: "atabase lost" in screen_text(app))
            assert pane.checks.rows
            await until_shown(pilot, "database")


async def test_what_was_spent_is_the_sum_of_the_runs_that_began_since() -> None:
    async with desk() as d:
        for _ in range(3):
            await d.refund("480.00")
        operations = Operations(d.store, "mara")
        spent = await spent_since(operations, 0.0)
        lines = (await operations.runs()).items
        assert (spent.runs, spent.complete) == (3, True)
        assert spent.cost_usd == sum((Decimal(one.cost_usd) for one in lines), Decimal(0)) > 0
        assert spent.tokens == sum(one.tokens for one in lines)
        later = await spent_since(operations, await d.store.now() + 60)
        assert (later.runs, later.cost_usd, later.complete) == (0, Decimal(0), True)
