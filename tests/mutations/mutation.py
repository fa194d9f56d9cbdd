"""A mutation: one place of the program, changed so that a guarantee or a rule of the engine does not hold any more."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
GUARANTEES = tuple(f"G{number}" for number in range(1, 11))
RULES = tuple(f"R{number}" for number in range(1, 15))
"""G1 to G10: docs/GUARANTEES.md. R1 to R14: the engine's rules, each of which something broke without."""


class Mutation(NamedTuple):
    """What is changed, and who must notice."""

    name: str
    breaks: tuple[str, ...]
    """Of `GUARANTEES` and `RULES`."""
    file: str
    """From the root of the repository."""
    text: str
    """Stands in the file exactly once."""
    replacement: str
    tests: tuple[str, ...]
    """Test files, or `file::function`; one of them has to fail. Few, so that a mutation takes seconds."""

    def count(self, root: Path = ROOT) -> int:
        """How often the text stands in its file; 0 without the file."""
        path = root / self.file
        return path.read_text(encoding="utf-8").count(self.text) if path.is_file() else 0
