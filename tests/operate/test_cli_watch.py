"""Watching: in place on a terminal, a line of JSON for each change elsewhere, and the terminal is itself afterwards."""

import io
import json
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext, redirect_stdout
from typing import Any

import pytest

from callboard.mailbox.errors import StoreUnavailable, UsageError
from callboard.service import wiring
from callboard.service.cli import screen as screens
from callboard.service.cli import watch
from callboard.service.cli.screen import InPlace, OneBelowTheOther, screen_for
from callboard.service.cli.terminal import print_line
from callboard.service.cli.times import When
from callboard.service.cli.watch import Shown, watched
from callboard.service.settings import Settings

NOON = 1_796_040_000.0


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Store:
    async def now(self) -> float:
        return NOON


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def opened(_: Settings) -> Any:
        yield _Store()

    monkeypatch.setattr(wiring, "open_store", opened)


class _Enough(Exception):
    """The watching has gone on for as long as the test wants."""


def reads(*values: Any) -> Callable[[Any], Awaitable[list[Any]]]:
    """What is read, one after the other; then it is enough."""
    left = list(values)

    async def read(_: Any) -> list[Any]:
        if not left:
            raise _Enough
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return list(found)

    return read


def document(value: list[Any]) -> dict[str, Any]:
    return {"schema": "callboard.things/1", "items": [{"name": one} for one in value]}


def print_things(value: list[Any], when: When) -> None:
    for one in value:
        print_line(f"{one} {when(NOON - 60)}")


def look(read: Callable[[Any], Awaitable[list[Any]]], shown: Shown, on: "_Terminal | None" = None) -> list[Any]:
    # pytest puts its own stdout in place when a test begins, after its fixtures
    with redirect_stdout(on) if on is not None else nullcontext():
        return watched(read, print_things, Settings(), shown, document=document, every_seconds=0.0)


def test_once_as_text_with_the_stores_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert look(reads("ab"), Shown(time="relative")) == ["a", "b"]
    assert capsys.readouterr().out == "a 1m ago\nb 1m ago\n"


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    look(reads("ab"), Shown(json=True))
    assert json.loads(capsys.readouterr().out) == document(["a", "b"])


def test_jsonl_is_a_line_for_each_item_under_a_schema_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    look(reads("ab"), Shown(jsonl=True))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"schema": "callboard.things.item/1", "name": "a"},
        {"schema": "callboard.things.item/1", "name": "b"},
    ]


def test_an_item_that_has_a_schema_keeps_it() -> None:
    whole = {"schema": "callboard.approvals/1", "items": [{"schema": "callboard.approval/1", "id": "x"}]}
    assert watch.items_of(whole) == [{"schema": "callboard.approval/1", "id": "x"}]


def test_an_empty_list_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    look(reads(""), Shown(jsonl=True))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("shown", [Shown(watch=True), Shown(watch=True, json=True), Shown(watch=True, jsonl=True)])
def test_a_pipe_gets_one_json_document_for_each_change(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(_Enough):
        look(reads("a", "a", "ab", "ab", "b"), shown)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said == [document(["a"]), document(["a", "b"]), document(["b"])]


def test_a_database_that_goes_away_is_said_once_and_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    lost = StoreUnavailable("no answer")
    with pytest.raises(_Enough):
        look(reads("a", lost, lost, "b"), Shown(watch=True))
    out, err = capsys.readouterr()
    assert [json.loads(line)["items"][0]["name"] for line in out.splitlines()] == ["a", "b"]
    assert err == "database lost: no answer\ndatabase found again\n"


def test_a_database_that_was_never_there_is_an_error() -> None:
    with pytest.raises(StoreUnavailable):
        look(reads(StoreUnavailable("no answer")), Shown(watch=True))


def test_json_and_jsonl_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="one of them"):
        look(reads("a"), Shown(json=True, jsonl=True))


def test_a_wrong_time_is_said_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="--time"):
        look(reads(AssertionError("read")), Shown(time="swatch"))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Terminal]:
    found = _Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((80, 5)))
    monkeypatch.setattr(screens, "_clock", lambda: "12:00:00")
    before = signal.getsignal(signal.SIGTERM)
    yield found
    assert signal.getsignal(signal.SIGTERM) is before, "the signal is whose it was"


ENTERED, LEFT = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"


def test_a_terminal_shows_it_in_place_and_what_was_last_stays_readable(terminal: _Terminal) -> None:
    with pytest.raises(_Enough):
        look(reads("a", "bc"), Shown(watch=True), terminal)
    said = terminal.getvalue()
    assert said.startswith(ENTERED) and said.endswith(LEFT + "b 1m ago\nc 1m ago\n")
    assert said.count("\x1b[H") == 2, "drawn twice, each time from the top"
    assert "a 1m ago\x1b[K\x1b[J" in said, "what was there before is wiped"


def test_ctrl_c_gives_the_terminal_back(terminal: _Terminal) -> None:
    async def interrupted(_: Any) -> list[Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look(interrupted, Shown(watch=True), terminal)
    assert terminal.getvalue() == ENTERED + LEFT


def test_sigterm_gives_the_terminal_back_too(terminal: _Terminal) -> None:
    with pytest.raises(SystemExit) as end, InPlace(terminal):  # noqa: PT012
        os.kill(os.getpid(), signal.SIGTERM)
        signal.sigtimedwait([], 0)  # a moment at which Python looks at its signals
    assert end.value.code == 143 and terminal.getvalue().endswith(LEFT)


def test_what_does_not_fit_is_counted_and_never_scrolls(terminal: _Terminal) -> None:
    screen = InPlace(terminal)
    screen.show("".join(f"line {n}\n" for n in range(10)))
    drawn = terminal.getvalue().split("\r\n")
    assert len(drawn) == 5
    assert "line 2" in drawn[3] and "… 7 more lines" in drawn[4]


def test_an_outage_is_said_in_the_title_and_what_was_read_stays(terminal: _Terminal) -> None:
    with pytest.raises(_Enough):
        look(reads("a", StoreUnavailable("no answer")), Shown(watch=True), terminal)
    last = terminal.getvalue().split("\x1b[H")[-1]
    assert "database lost: no answer" in last and "a 1m ago" in last


@pytest.mark.anyio
async def test_a_resize_draws_at_once(terminal: _Terminal) -> None:
    import anyio

    async with anyio.create_task_group() as group:
        with anyio.fail_after(60):
            group.start_soon(InPlace(terminal).pause, 3_600.0)
            while signal.getsignal(signal.SIGWINCH) is signal.SIG_DFL:
                await anyio.lowlevel.checkpoint()
            os.kill(os.getpid(), signal.SIGWINCH)


def test_a_dumb_terminal_gets_changes_below_each_other_and_no_escape(
    terminal: _Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(screen_for(terminal), OneBelowTheOther)
    with pytest.raises(_Enough):
        look(reads("a", "a", "b"), Shown(watch=True), terminal)
    said = terminal.getvalue()
    assert "\x1b" not in said and said.count("a 1m ago") == 1 and said.count("b 1m ago") == 1


def test_text_of_customers_cannot_reach_the_terminal_it_is_watched_on(terminal: _Terminal) -> None:
    with pytest.raises(_Enough):
        look(reads(["\x1b]52;c;evil\x07"]), Shown(watch=True), terminal)
    assert "\x1b]52" not in terminal.getvalue() and "\\x1b]52" in terminal.getvalue()
