"""The long table, driven as a person drives it, and looked at as it is drawn."""

from collections.abc import Sequence
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.strip import Strip

from callboard.tui.table import NEAR, Column, LineTable, Row
from callboard.tui.text import line, piece
from callboard.tui.themes import THEMES

from .conftest import until

pytestmark = pytest.mark.anyio

COLUMNS = (
    Column("state", "state", 11),
    Column("who", "who", 8, grow=1),
    Column("trend", "trend", 8, drop=2),
    Column("sum", "sum", 6, right=True, whole=True),
    Column("doing", "doing", 10, grow=1, drop=1),
)


class Counted(LineTable):
    """Counts the lines that it draws."""

    drawn: list[int]

    def render_line(self, y: int) -> Strip:
        self.drawn.append(y)
        return super().render_line(y)


class TableApp(App[None]):
    """A table and what it says."""

    CSS = "#other { height: 1; }"

    def __init__(self, columns: Sequence[Column] = COLUMNS) -> None:
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name
        self.table = Counted(columns, id="table")
        self.table.drawn = []
        self.other = LineTable(columns, id="other")
        self.said: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.other

    def on_mount(self) -> None:
        self.other.focus()

    def on_line_table_highlighted(self, message: LineTable.Highlighted) -> None:
        self.said.append(message)

    def on_line_table_opened(self, message: LineTable.Opened) -> None:
        self.said.append(message)

    def on_line_table_wanted(self, message: LineTable.Wanted) -> None:
        self.said.append(message)

    def on_line_table_marked(self, message: LineTable.Marked) -> None:
        self.said.append(message)

    def heard(self, kind: type[Message]) -> list[Any]:
        return [message for message in self.said if type(message) is kind]


def row(number: int, *, who: str = "", money: str = "€1.00", doing: str = "works", markable: bool = False) -> Row:
    who = who or f"refund/{number}"
    cells = (piece("● RUNNING", "ok"), who, "▁▂▃", piece(money, "strong"), doing)
    return Row(str(number), [line(cell) for cell in cells], markable)


def rows(*numbers: int, markable: bool = False) -> list[Row]:
    return [row(number, markable=markable) for number in numbers]


async def opened(pilot: Pilot[None], shown: Sequence[Row], **edges: bool) -> Counted:
    app = pilot.app
    assert isinstance(app, TableApp)
    app.table.show(shown, **edges)
    app.table.focus()
    await until(pilot, lambda: app.table.has_focus)
    await pilot.pause()
    return app.table


def screen_text(app: App[None]) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def lines_of(app: App[None]) -> list[str]:
    return screen_text(app).split("\n")


async def test_rows_are_drawn_under_their_titles_to_the_cell() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 10)) as pilot:
        shown = [row(1), row(2, who="日本語テキスト"), row(3, who="e\u0301 \U0001f600", money="€1,234,567.89")]
        await opened(pilot, shown)
        text = lines_of(app)
        assert text[0].startswith(" state       who")
        ends = {text[0].index("sum") + 3, text[1].index("€1.00") + 5}
        assert "€1,234,567.89" in text[3], "money is never cut"
        assert len(ends) == 1, "it stands on the right, under its title"
        for one in app.screen._compositor.render_strips():
            assert one.cell_length == 60
        assert text[1].startswith("▐● RUNNING"), "a glyph and a word, and where the cursor is, without any colour"
        assert text[2].startswith(" ● RUNNING")


@pytest.mark.parametrize(
    ("width", "there"),
    [
        (80, "state who trend sum doing"),
        (55, "state who trend sum doing"),
        (42, "state who sum doing"),
        (30, "state who sum"),
    ],
)
async def test_where_there_is_no_room_columns_go_in_their_order(width: int, there: str) -> None:
    app = TableApp()
    async with app.run_test(size=(width, 10)) as pilot:
        await opened(pilot, rows(1, 2))
        assert lines_of(app)[0].split() == there.split()


async def test_the_narrowest_terminal_still_shows_the_sum() -> None:
    app = TableApp()
    async with app.run_test(size=(24, 6)) as pilot:
        await opened(pilot, [row(1, money="€1,276.40")])
        assert "€1,276.40" in lines_of(app)[1]


@pytest.mark.parametrize(
    ("keys", "at"),
    [
        ("j", 1), ("down", 1), ("j k", 0), ("j up", 0), ("G", 49), ("end", 49), ("G g", 0), ("G home", 0),
        ("ctrl+d", 4), ("pagedown", 8), ("ctrl+d ctrl+u", 0), ("pagedown pageup", 0), ("k", 0), ("G j", 49),
    ],
)  # fmt: skip
async def test_keys_move_the_cursor_and_it_stays_in_sight(keys: str, at: int) -> None:
    app = TableApp()
    async with app.run_test(size=(60, 10)) as pilot:
        table = await opened(pilot, rows(*range(50)))
        await pilot.press(*keys.split())
        assert table.cursor_key == str(at)
        assert str(at) in table.shown
        moved = app.heard(LineTable.Highlighted)
        assert moved[-1].key == str(at)


async def test_d7_the_list_never_moves_under_the_cursor_and_says_what_came_in() -> None:
    app = TableApp()
    async with app.run_test(size=(70, 10)) as pilot:
        table = await opened(pilot, rows(*range(50)))
        await pilot.press("j", "j")
        line_before = next(n for n, text in enumerate(lines_of(app)) if text.startswith("▐"))
        table.show(rows(100, 101, *range(50), 200, 201, 202))
        await pilot.pause()
        text = lines_of(app)
        assert text[line_before].startswith("▐● RUNNING   refund/2 ")
        assert "2 new ↑  3 new ↓" in text[0]
        await pilot.press("g")
        assert "↑" not in lines_of(app)[0]
        assert "3 new ↓" in lines_of(app)[0]


async def test_r4_the_cursor_goes_to_the_next_row_where_its_own_is_gone_a16() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 10)) as pilot:
        table = await opened(pilot, rows(*range(9)))
        await pilot.press("j", "j")
        table.show(rows(8, 7, 0, 5, 3))
        await pilot.pause()
        assert table.cursor_key == "3"
        assert table.select("7")
        assert not table.select("gone")
        assert table.cursor_key == "7"
        table.show(rows(4, 7), fresh=True)
        assert table.cursor_key == "4", "of another list, the first"


async def test_d9_only_lines_that_changed_are_drawn() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 20)) as pilot:
        table = await opened(pilot, rows(*range(500)))
        table.drawn.clear()
        table.update_rows([row(3, doing="waits"), row(5), row(400, doing="waits")])
        await pilot.pause()
        assert set(table.drawn) == {4}, "3 looks otherwise, 5 does not, 400 is out of sight"
        table.drawn.clear()
        await pilot.press("j")
        assert set(table.drawn) <= {1, 2}
        table.drawn.clear()
        table.show([row(number, doing="waits" if number == 7 else "works") for number in range(500)])
        await pilot.pause()
        assert set(table.drawn) <= {4, 8}


async def test_d9_a_strip_that_was_drawn_once_is_kept() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 20)) as pilot:
        table = await opened(pilot, rows(*range(500)))
        painted: list[str] = []
        paint = table._painter._painted

        def counted(row: Row, *rest: Any) -> Strip:
            painted.append(row.key)
            return paint(row, *rest)

        table._painter._painted = counted  # type: ignore[method-assign, assignment]
        await pilot.press("pagedown")
        await until(pilot, lambda: painted)
        painted.clear()
        table.refresh()
        await pilot.pause()
        assert not painted
        await pilot.press("j")
        assert len(painted) <= 2


async def test_near_an_edge_that_is_no_end_more_is_wanted_once() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        table = await opened(pilot, rows(*range(100, 200)), start=False, end=False)
        assert [(one.below, one.far) for one in app.heard(LineTable.Wanted)] == [(False, False)]
        app.said.clear()
        table.extend(rows(*range(50, 100)), below=False, more=False)
        assert (table.cursor_key, table.sight[0]) == ("100", 51)
        for _ in range(100 - NEAR // 2):
            table.action_move(1)
        await pilot.pause()
        assert [(one.below, one.far) for one in app.heard(LineTable.Wanted)] == [(True, False)]
        table.extend(rows(*range(200, 210)), below=True, more=False)
        await pilot.press("G")
        assert table.cursor_key == "209"
        assert len(app.heard(LineTable.Wanted)) == 1


async def test_the_far_end_is_wanted_and_the_cursor_goes_there_when_it_comes() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        table = await opened(pilot, rows(*range(50)), end=False)
        app.said.clear()
        await pilot.press("G")
        assert (True, True) in [(one.below, one.far) for one in app.heard(LineTable.Wanted)]
        table.show(rows(*range(900, 1000)), start=False)
        assert table.cursor_key == "999"
        await pilot.press("g")
        table.show(rows(*range(50)), end=False)
        assert table.cursor_key == "0"


async def test_r1_a_first_click_selects_and_only_a_second_one_opens() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.table.show(rows(*range(9), markable=True))
        await pilot.pause()
        await pilot.click("#table", offset=(20, 3), times=2)
        await until(pilot, lambda: app.table.cursor_key == "2")
        opens = app.heard(LineTable.Opened)
        assert len(opens) == 1, "the second click of two"
        app.said.clear()
        await pilot.click("#table", offset=(20, 6))
        await pilot.click("#table", offset=(1, 5))
        assert app.table.cursor_key == "4"
        assert not app.heard(LineTable.Opened)
        assert not app.table.marked
        await pilot.click("#table", offset=(1, 5))
        assert app.table.marked == {"4"}


async def test_a_click_without_focus_does_no_more_than_select() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.table.show(rows(*range(9), markable=True))
        await pilot.pause()
        await pilot.click("#table", offset=(1, 1))
        assert app.table.has_focus
        assert not app.table.marked
        assert not app.heard(LineTable.Opened)
        await pilot.click("#table", offset=(5, 0))
        await pilot.click("#table", offset=(5, 10))
        assert app.table.cursor_key == "0", "there is no row"


async def test_the_wheel_scrolls_and_the_cursor_stays_in_sight() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        table = await opened(pilot, rows(*range(90)))
        await pilot._post_mouse_events([_wheel()], "#table", offset=(3, 3))
        assert table.sight[0] == 4
        assert table.cursor_key == "3"
        await pilot.mouse_down("#table", offset=(59, 10))
        await pilot.mouse_up("#table", offset=(59, 10))
        assert table.sight[1] == 90, "the bar is taken to its end"


def _wheel() -> Any:
    from textual.events import MouseScrollDown

    return MouseScrollDown


async def test_marks_are_keys_and_those_of_rows_that_are_gone_go_with_them() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        table = await opened(pilot, [*rows(1, 2, markable=True), row(3)])
        await pilot.press("space", "space", "space")
        assert table.marked == {"1", "2"}
        assert table.cursor_key == "3", "which cannot be marked"
        assert [text[:3] for text in lines_of(app)[1:4]] == [" ■ ", " ■ ", "▐  "]
        table.show(rows(2, 3, markable=True))
        assert table.marked == {"2"}
        table.mark({"2", "far away"})
        table.show(rows(2, 3, markable=True), end=False)
        assert table.marked == {"2", "far away"}, "more rows match than are held"
        await pilot.press("g", "space")
        assert table.marked == {"far away"}
        assert len(app.heard(LineTable.Marked)) >= 4


async def test_where_there_is_nothing_it_says_what_was_given_once_it_knows() -> None:
    app = TableApp()
    async with app.run_test(size=(40, 8)) as pilot:
        app.table.say_when_empty(
            line(piece("Nothing waits for you.", "strong")), line("Decided today: 41 and so many more")
        )
        await pilot.pause()
        assert "Nothing" not in screen_text(app), "it has not looked yet"
        app.table.show([])
        await pilot.pause()
        text = lines_of(app)
        assert text[1].startswith("  Nothing waits for you.")
        assert text[2].startswith("  Decided today")
        await pilot.press("j", "G", "enter", "space", "ctrl+d")
        assert not app.heard(LineTable.Opened)


async def test_d10_a_lost_database_leaves_it_in_sight_and_of_one_colour_where_there_are_only_sixteen() -> None:
    app = TableApp()
    app.theme = "callboard-ansi"
    async with app.run_test(size=(60, 8)) as pilot:
        table = await opened(pilot, rows(1, 2))
        before = {segment.style for segment in table.render_line(2) if segment.text.strip()}
        app.screen.add_class("lost")
        await pilot.pause()
        after = {segment.style.color for segment in table.render_line(2) if segment.style and segment.text.strip()}
        assert len(before) > 1
        assert len(after) == 1
        assert "refund/2" in screen_text(app)
        app.screen.remove_class("lost")
        await pilot.pause()
        assert {segment.style for segment in table.render_line(2) if segment.text.strip()} == before


async def test_the_bar_at_the_side_says_where_we_are() -> None:
    app = TableApp()
    async with app.run_test(size=(60, 12)) as pilot:
        table = await opened(pilot, rows(*range(100)))

        def thumb() -> str:
            return "".join(text[-1] for text in lines_of(app)[1:11])

        assert thumb() == "┃         "
        await pilot.press("j", *["pagedown"])
        assert thumb().strip() == "┃"
        await pilot.press("G")
        assert thumb() == "         ┃"
        table.show(rows(*range(100)), end=False)
        await pilot.pause()
        assert thumb() == "        ┃ ", "there is more below"
        table.show(rows(1, 2), fresh=True)
        await pilot.pause()
        assert not thumb().strip()
