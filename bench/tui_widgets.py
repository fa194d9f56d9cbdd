"""The long table alone, against Textual's own: CPU of filling it, of a step of the cursor, of a jump, of updates.

Run in a terminal by `bench.tui` (`python -m callboard.bench.tui_widgets KIND ROWS TIMES FILE`): without one nothing is
drawn. CPU and not time: each figure is what this process used from the deed until the screen had come to rest, less
what it uses while nothing happens.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import msgspec
from textual.app import App, ComposeResult
from textual.widgets import DataTable

from callboard.bench.meter import quantile
from callboard.tui.table import Column, LineTable, Row
from callboard.tui.text import Line, budget, line, piece, spark
from callboard.tui.themes import DARK

REST_SECONDS = 0.12
UPDATES = 200
WINDOW = 200
_STEPS = {"lines": "j", "datatable": "down"}


class Alone(msgspec.Struct, frozen=True):
    """One widget with so many rows. CPU in milliseconds."""

    widget: str
    rows: int
    fill_ms: float
    step_p50_ms: float
    step_p95_ms: float
    jump_p50_ms: float
    """To the last row and to the first one, in turns."""
    updates_p50_ms: float
    """Of 200 rows, a tenth of them in sight."""
    updates_p95_ms: float
    memory_mib: float
    """Above what it had before the rows."""


def _cells(number: int, turn: int = 0) -> tuple[str, ...]:
    return "● RUNNING", f"refund/{number}", str((number + turn) % 9), "12m 04s", f"{number % 100}%", f"step {turn}"


def _lines(number: int, turn: int = 0) -> list[Line]:
    state, who, mailbox, oldest, _, doing = _cells(number, turn)
    bar = line(piece(spark([number % 7, turn % 9, 3, 1, 4, 9, 2, 6]), "info"))
    return [
        line(piece(state, "ok")), line(who), line(mailbox), line(oldest), bar, budget(number % 100 / 100), line(doing),
    ]  # fmt: skip


COLUMNS = (
    Column("state", "state", 12),
    Column("who", "actor", 18),
    Column("mbox", "mbox", 4, right=True),
    Column("oldest", "oldest", 7, right=True),
    Column("trend", "10 min", 8),
    Column("budget", "budget", 10),
    Column("doing", "doing", 17, grow=1),
)


class Measured(App[Alone]):
    """One widget, filled and driven."""

    def __init__(self, kind: str, rows: int, times: int) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name
        self.kind, self.count, self.times = kind, rows, times
        self.lines = LineTable(COLUMNS)
        self.table: DataTable[str] = DataTable(cursor_type="row")

    def compose(self) -> ComposeResult:
        yield self.lines if self.kind == "lines" else self.table

    def on_mount(self) -> None:
        self.run_worker(self._measure())

    def on_line_table_wanted(self, message: LineTable.Wanted) -> None:
        """As a pane does, from a list of so many rows."""
        held = self.lines.rows
        if message.far:
            numbers = range(self.count - WINDOW, self.count) if message.below else range(WINDOW)
            self._show(range(max(0, numbers.start), min(self.count, numbers.stop)))
        elif message.below:
            last = int(held[-1].key) + 1
            page = range(last, min(self.count, last + WINDOW))
            self.lines.extend([_row(number) for number in page], below=True, more=page.stop < self.count)
        else:
            first = int(held[0].key)
            page = range(max(0, first - WINDOW), first)
            self.lines.extend([_row(number) for number in page], below=False, more=page.start > 0)

    def _show(self, numbers: range) -> None:
        self.lines.show([_row(n) for n in numbers], start=numbers.start == 0, end=numbers.stop == self.count)

    # -- deeds

    def _fill(self) -> None:
        if self.kind == "lines":
            self._show(range(min(self.count, WINDOW)))
            return
        for title in ("state", "actor", "mbox", "oldest", "budget", "doing"):
            self.table.add_column(title, key=title, width=12)
        for number in range(self.count):
            self.table.add_row(*_cells(number), key=str(number))

    def _update(self, turn: int) -> None:
        sight = range(UPDATES // 10)
        elsewhere = range(len(sight), self.count, max(1, self.count // (UPDATES - len(sight))))
        numbers = [*sight, *elsewhere][:UPDATES]
        if self.kind == "lines":
            self.lines.update_rows([_row(number, turn) for number in numbers])
            return
        for number in numbers:
            cells = _cells(number, turn)
            self.table.update_cell(str(number), "mbox", cells[2])
            self.table.update_cell(str(number), "doing", cells[5])

    def _jump(self, turn: int) -> None:
        self.simulate_key(("G", "g")[turn % 2] if self.kind == "lines" else ("ctrl+end", "ctrl+home")[turn % 2])

    # -- measuring

    async def _measure(self) -> None:
        (self.lines if self.kind == "lines" else self.table).focus()
        await anyio.sleep(1.0)
        idle = quantile(await self._times(max(2, self.times // 3), lambda _: None, 0.0), 0.5)
        before = _resident_mib()
        fill = (await self._times(1, lambda _: self._fill(), idle))[0]
        memory = _resident_mib() - before
        steps = await self._times(self.times, lambda _: self.simulate_key(_STEPS[self.kind]), idle)
        jumps = await self._times(max(2, self.times // 4), self._jump, idle)
        self.simulate_key("g" if self.kind == "lines" else "ctrl+home")
        await anyio.sleep(0.5)
        updates = await self._times(max(2, self.times // 2), lambda turn: self._update(turn + 1), idle)
        self.exit(
            Alone(
                self.kind, self.count, round(fill, 1), _ms(steps, 0.5), _ms(steps, 0.95), _ms(jumps, 0.5),
                _ms(updates, 0.5), _ms(updates, 0.95), round(memory, 1),
            )
        )  # fmt: skip

    async def _times(self, times: int, deed: Callable[[int], object], idle: float) -> list[float]:
        found = []
        for turn in range(times):
            began = time.process_time()
            deed(turn)
            await anyio.sleep(REST_SECONDS)
            found.append(max(0.0, 1e3 * (time.process_time() - began) - idle))
        return found


def _row(number: int, turn: int = 0) -> Row:
    return Row(str(number), _lines(number, turn))


def _ms(values: Sequence[float], part: float) -> float:
    return round(quantile(values, part), 1)


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(arguments: Sequence[str]) -> None:
    """Measure one widget, and write what was found to a file."""
    kind, rows, times, file = arguments
    found = Measured(kind, int(rows), int(times)).run()
    Path(file).write_bytes(msgspec.json.encode(found))


if __name__ == "__main__":
    main(sys.argv[1:])
