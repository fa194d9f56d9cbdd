"""What starting a command costs: the CPU of a process of its own, from nothing to its end.

CPU and not time, as an operator's machine is doing something else, too. Each command is run once beforehand, so that
its modules are compiled, and then some times; the median counts. What is told besides is how many modules were loaded:
that is where the cost comes from, and what a test can hold.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import anyio
import msgspec

from callboard.bench.machine import Machine, facts
from callboard.bench.server import fresh_database, server

ROOT = Path(__file__).resolve().parents[1]
_COUNTED = """
import sys
from callboard.service.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
sys.stdout.flush()
print(len(sys.modules), file=sys.stderr)
"""


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    commands: tuple[str, ...] = (
        "--help", "runs --help", "completion bash", "complete bash callboard", "runs", "approvals", "actors",
        "mailbox", "doctor",
    )  # fmt: skip
    times: int = 7


class Started(msgspec.Struct, frozen=True):
    """One command."""

    command: str
    cpu_ms: float
    """Median, of user and system together."""
    modules: int


class StartReport(msgspec.Struct, frozen=True):
    """What `python -m bench start --json` prints."""

    bench: str
    machine: Machine
    python_cpu_ms: float
    """Of Python itself, which does nothing: part of each of the others."""
    commands: list[Started]


def run(dsn: str, sizes: Sizes) -> StartReport:
    """Measure."""
    with server(dsn) as found:
        return anyio.run(_run, found, sizes)


async def _run(server_dsn: str, sizes: Sizes) -> StartReport:
    async with fresh_database(server_dsn) as dsn:
        machine = await facts(server_dsn)
        with tempfile.TemporaryDirectory(prefix="callboard-start-") as compiled:
            measure = _Measure(dsn, compiled, sizes.times)
            nothing, _ = await anyio.to_thread.run_sync(measure.cost, ["-c", "pass"])
            started = [await anyio.to_thread.run_sync(measure.started, command) for command in sizes.commands]
    return StartReport("start", machine, nothing, started)


class _Measure:
    """Runs commands on one database. `compiled`: a folder for their bytecode, which is kept between two of them."""

    def __init__(self, dsn: str, compiled: str, times: int) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CALLBOARD_") and "BYTECODE" not in k}
        paths = f"{ROOT / '.src'}{os.pathsep}{ROOT}"
        self._environment = {**kept, "CALLBOARD_DSN": dsn, "PYTHONPYCACHEPREFIX": compiled, "PYTHONPATH": paths}
        self._times = times

    def started(self, command: str) -> Started:
        """One command's cost."""
        cpu_ms, said = self.cost(["-c", _COUNTED, *_words(command)])
        return Started(command, cpu_ms, int(said.split()[-1]))

    def cost(self, arguments: list[str]) -> tuple[float, str]:
        """The median CPU of Python with these arguments, in milliseconds; what it said on stderr."""
        spent: list[float] = []
        said = ""
        for _ in range(self._times + 1):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [sys.executable, *arguments], capture_output=True, text=True, check=True, env=self._environment
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(1_000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
            said = done.stderr
        return round(median(spent[1:]), 1), said


def _words(command: str) -> list[str]:
    """`complete` takes a whole line as its last argument."""
    first, *rest = command.split()
    return [first, rest[0], f"{' '.join(rest[1:])} "] if first == "complete" else [first, *rest]
