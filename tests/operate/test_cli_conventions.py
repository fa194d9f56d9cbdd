"""What is the same in all commands: --json and --dsn, lists that can be lines and be watched, colours, clean pipes."""

import json
import os
import re
import subprocess
import sys

import pytest

from callboard.service.cli.help_texts import pages
from tests.service.conftest import APP, ROOT, Cli, environment

PAGES = {name: page for name, page in pages().items() if not page["commands"] or page["options"].keys() - {"--help"}}
WITHOUT_JSON = {"mailbox export", "tui"}  # is JSON lines in any case; is a screen
WITHOUT_DSN = {name for name in PAGES if name.startswith("eval ")}  # measure, and use no database
LISTS = {
    "runs", "approvals", "approvals list", "actors", "actors list", "mailbox", "mailbox list", "mailbox peek",
    "mailbox search", "dead", "dead list", "audit",
}  # fmt: skip
LOOKS = LISTS | {"show", "approvals show", "actors show", "status"}
MONEY = ("approve", "deny", "edit", "take-back")


@pytest.mark.parametrize("name", sorted(PAGES))
def test_every_command_takes_json_and_dsn(name: str) -> None:
    options = PAGES[name]["options"]
    assert "--json" in options or name in WITHOUT_JSON
    assert "--dsn" in options or name in WITHOUT_DSN


@pytest.mark.parametrize("name", sorted(LISTS))
def test_every_list_can_be_lines_be_watched_and_say_times_as_asked(name: str) -> None:
    options = PAGES[name]["options"]
    assert {"--jsonl", "--watch", "-w", "--time", "--color", "--limit"} <= options.keys()
    assert options["--time"] == "relative|local|utc" and options["--color"] == "auto|always|never"


@pytest.mark.parametrize("name", sorted(LOOKS))
def test_what_changes_can_be_watched(name: str) -> None:
    assert "--watch" in PAGES[name]["options"] or "--follow" in PAGES[name]["options"]


def test_no_command_that_decides_has_an_option_that_says_yes() -> None:
    for name, page in pages().items():
        agreeing = {"--yes", "-y", "--force", "-f", "--assume-yes", "--all-yes"} & page["options"].keys()
        assert not agreeing or name.split()[0] not in MONEY, name
    assert {name for name, page in pages().items() if "--yes" in page["options"]} == {
        "demo",  # decides as the approver of a database that it made itself
        "dead discard", "dead requeue", "mailbox discard", "mailbox quarantine",  # messages, none of them held
        "prune",  # what has ended: nothing that waits for anybody
    }  # fmt: skip


def test_secrets_are_in_no_option() -> None:
    for name, page in pages().items():
        secret = [one for one in page["options"] if re.search(r"pass|secret|key$|api", one)]
        assert not secret or (name, secret) == ("mailbox search", ["--key"]), name


ESCAPE = "\x1b["


@pytest.fixture(scope="module")
def with_a_run(shared: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "run", APP, "hello", "--id", "conventional"],
        capture_output=True, text=True, check=True, cwd=ROOT, env=environment(shared), timeout=120,
    )  # fmt: skip
    assert ESCAPE not in done.stdout + done.stderr, "a pipe carries no colour"
    return shared


@pytest.mark.parametrize("command", ["runs", "show conventional", "replay conventional", "actors", "approvals --all"])
def test_pipes_carry_no_colour(command: str, with_a_run: str, cli: Cli) -> None:
    said = cli(*command.split(), dsn=with_a_run)
    assert said.code == 0 and ESCAPE not in said.out + said.err


def test_colour_can_be_had_and_refused(with_a_run: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ESCAPE in cli("show", "conventional", "--color", "always", dsn=with_a_run).out
    assert ESCAPE not in cli("show", "conventional", "--color", "never", dsn=with_a_run).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESCAPE in cli("show", "conventional", "--color", "always", dsn=with_a_run).out, "a flag is nearer"
    said = cli("show", "conventional", "--color", "sometimes", dsn=with_a_run)
    assert said.code == 2 and "auto, always or never" in said.one_line()


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_no_colour_gets_none(variable: str, value: str, with_a_run: str) -> None:
    assert ESCAPE in on_a_terminal("show conventional", with_a_run, {})
    assert ESCAPE not in on_a_terminal("show conventional", with_a_run, {variable: value})


def test_watching_on_a_terminal_is_in_place_and_ctrl_c_gives_it_back(with_a_run: str) -> None:
    said = on_a_terminal("runs --watch", with_a_run, {}, interrupt_at="conventional")
    assert said.count("\x1b[?1049h") == said.count("\x1b[?1049l") == 1
    assert said.rindex("\x1b[?1049l") < said.rindex("conventional"), "what was last is still to be read"


def test_lists_as_lines_are_one_document_each(with_a_run: str, cli: Cli) -> None:
    lines = [json.loads(line) for line in cli("runs", "--jsonl", dsn=with_a_run).out.splitlines()]
    assert [line["run_id"] for line in lines] == ["conventional"]
    assert lines[0]["schema"] == "callboard.runs.item/1"


def test_times_are_said_as_asked(with_a_run: str, cli: Cli) -> None:
    assert re.search(r"\t\d{4}-\d\d-\d\dT[\d:.]+Z\t", cli("runs", dsn=with_a_run).out)
    assert re.search(r"\t(now|\d+[smh][\dms]* ago)\t", cli("runs", "--time", "relative", dsn=with_a_run).out)
    assert "Z" in cli("runs", "--time", "relative", "--json", dsn=with_a_run).document["items"][0]["started_at"]


def on_a_terminal(command: str, dsn: str, more: dict[str, str], interrupt_at: str = "") -> str:
    """What a terminal is sent by a command."""
    import pty
    import signal

    child, terminal = pty.fork()
    if not child:
        kept = {name: value for name, value in environment(dsn).items() if name != "NO_COLOR"}
        os.chdir(ROOT)
        os.execve(sys.executable, [sys.executable, "-m", "callboard", *command.split()],
                  {**kept, "TERM": "xterm-256color", **more})  # fmt: skip
    said = b""
    interrupted = False
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not piece:
            break
        said += piece
        if interrupt_at and not interrupted and interrupt_at.encode() in said:
            interrupted = True
            os.kill(child, signal.SIGINT)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (130 if interrupt_at else 0), said
    return said.decode()
