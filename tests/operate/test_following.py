"""Watching a run without being a node of it, and its model's words as they come."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from callboard.actors.agent.events import LLMCallCompleted
from callboard.actors.agent.runs import Recorded
from callboard.actors.agent.streaming import Delta
from callboard.service.cli.telling import Telling, Words
from tests.service.conftest import APP, ROOT, Cli, environment, query, until

BAR = "      │ "


@contextmanager
def started(dsn: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own."""
    command = [sys.executable, "-m", "callboard", *arguments]
    process = subprocess.Popen(
        command, env=environment(dsn), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def test_show_follow_tells_what_happens_until_the_run_rests_and_sends_nothing(
    cli: Cli, database: str, tmp_path: Path
) -> None:
    folder = ("--option", f"folder={tmp_path}")
    with started(database, "run", APP, "slow thing", "--id", "live", *folder) as worker:
        until((tmp_path / "thing.began").exists, "the call begins")
        with started(database, "show", "live", "--follow", "--jsonl") as watcher:
            assert watcher.stderr is not None and "following run live" in watcher.stderr.readline()
            (tmp_path / "thing").touch()
            out, err = watcher.communicate(timeout=90)
        worker.communicate(timeout=90)
    assert (watcher.returncode, worker.returncode) == (0, 0), err
    *events, run = [json.loads(line) for line in out.splitlines()]
    assert run["schema"] == "callboard.run/1" and run["status"] == "completed" and run["spending"]
    kinds = [event["type"] for event in events]
    assert kinds[-1] == "run.completed" and "run.started" not in kinds, "what had been is not told again"
    assert query(database, "SELECT action FROM callboard.audit") == [("submit",)]


def test_following_what_rests_ends_at_once_with_how_it_is(cli: Cli, shared: str) -> None:
    cli("run", APP, "hello", "--id", "rests", dsn=shared)
    said = cli("show", "rests", "--follow", dsn=shared)
    assert said.code == 0 and "run rests  completed" in said.out and "you said: hello" in said.out
    cli("run", APP, "fail", "--id", "failed", dsn=shared)
    assert cli("show", "failed", "--follow", dsn=shared).code == 1
    cli("run", APP, "close 7", "--id", "waits", dsn=shared)
    said = cli("show", "waits", "--follow", "--json", dsn=shared)
    assert said.code == 0 and said.document["status"] == "awaiting_approval"


def test_following_what_nobody_serves_ends_in_time_and_says_so(cli: Cli, shared: str) -> None:
    run = cli("submit", APP, "hello", "--json", dsn=shared).document["run_id"]
    said = cli("show", run, "--follow", "--timeout", "0.2", dsn=shared)
    assert said.code == 7 and "did not rest within 0.2 s" in said.err
    assert "it begins when a node serves it" in said.err
    said = cli("show", run, "--follow", "--watch", dsn=shared)
    assert said.code == 2 and "give one of them" in said.one_line()


def test_run_with_stream_tells_each_answer_once(cli: Cli, shared: str) -> None:
    said = cli("run", APP, "hello", "--stream", dsn=shared)
    assert said.code == 0 and said.out == "you said: hello\n"
    answered = said.err[said.err.index("model asked") : said.err.index("run completed")]
    assert answered.count("you said: hello") == 1, "by its words, or by the event where they came too late"
    assert BAR + "you said: hello" in said.err


# --- the words themselves ---------------------------------------------------------------------------------------


def heard(pieces: Sequence[str], *, step: int = 1, attempt: int = 1) -> list[Delta]:
    return [Delta(step, attempt, number, text) for number, text in enumerate(pieces, 1)]


def answer(content: str) -> Recorded:
    return Recorded(3, 1.0, 1, "llm.completed", LLMCallCompleted(1, content))


def test_words_stand_behind_a_bar_and_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    telling = Telling("never")
    for delta in heard(["Dear\n  +1 ms  node 1  #9  run ", "completed\x1b[2J", "\u202e\nbye"]):
        telling.heard(delta)
    telling.event(answer("Dear\n  +1 ms  node 1  #9  run completed\x1b[2J\u202e\nbye"))
    err = capsys.readouterr().err
    lines = err.splitlines()
    assert lines[0] == BAR + "Dear"
    assert lines[1] == BAR + r"  +1 ms  node 1  #9  run completed\x1b[2J\u202e"
    assert lines[2] == BAR + "bye"
    assert "model answered" in lines[3] and len(lines) == 4, "the whole text is not told twice"


@pytest.mark.parametrize("numbers", [(1, 3), (2, 3)])
def test_where_words_were_lost_the_event_tells_the_whole_answer(
    numbers: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    words = Words(to_stderr=True)
    for number in numbers:
        words.hear(Delta(1, 1, number, f"w{number}"))
    told = words.before(answer("w1w2w3"))
    assert isinstance(told.event, LLMCallCompleted) and told.event.content == "w1w2w3"
    capsys.readouterr()


def test_another_attempt_begins_a_line_and_late_words_of_an_old_one_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = Words(to_stderr=True)
    for delta in (*heard(["wro"]), *heard(["right"], attempt=2), Delta(1, 1, 2, "ng")):
        words.hear(delta)
    told = words.before(answer("right"))
    words.hear(Delta(1, 2, 2, "late"))
    assert capsys.readouterr().err == f"{BAR}wro\n{BAR}right\n"
    assert isinstance(told.event, LLMCallCompleted) and told.event.content == ""
