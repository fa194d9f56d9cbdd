"""All benches in one go, and the comparison with peers: `python -m bench all`.

The first round goes through all of them; then the short ones are repeated while the time allows, in turn, so that what
else the machine does falls on all alike, and a figure is the median of its rounds. Each report is kept as soon as it is
there: what is broken off has lost what it was at, and no more. A bench that fails is named, and the others go on.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from callboard.bench.catalogue import CATALOGUE
from callboard.bench.rounds import merged
from callboard.bench.server import server

RESULTS: Final = Path(__file__).resolve().parent / "results"
QUICK: Final = "quick"
"""The folder in there for short ones, which are not kept in the repository."""

ONE_SECONDS = 600.0
"""How long one run of one bench may take; the longest ones take two minutes, peers eight."""
QUICK_SECONDS = 240.0
"""A short one: ten seconds, peers two minutes."""

Told = Callable[[str], None]


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    quick: bool = False
    minutes: float = 12.0
    """No repetition begins that would end later, by its last one; the first round is always done. Peers come after."""
    peers: bool = True
    only: tuple[str, ...] = tuple(CATALOGUE)


class Outcome(msgspec.Struct, frozen=True):
    """What `python -m bench all --json` prints: the reports are in their files."""

    bench: str
    minutes: float
    """Without peers."""
    rounds: dict[str, int]
    """By bench, how often it was run."""
    failed: dict[str, str]
    """By bench, the reason."""


def keep(report: Any, folder: Path = RESULTS) -> Path:
    """Write a report, or a document of one, to its file, whole or not at all."""
    document: dict[str, Any] = msgspec.to_builtins(report)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{document['bench']}.json"
    part = file.with_suffix(".part")
    part.write_text(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n", encoding="utf-8")
    part.replace(file)
    return file


class Everything:
    """One go through all benches, each in a process of its own: what one leaves behind is no part of another."""

    def __init__(self, dsn: str, sizes: Sizes, folder: Path, tell: Told) -> None:
        self._dsn = dsn
        """A server that was named; "" where there is none."""
        self._sizes = sizes
        self._folder = folder
        self._tell = tell
        self._reports: dict[str, list[dict[str, Any]]] = {}
        self._seconds: dict[str, float] = {}
        """What each took last."""
        self._failed: dict[str, str] = {}

    def run(self) -> Outcome:
        """All rounds, then the peers."""
        began = time.monotonic()
        end = began + 60 * self._sizes.minutes
        with server(self._dsn) as server_dsn:
            for number in range(1 if self._sizes.quick else max(one.rounds for one in CATALOGUE.values())):
                for name in self._sizes.only:
                    fits = not number or time.monotonic() + self._seconds.get(name, 0.0) < end
                    if CATALOGUE[name].rounds > number and fits and name not in self._failed:
                        self._tell(f"{name}, round {number + 1}")
                        # `servers` compares the one that was named with one of its own.
                        more = () if self._sizes.quick else CATALOGUE[name].full
                        self._one(name, self._dsn if name == "servers" else server_dsn, more)
            minutes = (time.monotonic() - began) / 60
            if self._sizes.peers:
                self._tell("peers")
                self._one("peers", server_dsn, ())
        rounds = {name: len(reports) for name, reports in self._reports.items()}
        return Outcome("all", round(minutes, 1), rounds, self._failed)

    def _one(self, name: str, dsn: str, more: Sequence[str]) -> None:
        """Run one, and keep the median of what it has told so far."""
        command = [sys.executable, "-m", "callboard.bench", name, "--json", *more]
        command += ["--dsn", dsn] if dsn else []
        command += ["--quick"] if self._sizes.quick else []
        began, limit = time.monotonic(), QUICK_SECONDS if self._sizes.quick else ONE_SECONDS
        try:
            document = msgspec.json.decode(_said(command, limit), type=dict[str, Any])
        except subprocess.TimeoutExpired:
            self._failed[name] = f"not done in {limit:g} s"
        except msgspec.DecodeError:
            self._failed[name] = "it ended without a report"
        if name in self._failed:
            self._tell(f"{name}: {self._failed[name]}")
            return
        self._reports.setdefault(name, []).append(document)
        self._seconds[name] = time.monotonic() - began
        keep(merged(self._reports[name]), self._folder)


def _said(command: Sequence[str], seconds: float) -> bytes:
    """What a command prints; whatever it has started is ended with it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            return process.communicate(timeout=seconds)[0]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def run(dsn: str, sizes: Sizes, *, folder: Path | None = None, tell: Told = lambda line: None) -> Outcome:
    """Measure everything on the server of `dsn`, or on one of its own, and keep the reports."""
    return Everything(dsn, sizes, folder or (RESULTS / QUICK if sizes.quick else RESULTS), tell).run()
