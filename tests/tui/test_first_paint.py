"""What the first frame must not wait for: modules that it does not need, what is drawn twice, the database's answer."""

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.app import ComposeResult

from callboard.persistence.memory import MemoryStore
from callboard.persistence.port import RealPort, Signal
from callboard.tui.app import CallboardApp
from callboard.tui.filter_bar import PlainInput
from callboard.tui.pane import Pane
from callboard.tui.panes import PANES, Shown, load_in_turn
from tests.service.conftest import ROOT, environment

from .conftest import Line, gateway_on, until

FORBIDDEN = (
    "callboard.actors",
    "callboard.crm",
    "callboard.evals",
    "callboard.service.http",
    "callboard.service.trace",
    "callboard.service.operations.actors",
    "callboard.service.operations.decisions",
    "callboard.service.operations.dead",
    "callboard.service.operations.mailboxes",
    "callboard.tui.decide",
    "callboard.tui.dialog",
    "callboard.tui.help",
    "callboard.tui.palette",
    "callboard.tui.trace_view",
    *(f"callboard.tui.panes.{name}" for name in ("approvals", "audit", "dead", "mailboxes", "runs", "system")),
    "textual.widgets._text_area",
    "typer",
)
"""With all that is in them. The screen of actors, and the frame, are drawn without."""
_FIRST = """
import asyncio, json, sys
from callboard.tui.app import CallboardApp
from callboard.tui.gateway import Gateway
from callboard.service.operations.principal import ALL_SCOPES, Principal
from callboard.persistence.memory import MemoryStore

class First(CallboardApp):
    def on_ready(self):
        self.loaded = sorted(sys.modules)
        self.exit()

async def main():
    async with MemoryStore() as store:
        app = First(Gateway(store, Principal("mara", "tui", "desk", ALL_SCOPES)))
        async with app.run_test(size=(120, 36)) as pilot:
            await pilot.pause()
        print(json.dumps(app.loaded))

asyncio.run(main())
"""


def test_the_first_frame_loads_no_other_screen_no_dialog_and_no_agents() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FIRST], capture_output=True, text=True, check=True, cwd=ROOT, env=environment("")
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "callboard.tui.panes.actors.pane" in loaded
    assert not {one for one in loaded for name in FORBIDDEN if one == name or one.startswith(f"{name}.")}


@pytest.mark.anyio
async def test_the_first_frame_does_not_wait_for_the_database_to_answer() -> None:
    async with MemoryStore() as store:
        line, ready = Line(store), []
        line.hang()

        class First(CallboardApp):
            def on_ready(self) -> None:
                ready.append(self.live.state.link)

        async with First(gateway_on(line.store)).run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: ready)
            assert ready == ["starting"]
            line.mend()


def test_the_row_of_screens_says_of_each_screen_what_it_calls_itself() -> None:
    assert [(one.heading, one.short) for one in PANES] == [(one.load().heading, one.load().short) for one in PANES]


@pytest.mark.anyio
async def test_a_screen_is_there_from_when_it_is_first_shown_and_the_same_from_then_on() -> None:
    async with MemoryStore() as store:
        app = CallboardApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            assert [pane.id for pane in app.query("ContentSwitcher > Pane")] == ["pane-1"]
            await pilot.press("5")
            runs = app.pane
            assert runs.heading == "Runs" and runs.is_mounted and runs.display
            await pilot.press("1", "5")
            assert app.pane is runs
            assert [pane.id for pane in app.query("ContentSwitcher > Pane")] == ["pane-1", "pane-5"]


_COMMAND = """
import json, sys
from callboard.service.cli import main
try:
    main(["tui", "--as", "second shift"])
except SystemExit as end:
    print(json.dumps([end.code, sorted(sys.modules)]))
"""


def test_the_command_is_read_without_typer_and_says_in_the_same_words_what_is_in_its_way(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
        cwd=tmp_path, env=environment("postgresql://nowhere/x") | {"PYTHONPATH": str(ROOT / ".src")},
    )  # fmt: skip
    code, loaded = json.loads(done.stdout)
    assert code == 2 and "needs a terminal" in done.stderr
    assert not {"typer", "click", "textual", "rich", "psycopg", "tomllib"} & set(loaded)
    typed = subprocess.run(
        [sys.executable, "-m", "callboard", "tui", "--as=second shift"], capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, cwd=tmp_path,
        env=environment("postgresql://nowhere/x") | {"PYTHONPATH": str(ROOT / ".src")},
    )  # fmt: skip
    assert (typed.returncode, typed.stderr) == (2, done.stderr)


@pytest.mark.anyio
async def test_nothing_of_the_first_screen_is_arranged_anew_once_it_was_drawn() -> None:
    async with MemoryStore() as store:
        for size, expected in (
            ((120, 36), {"-wide", "-tall"}),
            ((80, 24), {"-narrow", "-short"}),
            ((150, 29), {"-broad", "-short"}),
            ((40, 30), {"-tiny", "-tall"}),
        ):
            at_first: list[frozenset[str]] = []

            class First(CallboardApp):
                def compose(self) -> ComposeResult:
                    at_first.append(self.base.classes)  # noqa: B023 - read within its own round
                    yield from super().compose()

            app = First(gateway_on(store))
            async with app.run_test(size=size) as pilot:
                await pilot.pause()
                assert at_first == [app.base.classes]
                assert expected == {name for name in app.base.classes if name.startswith("-")}


@pytest.mark.anyio
@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_each_widget_of_the_first_screen_has_all_of_its_style_though_it_is_styled_once(
    size: tuple[int, int],
) -> None:
    async with MemoryStore() as store:
        found = []

        class First(CallboardApp):
            def on_ready(self) -> None:
                found.append({one: one.styles.get_rules() for one in self.base.query("*")})
                self.base.update_node_styles(animate=False)
                found.append({one: one.styles.get_rules() for one in self.base.query("*")})

        async with First(gateway_on(store)).run_test(size=size) as pilot:
            await until(pilot, lambda: found)
            assert found[0] == found[1]


@pytest.mark.anyio
async def test_the_line_for_a_filter_is_made_when_it_is_asked_for_and_gets_the_very_next_key() -> None:
    async with MemoryStore() as store:
        app = CallboardApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            assert not app.query(PlainInput)
            await pilot.press("slash", *"dead", "escape", "slash", *"state:")
            await until(pilot, lambda: [one.value for one in app.query(PlainInput)] == ["state:"])


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("callboard.tui.panes.LOAD_SECONDS", 0.0)
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def filled() -> Signal:
    signal = Signal()
    signal.set()
    return signal


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_no_other_screen_is_loaded_before_the_first_one_shows_what_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.tui.panes.FIRST_SECONDS", 600.0)
    loaded: list[str] = []

    def load() -> type[Pane]:
        loaded.append(app.live.state.link)
        return PANES[0].load()

    class First(CallboardApp):
        SHOWN = (PANES[0], *(Shown(one.heading, one.short, load) for one in PANES[1:]))

    async with MemoryStore() as store:
        line = Line(store)
        line.hang()
        app = First(gateway_on(line.store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: "now" in line.asked)
            assert not loaded
            line.mend()
            await until(pilot, lambda: len(loaded) == len(PANES) - 1)
            assert set(loaded) == {"live"}


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_garbage_is_looked_for_from_when_all_screens_are_loaded_and_not_among_them() -> None:
    gc.disable()
    await load_in_turn(PANES, RealPort(), filled())
    assert gc.isenabled() and gc.get_freeze_count() > 0


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_where_garbage_is_looked_for_already_nothing_is_put_out_of_its_sight() -> None:
    before = gc.get_freeze_count()
    await load_in_turn(PANES, RealPort(), filled())
    assert gc.isenabled() and gc.get_freeze_count() <= before  # what was out of its sight may end all the same
