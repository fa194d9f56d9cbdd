"""A trial: the tests of a mutation, run in a copy of the tree that has it.

The copy has no environment of its own: this one's Python runs there, with the copy's `callboard` before the installed
one. A mutation is killed where one of its tests fails; where none could be run (a test that is gone, a file that cannot
be imported) nothing was learned, and it counts as a survivor.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .mutation import ROOT, Mutation

LEFT_OUT = (
    ".git",
    ".venv",
    "*.pyc.*",
    ".hypothesis",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    "results",
    "node_modules",
)
TEST_SECONDS = 120
"""For one test: a guarantee that is broken often shows as waiting for ever."""
TRIAL_SECONDS = 1_200
"""For all tests of one mutation."""
_FAILED = re.compile(r"^FAILED (\S+?::\w+(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
_TESTS_FAILED = 1
"""What pytest exits with then; 2 to 5 mean that it could not run them."""


class Result(NamedTuple):
    """What came of a trial."""

    mutation: str
    killed_by: str
    """The first test that failed; "" where none did."""
    said: str
    """The end of what pytest said."""


def copy_tree(to: Path, root: Path = ROOT) -> None:
    """Copy the tree as it is, changes that nobody has committed included."""
    shutil.copytree(root, to, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)


def try_out(mutation: Mutation, tree: Path) -> Result:
    """Change a copy, run the tests there, change it back.

    Raises:
        ValueError: its text does not stand there exactly once.
    """
    if (count := mutation.count(tree)) != 1:
        raise ValueError(f"{mutation.name}: its text stands {count} times in {mutation.file}; it has to once")
    path = tree / mutation.file
    before, stat = path.read_bytes(), path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace(mutation.text, mutation.replacement), encoding="utf-8")
    # Byte code is found by time and size: neither the old one nor ours may pass for the other.
    os.utime(path, (stat.st_atime, stat.st_mtime + 7))
    try:
        code, said = run_tests(mutation.tests, tree)
    finally:
        path.write_bytes(before)
        os.utime(path, (stat.st_atime, stat.st_mtime))
    found = _FAILED.search(said)
    killed_by = found.group(1) if code == _TESTS_FAILED and found else ""
    return Result(mutation.name, killed_by, said[-3_000:])


def run_tests(tests: Sequence[str], tree: Path) -> tuple[int, str]:
    """Run tests in a copy until one fails; pytest's exit code and what it said."""
    command = [
        *(sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-rf", "--tb=short", "-p", "no:cacheprovider"),
        *(f"--timeout={TEST_SECONDS}", *tests),
    ]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SHAKE"))},
        "PYTHONPATH": str(tree / ".src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"not done within {TRIAL_SECONDS} s"
    return done.returncode, done.stdout


def own_program(tree: Path) -> str:
    """Where a copy's Python finds `callboard`: it has to be the copy's, or nothing would be tried out."""
    command = [sys.executable, "-c", "import callboard; print(callboard.__file__)"]
    environment = {**os.environ, "PYTHONPATH": str(tree / ".src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True).stdout.strip()
