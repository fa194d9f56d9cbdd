"""What the terminal UI costs: CPU and memory of a screen that watches a busy site, and how long a key takes to be seen.

The real command runs in a terminal of its own over a real database, while another process changes actors. The long
table is measured alone, too, against Textual's own; and opening the list of actors, with a thousand of them and with a
million. CPU is told of one core; how busy the others were is in `foreign_cores`, as times depend on it.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import anyio
import msgspec

from callboard.bench import tui_changes
from callboard.bench.machine import Machine, facts
from callboard.bench.meter import machine_cpu, quantile
from callboard.bench.server import fresh_database, server
from callboard.bench.tui_pty import CURSOR, FRAME, ROOT, Terminal
from callboard.bench.tui_widgets import Alone

_TUI = "from callboard.service.cli import main; main(['tui'])"
_ROW = b"agent:"


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    actors: int = 10_000
    changes_a_second: int = 500
    seconds: float = 60.0
    warm_seconds: float = 5.0
    key_every_seconds: float = 0.25
    lines_rows: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    datatable_rows: tuple[int, ...] = (1_000, 10_000)
    alone_times: int = 40
    """Steps of the cursor; other deeds are done less often."""
    opened_rows: tuple[int, ...] = (1_000, 1_000_000)
    opened_times: int = 3


class Times(msgspec.Struct, frozen=True):
    """From a key until the cursor was drawn where it belongs then."""

    count: int
    p50_ms: float
    p95_ms: float
    most_ms: float

    @classmethod
    def of(cls, seconds: list[float]) -> Self:
        """From single times."""
        found = [round(1e3 * quantile(seconds, part), 1) for part in (0.5, 0.95, 1.0)]
        return cls(len(seconds), *found)


class Busy(msgspec.Struct, frozen=True):
    """The screen of actors while they change."""

    actors: int
    changes_a_second: int
    seconds: float
    cpu_share: float
    """Of one core, the keys included."""
    quiet_cpu_share: float
    """Before anything changed, and no key was pressed."""
    key_to_paint: Times
    frames_a_second: float
    bytes_a_second: int
    memory_mib: float
    """Resident, when it began."""
    memory_at_the_end_mib: float
    foreign_cores: float | None
    """Cores that all others used meanwhile: the database, whoever writes, and whatever runs on this machine."""


class Ratio(msgspec.Struct, frozen=True):
    """How many times what the table of lines uses Textual's own uses, with as many rows."""

    rows: int
    fill: float
    step: float
    updates: float


class Opened(msgspec.Struct, frozen=True):
    """The command with so many actors: medians."""

    actors: int
    first_frame_ms: float
    """From the start of the process until something is drawn."""
    rows_ms: float
    """And until actors are."""
    cpu_ms: float
    """Of the process, until then."""


class TuiReport(msgspec.Struct, frozen=True):
    """What `python -m bench tui --json` prints."""

    bench: str
    machine: Machine
    busy: Busy
    alone: list[Alone]
    ratios: list[Ratio]
    opened: list[Opened]


def run(dsn: str, sizes: Sizes) -> TuiReport:
    """Measure."""
    with server(dsn) as found:
        return anyio.run(_run, found, sizes)


async def _run(server_dsn: str, sizes: Sizes) -> TuiReport:
    machine = await facts(server_dsn)
    async with fresh_database(server_dsn) as dsn:
        await tui_changes.lay_down(dsn, sizes.actors)
        busy = await anyio.to_thread.run_sync(_busy, dsn, sizes)
    alone = [await anyio.to_thread.run_sync(_alone, "lines", rows, sizes.alone_times) for rows in sizes.lines_rows]
    alone += [
        await anyio.to_thread.run_sync(_alone, "datatable", rows, sizes.alone_times) for rows in sizes.datatable_rows
    ]
    opened = []
    for rows in sizes.opened_rows:
        async with fresh_database(server_dsn) as dsn:
            await tui_changes.lay_down(dsn, rows)
            opened.append(await anyio.to_thread.run_sync(_opened, dsn, rows, sizes.opened_times))
    return TuiReport("tui", machine, busy, alone, _ratios(alone), opened)


def terminal(dsn: str) -> Terminal:
    """The command on this database, in a terminal."""
    return Terminal(["-c", _TUI], {"CALLBOARD_DSN": dsn})


# -- the screen of actors while they change


def _busy(dsn: str, sizes: Sizes) -> Busy:
    with terminal(dsn) as it:
        it.until(lambda drawn: _ROW in drawn)
        it.rest(sizes.warm_seconds)
        began, cpu = time.perf_counter(), it.cpu_seconds()
        it.rest(sizes.warm_seconds)
        quiet = (it.cpu_seconds() - cpu) / (time.perf_counter() - began)
        with _changes(dsn, sizes.actors, sizes.changes_a_second):
            it.rest(sizes.warm_seconds)
            return _watched(it, sizes, quiet)


def _watched(it: Terminal, sizes: Sizes, quiet: float) -> Busy:
    memory, frames, drawn = it.resident_mib(), it.frames, it.bytes
    began, cpu, machine = time.perf_counter(), it.cpu_seconds(), machine_cpu()
    times: list[float] = []
    while time.perf_counter() < began + sizes.seconds:
        it.rest(sizes.key_every_seconds)
        it.press("jjjjjjjjkkkkkkkk"[len(times) % 16])
        times.append(it.until(lambda seen: CURSOR in seen[: seen.rfind(FRAME) + 1]))
    seconds, mine = time.perf_counter() - began, it.cpu_seconds() - cpu
    after = machine_cpu()
    return Busy(
        actors=sizes.actors,
        changes_a_second=sizes.changes_a_second,
        seconds=round(seconds, 1),
        cpu_share=round(mine / seconds, 3),
        quiet_cpu_share=round(quiet, 3),
        key_to_paint=Times.of(times),
        frames_a_second=round((it.frames - frames) / seconds, 1),
        bytes_a_second=round((it.bytes - drawn) / seconds),
        memory_mib=memory,
        memory_at_the_end_mib=it.resident_mib(),
        foreign_cores=None if machine is None or after is None else round((after - machine - mine) / seconds, 2),
    )


@contextmanager
def _changes(dsn: str, actors: int, rate: int) -> Iterator[None]:
    """Somebody writes as long as the block lasts."""
    with subprocess.Popen(
        [sys.executable, "-m", "callboard.bench.tui_changes", dsn, str(actors), str(rate)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".src")},
        stdout=subprocess.PIPE,
    ) as writer:
        try:
            assert writer.stdout is not None
            if writer.stdout.readline().strip() != b"writing":
                raise RuntimeError(f"nobody writes: the process that should ended with {writer.wait()}")
            yield
            if writer.poll() is not None:
                raise RuntimeError(f"nobody wrote to the end: the process that should ended with {writer.returncode}")
        finally:
            writer.terminate()


# -- the table alone


def _alone(kind: str, rows: int, times: int) -> Alone:
    with tempfile.TemporaryDirectory(prefix="callboard-tui-") as folder:
        file = Path(folder) / "found.json"
        with Terminal(["-m", "callboard.bench.tui_widgets", kind, str(rows), str(times), str(file)], {}) as it:
            code = it.wait(600)
        if code or not file.exists():
            raise RuntimeError(f"the {kind} with {rows} rows ended with {code}")
        return msgspec.json.decode(file.read_bytes(), type=Alone)


def _ratios(alone: list[Alone]) -> list[Ratio]:
    ours = {one.rows: one for one in alone if one.widget == "lines"}
    found = []
    for one in alone:
        if one.widget != "lines" and (mine := ours.get(one.rows)):
            pairs = [
                (one.fill_ms, mine.fill_ms),
                (one.step_p50_ms, mine.step_p50_ms),
                (one.updates_p50_ms, mine.updates_p50_ms),
            ]
            found.append(Ratio(one.rows, *(round(theirs / max(own, 0.1), 1) for theirs, own in pairs)))
    return found


# -- opening the list


def _opened(dsn: str, rows: int, times: int) -> Opened:
    found = [_open(dsn) for _ in range(times)]
    middle = [round(quantile([one[part] for one in found], 0.5), 1) for part in range(3)]
    return Opened(rows, *middle)


def _open(dsn: str) -> tuple[float, float, float]:
    first = b""

    def is_framed(drawn: bytes) -> bool:
        nonlocal first
        first = drawn
        return FRAME in drawn

    with terminal(dsn) as it:
        it.until(is_framed)
        frame = time.perf_counter() - it.began_at
        it.until(lambda drawn: _ROW in first + drawn)  # they may have come with it
        return 1e3 * frame, 1e3 * (time.perf_counter() - it.began_at), 1e3 * it.cpu_seconds()
