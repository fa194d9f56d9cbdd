"""d9: ten thousand actors cost the screen of actors what fifty do: lines drawn for a key, questions to the store."""

from collections import Counter
from typing import Any

import pytest

from callboard.persistence.memory import MemoryStore
from callboard.tui import live
from callboard.tui.panes.actors import pane as module
from callboard.tui.table import LineTable

from .test_actors import looking
from .test_actors_listing import agent, desk_of

pytestmark = pytest.mark.anyio
MANY = 10_000
HEIGHT = 36
READS = ("window", "glances", "pressing", "trends", "tallies", "actors", "journal", "actor")


@pytest.mark.usefixtures("real_times")
async def test_ten_thousand_actors_open_page_and_refresh_by_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name in ((module, "WINDOW_SECONDS"), (module, "GLANCE_SECONDS"), (live, "PANE_SECONDS")):
        monkeypatch.setattr(place, name, 3_600.0)  # what is counted is what keys cost, however long they take
    monkeypatch.setattr(live, "ANSWER_SECONDS", 60.0)  # a database that is taken for lost has all drawn anew
    drawn: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    looks: Counter[str] = Counter()

    def counted(name: str, counter: Counter[str], method: Any) -> Any:
        def call(self: Any, *args: Any, **more: Any) -> Any:
            counter[name] += 1
            return method(self, *args, **more)

        return call

    async with desk_of(MANY) as (store, _):
        assert isinstance(store, MemoryStore)
        monkeypatch.setattr(LineTable, "render_line", counted("line", drawn, LineTable.render_line))
        monkeypatch.setattr(module.ActorsPane, "look", counted("look", looks, module.ActorsPane.look))
        for name in READS:
            monkeypatch.setattr(MemoryStore, name, counted(name, asked, getattr(MemoryStore, name)))
        async with looking(store, (120, HEIGHT)) as stage:
            await stage.until(lambda: "of 10,001" in stage.title or "all 10,001" in stage.title)
            assert len(stage.keys) <= 400, "a window, and not what there is"
            table = stage.pane.table
            await stage.until(lambda: "of 10,001 ─╯" in stage.text and "root 10,001" in stage.text)

            for key in ("j", "k", "ctrl+d", "G", "k", "g"):
                await stage.pilot.pause()
                drawn.clear()
                await stage.press(key)
                assert drawn["line"] <= 3 * HEIGHT, key
            await stage.press("G")
            await stage.until(lambda: table.cursor_key == agent(MANY - 1))
            await stage.until(lambda: "10,001 of 10,001" in stage.text)
            assert len(stage.keys) <= 400
            await stage.press("g")
            await stage.until(lambda: table.cursor_key == "/desk")

            stage.pane._by_clock = True
            await stage.pane.look()
            asked.clear()
            looks.clear()
            for _ in range(3):
                stage.pane._by_clock = True
                await stage.pane.look()
            assert asked["glances"] <= looks["look"], "one round trip for the rows in sight"
            assert asked["window"] == asked["trends"] == 0


async def test_holding_a_key_reads_page_after_page_without_a_gap() -> None:
    async with desk_of(450) as (store, _):
        assert isinstance(store, MemoryStore)
        async with looking(store, (120, HEIGHT)) as stage:
            await stage.until(lambda: len(stage.keys) >= 100)
            seen: list[str] = []
            for _ in range(60):
                await stage.press("pagedown")
                await stage.until(lambda: not stage.pane._turn.locked())
                fresh = [key for key in stage.keys if not seen or key > seen[-1]]
                seen += fresh
                if seen[-1] == agent(449):
                    break
            assert seen == ["/desk", *map(agent, range(450))]
