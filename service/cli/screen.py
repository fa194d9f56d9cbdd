"""A terminal that shows one thing, again and again in the same place, and is as it was before when that ends.

The other screen of the terminal is used, so that nothing has to be known about how lines wrapped or where the cursor
was: a resize only means to draw again. What was shown last stays readable afterwards. A terminal that can do nothing
of this (TERM=dumb) gets it one below the other.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TextIO

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""The other screen, no cursor, no wrapping: a line that is too long ends at the edge."""
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _TO_END_OF_LINE, _TO_END = "\x1b[H", "\x1b[K", "\x1b[J"


def screen_for(stream: TextIO) -> "InPlace | OneBelowTheOther":
    """The screen that a terminal can be."""
    return OneBelowTheOther(stream) if os.environ.get("TERM", "dumb") == "dumb" else InPlace(stream)


def _clock() -> str:
    return time.strftime("%H:%M:%S")


class InPlace:
    """A terminal that can move its cursor."""

    def __init__(self, stream: TextIO, clock: Callable[[], str] = _clock) -> None:
        self._stream = stream
        self._clock = clock
        self._last = ""
        self._before: Any = None

    def __enter__(self) -> "InPlace":
        self._write(_ENTER)
        # Ended by default, a process leaves the terminal on the other screen and without a cursor.
        self._before = signal.signal(signal.SIGTERM, _end)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_LEAVE + self._last)
        signal.signal(signal.SIGTERM, self._before)

    def show(self, text: str, status: str = "") -> None:
        """Draw; what does not fit is said to be missing."""
        self._last = text
        lines, height = text.splitlines(), max(shutil.get_terminal_size().lines, 3)
        title = f"{self._clock()}  {status or 'watching; ctrl-C ends'}"
        if len(lines) > height - 1:
            lines = [*lines[: height - 2], f"… {len(lines) - height + 2} more lines"]
        drawn = "\r\n".join(line + _TO_END_OF_LINE for line in (title, *lines))
        self._write(_HOME + drawn + _TO_END)

    async def pause(self, seconds: float) -> None:
        """Wait, or until the terminal has another size."""
        import anyio

        with anyio.move_on_after(seconds), anyio.open_signal_receiver(signal.SIGWINCH) as signals:
            async for _ in signals:
                return

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class OneBelowTheOther:
    """A terminal that can only print."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = ""

    def __enter__(self) -> "OneBelowTheOther":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def show(self, text: str, status: str = "") -> None:
        """Print what differs from what was printed last."""
        text = f"{status}\n{text}" if status else text
        if text != self._last:
            self._stream.write(f"{_clock()}\n{text}\n")
            self._stream.flush()
        self._last = text

    async def pause(self, seconds: float) -> None:
        """Wait."""
        import anyio

        await anyio.sleep(seconds)


def _end(_: int, __: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)
