"""Statements by name: `queries/*.sql` hold blocks that begin with `-- name: …` and have parameters like `%(name)s`.

A block with the line `-- plan: kept` has one way to its rows, whatever the tables hold: it is planned once a session.
"""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

_PARAMETER = re.compile(r"%\((\w+)\)s")
_KEPT = "-- plan: kept"
_BLOCK = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


def folder() -> Traversable:
    """Where the SQL files are, in a checkout, a wheel or a zip."""
    return files(__package__)


def texts(name: str) -> list[tuple[str, str]]:
    """File name and text of the SQL files of a folder, in order of name."""
    found = [entry for entry in (folder() / name).iterdir() if entry.name.endswith(".sql")]
    return sorted((entry.name, entry.read_text(encoding="utf-8")) for entry in found)


@cache
def _blocks() -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for _, text in texts("queries"):
        for match in _BLOCK.finditer(text):
            if match[1] in named:
                raise ValueError(f"two statements are called {match[1]!r}; rename one")
            named[match[1]] = match[2].splitlines()
    return named


@cache
def queries() -> dict[str, bytes]:
    """The text of every statement by its name, as written but for comments (bytes: no promise of a literal needed)."""
    return {
        name: "\n".join(line for line in lines if not line.lstrip().startswith("--")).strip().encode()
        for name, lines in _blocks().items()
    }


@cache
def keeps_plan(name: str) -> bool:
    """Whether a statement is marked as one whose plan is kept."""
    return _KEPT in _blocks()[name]


class Statement(NamedTuple):
    """What is sent: the text with `$1`, `$2`, … and the names of its parameters in that order."""

    text: bytes
    names: tuple[str, ...]


@cache
def statement(name: str) -> Statement:
    """A statement with numbered parameters, made once: psycopg would read a long one anew for each call."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    text = _PARAMETER.sub(number, queries()[name].decode()).encode()
    return Statement(text, tuple(names))
