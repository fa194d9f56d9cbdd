"""`callboard tui` in a real terminal: it starts, follows the window, and gives the terminal back however it ends."""

import os
import re
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.operate.test_daemon_database_away import Server, server
from tests.service.conftest import ROOT, environment, shared, until
from tests.tui.e2e.terminal import XTERM, Terminal, terminal

__all__ = ["server", "shared"]
ENTER_SCREEN, LEAVE_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
SHOW_CURSOR, HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"
MOUSE_ON, MOUSE_OFF = b"\x1b[?1000h", b"\x1b[?1000l"


def around(dsn: str, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in environment(dsn).items() if name not in ("NO_COLOR", "COLORFGBG")}
    return {**kept, **XTERM, "PYTHONPATH": str(ROOT / ".src"), **more}


def tui(*arguments: str, around: dict[str, str]) -> AbstractContextManager[Terminal]:
    """`callboard tui ARGUMENTS` in a terminal of its own."""
    return terminal(sys.executable, "-m", "callboard", "tui", *arguments, environment=around, controlling=True)


def given_back(seen: Terminal) -> None:
    sent = seen.sent
    assert sent.count(ENTER_SCREEN) == sent.count(LEAVE_SCREEN) == 1
    assert sent.rindex(SHOW_CURSOR) > sent.rindex(HIDE_CURSOR)
    assert sent.rindex(MOUSE_OFF) > sent.rindex(MOUSE_ON)
    assert "Traceback" not in seen.said, seen.said[seen.said.index("Traceback") :]


def test_it_shows_itself_and_q_gives_the_terminal_back(shared: str) -> None:
    with tui(around=around(shared, CALLBOARD_ENVIRONMENT="prod-eu")) as seen:
        seen.until("callboard")
        seen.until("● live")
        seen.until("prod-eu")
        seen.type("q")
        assert seen.wait() == 0
        given_back(seen)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_cleanly_also_while_a_dialog_is_open(number: signal.Signals, shared: str) -> None:
    with tui(around=around(shared)) as seen:
        seen.until("● live")
        seen.type("?")
        seen.until("Keys · Actors")
        seen.process.send_signal(number)
        assert seen.wait() == 0
        given_back(seen)


def test_it_ends_with_the_window_that_it_is_in(shared: str) -> None:
    with tui(around=around(shared)) as seen:
        seen.until("● live")
        assert seen.close_window() in (0, 129)  # who is sooner: the signal's way out, or the look at the terminal


def test_ctrl_c_ends_nothing_and_says_what_does(shared: str) -> None:
    with tui(around=around(shared)) as seen:
        seen.until("● live")
        seen.type("\x03")
        seen.until("q quits")
        seen.type("\x11")  # ctrl+q
        assert seen.wait() == 0


def test_it_follows_the_window_down_to_sixty_by_fifteen_and_says_when_that_is_too_narrow(shared: str) -> None:
    with tui(around=around(shared)) as seen:
        seen.until("● live")
        for size in ((80, 24), (60, 15), (40, 10), (100, 30), (120, 36)):
            seen.resize(*size)
            seen.until("make me wider" if size[0] < 60 else "nothing waits for you")
        seen.type("q")
        assert seen.wait() == 0


def test_no_color_is_heard(shared: str) -> None:
    with tui(around=around(shared, NO_COLOR="1")) as seen:
        seen.until("● live")
        seen.type("?")
        seen.until("Keys · Actors")
        seen.type("\x11")
        assert seen.wait() == 0
    colours = {match.groups() for match in re.finditer(rb"[34]8;2;(\d+);(\d+);(\d+)", seen.sent)}
    assert all(red == green == blue for red, green, blue in colours)
    assert not re.search(rb"\x1b\[(?:[\d;]*;)?(?:3[1-6]|4[1-6]|9[1-6]|10[1-6])m", seen.sent)


def test_a_terminal_of_sixteen_colours_gets_no_other_ones(shared: str) -> None:
    with tui(around=around(shared, TERM="linux", COLORTERM="")) as seen:
        seen.until("● live")
        seen.type("q")
        assert seen.wait() == 0
    assert b"38;2;" not in seen.sent and b"48;2;" not in seen.sent
    assert b"38;5;" not in seen.sent and b"48;5;" not in seen.sent


def test_ascii_sends_no_sign_beyond_it(shared: str) -> None:
    with tui("--ascii", around=around(shared)) as seen:
        seen.until("o live")
        seen.type("?")
        seen.until("Keys . Actors")
        seen.type("\x11")
        assert seen.wait() == 0
    assert seen.sent.isascii()


def test_the_title_of_the_window_is_given_back(shared: str) -> None:
    with tui(around=around(shared)) as seen:
        seen.until("● live")
        seen.until(lambda _: b"\x1b]0;callboard\x07" in seen.raw)
        seen.type("q")
        assert seen.wait() == 0
    assert seen.sent.count(b"\x1b[22;0t") == seen.sent.count(b"\x1b[23;0t") == 1


def test_a_title_and_a_bell_can_be_done_without(shared: str) -> None:
    with tui(around=around(shared, CALLBOARD_BELL="false")) as seen:
        seen.until("● live")
        seen.type("q")
        assert seen.wait() == 0
    assert b"\x1b]0;" not in seen.sent


def test_without_a_terminal_it_says_what_to_use_instead() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "tui", "--dsn", "postgresql://nowhere/x"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=ROOT, env=environment(), timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and not done.stdout
    assert "needs a terminal" in done.stderr and "callboard approvals --watch" in done.stderr


def test_its_help_loads_no_textual() -> None:
    code = (
        "import sys; sys.argv = ['callboard', 'tui', '--help']\n"
        "from callboard.service.cli.app import run_command\n"
        "run_command(sys.argv[1:])\n"
        "assert 'textual' not in sys.modules and 'psycopg' not in sys.modules, 'loaded'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
                          env={**environment(), "PYTHONPATH": str(ROOT / ".src")},
                          timeout=180, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--readonly" in done.stdout and "--ascii" in done.stdout


def test_a_database_without_a_schema_is_told_with_the_way_out(dsn: str) -> None:
    with tui(around=around(dsn)) as seen:
        assert seen.wait() == 1
    assert "this database has no callboard tables; run: callboard init-db" in " ".join(seen.said.split())
    assert ENTER_SCREEN not in seen.sent


def test_a_database_that_is_not_there_at_the_start_is_75() -> None:
    with tui(around=around("postgresql://127.0.0.1:1/none")) as seen:
        assert seen.wait() == 75
    assert ENTER_SCREEN not in seen.sent


def test_a_theme_that_there_is_not_is_wrong_usage(shared: str) -> None:
    with tui("--theme", "solarized", around=around(shared)) as seen:
        assert seen.wait() == 2
    assert "dark, light, mono or ansi" in " ".join(seen.said.split())


def test_a10_it_waits_a_stopped_server_out_goes_on_and_ends_while_one_is_frozen(server: Server, tmp_path: Path) -> None:
    log = tmp_path / "tui.log"
    with tui(around=around(server.dsn, CALLBOARD_TERMINAL_LOG=str(log))) as seen:
        seen.until("● live")
        server.stop()
        seen.until("Database lost")
        assert server.start() == server.dsn
        seen.until("● live")
        seen.gone("Database lost")
        pids = frozen(server)
        try:
            seen.until("Database lost")
            seen.type("q")
            assert seen.wait() == 0
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        given_back(seen)


def frozen(server: Server) -> list[int]:
    """Stop the server's processes; they go on by SIGCONT. The first one before the others: it starts none then, and one
    that has ended keeps its number until it is taken note of."""
    first = int(next(server.root.rglob("postmaster.pid")).read_text().splitlines()[0])
    os.kill(first, signal.SIGSTOP)
    until(lambda: Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[0] == "T", "it stands still")
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    for pid in map(int, children):
        os.kill(pid, signal.SIGSTOP)
    return [*map(int, children), first]
