"""Bars: on stderr, on a terminal, for what takes long; never anywhere else."""

import io
import threading
from contextlib import redirect_stderr

import pytest

from callboard.service.cli import progress as module
from callboard.service.cli.progress import progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    found = _Terminal()
    monkeypatch.setenv("TERM", "xterm")
    return found


def test_short_work_shows_no_bar(terminal: _Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AFTER_SECONDS", 600.0)
    with redirect_stderr(terminal), progress("sorting", 3) as advance:
        for _ in range(3):
            advance()
    assert terminal.getvalue() == ""


def test_long_work_shows_how_far_it_is_and_leaves_nothing_behind(
    terminal: _Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "AFTER_SECONDS", 0.0)
    with redirect_stderr(terminal), progress("verifying runs", 7) as advance:
        advance(2)
        _wait_until(lambda: "verifying runs" in terminal.getvalue())
        advance()
        _wait_until(lambda: "3/7" in terminal.getvalue())
        print("data")
    assert capsys.readouterr().out == "data\n"
    assert terminal.getvalue().endswith("\x1b[2K"), "the line of the bar is wiped"


@pytest.mark.parametrize("kind", ["pipe", "dumb"])
def test_no_bar_off_a_terminal_or_on_a_dumb_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO() if kind == "pipe" else _Terminal()
    monkeypatch.setenv("TERM", "dumb" if kind == "dumb" else "xterm")
    monkeypatch.setattr(module, "AFTER_SECONDS", 0.0)
    threads = set(threading.enumerate())
    with redirect_stderr(stream), progress("verifying runs", 7) as advance:
        advance()
        assert set(threading.enumerate()) <= threads, "nothing waits to draw"
    assert stream.getvalue() == ""


def test_an_error_inside_goes_through_and_the_bar_is_gone(terminal: _Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AFTER_SECONDS", 0.0)
    with redirect_stderr(terminal), pytest.raises(ZeroDivisionError), progress("dividing") as advance:  # noqa: PT012
        advance()
        _wait_until(lambda: "dividing" in terminal.getvalue())
        raise ZeroDivisionError
    assert terminal.getvalue().endswith("\x1b[2K")


def _wait_until(condition: "object") -> None:
    assert callable(condition)
    pause = threading.Event()
    for _ in range(9_000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("not within 90 s")
