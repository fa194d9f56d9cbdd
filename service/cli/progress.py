"""A bar on stderr for work that takes longer than a second, where somebody watches a terminal; else nothing.

    with progress("verifying runs", total) as advance:
        for one in them:
            ...
            advance()

It is gone when the work is done, and stdout never sees it. Without a total it moves to and fro.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

AFTER_SECONDS = 1.0
Advance = Callable[..., None]
"""`advance()`, or `advance(count)`."""


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Advance]:
    """Show how far the work inside has come."""
    if not _is_wanted():
        yield lambda count=1: None
        return
    bar = _Bar(what, total)
    timer = threading.Timer(AFTER_SECONDS, bar.begin)
    timer.daemon = True
    timer.start()
    try:
        yield bar.advance
    finally:
        timer.cancel()
        bar.end()


def _is_wanted() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class _Bar:
    """Counts at once, and is drawn from when it is begun on; that is done by another thread."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._lock = threading.Lock()
        self._shown: tuple[Progress, TaskID] | None = None
        self._ended = False

    def advance(self, count: int = 1) -> None:
        """So much more is done."""
        with self._lock:
            self._done += count
            if self._shown is not None:
                bar, task = self._shown
                bar.update(task, completed=self._done)

    def begin(self) -> None:
        """Draw it from now on."""
        with self._lock:
            if self._ended:
                return
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = [TextColumn("{task.description}", markup=False), BarColumn()]
            if self._total is not None:
                columns += [MofNCompleteColumn(), TimeRemainingColumn()]
            # Nothing of stdout may pass through it: that would move data to stderr.
            bar = Progress(
                *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
            )
            bar.start()
            self._shown = bar, bar.add_task(self._what, total=self._total, completed=self._done)

    def end(self) -> None:
        """Take it away."""
        with self._lock:
            self._ended = True
            if self._shown is not None:
                self._shown[0].stop()
