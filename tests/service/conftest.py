"""The command line under test: in this process where that is the same, as a process of its own where it is not."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from callboard.service.cli.app import run_command
from tests.made_database import made_database
from tests.patience import patient as patient  # noqa: PLC0414 - a fixture
from tests.stand import LEASE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
APP = "tests.service.desk_app:app"
WAIT_SECONDS = 90.0


@dataclass(frozen=True)
class Said:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def problem(self) -> Any:
        return json.loads(self.err)

    def one_line(self) -> str:
        """Its complaint, which has to be one line and the only thing said."""
        assert not self.out
        assert self.err.count("\n") == 1 and self.err.startswith("callboard: "), self.err
        assert "Traceback" not in self.err
        return self.err


Cli = Callable[..., Said]


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for a condition; what it gave."""
    pause, end = threading.Event(), time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        pause.wait(0.02)
    raise AssertionError(f"not within {WAIT_SECONDS:g} s: {what}")


def environment(dsn: str = "") -> dict[str, str]:
    """A clean one for a process of ours: also without the size of a terminal, which would go before that of its own."""
    others = ("DATABASE_URL", "COLUMNS", "LINES")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CALLBOARD_") and k not in others}
    given = {"CALLBOARD_LEASE_SECONDS": f"{LEASE_SECONDS:g}", "PYTHONUNBUFFERED": "1"}
    return {**kept, **given, **({"CALLBOARD_DSN": dsn} if dsn else {})}


def process(*arguments: str, dsn: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `python -m callboard` to its end."""
    command = [sys.executable, "-m", "callboard", *arguments]
    env = environment(dsn)
    return subprocess.run(
        command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, **options
    )


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """Run a command in this process: the same code from its arguments to its exit code, without a start of Python."""
    for name in [name for name in os.environ if name.startswith("CALLBOARD_") or name == "DATABASE_URL"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", [*sys.path])
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def run(*arguments: str, stdin: str = "", dsn: str = "") -> Said:
        with monkeypatch.context() as patch:
            if dsn:
                patch.setenv("CALLBOARD_DSN", dsn)
            patch.setattr(sys, "stdin", _Piped(stdin))
            capsys.readouterr()
            code = run_command(list(arguments))
        out, err = capsys.readouterr()
        return Said(code, out, err)

    yield run
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("callboard").setLevel(logging.NOTSET)


class _Piped:
    """A stdin that is no terminal."""

    def __init__(self, text: str) -> None:
        self._text = text

    def isatty(self) -> bool:
        return False

    def read(self, limit: int = -1) -> str:
        return self._text[:limit] if limit >= 0 else self._text


@pytest.fixture
def database(made: str) -> str:
    """A database of this test alone, with the schema."""
    return made


@pytest.fixture(scope="module")
def shared(server_dsn: str) -> Iterator[str]:
    """A database with the schema that the tests of a module share; each makes runs of its own in it."""
    with made_database(server_dsn) as made:
        yield made


def query(dsn: str, text: str) -> list[tuple[Any, ...]]:
    """Rows, straight from the tables."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(text.encode()).fetchall()


def execute(dsn: str, text: str) -> None:
    """One statement, straight to the tables."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(text.encode())
