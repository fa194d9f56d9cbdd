"""docs/COMPARISON.md: no row is missing, and every row names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPARISON = ROOT / "docs" / "COMPARISON.md"


def _ids(prefix: str, *spans: tuple[int, int], width: int) -> list[str]:
    return [f"{prefix}{number:0{width}d}" for first, last in spans for number in range(first, last + 1)]


FEATURES = [
    *_ids("DA-", (1, 11), (20, 28), (40, 49), (60, 67), (80, 85), (100, 104), (120, 132), (150, 154), width=3),
    *_ids("DA-", (160, 162), (170, 172), (180, 180), width=3),
    *_ids("AF-", (1, 15), width=2),
]
WEAKNESSES = _ids("W-", (1, 43), width=2)

ROW = re.compile(r"^\| *((?:DA|AF|W)-\d+) *\|(.*)\|\s*$", re.MULTILINE)
TEST = re.compile(r"`((?:[\w/]+\.py::)?test_\w+)`")


def rows() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, cells in ROW.findall(COMPARISON.read_text()):
        assert name not in found, f"{name} stands twice"
        found[name] = cells
    return found


def known_tests() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        names = [
            node.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        ]
        found |= {*names, *(f"{path.relative_to(ROOT)}::{name}" for name in names)}
    return found


def test_no_row_of_the_two_tables_is_missing() -> None:
    assert sorted(set(FEATURES + WEAKNESSES) ^ rows().keys()) == []


def test_every_row_names_a_test_and_every_named_test_exists() -> None:
    known, without, unknown = known_tests(), [], []
    for name, cells in rows().items():
        named = TEST.findall(cells)
        without += [] if named else [name]
        unknown += [f"{name}: {test}" for test in named if test not in known]
    assert (without, unknown) == ([], [])


def test_every_test_that_is_named_anywhere_exists() -> None:
    """Also in what has no id, such as the promises that were never shipped."""
    assert sorted(set(TEST.findall(COMPARISON.read_text())) - known_tests()) == []
