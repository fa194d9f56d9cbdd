"""The programs in docs/examples run, and do what they say."""

import os
import signal
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"


def run(name: str, *arguments: str, dsn: str = "") -> tuple[int, list[str]]:
    """Exit code and lines of an example."""
    environment = {**os.environ, "DATABASE_URL": dsn}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env=environment,
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode, done.stdout.splitlines()


def test_the_quickstart_needs_nothing_and_shows_its_journal() -> None:
    code, lines = run("quickstart.py")
    assert code == 0
    assert lines[0] == "completed - Your refund RF-A-8891 is on its way."
    assert [line.split()[1] for line in lines[1:]] == [
        "RunStarted",
        "LLMCallRequested",
        "LLMCallCompleted",
        "ToolCallRequested",
        "ToolCallCompleted",
        "LLMCallRequested",
        "LLMCallCompleted",
        "RunCompleted",
    ]


def test_da180_offboarding_retries_waits_for_a_person_and_does_nothing_twice(dsn: str) -> None:
    _, lines = run("offboarding.py", dsn=dsn)
    waits, meanwhile, completed, end = lines
    assert waits.startswith("awaiting_approval - delete_account {'employee': 'sam'} - deleting an account")
    assert completed == "completed - Sam is offboarded."
    # Two calls were under way at once, so either may have been counted first.
    assert literal_eval(meanwhile.removeprefix("meanwhile: ")) == {"revoked": 1, "transferred": 1}
    assert literal_eval(end.removeprefix("in the end: ")) == {"revoked": 1, "transferred": 1, "deleted": 1}


def test_da180_a_process_that_kills_itself_after_the_effect_leaves_one_refund(dsn: str, tmp_path: Path) -> None:
    code, lines = run("crash_and_resume.py", str(tmp_path), dsn=dsn)
    assert (code, len(lines)) == (-signal.SIGKILL, 1)
    code, lines = run("crash_and_resume.py", str(tmp_path), dsn=dsn)
    assert code == 0
    assert lines[:2] == ["completed - Refund RF-55012 processed.", "refunds at the provider: 1"]
    assert [line for line in lines if "[recovered]" in line and "ToolCallCompleted" in line]
