"""A program in a terminal of its own: what it draws is read, keys are typed, and what it costs is told by /proc.

The terminal says that it can hold a frame back until it is whole, so each frame that is drawn ends with a mark, and
frames can be counted. Linux only, as the figures of /proc are.
"""

import atexit
import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[1]
ASKED, ANSWER = b"\x1b[?2026$p", b"\x1b[?2026;2$y"
FRAME = b"\x1b[?2026l"
CURSOR = "▐".encode()
"""Drawn in front of the row under the cursor, and nowhere else."""
_TICKS = os.sysconf("SC_CLK_TCK")


@cache
def compiled() -> str:
    """A folder for byte code that is kept as long as this process: what is started twice is compiled once."""
    folder = tempfile.mkdtemp(prefix="callboard-tui-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class TerminalEnded(Exception):
    """The program has ended, or has not drawn what was waited for; with the end of what it drew."""


class Terminal:
    """A program that draws on a terminal of 120 by 36 cells."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], *, size: tuple[int, int] = (120, 36)):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        left_out = ("CALLBOARD_", "NO_COLOR", "TEXTUAL", "PYTHONDONTWRITEBYTECODE")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        self.began_at = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            start_new_session=True,
            env={
                **kept,
                "PYTHONPATH": f"{ROOT / '.src'}{os.pathsep}{ROOT}",
                "TERM": "xterm-256color",
                "COLORTERM": "truecolor",
                "PYTHONPYCACHEPREFIX": compiled(),
                **environment,
            },
        )
        os.close(slave)
        self.bytes = self.frames = 0
        self._tail = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        os.close(self._master)

    @property
    def pid(self) -> int:
        """Of the program."""
        return self._process.pid

    def press(self, key: str) -> None:
        """Type."""
        os.write(self._master, key.encode())

    def read(self, seconds: float) -> bytes:
        """What it draws next; b"" if that takes longer."""
        if not select.select([self._master], [], [], max(seconds, 0.0))[0]:
            return b""
        try:
            drawn = os.read(self._master, 1 << 16)
        except OSError:
            drawn = b""
        if not drawn:
            raise TerminalEnded(f"it ended with {self._process.wait()}: {self._tail[-2000:]!r}")
        if ASKED in self._tail[-len(ASKED) :] + drawn:
            os.write(self._master, ANSWER)
        self.frames += (self._tail[-len(FRAME) + 1 :] + drawn).count(FRAME)
        self.bytes += len(drawn)
        self._tail = (self._tail + drawn)[-4096:]
        return drawn

    def until(self, done: Callable[[bytes], bool], *, seconds: float = 180.0) -> float:
        """Read until `done` says so about all that was drawn from now on; how many seconds that took."""
        began, seen = time.perf_counter(), b""
        while not done(seen):
            left = seconds - (time.perf_counter() - began)
            if left <= 0:
                raise TerminalEnded(f"it was not drawn within {seconds:g} s: {seen[-2000:]!r}")
            seen += self.read(left)
        return time.perf_counter() - began

    def rest(self, seconds: float) -> None:
        """Read for so long whatever it draws."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            self.read(left)

    def wait(self, seconds: float) -> int:
        """Read until it ends; its exit code."""
        until = time.perf_counter() + seconds
        try:
            while time.perf_counter() < until:
                self.read(until - time.perf_counter())
        except TerminalEnded:
            pass
        else:
            raise TerminalEnded(f"it did not end within {seconds:g} s: {self._tail[-2000:]!r}")
        return self._process.wait()

    def cpu_seconds(self) -> float:
        """CPU that it has used, user and system together."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_mib(self) -> float:
        """Memory that it holds."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
