"""A program in a pseudo-terminal: typed into, read, resized, killed; every byte that it writes is kept.

Where a test wants it, the terminal is the program's controlling one, as a person's is: it hears when the window changes
or goes. Such a terminal is as new once the program has ended, so whether it was restored is asked of the other kind. A
thread reads all the time, so that the program never waits for the test.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .screen import Screen

WAIT_SECONDS = 120.0
ROOT = Path(__file__).resolve().parents[3]
XTERM = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
ESCAPE_SECONDS = 0.3
"""An escape and a key right after it are one key (alt and that key) for every program in a terminal."""
KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "space": " ",
    "down": "\x1b[B",
    "up": "\x1b[A",
    "backspace": "\x7f",
}
_END = b"\x00all that was written\x00"
_SEQUENCE = re.compile(rb"\x1b\[[0-9;:?<>=!$ ]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>()][0-9A-B]?")
_CONTROLLED = ("/bin/sh", "-c", 'exec <>"$0" >&0 2>&0; exec "$@"')
"""The first terminal that a session opens is its controlling one."""


class Terminal:
    """One program and the terminal it runs in."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        columns: int = 120,
        rows: int = 36,
        *,
        controlling: bool = False,
    ) -> None:
        self.screen = Screen(columns, rows)
        self.raw = bytearray()
        self._changed = threading.Condition()  # its lock may be taken again by who has it
        self._is_read = False
        self._controlling = controlling
        self._leader, self._follower = pty.openpty()
        self._closing, self._close = os.pipe()
        self._set_size(columns, rows)
        self._before = termios.tcgetattr(self._follower)
        told = {key: value for key, value in environment.items() if value and key not in ("LINES", "COLUMNS")}
        self.process = subprocess.Popen(
            [*_CONTROLLED, os.ttyname(self._follower), *command] if controlling else command,
            cwd=ROOT,
            env=told,
            stdin=self._follower,
            stdout=self._follower,
            stderr=self._follower,
            start_new_session=True,
        )
        if controlling:
            os.close(self._follower)  # so that the end of the program is the end of what is to be read
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._leader, self._closing], [], [])
            if self._closing in ready:
                return
            try:
                data = os.read(self._leader, 65_536)
            except OSError:  # nobody has the other end any more
                data = b""
            if not data:
                with self._changed:
                    self._is_read = True
                    self._changed.notify_all()
                return
            with self._changed:
                self.raw += data
                if self.raw.endswith(_END):
                    del self.raw[-len(_END) :]
                    data = data[: -len(_END)] if data.endswith(_END) else b""
                    self._is_read = True
                self.screen.feed(data)
                self._changed.notify_all()

    # --- looking -----------------------------------------------------------------------------------------------

    def text(self) -> str:
        """What is on the screen."""
        with self._changed:
            return self.screen.text()

    @property
    def sent(self) -> bytes:
        """All that it has written."""
        with self._changed:
            return bytes(self.raw)

    @property
    def said(self) -> str:
        """The same, without what steers a terminal."""
        return _SEQUENCE.sub(b"", self.sent).decode("utf-8", "replace")

    def until(self, what: str | Callable[[str], Any], *, seconds: float = WAIT_SECONDS) -> str:
        """Wait until the screen shows a text, or is as `what` says; what it shows then."""
        shows = (lambda text: what in text) if isinstance(what, str) else what
        end = time.monotonic() + seconds
        with self._changed:
            while not shows(text := self.screen.text()):
                left = end - time.monotonic()
                assert left > 0 and self.process.poll() is None, f"never shown: {what!r}; the screen:\n{text}"
                self._changed.wait(min(left, 0.2))
            return text

    def shows(self, what: str, *, seconds: float) -> bool:
        """Whether the screen shows it within a time."""
        end = time.monotonic() + seconds
        with self._changed:
            while what not in self.screen.text():
                if (left := end - time.monotonic()) <= 0:
                    return False
                self._changed.wait(left)
            return True

    def gone(self, what: str, *, seconds: float = WAIT_SECONDS) -> str:
        """Wait until the screen shows it no more."""
        return self.until(lambda text: what not in text, seconds=seconds)

    def until_typing_after(self, label: str) -> None:
        """Wait until the cursor is behind this label, on its line: whoever types, types there."""
        while True:
            self.until(lambda _: self._types_after(label))
            self.rest(0.1)  # while something is drawn the cursor goes everywhere
            if self._types_after(label):
                return

    def _types_after(self, label: str) -> bool:
        with self._changed:
            column, row = self.screen.cursor
            return 0 <= self.screen.text().splitlines()[row].find(label) < column

    def rest(self, seconds: float) -> None:
        """Read for a while: not to wait for something, but for what is timed by the clock of the one who types."""
        threading.Event().wait(seconds)

    # --- doing -------------------------------------------------------------------------------------------------

    def press(self, *keys: str) -> None:
        """Type keys by name or by character."""
        for key in keys:
            os.write(self._leader, KEYS.get(key, key).encode())
            if key == "escape":
                self.rest(ESCAPE_SECONDS)

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._leader, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Make the window another size."""
        with self._changed:
            self.screen = Screen(columns, rows)
        self._set_size(columns, rows)

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT_SECONDS)

    def wait(self) -> int:
        """Wait for its end; the exit code. Everything that it has written is read then."""
        code = self.process.wait(WAIT_SECONDS)
        if not self._controlling:
            os.write(self._follower, _END)  # comes after all that the program wrote
        with self._changed:
            assert self._changed.wait_for(lambda: self._is_read, WAIT_SECONDS), "it is not read to its end"
        return code

    def close_window(self) -> int:
        """Close the window; the exit code of what was in it."""
        self._hang_up()
        return self.process.wait(WAIT_SECONDS)

    def is_restored(self) -> bool:
        """Whether the terminal is as it was: its line discipline, and the modes that programs set."""
        now = termios.tcgetattr(self._follower)
        with self._changed:
            modes = dict(self.screen.modes)
        left = {name for name, on in modes.items() if on and name in ("alternate", "mouse", "mouse-all", "paste")}
        return now == self._before and modes["cursor"] and not left

    def _hang_up(self) -> None:
        os.close(self._close)
        self._reader.join(WAIT_SECONDS)
        for side in (self._leader, self._closing, *(() if self._controlling else (self._follower,))):
            os.close(side)
        self._close = -1

    def close(self) -> None:
        """End the program if it has not, and give the terminal back."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_SECONDS)
        if self._close >= 0:
            self._hang_up()


@contextmanager
def terminal(
    *command: str, environment: Mapping[str, str], columns: int = 120, rows: int = 36, controlling: bool = False
) -> Iterator[Terminal]:
    """A program in a terminal, for as long as the block lasts."""
    opened = Terminal(command, environment, columns, rows, controlling=controlling)
    try:
        yield opened
    finally:
        opened.close()
