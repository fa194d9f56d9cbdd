"""Statements by name: `queries/*.sql` hold blocks that begin with `-- name: …`; nothing else in this package is SQL."""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_BLOCK = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


def folder() -> Traversable:
    """Where the SQL files are, in a checkout, a wheel or a zip."""
    return files(__package__)


def texts(name: str) -> list[tuple[str, str]]:
    """File name and text of the SQL files of a folder, in order of name."""
    found = [entry for entry in (folder() / name).iterdir() if entry.name.endswith(".sql")]
    return sorted((entry.name, entry.read_text(encoding="utf-8")) for entry in found)


@cache
def queries() -> dict[str, bytes]:
    """Every statement by its name (bytes: what psycopg takes without a promise that the text is a literal)."""
    named: dict[str, bytes] = {}
    for _, text in texts("queries"):
        for match in _BLOCK.finditer(text):
            if match[1] in named:
                raise ValueError(f"two statements are called {match[1]!r}; rename one")
            # A percent sign in a comment would be taken for a placeholder, and the server has no use for comments.
            body = "\n".join(line for line in match[2].splitlines() if not line.lstrip().startswith("--"))
            named[match[1]] = body.strip().encode()
    return named
